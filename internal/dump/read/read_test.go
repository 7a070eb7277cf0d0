package read

import (
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"memscope/internal/event"
)

func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRow decodes each column and key once, in both notations of Attr and in old spellings.
func TestRow(t *testing.T) {
	want := Row{Stamp: 1764753083997498270, ID: 7, PID: 11, TID: 12, Addr: 0x12c041400000, AllocID: 4, Size: 512, Used: 600, Total: 700,
		ProcessUsed: 800, DeviceUsed: 900, Device: 3, Kind: event.Malloc, Pool: event.HAL, Flags: event.Created | event.Shadow, Page: event.PageHuge}
	plain := "{allocation_id:4,addr:0x000012c041400000,size:512,used:600,total:700,process_used:800,device_used:900,shadow:true,owner:CANN@HCCL,page_type:huge,alloc_type:create}"
	json := `{"allocation_id":"4","addr":"0x000012c041400000","size":512,"used":"600","total":"700", "process_used":"800","device_used":"900","shadow":"true","owner":"CANN@\u0048CCL","page_type":"huge","alloc_type":"create"}`
	for name, content := range map[string]string{
		"plain": Header + "\n7,MALLOC,HAL,N/A,1764753083997498270,11,12,3,0x000012c041400000,\"" + plain + "\",py,c\n",
		"json":  Header + "\n7,MALLOC,HAL,N/A,1764753083997498270,11,12,3,0x000012c041400000,\"" + strings.ReplaceAll(json, `"`, `""`) + "\",py,c\n",
		"moved": "\xef\xbb\xbf call stack(c), Call Stack(Python),Attr,Ptr,Device ID,Thread ID,Process Id,Timestamp(ns),Name,Event Type,Event,ID ,new\r\n" +
			"c,py,\"" + plain + "\",12C041400000,npu3,12,11, 1764753083997498270 ,N/A,HAL,MALLOC, 7,\r\n",
	} {
		content = strings.Replace(content, ",npu3,", ",3,", 1)
		n := 0
		sum, err := CSV(write(t, "x.csv", content), Options{Want: ^Want(0)}, func(b *Batch) error {
			for i := range b.Rows {
				n++
				r := b.Rows[i]
				if owner := string(b.Text(r.Owner)); owner != "CANN@HCCL" {
					t.Errorf("%s: owner %q", name, owner)
				}
				if py, c := string(b.Text(r.Python)), string(b.Text(r.C)); py != "py" || c != "c" {
					t.Errorf("%s: stacks %q, %q", name, py, c)
				}
				r.Owner, r.AttrText, r.Python, r.C, r.start, r.end = Span{}, Span{}, Span{}, Span{}, 0, 0
				if r != want {
					t.Errorf("%s:\n got %+v\nwant %+v", name, r, want)
				}
			}
			return nil
		})
		if err != nil || n != 1 || sum.Rows != 1 || sum.Bad != 0 {
			t.Errorf("%s: %v, %+v", name, err, sum)
		}
	}
}

func TestSpellings(t *testing.T) {
	for cell, want := range map[string]event.Pool{"MINDSPORE": event.MindSpore, "MindSpore": event.MindSpore, "mindspore": event.MindSpore, "HOST_PINNED": event.Host,
		"HOST": event.Host, "PTA_WORKSPACE": event.PTAWorkspace, " PTA ": event.PTA, "N/A": NoPool, "": NoPool} {
		r := Row{Kind: event.Free}
		if r.kind([]byte(cell), nil); r.Pool != want || (r.Flags == event.Pinned) != (cell == "HOST_PINNED") {
			t.Errorf("%q is pool %d, flags %d", cell, r.Pool, r.Flags)
		}
	}
	for cell, want := range map[string]int32{"0": 0, "31": 31, "cpu": event.DeviceCPU, "host": event.DeviceCPU, "N/A": event.DeviceNone, "": event.DeviceNone, "9999": event.DeviceNone, "x": event.DeviceNone} {
		if got := device([]byte(cell)); got != want {
			t.Errorf("device %q is %d, want %d", cell, got, want)
		}
	}
	for cell, want := range map[string]uint64{"0x10": 16, "0XfF": 255, "ffffffffffffffff": 1<<64 - 1, "0x": 0, "N/A": 0, "0x10000000000000000": 0, " 0x1 ": 1} {
		if got := address([]byte(cell)); got != want {
			t.Errorf("address %q is %#x, want %#x", cell, got, want)
		}
	}
}

func TestAttrs(t *testing.T) {
	for cell, want := range map[string][][2]string{
		"":                         nil,
		"{}":                       nil,
		"{a}":                      nil,
		"{allocation_id:1,size:2}": {{"allocation_id", "1"}, {"size", "2"}},
		"{type:ATB,dtype:FLOAT,format:NZD,shape:[1,5,]}":                    {{"type", "ATB"}, {"dtype", "FLOAT"}, {"format", "NZD"}, {"shape", "[1,5,]"}},
		"{shape:torch.Size([1,5]),size:3}":                                  {{"shape", "torch.Size([1,5])"}, {"size", "3"}},
		"{inefficient_type:early_allocation,late_deallocation,page_type:n}": {{"inefficient_type", "early_allocation,late_deallocation"}, {"page_type", "n"}},
		"{owner:PTA@a:b,1:2,size:3}":                                        {{"owner", "PTA@a:b,1:2"}, {"size", "3"}},
		"{func:ns::f,req_size:9}":                                           {{"func", "ns::f"}, {"req_size", "9"}},
		`{"a":"1", "b" : 2,"c":"x\"\\\/\n\u00e9\ud83d\ude00"}`:              {{"a", "1"}, {"b", "2"}, {"c", "x\"\\/\né😀"}},
		`{"a":"1","b"`: {{"a", "1"}},
		`{"a":"\`:      {{"a", `"\`}},
	} {
		var got [][2]string
		Attrs([]byte(cell), func(k, v []byte) bool {
			got = append(got, [2]string{string(k), string(v)})
			return true
		})
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", cell, got, want)
		}
		if cell != "" && cell[0] == '{' && len(want) > 0 && !strings.Contains(cell, `"`) {
			json := AppendJSON(nil, []byte(cell))
			if back := string(AppendPlain(nil, json)); back != cell {
				t.Errorf("%s becomes %s becomes %s", cell, json, back)
			}
		}
	}
}

// TestLikeTheStandardReader compares with encoding/csv on a dump of many chunks, with line ends, quotes and commas
// wherever they may be.
func TestLikeTheStandardReader(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	text.WriteString(Header + "\n")
	for i := range 20_000 {
		stack := ""
		for range rnd.IntN(6) {
			stack += []string{"/a/b.py(3): f\n", "x,y\n", `say ""hi""` + "\n", "5,MALLOX,\n", "\n", "lib(f+0x1) [0x2]\r\n"}[rnd.IntN(6)]
		}
		end := "\n"
		if rnd.IntN(3) == 0 {
			end = "\r\n"
		}
		fmt.Fprintf(&text, "%d,MALLOC,PTA,\"n,%d\",%d,1,1,0,0x10,\"{size:%d}\",\"%s\",%s", i, i, 1000+i, i, stack, end)
	}
	path := write(t, "x.csv", text.String())
	std := csv.NewReader(strings.NewReader(strings.ReplaceAll(text.String(), "]\r\n", "]\n")))
	want, err := std.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want = want[1:]
	i := 0
	sum, err := CSV(path, Options{Want: ^Want(0), Ordered: true}, func(b *Batch) error {
		for k := range b.Rows {
			r := &b.Rows[k]
			got := []string{fmt.Sprint(r.ID), string(b.Text(r.Name)), fmt.Sprint(r.Stamp), fmt.Sprint(r.Size), strings.ReplaceAll(string(b.Text(r.Python)), "]\r\n", "]\n")}
			w := want[i]
			if !reflect.DeepEqual(got, []string{w[0], w[3], w[4], w[0], w[10]}) {
				return fmt.Errorf("row %d is %q, want %q", i, got, w)
			}
			i++
		}
		return nil
	})
	if err != nil || i != len(want) || sum.Bad != 0 || !sum.Sorted || sum.First != 1000 || sum.Last != 20_999 {
		t.Errorf("%v, %d rows of %d, %+v", err, i, len(want), sum)
	}
	if first, last, err := Bounds(path); err != nil || first != 1000 || last != 20_999 {
		t.Errorf("bounds %d, %d, %v", first, last, err)
	}
}

// TestStrayQuote: a quote that is not doubled costs rows, not the rest of the file.
func TestStrayQuote(t *testing.T) {
	var text strings.Builder
	text.WriteString(Header + "\n")
	for i := range 20_000 {
		name := "x"
		if i == 100 {
			name = `"x`
		}
		fmt.Fprintf(&text, "%d,OP_LAUNCH,ATEN_START,%s,%d,1,1,0,N/A,\"{a:1}\",,\n", i, name, 1000+i)
	}
	sum, err := CSV(write(t, "x.csv", text.String()), Options{Want: ID}, func(*Batch) error { return nil })
	if err != nil || sum.Rows != 19_999 || sum.Bad != 1 || sum.Truncated {
		t.Errorf("%v, %+v", err, sum)
	}
}

func TestLongRow(t *testing.T) {
	row := "0,MALLOC,PTA,N/A,5,1,1,0,0x10,,\"" + strings.Repeat("/a/b.py(1): f\n", 50_000) + "\",\n"
	sum, err := CSV(write(t, "x.csv", Header+"\n"+row+row), Options{Want: Stacks}, func(*Batch) error { return nil })
	if err != nil || sum.Rows != 2 {
		t.Errorf("%v, %+v", err, sum)
	}
	endless := write(t, "x.csv", "ID,x\nEvent")
	if _, err := CSV(endless, Options{}, nil); err == nil || !strings.Contains(err.Error(), "the header lacks Event,") {
		t.Errorf("got %v", err)
	}
}

func TestSortInRuns(t *testing.T) {
	// Spilling is forced by hand: the rows of three files in one Sorted.
	path := write(t, "x.csv", Header+"\n")
	s := &Sorted{header: []byte(Header + "\n"), last: &run{}}
	rnd := rand.New(rand.NewPCG(1, 2))
	const n = 3000
	for i, k := range rnd.Perm(n) {
		r := &Row{Stamp: int64(k / 3), ID: int64(k)}
		s.last.add(r, fmt.Appendf(nil, "%d,FREE,PTA,N/A,%d,1,1,0,0x1,,,", k, 1+k/3))
		if i%1000 == 999 && i < n-1 {
			if err := s.spill(t.TempDir()); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.last.sort()
	if len(s.runs) != 2 {
		t.Fatalf("%d runs", len(s.runs))
	}
	next := int64(0)
	sum, err := s.Scan(path, Options{Want: ID, Ordered: true}, func(b *Batch) error {
		for _, r := range b.Rows {
			if r.ID != next {
				return fmt.Errorf("row %d where %d is due", r.ID, next)
			}
			next++
		}
		return nil
	})
	if err != nil || next != n || sum.Bad != 0 {
		t.Errorf("%v, %+v", err, sum)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(name, target string) string {
		path := filepath.Join(dir, name)
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, open := file("good.csv", 0o640), file("open.csv", 0o666)
	foreign := file("foreign.csv", 0o644)
	if err := os.Chown(foreign, 12345, 12345); err != nil {
		foreign = ""
	}
	for _, c := range []struct {
		path            string
		strict, lenient string
	}{
		{good, "", ""},
		{open, "can be modified by other users; --allow-foreign-files accepts it", ""},
		{link("near.csv", "good.csv"), "is a symbolic link", ""},
		{link("far.csv", "/etc/passwd"), "is a symbolic link", "leads out of its directory"},
		{link("lost.csv", "nothing"), "is a symbolic link", "leads nowhere"},
		{dir, "is not a regular file", "is not a regular file"},
		{filepath.Join(dir, "none.csv"), "do not exist", "do not exist"},
		{file("a$b.csv", 0o640), `it contains '$'`, `it contains '$'`},
		{" ", "The file path is empty.", "The file path is empty."},
		{strings.Repeat("/a", 40), "exceeds the maximum depth", "exceeds the maximum depth"},
		{strings.Repeat("a", 5000), "exceeds the maximum length", "exceeds the maximum length"},
		{foreign, "is not owned by the current user", ""},
	} {
		if c.path == "" {
			continue // only root can make such a file
		}
		for i, want := range []string{c.strict, c.lenient} {
			err := Check(c.path, i == 1)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("Check(%.80s, %v) = %v, want %q", c.path, i == 1, err, want)
			}
		}
	}
}

// TestCheckHere: the directory that one stands in may be called anything.
func TestCheckHere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lr=0.1,bs=2 é")
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if err := os.WriteFile("a.csv", nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := Check("a.csv", false); err != nil {
		t.Error(err)
	}
	if err := Check(filepath.Join(dir, "a.csv"), false); err == nil {
		t.Error("the same by its whole name is accepted")
	}
}

// TestImmutable opens a database by its URI, as OpenDB does on read-only media.
func TestImmutable(t *testing.T) {
	content, err := os.ReadFile("testdata/small.db")
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, "a b%20#?.db", string(content))
	conn, err := sqlite.OpenConn(fileURI(path)+"?immutable=1", sqlite.OpenReadOnly|sqlite.OpenURI)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	rows := 0
	if err := scanDB(conn, "", Options{}, func(b *Batch) error { rows += len(b.Rows); return nil }); err != nil || rows != 20 {
		t.Errorf("%d rows, %v", rows, err)
	}
}
