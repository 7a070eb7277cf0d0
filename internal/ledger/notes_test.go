package ledger

import (
	"testing"

	"memscope/internal/event"
)

// TestNotes: each live block has a note of its own, whatever comes and goes; ghosts have none.
func TestNotes(t *testing.T) {
	var notes Notes[uint64]
	ghosts, checked := 0, 0
	l := New(func(ev *event.Event, b *Block) {
		switch note := notes.Of(b); {
		case note == nil:
			ghosts++
		case ev.Kind == event.Malloc:
			*note = b.AllocID
		default:
			if checked++; *note != b.AllocID {
				t.Errorf("the note on block %d says %d", b.AllocID, *note)
			}
		}
	})
	const n = 3 * slabBlocks
	for i := range uint64(n) {
		run(t, l, "access pta 0 0x7 1 @1")
		l.Apply(&event.Event{Kind: event.Malloc, Pool: event.PTA, Addr: 0x1000 + i*64, Size: 64})
		if i%3 == 2 {
			l.Apply(&event.Event{Kind: event.Free, Pool: event.PTA, Addr: 0x1000 + (i/2)*64})
		}
		l.Apply(&event.Event{Kind: event.Access, Pool: event.PTA, Addr: 0x1000 + i*64 + 1, Size: 1})
	}
	l.Exit(1)
	if ghosts < n || checked < 2*n {
		t.Errorf("%d ghosts, %d notes", ghosts, checked)
	}
}

// TestUndoneBlockHasItsNote: a block that comes back may lie in another slot.
func TestUndoneBlockHasItsNote(t *testing.T) {
	var notes Notes[uint64]
	l := New(func(ev *event.Event, b *Block) {
		if ev.Kind == event.Malloc {
			*notes.Of(b) = b.Addr
		} else if *notes.Of(b) != b.Addr {
			t.Errorf("the note on 0x%x says 0x%x", b.Addr, *notes.Of(b))
		}
	})
	run(t, l, `
		malloc hal 0 0x1000 10 @1
		malloc hal 0 0x2000 10 @2
		free hal - 0x1000 @3
	`)
	l.Apply(&event.Event{Kind: event.Malloc, Pool: event.HAL, Addr: 0x3000, Size: 10, TID: 9, Stamp: 4})
	l.Undo(0x1000, 1, 5)
	l.Exit(6)
}
