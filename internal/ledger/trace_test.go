package ledger

import (
	"testing"

	"memscope/internal/event"
)

// The table of contract 3.3, "Shadow (ghost) rules".
func TestShadow(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"created, freed: forgotten", `
			malloc hal 0 0x1000 10 @1 paused
			free hal - 0x1000 @2 paused
			start @3
			exit @4
		`, `
			START @3
		`},
		{"created, exit: forgotten", `
			malloc hal 0 0x1000 10 @1 paused
			exit @4
		`, ``},
		{"created, promoted, freed", `
			malloc hal 0 0x1000 10 @1 paused
			start @3
			free hal - 0x1000 @4
		`, `
			MALLOC hal 0 0x1000 size:10 id:1 @3 shadow
			START @3
			FREE hal 0 0x1000 size:10 used:0 id:1 @4
		`},
		{"normal, freed after the stop, exit", `
			start @1
			malloc hal 0 0x1000 10 @2
			malloc hal 0 0x2000 10 @3
			stop @5
			free hal - 0x1000 @9 paused
			exit @20
		`, `
			START @1
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @2
			MALLOC hal 0 0x2000 size:10 used:20 id:2 @3
			STOP @5
			FREE hal 0 0x1000 size:10 id:1 @6 shadow
			FREE hal 0 0x2000 size:10 id:2 @6 shadow
		`},
		{"normal, freed after the stop, start", `
			start @1
			malloc hal 0 0x1000 10 @2
			stop @5
			free hal - 0x1000 @9 paused
			start @12
			exit @20
		`, `
			START @1
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @2
			STOP @5
			FREE hal 0 0x1000 size:10 id:1 @12 shadow
			START @12
		`},
		{"normal, freed while paused without a stop, exit: as is", `
			malloc hal 0 0x1000 10 @2
			free hal - 0x1000 @9 paused
			exit @20
		`, `
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @2
			FREE hal 0 0x1000 size:10 id:1 @9 shadow
		`},
		{"promoted, freed after the stop, start", `
			malloc hal 0 0x1000 10 @1 paused
			start @2
			stop @5
			free hal - 0x1000 @9 paused
			start @12
			exit @20
		`, `
			MALLOC hal 0 0x1000 size:10 id:1 @2 shadow
			START @2
			STOP @5
			FREE hal 0 0x1000 size:10 id:1 @12 shadow
			START @12
		`},
		{"promoted, exit while tracing", `
			malloc hal 0 0x1000 10 @1 paused
			start @2
			exit @20
		`, `
			MALLOC hal 0 0x1000 size:10 id:1 @2 shadow
			START @2
			FREE hal 0 0x1000 size:10 id:1 @20 shadow
		`},
		{"address used again while paused", `
			start @1
			malloc hal 0 0x1000 10 @2
			stop @5
			free hal - 0x1000 @9 paused
			malloc hal 0 0x1000 20 @10 paused
			malloc hal 0 0x2000 20 @11 paused
			start @12
			free hal - 0x1000 @12
		`, `
			START @1
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @2
			STOP @5
			FREE hal 0 0x1000 size:10 id:1 @12 shadow
			MALLOC hal 0 0x2000 size:20 id:3 @12 shadow
			MALLOC hal 0 0x1000 size:20 id:2 @13 shadow
			START @13
			FREE hal 0 0x1000 size:20 used:20 id:2 @14
		`},
		{"address used again while paused, exit", `
			start @1
			malloc hal 0 0x1000 10 @2
			stop @5
			free hal - 0x1000 @9 paused
			malloc hal 0 0x1000 20 @10 paused
			exit @30
		`, `
			START @1
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @2
			STOP @5
			FREE hal 0 0x1000 size:10 id:1 @6 shadow
		`},
		{"conflict while paused", `
			start @1
			malloc hal 0 0x1000 10 @2
			stop @5
			malloc hal 0 0x1000 20 @10 paused
			malloc hal 0 0x1000 30 @11 paused
			start @12
			malloc hal 0 0x2000 1 @13
		`, `
			START @1
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @2
			STOP @5
			FREE hal 0 0x1000 size:10 id:1 @6 shadow
			MALLOC hal 0 0x1000 size:30 id:3 @12 shadow
			START @12
			MALLOC hal 0 0x2000 size:1 used:31 id:4 @13
		`},
		{"two stops", `
			start @1
			malloc hal 0 0x1000 10 @2
			stop @5
			stop @8
			exit @20
		`, `
			START @1
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @2
			STOP @5
			STOP @8
			FREE hal 0 0x1000 size:10 id:1 @9 shadow
		`},
		{"freed between two stops", `
			start @1
			malloc hal 0 0x1000 10 @2
			stop @5
			free hal - 0x1000 @7 paused
			stop @8
			exit @20
		`, `
			START @1
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @2
			STOP @5
			FREE hal 0 0x1000 size:10 id:1 @6 shadow
			STOP @8
		`},
		{"an unmatched free while paused", `
			free pta - 0x1000 @1 paused
		`, ``},
		// Threads do not agree yet, or no longer, on whether tracing is on.
		{"late to see the start", `
			malloc hal 0 0x1000 10 @1
			start @2
			malloc hal 0 0x2000 20 @3 paused
			free hal - 0x1000 @4 paused
			free hal - 0x2000 @5
		`, `
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @1
			START @2
			MALLOC hal 0 0x2000 size:20 id:2 @3 shadow
			FREE hal 0 0x1000 size:10 id:1 @4 shadow
			FREE hal 0 0x2000 size:20 used:0 id:2 @5
		`},
		{"early to see the start", `
			start @1
			malloc hal 0 0x1000 10 @2
			stop @3
			free hal - 0x1000 @4 paused
			malloc hal 0 0x1000 20 @5 paused
			free hal - 0x1000 @6
			start @7
		`, `
			START @1
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @2
			STOP @3
			FREE hal 0 0x1000 size:10 id:1 @4 shadow
			MALLOC hal 0 0x1000 size:20 id:2 @6 shadow
			FREE hal 0 0x1000 size:20 used:0 id:2 @7
			START @7
		`},
		{"late to see the stop", `
			start @1
			malloc hal 0 0x1000 10 @2
			stop @3
			malloc hal 0 0x2000 20 @4
			malloc pta 0 0x1000 5 @5
			exit @9
		`, `
			START @1
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @2
			STOP @3
			MALLOC hal 0 0x2000 size:20 used:30 id:2 @4
			MALLOC pta 0 0x1000 size:5 used:5 total:0 id:3 @5
			FREE hal 0 0x1000 size:10 id:1 @5 shadow
			FREE hal 0 0x2000 size:20 id:2 @5 shadow
			FREE pta 0 0x1000 size:5 id:3 @6 shadow
		`},
	} {
		t.Run(c.name, func(t *testing.T) { check(t, nil, c.script, c.want) })
	}
}

// What a Sink sees as the state of a block when a shadow FREE comes says why it comes.
func TestStates(t *testing.T) {
	var got []State
	l := New(func(ev *event.Event, b *Block) {
		if ev.Kind == event.Free {
			got = append(got, b.State)
		}
	})
	run(t, l, `
		malloc hal 0 0x1000 1 @1 paused
		malloc hal 0 0x2000 1 @2 paused
		start @3
		malloc hal 0 0x3000 1 @4
		malloc hal 0 0x4000 1 @5
		malloc hal 0 0x5000 1 @6
		malloc hal 0 0x4000 1 @7
		free hal - 0x5000 @8
		free hal - 0x6000 @9
		stop @10
		free hal - 0x2000 @11 paused
		exit @12
	`)
	want := []State{Residual, Normal, Ghost, ShadowFreed, Promoted, Normal, Normal}
	if len(got) != len(want) {
		t.Fatalf("states %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("states %v, want %v", got, want)
			break
		}
	}
}

func TestUndo(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"row is out", `
			malloc hal 0 0x1000 10 @1
			free hal - 0x1000 @2
			undo 0x1000 @3
			free hal - 0x1000 @4
		`, `
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @1
			FREE hal 0 0x1000 size:10 used:0 id:1 @2
			MALLOC hal 0 0x1000 size:10 used:10 id:2 @3
			FREE hal 0 0x1000 size:10 used:0 id:2 @4
		`},
		{"equal stamps", `
			malloc hal 0 0x1000 10 @1
			free hal - 0x1000 @1
			undo 0x1000 @1
		`, `
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @1
			FREE hal 0 0x1000 size:10 used:0 id:1 @2
			MALLOC hal 0 0x1000 size:10 used:10 id:2 @3
		`},
		{"only once, only that address", `
			malloc hal 0 0x1000 10 @1
			free hal - 0x1000 @2
			undo 0x2000 @3
			undo 0x1000 @4
			undo 0x1000 @5
		`, `
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @1
			FREE hal 0 0x1000 size:10 used:0 id:1 @2
			MALLOC hal 0 0x1000 size:10 used:10 id:2 @4
		`},
		{"of a free that met nothing", `
			malloc hal 0 0x1000 10 @1
			free hal - 0x1000 @2
			free hal - 0x1000 @3
			undo 0x1000 @4
			exit @5
		`, `
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @1
			FREE hal 0 0x1000 size:10 used:0 id:1 @2
		`},
		{"address used again", `
			malloc hal 0 0x1000 10 @1
			free hal - 0x1000 @2
			malloc hal 0 0x1000 20 @3
			undo 0x1000 @4
		`, `
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @1
			FREE hal 0 0x1000 size:10 used:0 id:1 @2
			MALLOC hal 0 0x1000 size:20 used:20 id:2 @3
		`},
		{"never had a row", `
			malloc hal 0 0x1000 10 @1 paused
			free hal - 0x1000 @2 paused
			undo 0x1000 @3
			start @4
		`, `
			MALLOC hal 0 0x1000 size:10 id:1 @4 shadow
			START @4
		`},
		{"row is not out yet", `
			start @1
			malloc hal 0 0x1000 10 @2
			stop @3
			free hal - 0x1000 @4 paused
			undo 0x1000 @5
			start @6
			free hal - 0x1000 @7
		`, `
			START @1
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @2
			STOP @3
			START @6
			FREE hal 0 0x1000 size:10 used:0 id:1 @7
		`},
		{"over a stop", `
			start @1
			malloc hal 0 0x1000 10 @2
			free hal - 0x1000 @3
			stop @4
			undo 0x1000 @5
			start @6
		`, `
			START @1
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @2
			FREE hal 0 0x1000 size:10 used:0 id:1 @3
			STOP @4
			MALLOC hal 0 0x1000 size:10 id:2 @6 shadow
			START @6
		`},
		{"over a start", `
			malloc hal 0 0x1000 10 @1 paused
			free hal - 0x1000 @2 paused
			start @3
			undo 0x1000 @4
		`, `
			START @3
			MALLOC hal 0 0x1000 size:10 id:1 @4 shadow
		`},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, func(l *Ledger) { l.DropUnmatched[event.HAL] = true }, c.script, c.want)
		})
	}
}

// A refused free keeps the birth, so that a leak stays a leak of its step.
func TestUndoKeepsBirth(t *testing.T) {
	l := New(func(*event.Event, *Block) {})
	run(t, l, `
		malloc hal 0 0x1000 10 @1
		free hal - 0x1000 @20
		undo 0x1000 @30
	`)
	for _, since := range []int64{0, 30} {
		n := 0
		l.LiveSince(since, func(b *Block) bool {
			n++
			if b.Born != 1 || b.BornSeq != 1 || b.AllocID != 2 || b.State != Normal {
				t.Errorf("born %d, seq %d, id %d, state %d", b.Born, b.BornSeq, b.AllocID, b.State)
			}
			return true
		})
		if n != 1 {
			t.Errorf("since %d: %d blocks", since, n)
		}
	}
}

// A late record with an older stamp must not hide a younger block beside it.
func TestLiveSince(t *testing.T) {
	l := New(func(*event.Event, *Block) {})
	run(t, l, `
		malloc pta 0 0x1000 10 @10
		malloc pta 0 0x2000 10 @5
	`)
	young := false
	l.LiveSince(10, func(b *Block) bool {
		young = young || b.Addr == 0x1000
		return true
	})
	if !young {
		t.Error("the block of stamp 10 is not found")
	}
	l.LiveSince(11, func(b *Block) bool {
		t.Errorf("0x%x is found, though nothing near it is that young", b.Addr)
		return true
	})
}
