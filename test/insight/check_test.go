package insight

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"memscope/internal/dump/dbfile"
	"memscope/internal/event"
)

// database is a small dump without a fault.
func database(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "memscope_dump_20260101000000.db")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	w, err := dbfile.New(f, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	block := event.Event{Kind: event.Malloc, Pool: event.PTA, Stamp: 1000, PID: 7, TID: 8, Addr: 4096, Size: 10, AllocID: 1}
	free := block
	free.Kind, free.Stamp = event.Free, 2000
	for i, ev := range []event.Event{{Kind: event.System, Sub: event.ACLInit, Device: event.DeviceNone, Stamp: 999, PID: 7, TID: 8}, block, free} {
		if err := w.Row(&ev, uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{w.Flush(), w.Finish(), w.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestMutants: the file passes, and with one thing changed it fails for that.
func TestMutants(t *testing.T) {
	if v, err := Check(database(t)); err != nil || len(v) > 0 {
		t.Fatalf("%v, %q", err, v)
	}
	const update = "UPDATE memscope_dump SET "
	for want, sql := range map[string]string{
		"neither memscope_dump":      `ALTER TABLE memscope_dump RENAME TO dump`,
		`column 3 is "Type"`:         `ALTER TABLE memscope_dump RENAME COLUMN "Event Type" TO "Type"`,
		`no index on "Event"`:        `DROP INDEX idx_memscope_dump_event`,
		"size of Attr is 10":         update + `"Attr" = json_set("Attr", '$.size', 10) WHERE "Event" = 'MALLOC'`,
		`size ""`:                    update + `"Attr" = json_remove("Attr", '$.size') WHERE "Event" = 'FREE'`,
		"no JSON object":             update + `"Attr" = '[]' WHERE "Event" = 'FREE'`,
		"bytes for a block of 10":    update + `"Attr" = json_set("Attr", '$.size', '11') WHERE "Event" = 'FREE'`,
		"without a live block":       update + `"Ptr" = '0x0000000000002000' WHERE "Event" = 'FREE'`,
		`Ptr "0x1000"`:               update + `"Ptr" = '0x1000'`,
		"timestamp 0":                update + `"Timestamp(ns)" = 0 WHERE "ID" = 0`,
		"all rows have one":          update + `"Timestamp(ns)" = 5`,
		"no row has a device":        update + `"Device Id" = 'N/A'`,
		`device "npu0"`:              update + `"Device Id" = 'npu0'`,
		`event "MALLOCATE"`:          update + `"Event" = 'MALLOCATE' WHERE "ID" = 1`,
		"ID is twice":                update + `"ID" = 1`,
		"is Insight's own":           `CREATE TABLE memory_block(id)`,
		"table python_trace_7 is em": `CREATE TABLE python_trace_7("FuncInfo" TEXT, "StartTime(ns)" TEXT, "EndTime(ns)" TEXT, "Thread Id" INTEGER, "Process Id" INTEGER)`,
		"suffix is no process":       `CREATE TABLE python_trace_x(a)`,
		"Process Id is null":         update + `"Process Id" = NULL`,
		"journal is not":             ``,
		"same time as":               update + `"Timestamp(ns)" = 1000 WHERE "ID" = 2`,
		"has two MALLOC":             `INSERT INTO memscope_dump SELECT 3, "Event", "Event Type", "Name", 3000, 7, 8, "Device Id", "Ptr", "Attr", '', '' FROM memscope_dump WHERE "ID" = 1`,
		"cannot write":               ``,
		"is not taken":               ``,
	} {
		path := database(t)
		switch want {
		case "cannot write":
			if err := os.Chmod(path, 0o440); err != nil {
				t.Fatal(err)
			}
		case "journal is not":
			if err := os.WriteFile(path+"-journal", nil, 0o640); err != nil {
				t.Fatal(err)
			}
		case "is not taken":
			moved := filepath.Join(filepath.Dir(path), "dump.db")
			if err := os.Rename(path, moved); err != nil {
				t.Fatal(err)
			}
			path = moved
		}
		if sql != "" {
			conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
			if err == nil {
				err = sqlitex.ExecuteScript(conn, sql, nil)
				conn.Close()
			}
			if err != nil {
				t.Fatalf("%s: %v", want, err)
			}
		}
		v, err := Check(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(v, "\n"), want) {
			t.Errorf("want %q of %s, got %q", want, sql, v)
		}
	}
}
