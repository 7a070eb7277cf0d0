package dbfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"memscope/internal/event"
)

func create(t testing.TB) (*Writer, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "memscope_dump_1.db")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(f, "x.db", func() (*os.File, error) { return os.Create(filepath.Join(t.TempDir(), "sort")) })
	if err != nil {
		t.Fatal(err)
	}
	return w, path
}

func query(t testing.TB, path, sql string) (out []string) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = sqlitex.ExecuteTransient(conn, sql, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		line := ""
		for i := range s.ColumnCount() {
			line += fmt.Sprintf("|%s:%s", strings.TrimPrefix(s.ColumnType(i).String(), "SQLITE_"), s.ColumnText(i))
		}
		out = append(out, line)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var malloc = event.Event{
	Kind: event.Malloc, Pool: event.PTA, Stamp: 3, PID: 123, TID: 1234, Device: 1, Addr: 12345, Size: 10, Used: 10, Total: 10, AllocID: 1,
	ProcessUsed: event.Unknown, DeviceUsed: event.Unknown, Owner: "PTA@ops",
}

func TestRows(t *testing.T) {
	w, path := create(t)
	rows := []event.Event{
		malloc,
		{Kind: event.Mstx, Sub: event.Mark, Name: `a "b"`, Stamp: 4, PID: 123, TID: 1234, Device: 1},
		{Kind: event.System, Sub: event.ACLInit, Stamp: 5, PID: 123, TID: 1234, Device: event.DeviceNone},
		{Kind: event.Access, Sub: event.Read, Pool: event.PTA, Name: "add", Attrs: "dtype:f,shape:torch.Size([1,5])", Stamp: 6, PID: 123, TID: 7, Device: 1, Addr: 12345, Size: 10, AllocID: 1},
		{Kind: event.KernelLaunch, Sub: event.ExecuteEnd, Name: "k", Value: event.Task(1, 2), Stamp: 7, PID: math.MaxUint64, TID: math.MaxUint64, Device: event.DeviceCPU},
	}
	for i := range rows {
		if err := w.Row(&rows[i], uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if w.Size() != int64(len(rows)) {
		t.Errorf("size %d", w.Size())
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`|INTEGER:0|TEXT:MALLOC|TEXT:PTA|TEXT:N/A|INTEGER:3|INTEGER:123|INTEGER:1234|TEXT:1|TEXT:0x0000000000003039|TEXT:{"allocation_id":"1","addr":"0x0000000000003039","size":"10","used":"10","total":"10","owner":"PTA@ops"}|TEXT:|TEXT:`,
		`|INTEGER:1|TEXT:MSTX|TEXT:Mark|TEXT:"a "b""|INTEGER:4|INTEGER:123|INTEGER:1234|TEXT:1|TEXT:N/A|TEXT:{}|TEXT:|TEXT:`,
		`|INTEGER:2|TEXT:SYSTEM|TEXT:ACL_INIT|TEXT:N/A|INTEGER:5|INTEGER:123|INTEGER:1234|TEXT:N/A|TEXT:N/A|TEXT:{}|TEXT:|TEXT:`,
		`|INTEGER:3|TEXT:ACCESS|TEXT:READ|TEXT:add|INTEGER:6|INTEGER:123|INTEGER:7|TEXT:1|TEXT:0x0000000000003039|TEXT:{"allocation_id":"1","addr":"0x0000000000003039","size":"10","type":"PTA","dtype":"f","shape":"torch.Size([1,5])"}|TEXT:|TEXT:`,
		`|INTEGER:4|TEXT:KERNEL_LAUNCH|TEXT:KERNEL_EXECUTE_END|TEXT:k|INTEGER:7|TEXT:N/A|TEXT:N/A|TEXT:cpu|TEXT:N/A|TEXT:{"streamId":"1","taskId":"2"}|TEXT:|TEXT:`,
	}
	got := query(t, path, `SELECT * FROM memscope_dump ORDER BY "ID"`)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("row %d:\n got %s\nwant %s", i, got[min(i, len(got)-1)], want[min(i, len(want)-1)])
		}
	}
	for _, attr := range query(t, path, `SELECT "Attr" FROM memscope_dump`) {
		if !json.Valid([]byte(attr[len("|TEXT:"):])) {
			t.Errorf("no JSON: %s", attr)
		}
	}
	if got := query(t, path, `SELECT name FROM sqlite_master WHERE type = 'index'`); len(got) != 3 {
		t.Errorf("indexes %v", got)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("beside the database there is %v", left)
	}
	b, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(b, []byte("SQLite format 3\x00")) || b[18] != 1 { // 2 would want a write-ahead log
		t.Errorf("header % x", b[:20])
	}
}

// BenchmarkRows gives rows per second with the indexes: the 30 rows of a million events are long gone from the caches.
func BenchmarkRows(b *testing.B) {
	w, _ := create(b)
	ev := malloc
	b.ReportAllocs()
	for i := range b.N {
		ev.Stamp += 1000
		ev.AllocID++
		ev.Kind = event.Malloc + event.Kind(i%2)
		if err := w.Row(&ev, uint64(i)); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := w.Finish(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	w.Close()
}
