package query

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memscope/internal/dump/spool"
	"memscope/internal/event"
)

// TestSpool asks a spool. Its events are not in the order of time: the collector writes them so, but a reader does not count on it.
func TestSpool(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	w, err := spool.Create(root, spool.Dir, spool.Meta{PID: 9, Start: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for i, ev := range []event.Event{
		{Stamp: 1000, Size: 100, Used: 100, Addr: 0x1000},
		{Stamp: 3000, Size: 50, Used: 350, Addr: 0x3000},
		{Stamp: 2000, Size: 200, Used: 300, Addr: 0x2000},
	} {
		ev.Kind, ev.Pool, ev.PID, ev.TID, ev.Seq, ev.AllocID = event.Malloc, event.HAL, 9, 9, uint64(i+1), uint64(i+1)
		ev.ProcessUsed, ev.DeviceUsed, ev.Module = event.Unknown, event.Unknown, 3
		if err := w.Append(&ev); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	before, _ := filepath.Glob(filepath.Join(os.TempDir(), "memscope_spool_*"))
	answer := ask(t, "peak", filepath.Join(dir, spool.Dir))
	if got := at(answer, "result.peaks.0.peak_bytes"); got != 350.0 || at(answer, "result.peaks.0.at_ns") != 3000.0 {
		t.Errorf("got %v", answer)
	}
	if got := at(ask(t, "at", "2000", filepath.Join(dir, spool.Dir)), "result.views.0.bytes"); got != 300.0 {
		t.Errorf("at 2000: %v bytes", got)
	}
	if got := at(ask(t, "check", filepath.Join(dir, spool.Dir)), "result.files.0.sorted"); got != false {
		t.Errorf("check says sorted %v", got)
	}
	if after, _ := filepath.Glob(filepath.Join(os.TempDir(), "memscope_spool_*")); len(after) != len(before) {
		t.Errorf("temporary files left behind: %v", after)
	}
	// A directory with a spool beside its dumps is told.
	if err := os.WriteFile(filepath.Join(dir, "memscope_dump_1.csv"), load(t, "testdata/one.csv"), 0o600); err != nil {
		t.Fatal(err)
	}
	if notes := fmt.Sprint(ask(t, "stats", dir)["notes"]); !strings.Contains(notes, "dump recover") {
		t.Errorf("notes %s", notes)
	}
}
