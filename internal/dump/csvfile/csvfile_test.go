package csvfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"memscope/internal/event"
)

// row is one about the block of the contract's golden rows.
func row(kind event.Kind, pool event.Pool, stamp int64) event.Event {
	return event.Event{
		Kind: kind, Pool: pool, Stamp: stamp, PID: 123, TID: 1234, Addr: 12345, Size: 10, Used: 10, Total: 10, AllocID: 1,
		ProcessUsed: event.Unknown, DeviceUsed: event.Unknown, Module: 3,
	}
}

func with(ev event.Event, change func(*event.Event)) event.Event {
	change(&ev)
	return ev
}

var golden = []struct {
	name string
	id   uint64
	ev   event.Event
	row  string
}{
	// Rows of contract 3.3.
	{"malloc hal", 3, with(row(event.Malloc, event.HAL, 3), func(e *event.Event) { e.Flags = event.Created }),
		`3,MALLOC,HAL,N/A,3,123,1234,0,0x0000000000003039,"{allocation_id:1,addr:0x0000000000003039,size:10,used:10,page_type:normal,alloc_type:create}",,`},
	{"free hal", 54, with(row(event.Free, event.HAL, 54), func(e *event.Event) { e.Used = 0 }),
		`54,FREE,HAL,N/A,54,123,1234,0,0x0000000000003039,"{allocation_id:1,addr:0x0000000000003039,size:10,used:0}",,`},
	{"malloc pta", 3, row(event.Malloc, event.PTA, 3),
		`3,MALLOC,PTA,N/A,3,123,1234,0,0x0000000000003039,"{allocation_id:1,addr:0x0000000000003039,size:10,used:10,total:10}",,`},
	{"range start", 2, event.Event{Kind: event.Mstx, Sub: event.RangeStart, Name: "step start", Stamp: 13, PID: 123, TID: 1234, Value: 9},
		`2,MSTX,Range_start,"step start",13,123,1234,0,N/A,,,`},
	{"acl init", 1, event.Event{Kind: event.System, Sub: event.ACLInit, Device: event.DeviceNone, Stamp: 12, PID: 123, TID: 1234},
		`1,SYSTEM,ACL_INIT,N/A,12,123,1234,N/A,N/A,,,`},
	{"start trace", 1, event.Event{Kind: event.System, Sub: event.StartTrace, Device: event.DeviceNone, Stamp: 12, PID: 123, TID: 1234},
		`1,SYSTEM,START_TRACE,N/A,12,123,1234,N/A,N/A,,,`},
	{"access aten", 13, with(row(event.Access, event.PTA, 13), func(e *event.Event) {
		e.Sub, e.Name, e.Attrs = event.AccessUnknown, "aten.add", "dtype:torch.float16,shape:torch.Size([1,5])"
	}), `13,ACCESS,UNKNOWN,aten.add,13,123,1234,0,0x0000000000003039,"{allocation_id:1,addr:0x0000000000003039,size:10,type:PTA,dtype:torch.float16,shape:torch.Size([1,5])}",,`},
	{"access atb", 14, with(row(event.Access, event.ATB, 14), func(e *event.Event) {
		e.Sub, e.Name, e.Addr, e.Size, e.Attrs = event.AccessUnknown, "addOperation", 0x303e, 5, "dtype:FLOAT,format:NZD,shape:[1,5,]"
	}), `14,ACCESS,UNKNOWN,addOperation,14,123,1234,0,0x000000000000303e,"{allocation_id:1,addr:0x000000000000303e,size:5,type:ATB,dtype:FLOAT,format:NZD,shape:[1,5,]}",,`},
	{"aten start", 1, event.Event{Kind: event.OpLaunch, Sub: event.AtenStart, Name: "aten.add", Stamp: 12, PID: 123, TID: 1234},
		`1,OP_LAUNCH,ATEN_START,aten.add,12,123,1234,0,N/A,,,`},
	{"atb start", 1, event.Event{Kind: event.OpLaunch, Sub: event.AtbStart, Name: "operation", Attrs: "path:0/0_123/operation,workspace_ptr:0x12313,workspace_size:12", Stamp: 12, PID: 123, TID: 1234},
		`1,OP_LAUNCH,ATB_START,operation,12,123,1234,0,N/A,"{path:0/0_123/operation,workspace_ptr:0x12313,workspace_size:12}",,`},
	{"launch", 1, event.Event{Kind: event.KernelLaunch, Sub: event.Launched, Name: "add01", Value: event.Task(111, 222), Stamp: 12, PID: 123, TID: 1234},
		`1,KERNEL_LAUNCH,KERNEL_LAUNCH,add01,12,123,1234,0,N/A,"{streamId:111,taskId:222}",,`},
	{"execute", 2, event.Event{Kind: event.KernelLaunch, Sub: event.ExecuteStart, Name: "add01", Value: event.Task(111, 222), Stamp: 13, PID: math.MaxUint64, TID: math.MaxUint64},
		`2,KERNEL_LAUNCH,KERNEL_EXECUTE_START,add01,13,N/A,N/A,0,N/A,"{streamId:111,taskId:222}",,`},
	{"kernel start", 1, event.Event{Kind: event.KernelLaunch, Sub: event.KernelStart, Name: "add01", Attrs: "path:0/0_123/add", Stamp: 12, PID: 123, TID: 1234},
		`1,KERNEL_LAUNCH,KERNEL_START,add01,12,123,1234,0,N/A,"{path:0/0_123/add}",,`},
	{"owner", 3, with(row(event.Malloc, event.HAL, 3), func(e *event.Event) { e.AllocID, e.Owner, e.Flags = 5, "CANN@IDEDD", event.Created }),
		`3,MALLOC,HAL,N/A,3,123,1234,0,0x0000000000003039,"{allocation_id:5,addr:0x0000000000003039,size:10,used:10,owner:CANN@IDEDD,page_type:normal,alloc_type:create}",,`},
	{"waste", 3, with(row(event.Malloc, event.PTA, 3), func(e *event.Event) { e.Owner, e.Waste = "PTA@ops", event.EarlyAllocation|event.LateDeallocation }),
		`3,MALLOC,PTA,N/A,3,123,1234,0,0x0000000000003039,"{allocation_id:1,addr:0x0000000000003039,size:10,used:10,total:10,owner:PTA@ops,inefficient_type:early_allocation,late_deallocation}",,`},
	{"named pool", 3, with(row(event.Free, event.Named+2, 3), func(e *event.Event) { e.Name = "arena" }),
		`3,FREE,arena,N/A,3,123,1234,0,0x0000000000003039,"{allocation_id:1,addr:0x0000000000003039,size:10,used:10,total:10}",,`},
	{"snapshot", 4, event.Event{Kind: event.Snapshot, Name: "step@1", Attrs: "total_mem:10,free_mem:5", Stamp: 12, PID: 123, TID: 1234, Device: 1},
		`4,SNAPSHOT,SNAPSHOT,step@1,12,123,1234,1,N/A,"{total_mem:10,free_mem:5}",,`},
	{"oom", 4, event.Event{Kind: event.OOMDetail, Sub: event.OOMTrigger, Name: "OOM_Trigger", Attrs: `func:"x",req_size:5`, Stamp: 12, PID: 123, TID: 1234, Device: 1},
		`4,OOM_DETAIL,OOM_TRIGGER,OOM_Trigger,12,123,1234,1,N/A,"{func:""x"",req_size:5}",,`},

	// The rules of contract 3.1 and 3.2.
	{"usage", 0, with(row(event.Malloc, event.HAL, 1790000000123456789), func(e *event.Event) {
		e.ProcessUsed, e.DeviceUsed, e.Page, e.Device = 7, 1<<36, event.PageHuge, 31
	}), `0,MALLOC,HAL,N/A,1790000000123456789,123,1234,31,0x0000000000003039,"{allocation_id:1,addr:0x0000000000003039,size:10,used:10,process_used:7,device_used:68719476736,page_type:huge,alloc_type:alloc}",,`},
	{"giant", 0, with(row(event.Malloc, event.HAL, 1), func(e *event.Event) { e.Page, e.Addr = event.PageGiant, math.MaxUint64 }),
		`0,MALLOC,HAL,N/A,1,123,1234,0,0xffffffffffffffff,"{allocation_id:1,addr:0xffffffffffffffff,size:10,used:10,page_type:giant,alloc_type:alloc}",,`},
	{"shadow malloc", 0, with(row(event.Malloc, event.HAL, 1), func(e *event.Event) { e.Flags = event.Shadow }),
		`0,MALLOC,HAL,N/A,1,123,1234,0,0x0000000000003039,"{allocation_id:1,addr:0x0000000000003039,size:10,shadow:true,page_type:normal,alloc_type:create}",,`},
	{"shadow free hal", 0, with(row(event.Free, event.HAL, 1), func(e *event.Event) { e.Flags = event.Shadow }),
		`0,FREE,HAL,N/A,1,123,1234,0,0x0000000000003039,"{allocation_id:1,addr:0x0000000000003039,size:10,shadow:true}",,`},
	{"shadow free pta", 0, with(row(event.Free, event.PTA, 1), func(e *event.Event) { e.Flags = event.Shadow }),
		`0,FREE,PTA,N/A,1,123,1234,0,0x0000000000003039,"{allocation_id:1,addr:0x0000000000003039,size:10,shadow:true}",,`},
	{"free pta", 0, with(row(event.Free, event.PTA, 1), func(e *event.Event) { e.ProcessUsed, e.DeviceUsed = 0, 5 }),
		`0,FREE,PTA,N/A,1,123,1234,0,0x0000000000003039,"{allocation_id:1,addr:0x0000000000003039,size:10,used:10,total:10,process_used:0,device_used:5}",,`},
	{"workspace", 0, row(event.Malloc, event.PTAWorkspace, 1),
		`0,MALLOC,PTA_WORKSPACE,N/A,1,123,1234,0,0x0000000000003039,"{allocation_id:1,addr:0x0000000000003039,size:10,used:10,total:10}",,`},
	{"mindspore", 0, row(event.Free, event.MindSpore, 1),
		`0,FREE,MINDSPORE,N/A,1,123,1234,0,0x0000000000003039,"{allocation_id:1,addr:0x0000000000003039,size:10,used:10,total:10}",,`},
	{"atb", 0, row(event.Free, event.ATB, 1),
		`0,FREE,ATB,N/A,1,123,1234,0,0x0000000000003039,"{allocation_id:1,addr:0x0000000000003039,size:10,used:10,total:10}",,`},
	{"pinned", 0, with(row(event.Malloc, event.HAL, 1), func(e *event.Event) {
		e.Flags, e.Device, e.ProcessUsed = event.Pinned, event.DeviceCPU, 4096
	}), `0,MALLOC,HOST,N/A,1,123,1234,cpu,0x0000000000003039,"{allocation_id:1,addr:0x0000000000003039,size:10,pinned:true,used:10,process_used:4096}",,`},
	{"shadow pinned", 0, with(row(event.Malloc, event.HAL, 1), func(e *event.Event) {
		e.Flags, e.Device = event.Pinned|event.Shadow, event.DeviceCPU
	}), `0,MALLOC,HOST,N/A,1,123,1234,cpu,0x0000000000003039,"{allocation_id:1,addr:0x0000000000003039,size:10,shadow:true}",,`},
	{"cpu tensor", 0, with(row(event.Free, event.Host, 1), func(e *event.Event) { e.Device, e.Used = event.DeviceCPU, event.Unknown }),
		`0,FREE,HOST,N/A,1,123,1234,cpu,0x0000000000003039,"{allocation_id:1,addr:0x0000000000003039,size:10,total:10}",,`},
	{"ids unknown", math.MaxUint64, event.Event{Kind: event.Mstx, Sub: event.RangeEnd, Name: "Range end from id 9", Stamp: 13, PID: math.MaxUint64, TID: math.MaxUint64},
		`18446744073709551615,MSTX,Range_end,"Range end from id 9",13,N/A,N/A,0,N/A,,,`},
	{"quotes", 0, event.Event{Kind: event.Mstx, Sub: event.Mark, Name: `a "b", c`},
		`0,MSTX,Mark,"a ""b"", c",0,0,0,0,N/A,,,`},
	{"no text", 0, event.Event{Kind: event.Mstx, Sub: event.Mark}, `0,MSTX,Mark,"",0,0,0,0,N/A,,,`},
	{"step", 0, event.Event{Kind: event.System, Sub: event.Step, Value: 12, Device: 2}, `0,SYSTEM,STEP,12,0,0,0,2,N/A,,,`},
	{"operator", 0, event.Event{Kind: event.OpLaunch, Name: "aten.add"}, `0,OP_LAUNCH,N/A,aten.add,0,0,0,0,N/A,,,`},
	{"unknown", 0, event.Event{Kind: 99, Sub: 99, Name: "x,y"}, `0,N/A,N/A,"x,y",0,0,0,0,N/A,,,`},
}

func TestGoldenRows(t *testing.T) {
	for _, g := range golden {
		if got := string(AppendRow(nil, &g.ev, g.id, nil)); got != g.row+"\n" {
			t.Errorf("%s:\n got %s\nwant %s", g.name, got, g.row)
		}
	}
}

func newFile(t testing.TB) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "x.csv"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestFile(t *testing.T) {
	f := newFile(t)
	w := New(f, "x.csv")
	var text strings.Builder
	text.WriteString("ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)\n")
	for range 2000 { // more than a buffer
		for _, g := range golden {
			if err := w.Row(&g.ev, g.id); err != nil {
				t.Fatal(err)
			}
			text.WriteString(g.row + "\n")
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	want := text.String()
	got, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("the file is not the header and the rows")
	}
	if w.Size() != int64(len(want)) || w.Name() != "x.csv" {
		t.Errorf("size %d, name %s", w.Size(), w.Name())
	}
	// An independent reader agrees on the number of columns.
	rows, err := csv.NewReader(bytes.NewReader(got)).ReadAll()
	if err != nil || len(rows) != 1+2000*len(golden) {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// depths is a table of stacks: the one with id n has n frames, some of which need quotes.
type depths struct{}

func (depths) Columns(id uint32) (python, c string) {
	return `"` + strings.Repeat("f.py(1): \"x\"\n", int(id)) + `"`, `"` + strings.Repeat("f+0x1\n", int(id)) + `"`
}

// TestBatches: rows of all sizes, flushed now and then, are in the file one behind the other, and a failed write loses none: the file
// ends with the last whole row, and the others follow when it can be written again.
func TestBatches(t *testing.T) {
	f := newFile(t)
	readOnly, err := os.Open(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	w := New(f, "x.csv")
	w.stacks = depths{}
	want := []byte(Header + "\n")
	rng := rand.New(rand.NewPCG(1, 2))
	check := func() {
		t.Helper()
		got, err := os.ReadFile(f.Name())
		if err != nil || w.Size() != int64(len(got)) || !bytes.HasPrefix(want, got) || len(got) > 0 && got[len(got)-1] != '\n' {
			t.Fatalf("the file holds %d bytes, others than the rows or not whole; size %d; %v", len(got), w.Size(), err)
		}
	}
	failures := 0
	for id := range uint64(100_000) {
		g := golden[rng.IntN(len(golden))]
		if rng.IntN(100) == 0 {
			g.ev.Stack = rng.Uint32N(200)
			g.ev.Attrs = strings.Repeat("k:v", rng.IntN(1000))
		}
		want = AppendRow(want, &g.ev, id, depths{})
		broken := rng.IntN(2000) == 0
		if broken {
			w.f = readOnly
		}
		err := w.Row(&g.ev, id)
		if broken || rng.IntN(3000) == 0 {
			err = errors.Join(err, w.Flush())
		}
		if w.f = f; broken != (err != nil) {
			t.Fatal(err)
		}
		if broken {
			failures++
			check()
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if check(); w.Size() != int64(len(want)) || failures == 0 {
		t.Errorf("%d bytes of %d in the file, %d failed writes", w.Size(), len(want), failures)
	}
}

func TestReader(t *testing.T) {
	rows := []string{Header + "\n", golden[0].row + "\n", "1,MSTX,Mark,\"two\nlines \"\"quoted\"\"\",0,0,0,0,N/A,,,\n", strings.Repeat("x", 600<<10) + "\n"}
	text := strings.Join(rows, "")
	for cut := range len(rows[0]) + len(rows[1]) + len(rows[2]) {
		r := NewReader(strings.NewReader(text[:cut]))
		n := 0
		var err error
		for {
			var row []byte
			if row, err = r.Next(); err != nil {
				break
			}
			if string(row) != rows[n] {
				t.Fatalf("cut at %d: row %d is %q", cut, n, row)
			}
			n++
		}
		end := 0
		for i := range n {
			end += len(rows[i])
		}
		if want := map[bool]error{true: io.EOF, false: io.ErrUnexpectedEOF}[end == cut]; err != want || r.End() != int64(end) {
			t.Fatalf("cut at %d: %v at %d, want %v at %d", cut, err, r.End(), want, end)
		}
	}
	r := NewReader(strings.NewReader(text))
	for i := range rows {
		if row, err := r.Next(); err != nil || string(row) != rows[i] {
			t.Fatalf("row %d: %d bytes, %v", i, len(row), err)
		}
	}
}

func TestParseBlock(t *testing.T) {
	for _, g := range golden {
		var ev event.Event
		row := AppendRow(nil, &g.ev, g.id, nil)
		if got, want := ParseBlock(row, &ev), g.ev.Kind == event.Malloc || g.ev.Kind == event.Free; got != want {
			t.Errorf("%s: %v", g.name, got)
		} else if !got {
			continue
		}
		// A shadow row of what was read is the shadow row of what was written.
		want := g.ev
		want.Kind, ev.Kind = event.Free, event.Free
		want.Flags, ev.Flags = event.Shadow, event.Shadow
		if a, b := AppendRow(nil, &ev, 5, nil), AppendRow(nil, &want, 5, nil); !bytes.Equal(a, b) {
			t.Errorf("%s:\n got %s\nwant %s", g.name, a, b)
		}
	}
	for _, bad := range []string{"", "1,MALLOC", Header, `1,MALLOC,HAL,N/A,3,1,1,0,0x1,"{allocation_id:x}",,`, `1,MALLOC,HAL,N/A,3,1,1,0,0x1,,,`} {
		if ParseBlock([]byte(bad), new(event.Event)) {
			t.Errorf("%q was taken for a block", bad)
		}
	}
}

func TestRowDoesNotAllocate(t *testing.T) {
	b := make([]byte, 0, 1<<10)
	for _, g := range golden {
		if n := testing.AllocsPerRun(100, func() { b = AppendRow(b[:0], &g.ev, g.id, nil) }); n != 0 {
			t.Errorf("%s: %v allocations", g.name, n)
		}
	}
}

func TestResume(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	text := Header + "\n" + golden[0].row + "\n" + golden[1].row + "\n"
	first := int64(len(Header) + 1 + len(golden[0].row) + 1)
	put := func(s string) {
		if err := os.WriteFile(filepath.Join(dir, "x.csv"), []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what       string
		text       string
		size, lost int64
		want       string
	}{
		{"rows behind the checkpoint go", text + "torn", first, 0, text[:first] + golden[1].row + "\n"},
		{"an exact fit", text[:first], first, 0, text[:first] + golden[1].row + "\n"},
		{"shorter than noted", text[:first+9], first + 200, 200, text[:first] + golden[1].row + "\n"},
		{"not begun", "", 0, 0, Header + "\n" + golden[1].row + "\n"},
	} {
		put(c.text)
		w, lost, err := resume(root, "x.csv", c.size)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Row(&golden[1].ev, golden[1].id), w.Flush(), w.Close()); err != nil {
			t.Fatal(err)
		}
		got, _ := os.ReadFile(filepath.Join(dir, "x.csv"))
		if string(got) != c.want || lost != c.lost {
			t.Errorf("%s: %d bytes lost, file\n%s", c.what, lost, got)
		}
	}
	if _, _, err := resume(root, "y.csv", 1); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// FuzzRow: whatever is in an event, its row is one record of 12 columns whose name comes back.
func FuzzRow(f *testing.F) {
	f.Add(uint8(event.Mstx), uint8(event.Mark), uint8(0), "a\"b\nc", int64(5), uint64(7), int32(0))
	f.Add(uint8(event.OpLaunch), uint8(0), uint8(0), "op,1", int64(-5), uint64(7), int32(3))
	f.Fuzz(func(t *testing.T, kind, sub, pool uint8, name string, n int64, u uint64, device int32) {
		ev := event.Event{
			Kind: event.Kind(kind), Sub: event.Sub(sub), Pool: event.Pool(pool), Name: name, Stamp: n, Seq: u, PID: u, TID: u + 1,
			Addr: u, Size: n, Used: n, Total: -n, AllocID: u, Device: device, Page: event.Page(sub), Flags: event.Flags(pool),
			ProcessUsed: n, DeviceUsed: n, Value: u,
		}
		row := AppendRow(nil, &ev, u, nil)
		r := NewReader(bytes.NewReader(row))
		if got, err := r.Next(); err != nil || !bytes.Equal(got, row) {
			t.Fatalf("%q: %q, %v", row, got, err)
		}
		if strings.Contains(name, "\r") {
			return // encoding/csv folds line ends
		}
		rec, err := csv.NewReader(bytes.NewReader(row)).ReadAll()
		if err != nil || len(rec) != 1 || len(rec[0]) != 12 {
			t.Fatalf("%q: %v, %v", row, rec, err)
		}
		if ev.Kind > event.Free && rec[0][3] != name {
			t.Fatalf("name %q came back as %q", name, rec[0][3])
		}
		if rec[0][0] != strconv.FormatUint(u, 10) {
			t.Fatalf("id %s", rec[0][0])
		}
	})
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(Header + "\n" + golden[0].row + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewReader(bytes.NewReader(data))
		var ev event.Event
		var n int64
		for {
			row, err := r.Next()
			if err != nil {
				break
			}
			n += int64(len(row))
			ParseBlock(row, &ev)
		}
		if n != r.End() || n > int64(len(data)) {
			t.Fatalf("%d bytes of rows, end %d, data %d", n, r.End(), len(data))
		}
	})
}

func BenchmarkAppendRow(b *testing.B) {
	ev := row(event.Malloc, event.HAL, 1_790_000_000_123_456_789)
	ev.PID, ev.TID, ev.Addr, ev.Size, ev.Used, ev.AllocID = 123456, 123457, 0x12c041200000, 1<<21, 1<<33, 1_234_567
	b.ReportAllocs()
	var id uint64
	var buf []byte
	for b.Loop() {
		buf = AppendRow(buf[:0], &ev, id, nil)
		id++
	}
}

func BenchmarkRow(b *testing.B) {
	w := New(newFile(b), "x.csv")
	ev := row(event.Malloc, event.HAL, 1_790_000_000_123_456_789)
	ev.PID, ev.TID, ev.Addr, ev.Size, ev.Used, ev.AllocID = 123456, 123457, 0x12c041200000, 1<<21, 1<<33, 1_234_567
	b.ReportAllocs()
	var id uint64
	for b.Loop() {
		if err := w.Row(&ev, id); err != nil {
			b.Fatal(err)
		}
		if id++; id%(1<<20) == 0 { // keep the file small
			w.f.Truncate(0)
		}
	}
}
