package session

import (
	"slices"

	"memscope/internal/event"
)

// stepFilter lets the events of chosen steps through (--steps, contract 1.6): steps are the mstx ranges "step start", counted from 1 in
// their process. What happens outside is, for the ledger, what happens while recording is paused, so that its books are right and every
// block that has a row has two; a chosen step is what lies between a start and a stop, without rows of these.
type stepFilter struct {
	wanted  []uint32
	started uint64
	open    map[uint64]bool // chosen ranges that have begun, by id
	paused  bool            // by the process itself
}

// stepStart is the name of the ranges.
const stepStart = "step start"

// pass calls apply with the event, and around it with what the ledger has to know. It keeps ev Paused when it lies outside.
func (f *stepFilter) pass(ev *event.Event, apply func(*event.Event)) {
	boundary := func(sub event.Sub) {
		apply(&event.Event{Kind: event.System, Sub: sub, Flags: event.Paused, Device: event.DeviceNone, Stamp: ev.Stamp, PID: ev.PID, TID: ev.TID})
	}
	inside := len(f.open) > 0
	switch {
	case ev.Sub == event.RangeStart && ev.Name == stepStart && ev.Flags&event.Paused == 0:
		f.started++
		if slices.Contains(f.wanted, uint32(min(f.started, 1<<32-1))) {
			if !inside && !f.paused {
				boundary(event.StartTrace)
			}
			f.open[ev.Value], inside = true, true
		}
	case ev.Sub == event.RangeEnd && f.open[ev.Value]:
		apply(ev)
		delete(f.open, ev.Value)
		if len(f.open) == 0 && !f.paused {
			boundary(event.StopTrace)
		}
		return
	case ev.Sub == event.StartTrace, ev.Sub == event.StopTrace:
		f.paused = ev.Sub == event.StopTrace
	}
	if !inside {
		ev.Flags |= event.Paused
	}
	if ev.Kind != event.System || inside {
		apply(ev)
	}
}
