package read

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unicode/utf8"
)

func FuzzCSV(f *testing.F) {
	f.Add([]byte(Header + "\n7,MALLOC,HAL,N/A,1764753083997498270,11,12,3,0x000012c041400000,\"{allocation_id:4,size:512,owner:a@b}\",\"f(1): g\n\",\n"))
	f.Add([]byte(Header + "\r\n1,MSTX,Mark,\"a\"\"b\",5,N/A,1,cpu,N/A,,,\r\n2,FREE,PTA"))
	f.Add([]byte("Event,Event Type,Timestamp(ns),Device Id,Attr\nMALLOC,PTA,5,0,\"{\"\"size\"\":\"\"5\"\"}\"\n\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		rows := int64(0)
		sum, err := scanCSV(bytes.NewReader(text), "x", Options{Want: ^Want(0)}, func(b *Batch) error {
			for i := range b.Rows {
				r := &b.Rows[i]
				for _, s := range []Span{r.Name, r.Owner, r.AttrText, r.Python, r.C} {
					b.Text(s)
				}
				if r.Stamp <= 0 || r.end <= r.start || int(r.end) > len(b.text) {
					t.Fatalf("row %+v", r)
				}
			}
			rows += int64(len(b.Rows))
			return nil
		})
		if err == nil && sum.Rows != rows {
			t.Fatalf("%d rows told, %d seen", sum.Rows, rows)
		}
	})
}

func FuzzAttr(f *testing.F) {
	f.Add([]byte("{allocation_id:1,addr:0x10,size:5,shape:[1,5,],owner:PTA@a:b}"))
	f.Add([]byte(`{"a":"1","b":2,"c":"\u00e9\ud83d\ude00\n"}`))
	f.Fuzz(func(t *testing.T, cell []byte) {
		json := AppendJSON(nil, cell)
		plain := AppendPlain(nil, cell)
		if utf8.Valid(cell) && !utf8.Valid(plain) {
			t.Fatalf("%q becomes %q", cell, plain)
		}
		var again [][2]string
		Attrs(json, func(k, v []byte) bool {
			again = append(again, [2]string{string(k), string(v)})
			return true
		})
		i := 0
		Attrs(cell, func(k, v []byte) bool {
			if i >= len(again) || again[i] != [2]string{string(k), string(v)} {
				t.Fatalf("%q becomes %q: pair %d is %q: %q", cell, json, i, k, v)
			}
			i++
			return true
		})
		var r Row
		r.attrNumbers(cell, 0, ^Want(0))
	})
}

func FuzzDB(f *testing.F) {
	seed, err := os.ReadFile(filepath.Join("testdata", "small.db"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(seed[:len(seed)/2])
	f.Fuzz(func(t *testing.T, content []byte) {
		path := write(t, "x.db", string(content))
		DB(path, "", Options{Want: ^Want(0)}, func(b *Batch) error {
			for i := range b.Rows {
				b.Text(b.Rows[i].Owner)
			}
			return nil
		})
	})
}

// TestMemory: a megabyte of input, the worst that is known, never takes more than 64.
func TestMemory(t *testing.T) {
	for name, line := range map[string]string{
		"rows":   "7,MALLOC,HAL,N/A,1764753083997498270,11,12,3,0x1,{},,\n",
		"lines":  "\n",
		"faults": "x\n",
		"quotes": "\"",
		"json":   "7,MALLOC,HAL,N/A,5,1,1,3,0x1,\"{\"\"a\"\":\"\"b\"\"}\",,\n",
	} {
		text := []byte(Header + "\n")
		for len(text) < 1<<20 {
			text = append(text, line...)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		scanCSV(bytes.NewReader(text), "x", Options{Want: ^Want(0)}, func(*Batch) error { return nil })
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
			t.Errorf("%s: %d bytes allocated for 1 MiB", name, used)
		}
	}
}
