package recover

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"memscope/internal/dump/csvfile"
	"memscope/internal/dump/render"
	"memscope/internal/dump/spool"
	"memscope/internal/event"
	"memscope/internal/output"
)

// died leaves what a death in the middle leaves: a checkpoint, rows behind it, and events that have no row yet. It answers the project
// directory, which is the only one in its parent, and the number of events. segment is the size of a segment, 0 for one that holds all.
func died(t *testing.T, segment int64) (project string, n uint64) {
	t.Helper()
	p, err := output.Create(t.TempDir(), 99, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	w, err := spool.Create(p.Root, spool.Dir, spool.Meta{PID: 99, Paired: true, SegmentBytes: segment})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var rows spool.Pos
	const events = 20_000
	for i := uint64(1); i <= events; i++ {
		ev := made(i)
		if err := w.Append(&ev); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			end, err := w.Flush()
			if err != nil {
				t.Fatal(err)
			}
			if i == 18_000 {
				rows = end
			}
		}
	}
	r, err := spool.Open(p.Root, spool.Dir)
	if err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(t.TempDir(), filepath.Base(p.Path))
	closing := func([]string, int64, func(*event.Event) error) error { return os.CopyFS(image, os.DirFS(p.Path)) } // here it dies
	if err := render.New(r, csvfile.Opener(p, nil, nil), render.Options{Closing: closing}).Finish(rows); err != nil {
		t.Fatal(err)
	}
	return image, events
}

// dumps are the CSV files of a project.
func dumps(t *testing.T, project string) map[string][]byte {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(project, dumpPattern))
	out := make(map[string][]byte)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = text
	}
	if len(out) < 3 {
		t.Fatalf("dumps: %v", names)
	}
	return out
}

func segmentsOf(t *testing.T, project string) []string {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(project, spool.Dir, "*.seg"))
	if len(names) == 0 {
		t.Fatal("no segments")
	}
	return names
}

// TestDamage: where the spool cannot replace what would be cut off, nothing changes and one line says so; with Force it goes on.
func TestDamage(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(project string, segs []string) error
		want string
	}{
		{"empty segment", func(_ string, s []string) error { return os.Truncate(s[0], 0) }, "is damaged at byte 0"},
		{"lost segment", func(_ string, s []string) error { return os.Remove(s[0]) }, "holds no segment for"},
		{"damaged block", func(_ string, s []string) error {
			text, err := os.ReadFile(s[0])
			if err != nil {
				return err
			}
			text[len(text)/2] ^= 0xff
			return os.WriteFile(s[0], text, 0o600)
		}, "is damaged at byte"},
		{"lost end", func(_ string, s []string) error {
			for _, name := range s[1:] {
				if err := os.Remove(name); err != nil {
					return err
				}
			}
			return os.Truncate(s[0], 3_000)
		}, "the spool ends before row"},
		{"no segment", func(_ string, s []string) error {
			for _, name := range s {
				if err := os.Remove(name); err != nil {
					return err
				}
			}
			return nil
		}, "holds no segment for"},
		{"lost dump", func(p string, _ []string) error {
			names, _ := filepath.Glob(filepath.Join(p, "device_1", "dump", "*.csv"))
			return os.Remove(names[0])
		}, "is missing; put it back, or --force writes"},
	} {
		project, n := died(t, 200<<10)
		if err := c.do(project, segmentsOf(t, project)); err != nil {
			t.Fatal(err)
		}
		names, _ := filepath.Glob(filepath.Join(project, dumpPattern))
		before := make(map[string][]byte)
		for _, name := range names {
			before[name], _ = os.ReadFile(name)
		}
		done, err := Recover(project, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") ||
			!strings.Contains(err.Error(), "is not complete") || !strings.Contains(err.Error(), "--force") || done[0].Complete() {
			t.Errorf("%s: %v", c.name, err)
		}
		for name, text := range before {
			if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, text) {
				t.Errorf("%s: %s has %d bytes, had %d (%v)", c.name, name, len(now), len(text), err)
			}
		}
		done, err = Recover(project, Options{Force: true})
		if err != nil || done[0].Forced == nil || done[0].Complete() {
			t.Errorf("%s, forced: %+v, %v", c.name, done, err)
			continue
		}
		rowsAreWhole(t, project)
		seen := make(map[string]string)
		for name, text := range dumps(t, project) {
			for _, row := range strings.Split(string(text), "\n")[1:] {
				f := strings.SplitN(row, ",", 9)
				if len(f) < 9 || f[7] == "N/A" {
					continue
				}
				if old := seen[f[1]+f[6]+f[4]]; old != "" {
					t.Fatalf("%s: %s: row %s again: %s", c.name, name, row, old)
				}
				seen[f[1]+f[6]+f[4]] = row
			}
		}
		if uint64(len(seen)) < n/10 {
			t.Errorf("%s: %d rows", c.name, len(seen))
		}
	}
}

// TestNoCheckpoint: a spool that is there from its beginning on replaces what is in the files, under their own names.
func TestNoCheckpoint(t *testing.T) {
	for _, text := range []string{"", "x", "00000000\n{", "deadbeef\n{}"} {
		project, n := died(t, 0)
		path := filepath.Join(project, spool.Dir, "checkpoint")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if text != "" {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		before := dumps(t, project)
		done, err := Recover(project, Options{})
		if err != nil || !done[0].Complete() {
			t.Fatalf("%q: %+v, %v", text, done, err)
		}
		if got, _ := check(t, filepath.Dir(project)); got != n {
			t.Errorf("%q: rows of %d events of %d", text, got, n)
		}
		for name := range dumps(t, project) {
			if before[name] == nil {
				t.Errorf("%q: %s is new", text, name)
			}
		}
	}
	project, _ := died(t, 200<<10) // the beginning is gone
	if err := os.Remove(filepath.Join(project, spool.Dir, "checkpoint")); err != nil {
		t.Fatal(err)
	}
	before := dumps(t, project)
	for _, force := range []bool{false, true} {
		_, err := Recover(project, Options{Force: force})
		if err == nil || !strings.Contains(err.Error(), "the checkpoint is missing, and the spool begins at") || strings.Contains(err.Error(), "\n") {
			t.Errorf("force %v: %v", force, err)
		}
	}
	for name, text := range dumps(t, project) {
		if !bytes.Equal(before[name], text) {
			t.Errorf("%s has changed", name)
		}
	}
}

// TestPlanted: what somebody put in the place of a file is refused in one line, and nothing is written through it.
func TestPlanted(t *testing.T) {
	for _, c := range []struct {
		name, glob, want string
		do               func(path, other string) error
	}{
		{"linked dump", "device_0/dump/*.csv", "has 2 names", func(path, other string) error { return os.Link(path, other) }},
		{"dump a link", "device_0/dump/*.csv", "is not a regular file", func(path, other string) error {
			if err := os.Rename(path, other); err != nil {
				return err
			}
			return os.Symlink(other, path)
		}},
		{"dump a fifo", "device_0/dump/*.csv", "is not a regular file", func(path, other string) error {
			if err := os.Rename(path, other); err != nil {
				return err
			}
			return syscall.Mkfifo(path, 0o600)
		}},
		{"segment a fifo", "spool/*.seg", "is not a regular file", func(path, other string) error {
			if err := os.Rename(path, other); err != nil {
				return err
			}
			return syscall.Mkfifo(path, 0o600)
		}},
		{"checkpoint a fifo", "spool/checkpoint", "is not a regular file", func(path, other string) error {
			if err := os.Rename(path, other); err != nil {
				return err
			}
			return syscall.Mkfifo(path, 0o600)
		}},
		{"spool a link", "spool", "is a symbolic link", func(path, other string) error {
			if err := os.Rename(path, other); err != nil {
				return err
			}
			return os.Symlink(other, path)
		}},
	} {
		project, _ := died(t, 0)
		names, _ := filepath.Glob(filepath.Join(project, c.glob))
		other := filepath.Join(filepath.Dir(project), "other")
		if err := c.do(names[0], other); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(other)
		for _, dir := range []string{project, filepath.Dir(project)} {
			_, err := Recover(dir, Options{Force: true})
			if err == nil || !strings.Contains(err.Error(), names[0]+" "+c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if after, _ := os.ReadFile(other); !bytes.Equal(before, after) {
			t.Errorf("%s: written through", c.name)
		}
	}
}

// TestStrangeNames: a checkpoint with a right checksum that names what is no dump.
func TestStrangeNames(t *testing.T) {
	for _, name := range []string{"config.json", "../x", "/etc/passwd", "device_0/dump/../../config.json"} {
		project, _ := died(t, 0)
		root, err := os.OpenRoot(project)
		if err != nil {
			t.Fatal(err)
		}
		r, err := spool.Open(root, spool.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Save(fmt.Appendf(nil, `{"Files":[{"Name":%q,"Size":5}]}`, name)); err != nil {
			t.Fatal(err)
		}
		r.Close()
		root.Close()
		if _, err := Recover(project, Options{Force: true}); err == nil || !strings.Contains(err.Error(), "is no dump") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
