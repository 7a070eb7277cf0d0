package feed

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"memscope/internal/dump/spool"
	"memscope/internal/event"
)

// setup makes a spool and starts a shell script on it.
func setup(t *testing.T, script string) (*spool.Writer, *Feed) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	w, err := spool.Create(root, spool.Dir, spool.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	r, err := spool.Open(root, spool.Dir)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "analyse")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := Start(r, program)
	if err != nil {
		t.Fatal(err)
	}
	return w, f
}

func write(t *testing.T, w *spool.Writer, n int) spool.Pos {
	t.Helper()
	for i := range n {
		if err := w.Append(&event.Event{Kind: event.Mstx, Sub: event.Mark, Name: "x", Seq: uint64(i + 1), Stamp: int64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	end, err := w.Flush()
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// short shortens the bounds for a test.
func short(t *testing.T, p, o time.Duration) {
	oldP, oldO := patience, overtime
	patience, overtime = p, o
	t.Cleanup(func() { patience, overtime = oldP, oldO })
}

func TestAll(t *testing.T) {
	const n = 100_000
	w, f := setup(t, "cat")
	end := write(t, w, n)
	f.Advance(end)
	text, err := f.Finish(end)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(text, fmt.Sprintf("... (more than %d bytes)\n", mostOutput)) || len(text) > mostOutput+100 {
		t.Errorf("%d bytes: %q", len(text), text[max(0, len(text)-200):])
	}
	for i, line := range strings.Split(text, "\n")[:1000] {
		var row struct{ ID int }
		if err := json.Unmarshal([]byte(line), &row); err != nil || row.ID != i {
			t.Fatalf("line %d: %s: %v", i, line, err)
		}
	}
	w, f = setup(t, "wc -l")
	if text, err := f.Finish(write(t, w, n)); err != nil || text != fmt.Sprintln(n) {
		t.Errorf("%q, %v", text, err)
	}
}

// TestHorizon: a program sees an event when it may go out, and no earlier.
func TestHorizon(t *testing.T) {
	seen := filepath.Join(t.TempDir(), "seen")
	w, f := setup(t, "cat > "+seen)
	first := write(t, w, 1)
	end := write(t, w, 1)
	f.Advance(first)
	for deadline := time.Now().Add(10 * time.Second); f.Needed() != first && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(5 * pollPause)
	if text, _ := os.ReadFile(seen); strings.Count(string(text), "\n") != 1 {
		t.Errorf("it has seen %q", text)
	}
	if _, err := f.Finish(end); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(seen); strings.Count(string(text), "\n") != 2 {
		t.Errorf("it has seen %q", text)
	}
}

// TestFailures: each is one line that names the program, and takes no longer than it may.
func TestFailures(t *testing.T) {
	short(t, 300*time.Millisecond, 900*time.Millisecond)
	for _, c := range []struct{ name, script, text, err string }{
		{"enough seen", "head -n 1 > /dev/null; echo one", "one\n", ""},
		{"no end of line", "cat > /dev/null; printf x", "x\n", ""},
		{"exit status", "cat > /dev/null; echo before; printf 'a\\nb\\tc\\n\\n' >&2; exit 3", "before\n", "exit status 3: b?c"},
		{"crash at once", "exit 7", "", "exit status 7"},
		{"crash", "kill -SEGV $$", "", "signal: segmentation fault"},
		{"reads nothing", "echo here; sleep 100", "here\n", "it was ended, because it has taken no event for 300ms"},
		{"does not end", "cat > /dev/null; echo here; sleep 100", "here\n", "signal: killed: it was ended 300ms after the last event"},
		{"slow", "while read line; do sleep 0.01; done", "", "it was ended, because 900ms after the last event it had read only"},
		{"leaves a child", "cat > /dev/null; sleep 100 & echo here", "here\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, f := setup(t, c.script)
			end := write(t, w, 20_000)
			f.Advance(end)
			began := time.Now()
			text, err := f.Finish(end)
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
			if text != c.text {
				t.Errorf("text %q, want %q", text, c.text)
			}
			switch {
			case c.err == "" && err != nil, c.err != "" && err == nil:
				t.Errorf("error %v, want %q", err, c.err)
			case err != nil && (!strings.HasPrefix(err.Error(), "--analysis=exec:/") || !strings.Contains(err.Error(), "/analyse: "+c.err) || strings.Contains(err.Error(), "\n")):
				t.Errorf("error %q, want %q", err, c.err)
			}
			if f.Needed() != spool.End {
				t.Error("it still needs the spool")
			}
		})
	}
}

// TestFewEvents: a program that has ended before its only event is due says itself how it was.
func TestFewEvents(t *testing.T) {
	w, f := setup(t, "exec <&-; echo x > $0.closed; echo bad >&2; exit 3")
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, err := os.Stat(f.program + ".closed"); err == nil {
			break
		}
	}
	if _, err := f.Finish(write(t, w, 1)); err == nil || !strings.HasSuffix(err.Error(), "/analyse: exit status 3: bad") {
		t.Error(err)
	}
}

func TestNoProgram(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	w, err := spool.Create(root, spool.Dir, spool.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r, err := spool.Open(root, spool.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(r, "/nowhere/x"); err == nil || err.Error() != "--analysis=exec:/nowhere/x: no such file or directory" {
		t.Error(err)
	}
}

func TestAbandon(t *testing.T) {
	for _, script := range []string{"sleep 100", "cat > /dev/null"} {
		w, f := setup(t, script)
		f.Advance(write(t, w, 20_000))
		ended := make(chan struct{})
		go func() { f.Abandon(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatal("it does not end")
		}
	}
}

func TestLine(t *testing.T) {
	ev := event.Event{
		Kind: event.Malloc, Pool: event.PTA, Device: 3, Stamp: 7, PID: 1, TID: 2, Addr: 0x10, Size: 8, Used: 8, Total: 9, AllocID: 4,
		ProcessUsed: event.Unknown, DeviceUsed: event.Unknown, Owner: "PTA@\"a\\b", Waste: event.EarlyAllocation | event.LateDeallocation,
	}
	for _, c := range []struct {
		ev   event.Event
		want string
	}{
		{ev, `{"ID":5,"Event":"MALLOC","Event Type":"PTA","Name":"N/A","Timestamp(ns)":7,"Process Id":1,"Thread Id":2,"Device Id":"3",` +
			`"Ptr":"0x0000000000000010","Attr":{"allocation_id":"4","addr":"0x0000000000000010","size":"8","used":"8","total":"9",` +
			`"owner":"PTA@\"a\\b","inefficient_type":"early_allocation,late_deallocation"}}`},
		{event.Event{Kind: event.Mstx, Sub: event.Mark, Name: "a \"b\"\n", Device: event.DeviceNone, TID: 1<<64 - 1},
			`{"ID":5,"Event":"MSTX","Event Type":"Mark","Name":"a \"b\"\n","Timestamp(ns)":0,"Process Id":0,"Thread Id":null,"Device Id":"N/A","Ptr":"N/A","Attr":{}}`},
	} {
		got := string(appendLine(nil, &c.ev, 5))
		if got != c.want+"\n" {
			t.Errorf("got  %swant %s", got, c.want)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("no JSON: %s", got)
		}
	}
}

func BenchmarkLine(b *testing.B) {
	ev := event.Event{Kind: event.Malloc, Pool: event.PTA, Device: 3, Stamp: 7, PID: 1, TID: 2, Addr: 0x10, Size: 8, AllocID: 4, Owner: "PTA@ops"}
	var line []byte
	for b.Loop() {
		line = appendLine(line[:0], &ev, 5)
	}
}
