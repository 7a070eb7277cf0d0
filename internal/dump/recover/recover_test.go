package recover

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"memscope/internal/dump/csvfile"
	"memscope/internal/dump/render"
	"memscope/internal/dump/spool"
	"memscope/internal/event"
	"memscope/internal/output"
)

// run is one process whose collector works in this test.
type run struct {
	project *output.Project
	spool   *spool.Writer
	render  *render.Renderer
	next    uint64
	stored  uint64 // the last event that is in the spool
}

func start(t *testing.T, dir string) *run {
	t.Helper()
	p, err := output.Create(dir, 99, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := spool.Create(p.Root, spool.Dir, spool.Meta{PID: 99, Paired: true, SegmentBytes: 100 << 10})
	if err != nil {
		t.Fatal(err)
	}
	r, err := spool.Open(p.Root, spool.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return &run{project: p, spool: w, render: render.New(r, csvfile.Opener(p, nil, nil), render.Options{}), next: 1}
}

// feed appends n events, a flush after each hundred; it goes on when the spool stops.
func (r *run) feed(n int) (err error) {
	for i := 1; i <= n; i++ {
		ev := made(r.next)
		e := r.spool.Append(&ev)
		r.next++
		if i%100 == 0 && e == nil {
			var end spool.Pos
			if end, e = r.spool.Flush(); e == nil {
				r.stored = r.next - 1
			}
			r.render.Advance(end)
		}
		if e != nil && err == nil {
			err = e
		}
	}
	return err
}

func (r *run) finish() error {
	end, _ := r.spool.Flush()
	return r.render.Finish(end)
}

// TestDiskFull fills the disk under a run: the rendering stops, the spool stops, and when there is room the recovery writes
// every event that was stored.
func TestDiskFull(t *testing.T) {
	dir := smallDisk(t, "2m")
	r := start(t, dir)
	err := r.feed(100_000)
	var stopped *spool.StoppedError
	if !errors.As(err, &stopped) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("2 MB took everything: %v", err)
	}
	var unfinished *render.UnfinishedError
	if err = r.finish(); !errors.As(err, &unfinished) || !errors.Is(err, syscall.ENOSPC) || unfinished.Path != r.project.Path {
		t.Fatalf("finish: %v", err)
	}
	if lost := r.spool.Lost(); lost != 100_000-r.stored {
		t.Errorf("%d events lost, but %d of 100000 stored", lost, r.stored)
	}
	rowsAreWhole(t, r.project.Path)

	done, err := Recover(dir, Options{})
	var busy *spool.InUseError
	if !errors.As(err, &busy) || busy.PID != os.Getpid() || len(done) != 1 {
		t.Errorf("recovery while in use: %v", err)
	}
	r.spool.Close()
	if _, err := Recover(dir, Options{}); !errors.As(err, &unfinished) {
		t.Errorf("recovery on a full disk: %v", err)
	}
	rowsAreWhole(t, r.project.Path)

	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	done, err = Recover(dir, Options{})
	if err != nil || len(done) != 1 {
		t.Fatalf("%v, %v", done, err)
	}
	n, shadows := check(t, dir)
	if n != r.stored || shadows != uint64(done[0].Closed) || done[0].Torn != 0 {
		t.Errorf("rows of %d events, stored were %d; %d blocks closed, %d said; %d bytes torn", n, r.stored, shadows, done[0].Closed, done[0].Torn)
	}
}

// TestRoomAgain: a rendering that met a full disk goes on at Finish if there is room by then.
func TestRoomAgain(t *testing.T) {
	dir := smallDisk(t, "4m")
	r := start(t, dir)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.feed(10_000); err != nil { // 0.3 MB of spool; 1.5 MB of rows do not fit
		t.Fatal(err)
	}
	for done := int64(-1); ; { // until the rendering stands still
		d, _ := r.render.Progress()
		if d == done {
			break
		}
		done = d
		time.Sleep(200 * time.Millisecond)
	}
	if done, total := r.render.Progress(); done == total {
		t.Fatal("the disk was big enough")
	}
	rowsAreWhole(t, r.project.Path)
	os.Remove(ballast)
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	if err := r.spool.Remove(); err != nil {
		t.Fatal(err)
	}
	if n, _, _ := look(t, dir, false); n != 10_000 {
		t.Errorf("rows of %d events", n)
	}
	if s := r.render.Stats(); s.Rows != 10_000 {
		t.Errorf("%+v", s)
	}
}

// rowsAreWhole: each file of a project is empty or ends with a whole row.
func rowsAreWhole(t *testing.T, project string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(project, "device_*", "dump", "*"))
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s := string(text)
		if rows, begun := strings.CutPrefix(s, csvfile.Header+"\n"); s != "" && (!begun || rows != "" && !strings.HasSuffix(rows, ",,\n")) {
			t.Errorf("%s (%d bytes) ends with %q", name, len(s), s[max(0, len(s)-80):])
		}
	}
}

// smallDisk mounts a file system of the given size, which takes root.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small tmpfs takes root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("cannot mount a tmpfs here: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// TestDiedAtTheEnd: after the last row nothing is written again, also when the removal of the spool had begun.
func TestDiedAtTheEnd(t *testing.T) {
	for _, removed := range []string{"nothing", "*.seg", "[!l]*"} {
		dir := t.TempDir()
		r := start(t, dir)
		if err := r.feed(20_000); err != nil {
			t.Fatal(err)
		}
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		r.spool.Close()
		names, _ := filepath.Glob(filepath.Join(r.project.Path, spool.Dir, removed))
		for _, n := range names {
			os.RemoveAll(n)
		}
		done, err := Recover(r.project.Path, Options{})
		if err != nil || len(done) != 1 || done[0].Closed != 0 || len(done[0].Files) != 0 {
			t.Fatalf("%s removed: %+v, %v", removed, done, err)
		}
		if n, _, _ := look(t, dir, false); n != 20_000 {
			t.Errorf("%s removed: rows of %d events", removed, n)
		}
	}
}

// TestLeftovers: dumps that no checkpoint knows go when they are empty and stay when they are not.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	if _, err := r.spool.Flush(); err != nil {
		t.Fatal(err)
	}
	r.render.Finish(0)
	ev := made(3)
	if err := r.spool.Append(&ev); err != nil {
		t.Fatal(err)
	}
	if _, err := r.spool.Flush(); err != nil {
		t.Fatal(err)
	}
	r.spool.Close()
	os.Remove(filepath.Join(r.project.Path, spool.Dir, "checkpoint")) // back to before the end
	where := filepath.Join(r.project.Path, "device_5", "dump")
	if err := os.MkdirAll(where, 0o750); err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) string {
		name = filepath.Join(where, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	empty := put("memscope_dump_20260101000000.csv", "")
	begun := put("memscope_dump_20260101000001.csv", csvfile.Header+"\n")
	rows := put("memscope_dump_20260101000002.csv", csvfile.Header+"\nx\n")
	other := put("notes.csv", "")
	if _, err := Recover(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{empty: false, begun: false, rows: true, other: true} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnpaired: where FREE rows were not asked for, a block without one need not be alive.
func TestUnpaired(t *testing.T) {
	for _, paired := range []bool{false, true} {
		dir := t.TempDir()
		p, err := output.Create(dir, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		w, err := spool.Create(p.Root, spool.Dir, spool.Meta{PID: 1, Paired: paired})
		if err != nil {
			t.Fatal(err)
		}
		ev := event.Event{Kind: event.Malloc, Pool: event.PTA, AllocID: 1, Stamp: 5, Device: 3}
		if err := w.Append(&ev); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		done, err := Recover(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: 1, false: 0}[paired]; done[0].Closed != want {
			t.Errorf("paired %v: %d blocks closed", paired, done[0].Closed)
		}
	}
}

// TestTornTail: a block that is not whole is dropped and told, and what is before it becomes rows.
func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	p, err := output.Create(dir, 99, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := spool.Create(p.Root, spool.Dir, spool.Meta{PID: 99, Paired: true})
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]spool.Pos
	for i := range uint64(20) {
		ev := made(i + 1)
		if err := w.Append(&ev); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			if ends[i/10], err = w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.Close()
	segment := filepath.Join(p.Path, spool.Dir, "0000000000000000.seg")
	if err := os.Truncate(segment, int64(ends[1])-3); err != nil {
		t.Fatal(err)
	}
	done, err := Recover(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := check(t, dir); n != 10 || done[0].Torn != int64(ends[1]-ends[0])-3 {
		t.Errorf("rows of %d events, %d bytes torn", n, done[0].Torn)
	}
}

// TestRefused: what is no place to recover gets one line that says so.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{filepath.Join(dir, "none"), "no such file"},
		{file, "is expected"},
		{dir, "holds none"},
	} {
		_, err := Recover(c.path, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.path, err)
		}
	}
}

// TestPowerLoss: rows that were noted as written and are not in the file are missed and told; the rest goes on.
func TestPowerLoss(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	if err := r.feed(20_000); err != nil {
		t.Fatal(err)
	}
	for { // until everything but the last segment is rendered and a checkpoint is there
		if done, total := r.render.Progress(); done == total {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	// What a power cut would leave: the directory as it is, one file shorter.
	image := filepath.Join(t.TempDir(), filepath.Base(r.project.Path))
	if err := os.CopyFS(image, os.DirFS(r.project.Path)); err != nil {
		t.Fatal(err)
	}
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	r.spool.Remove()
	files, _ := filepath.Glob(filepath.Join(image, "device_1", "dump", "*"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	if err := os.Truncate(files[0], 10_000); err != nil {
		t.Fatal(err)
	}
	done, err := Recover(image, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(done[0].Missing) != 1 {
		t.Errorf("missing: %v", done[0].Missing)
	}
	rowsAreWhole(t, image)
}
