package spool

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"

	"memscope/internal/event"
)

func malloc(id uint64) event.Event {
	return event.Event{Kind: event.Malloc, Pool: event.PTA, AllocID: id, Seq: id, Stamp: int64(id), Size: 1, Owner: "PTA"}
}

// readAll gives every event of a spool from its first segment on.
func readAll(t testing.TB, r *Reader) (out []event.Event) {
	t.Helper()
	for at := Pos(0); ; {
		b, err := r.Load(at, End)
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		for {
			var ev event.Event
			if err := r.Next(&ev); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			out = append(out, ev)
		}
		at = b.End
	}
}

// TestLate: what is learned of old and young blocks, in any order, is in their events, for the reader of a spool that is written
// and for one that comes later.
func TestLate(t *testing.T) {
	root := newRoot(t)
	w := must(Create(root, Dir, Meta{}))(t)
	defer w.Close()
	follower := must(Open(root, Dir))(t)
	defer follower.Close()
	const n, stride = 3000, 400 // over several files of slots
	want := map[uint64]event.Event{}
	rng := rand.New(rand.NewPCG(7, 8))
	check := func(r *Reader) {
		t.Helper()
		evs := readAll(t, r)
		if len(evs) != n {
			t.Fatalf("%d events", len(evs))
		}
		for _, ev := range evs {
			if w := want[ev.AllocID]; ev.Owner != w.Owner || ev.Waste != w.Waste {
				t.Fatalf("block %d is %q %b, want %q %b", ev.AllocID, ev.Owner, ev.Waste, w.Owner, w.Waste)
			}
		}
	}
	for i := range uint64(n) {
		ev := malloc(1 + i*stride)
		if err := w.Append(&ev); err != nil {
			t.Fatal(err)
		}
		want[ev.AllocID] = ev
	}
	must(w.Flush())(t)
	check(follower)
	for range 3 {
		for range 2 * n {
			id := 1 + rng.Uint64N(n)*stride
			ev := want[id]
			var err error
			if rng.IntN(2) == 0 {
				ev.Owner = fmt.Sprintf("PTA@%d", rng.IntN(50))
				err = w.SetOwner(id, ev.Owner)
			} else {
				ev.Waste = event.Waste(1 + rng.IntN(7))
				err = w.SetWaste(id, ev.Waste)
			}
			if err != nil {
				t.Fatal(err)
			}
			want[id] = ev
		}
		check(follower)
		later := must(Open(root, Dir))(t)
		check(later)
		later.Close()
	}
}

// TestLateFilesGo: the slots of blocks whose rows are written do not stay on disk, those of others do.
func TestLateFilesGo(t *testing.T) {
	root := newRoot(t)
	w := must(Create(root, Dir, Meta{}))(t)
	defer w.Close()
	const n = 5
	var last Pos
	for i := range uint64(n) {
		ev := malloc(1 + i*lateSlots)
		if err := errors.Join(w.Append(&ev), w.SetWaste(ev.AllocID, 1)); err != nil {
			t.Fatal(err)
		}
		last = must(w.Flush())(t)
	}
	r := must(Open(root, Dir))(t)
	defer r.Close()
	files := func() (n int) {
		for _, name := range must(list(w.root))(t) {
			if strings.HasSuffix(name, lateSuffix) {
				n++
			}
		}
		return n
	}
	must(r.Verify(0, func(*event.Event) {}))(t) // looking through everything, as recovery does first, reads nothing away
	at := Pos(0)
	for i := range n {
		b := must(r.Load(at, last))(t)
		var ev event.Event
		if err := r.Next(&ev); err != nil || ev.Waste != 1 {
			t.Fatal(ev, err)
		}
		at = b.End
		if err := r.DropBefore(at); err != nil {
			t.Fatal(err)
		}
		if got := files(); got != n-i {
			t.Errorf("%d files of slots when %d events are read", got, i+1)
		}
	}
}

// TestLateDamage: nothing that is wrong with the files beside the segments keeps an event from being read.
func TestLateDamage(t *testing.T) {
	for name, harm := range map[string]func(root *os.Root) error{
		"no owners":       func(root *os.Root) error { return root.Remove(ownersName) },
		"no slots":        func(root *os.Root) error { return root.Remove(lateName(1)) },
		"short slots":     func(root *os.Root) error { return truncate(root, lateName(1), 9) },
		"short owners":    func(root *os.Root) error { return truncate(root, ownersName, 3) },
		"slots of noise":  func(root *os.Root) error { return fill(root, lateName(1), "\xff") },
		"owners of noise": func(root *os.Root) error { return fill(root, ownersName, "\xff") },
		"a link": func(root *os.Root) error {
			return errors.Join(root.Remove(lateName(1)), root.Symlink("/dev/zero", lateName(1)))
		},
		"a fifo": func(root *os.Root) error {
			return errors.Join(root.Remove(ownersName), syscall.Mkfifo(root.Name()+"/"+ownersName, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRoot(t)
			w := must(Create(root, Dir, Meta{}))(t)
			ev := malloc(1)
			if err := errors.Join(w.Append(&ev), w.SetOwner(1, "PTA@ops")); err != nil {
				t.Fatal(err)
			}
			must(w.Flush())(t)
			w.Close()
			inside := must(root.OpenRoot(Dir))(t)
			defer inside.Close()
			if err := harm(inside); err != nil {
				t.Fatal(err)
			}
			r := must(Open(root, Dir))(t)
			defer r.Close()
			if evs := readAll(t, r); len(evs) != 1 || evs[0].AllocID != 1 || evs[0].Kind != event.Malloc {
				t.Errorf("%v", evs)
			}
		})
	}
}

func truncate(root *os.Root, name string, size int64) error {
	return os.Truncate(root.Name()+"/"+name, size)
}

func fill(root *os.Root, name, pattern string) error {
	return os.WriteFile(root.Name()+"/"+name, []byte(strings.Repeat(pattern, 1<<10)), 0o600)
}

// TestLateFault: a mapping whose file lost its space is an error, once and for all, and no end of the program.
func TestLateFault(t *testing.T) {
	root := newRoot(t)
	w := must(Create(root, Dir, Meta{}))(t)
	defer w.Close()
	if err := w.SetWaste(1, 1); err != nil {
		t.Fatal(err)
	}
	if err := truncate(w.root, lateName(1), 0); err != nil {
		t.Fatal(err)
	}
	var stopped *StoppedError
	if err := w.SetWaste(1, 2); !errors.As(err, &stopped) {
		t.Fatalf("%v", err)
	}
	if again := w.SetWaste(lateSlots, 2); !errors.Is(again, stopped) {
		t.Errorf("then %v", again)
	}
	ev := malloc(1)
	if err := w.Append(&ev); err != nil {
		t.Errorf("events, too: %v", err)
	}
}

func TestOwnersWithoutEnd(t *testing.T) {
	root := newRoot(t)
	w := must(Create(root, Dir, Meta{}))(t)
	defer w.Close()
	for i := range uint64(mostOwners + 10) {
		if err := w.SetOwner(1+i%100, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.late.places) > mostOwners {
		t.Errorf("%d owners are remembered", len(w.late.places))
	}
	ev := malloc(8)
	if err := w.Append(&ev); err != nil {
		t.Fatal(err)
	}
	must(w.Flush())(t)
	r := must(Open(root, Dir))(t)
	defer r.Close()
	last := uint64(mostOwners + 9)
	for 1+last%100 != 8 {
		last--
	}
	if got := readAll(t, r)[0].Owner; got != fmt.Sprint(last) {
		t.Errorf("owner %s, want %d", got, last)
	}
}

// BenchmarkLate: an owner and a waste for each block.
func BenchmarkLate(b *testing.B) {
	root := newRoot(b)
	w := must(Create(root, Dir, Meta{}))(b)
	defer w.Close()
	for id := uint64(1); b.Loop(); id++ {
		if err := errors.Join(w.SetOwner(id, "PTA@fsdp2@ops"), w.SetWaste(id, 3)); err != nil {
			b.Fatal(err)
		}
	}
}
