package spool

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"memscope/internal/event"
)

// written makes a spool of several segments and answers its directory, the segments' paths and the events in it.
func written(t *testing.T) (root *os.Root, paths []string, n int) {
	t.Helper()
	root = newRoot(t)
	w, err := Create(root, Dir, Meta{PID: 7, SegmentBytes: 40 << 10})
	if err != nil {
		t.Fatal(err)
	}
	evs := sample(8000, 3)
	for i := range evs {
		if err := w.Append(&evs[i]); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			if _, err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	paths, _ = filepath.Glob(filepath.Join(root.Name(), Dir, "*.seg"))
	if len(paths) < 3 {
		t.Fatalf("segments: %v", paths)
	}
	return root, paths, len(evs)
}

func verify(t *testing.T, root *os.Root) (n int, err error) {
	t.Helper()
	r, err := Open(root, Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = r.Verify(0, func(*event.Event) { n++ })
	return n, err
}

func TestVerify(t *testing.T) {
	size := func(path string) int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	patch := func(path string, off int64, text []byte) error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteAt(text, off)
		return err
	}
	for _, c := range []struct {
		name string
		do   func(p []string) error
		hurt int // the segment that is named; -1: none, the spool is whole
	}{
		{"nothing", func(p []string) error { return nil }, -1},
		{"torn end", func(p []string) error { return os.Truncate(p[len(p)-1], size(p[len(p)-1])-3) }, -1},
		{"zeros at the end", func(p []string) error { return os.Truncate(p[len(p)-1], size(p[len(p)-1])+5000) }, -1},
		{"last header torn", func(p []string) error { return os.Truncate(p[len(p)-1], 20) }, -1},
		{"a byte", func(p []string) error { return patch(p[1], 1000, []byte{0xa5, 0x5a, 0xa5}) }, 1},
		{"a byte of the last", func(p []string) error { return patch(p[len(p)-1], 200, []byte{0xa5, 0x5a, 0xa5}) }, 99},
		{"a header", func(p []string) error { return patch(p[1], 20, []byte{0xa5, 0x5a}) }, 1},
		{"an end", func(p []string) error { return os.Truncate(p[1], size(p[1])-3) }, 1},
		{"a block at the end", func(p []string) error { return os.Truncate(p[1], segmentHeader) }, 1},
		{"empty", func(p []string) error { return os.Truncate(p[1], 0) }, 1},
		{"a segment", func(p []string) error { return os.Remove(p[1]) }, 0},
		{"fifo", func(p []string) error { os.Remove(p[1]); return syscall.Mkfifo(p[1], 0o600) }, 1},
	} {
		root, paths, total := written(t)
		if err := c.do(paths); err != nil {
			t.Fatal(err)
		}
		n, err := verify(t, root)
		if c.hurt < 0 {
			if err != nil || c.name == "nothing" && n != total || n == 0 {
				t.Errorf("%s: %d of %d events, %v", c.name, n, total, err)
			}
			continue
		}
		if at := paths[min(c.hurt, len(paths)-1)]; err == nil || !strings.Contains(err.Error(), at) || n >= total {
			t.Errorf("%s: %d of %d events, %v; %s should be named", c.name, n, total, err, at)
		}
	}
}

// TestPoisoned: events that no collector writes, with a right checksum, are damage, and are passed over if that is asked.
func TestPoisoned(t *testing.T) {
	for _, bad := range []event.Event{
		{}, {Kind: event.OOMDetail + 1}, {Kind: 15},
		{Kind: event.Malloc, Device: -5}, {Kind: event.Malloc, Device: math.MaxUint16 + 1}, {Kind: event.Mstx, Device: math.MaxInt32},
	} {
		root := newRoot(t)
		w, err := Create(root, Dir, Meta{PID: 7})
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range []event.Event{{Kind: event.System}, bad, {Kind: event.System}} {
			if err := w.Append(&ev); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		var damage *DamageError
		if n, err := verify(t, root); n != 1 || !errors.As(err, &damage) || damage.Offset <= segmentHeader {
			t.Errorf("%+v: %d events, %v", bad, n, err)
		}
		r, err := Open(root, Dir)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		r.SkipDamage = true
		if _, err := r.Load(0, End); err != nil {
			t.Fatal(err)
		}
		var ev event.Event
		if err := r.Next(&ev); err != nil {
			t.Error(err)
		}
		if err := r.Next(&ev); err != io.EOF || r.Dropped() == 0 {
			t.Errorf("%+v: %v, %d bytes dropped", bad, err, r.Dropped())
		}
	}
}

// TestSavedTooLarge: more than any rendering saves is damage, and a planted link or FIFO is an error at once.
func TestSavedTooLarge(t *testing.T) {
	root, _, _ := written(t)
	path := filepath.Join(root.Name(), Dir, stateName)
	r, err := Open(root, Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text := bytes.Repeat([]byte{' '}, maxState)
	sum := checksum(text)
	head := []byte("00000000\n")
	for i := range 8 {
		head[7-i] = "0123456789abcdef"[sum>>(4*i)&15]
	}
	if err := os.WriteFile(path, append(head, text...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Saved(); !errors.Is(err, ErrState) {
		t.Errorf("too large: %v", err)
	}
	os.Remove(path)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Saved(); err == nil || errors.Is(err, ErrState) || !strings.Contains(err.Error(), path+" is not a regular file") {
		t.Errorf("fifo: %v", err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(other, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := r.Save([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(other); string(text) != "precious" {
		t.Errorf("written through a link: %q", text)
	}
}
