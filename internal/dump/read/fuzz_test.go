package read

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
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

// FuzzQuick: the quick way gives what the long way gives, whatever is asked for.
func FuzzQuick(f *testing.F) {
	for _, rows := range []string{
		"7,MALLOC,HAL,N/A,1764753083997498270,11,12,3,0x000012c041400000,\"{allocation_id:4,addr:0x1,size:512,used:-7,total:99,owner:a@b}\",\"f(1): g\n\",\n" +
			"8,FREE,PTA,N/A,1764753083997498999,11,12,3,0x000012c041400000,\"{allocation_id:4,addr:0x1,size:512,shadow:true}\",,\"c\"\r\n",
		"1,OP_LAUNCH,ATEN_START,aten.add,1764753083997498270,11,12,cpu,N/A,,,\n2,KERNEL_LAUNCH,KERNEL_LAUNCH,\"a,\"\"b\",5,11,N/A,0,N/A,\"{streamId:1}\",NA,\n",
		"1,MSTX,Mark,\"a\nb\",5,1,1,0,N/A,,,\n,MALLOC,PTA,x\n1764753083997498270,1,1,0,0x1,\"{size:123456789012345678901,used:5x,total:1}\",,\n\n",
		"1,MALLOC,HOST,N/A,5,1,1,0,1f,\"{allocation_id:12345678\",\"1\",\n2,ACCESS,READ,N/A,5,1,1,0,0,\"{\"\"size\"\":\"\"5\"\"}\",,\n",
	} {
		f.Add([]byte(rows), ^uint32(0))
		f.Add([]byte(rows), uint32(Size|PID))
	}
	f.Fuzz(func(t *testing.T, rows []byte, want uint32) {
		layout, err := csvLayout([]byte(Header))
		if err != nil {
			t.Fatal(err)
		}
		var got [2]Batch
		pools := new(Pools)
		for i := range got {
			d := newDecoder(layout, Want(want), pools)
			if !d.own {
				t.Fatal("the quick way is not tried")
			}
			d.own = i == 0
			got[i] = Batch{Rows: make([]Row, 0, 1), csv: true, last: true, text: bytes.Clone(rows)}
			d.rows(&got[i])
		}
		if !reflect.DeepEqual(got[0], got[1]) {
			t.Fatalf("the quick way gives %+v\nthe long one    %+v", got[0], got[1])
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
		r.attrNumbers(cell, Span{0, uint32(len(cell))}, ^Want(0))
	})
}

// TestDamagedDB reads databases with random damage. It is no fuzz target: with the fuzzer's counters in it, SQLite is too
// slow to get anywhere.
func TestDamagedDB(t *testing.T) {
	seed, err := os.ReadFile(filepath.Join("testdata", "small.db"))
	if err != nil {
		t.Fatal(err)
	}
	whole, damaged := 0, 0
	path := filepath.Join(t.TempDir(), "x.db")
	for i := range 400 {
		rnd := rand.New(rand.NewPCG(uint64(i), 1))
		content := bytes.Clone(seed)
		for range 1 + rnd.IntN(8) {
			content[rnd.IntN(len(content))] = byte(rnd.IntN(256))
		}
		if i%10 == 0 {
			content = content[:rnd.IntN(len(content))]
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := DB(path, "", Options{Want: ^Want(0)}, func(b *Batch) error {
			for k := range b.Rows {
				b.Text(b.Rows[k].Owner)
			}
			return nil
		})
		if err == nil {
			whole++
		} else if damaged++; strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), path) {
			t.Errorf("damage %d: %v", i, err)
		}
	}
	if whole == 0 || damaged == 0 {
		t.Errorf("%d read, %d refused", whole, damaged)
	}
}

// TestEndlessView: what calls itself a dump but makes its rows up is refused.
func TestEndlessView(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	view := `CREATE VIEW memscope_dump AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i "ID", 'FREE' "Event", 'PTA' "Event Type", i "Timestamp(ns)", '0' "Device Id", '{}' "Attr" FROM n`
	if err := sqlitex.ExecuteTransient(conn, view, nil); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if _, err := DB(path, "", Options{}, nil); err == nil || !strings.Contains(err.Error(), "there is no table memscope_dump or leaks_dump") {
		t.Errorf("got %v", err)
	}
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
