// Package steps tells which step of training or serving a device is in, and which one a moment belongs to
// (contract 5.1).
package steps

import (
	"slices"
	"strings"

	"memscope/internal/event"
)

// Change is the begin or the end of a step on a device.
type Change struct {
	Device int32
	Step   uint64
	End    bool
}

type source uint8

const (
	unknown source = iota
	mstx           // ranges named "step start"
	python         // msmemscope.step()
)

// maxOthers bounds the names of ranges that are counted.
const maxOthers = 64

type boundary struct {
	stamp int64
	seq   uint64
	step  uint64
}

type device struct {
	bounds   []boundary        // ascending in (stamp, seq)
	open     map[uint64]uint64 // range id → step
	current  uint64
	conflict bool // that both sources are in use has been said
}

// Tracker follows the steps of one process. Make it with New.
type Tracker struct {
	conflict func(device int32, ignored string)
	source   source
	started  uint64         // step ranges started in the process
	others   map[string]int // ranges of other names started before the first step, by name
	devices  map[int32]*device
	changes  [2]Change
}

// New returns a Tracker. It calls conflict once per device where a second source of steps turns up and is ignored.
func New(conflict func(device int32, ignored string)) *Tracker {
	return &Tracker{conflict: conflict, devices: map[int32]*device{}, others: map[string]int{}}
}

// Apply takes an event of any kind, and returns what it changes, in order. The slice is valid until the next call.
func (t *Tracker) Apply(ev *event.Event) []Change {
	switch {
	case ev.Kind == event.Mstx && ev.Sub == event.RangeStart && strings.Trim(ev.Name, `"`) == "step start":
		if d := t.accept(ev, mstx, "mstx ranges"); d != nil {
			t.started++
			d.open[ev.Value] = t.started
			return append(t.changes[:0], d.begin(ev, t.started))
		}
	case ev.Kind == event.Mstx && ev.Sub == event.RangeStart && t.source == unknown:
		if _, known := t.others[ev.Name]; known || len(t.others) < maxOthers {
			t.others[ev.Name]++
		}
	case ev.Kind == event.Mstx && ev.Sub == event.RangeEnd && t.source == mstx:
		if d := t.devices[ev.Device]; d != nil {
			if step, ok := d.open[ev.Value]; ok {
				delete(d.open, ev.Value)
				return append(t.changes[:0], Change{ev.Device, step, true})
			}
		}
	case ev.Kind == event.System && ev.Sub == event.Step:
		if d := t.accept(ev, python, "msmemscope.step()"); d != nil {
			return append(t.changes[:0], Change{ev.Device, ev.Value, true}, d.begin(ev, ev.Value+1))
		}
	}
	return nil
}

// accept returns the device of the event, or nil if steps come from another source already.
func (t *Tracker) accept(ev *event.Event, from source, name string) *device {
	d := t.devices[ev.Device]
	if d == nil {
		d = &device{open: map[uint64]uint64{}}
		t.devices[ev.Device] = d
	}
	if t.source == unknown {
		t.source = from
	}
	if t.source == from {
		return d
	}
	if !d.conflict {
		d.conflict = true
		t.conflict(ev.Device, name)
	}
	return nil
}

func (d *device) begin(ev *event.Event, step uint64) Change {
	b := boundary{ev.Stamp, ev.Seq, step}
	i := len(d.bounds)
	for i > 0 && b.before(d.bounds[i-1].stamp, d.bounds[i-1].seq) {
		i--
	}
	d.bounds = slices.Insert(d.bounds, i, b)
	d.current = step
	return Change{ev.Device, step, false}
}

func (b boundary) before(stamp int64, seq uint64) bool {
	return b.stamp < stamp || b.stamp == stamp && b.seq < seq
}

// Marked says whether there has been any step, and if not, which range has begun most often, and how often: "", 0 if none. That may be what the
// program calls a step.
func (t *Tracker) Marked() (marked bool, other string, times int) {
	if t.source != unknown {
		return true, "", 0
	}
	for name, n := range t.others {
		if n > times || n == times && name < other {
			other, times = name, n
		}
	}
	return false, other, times
}

// Current is the step that a device began last, 0 before the first.
func (t *Tracker) Current(dev int32) uint64 {
	if d := t.devices[dev]; d != nil {
		return d.current
	}
	return 0
}

// At is the step on a device at a moment, 0 before the first.
func (t *Tracker) At(dev int32, stamp int64, seq uint64) uint64 {
	d := t.devices[dev]
	if d == nil {
		return 0
	}
	i, _ := slices.BinarySearchFunc(d.bounds, seq+1, func(b boundary, next uint64) int {
		if b.before(stamp, next) {
			return -1
		}
		return 1
	})
	if i == 0 {
		return 0
	}
	return d.bounds[i-1].step
}

// Begin is the stamp of the first boundary on a device with the number step or a higher one; ok is false if there is
// none yet.
func (t *Tracker) Begin(dev int32, step uint64) (stamp int64, ok bool) {
	d := t.devices[dev]
	if d == nil {
		return 0, false
	}
	i := slices.IndexFunc(d.bounds, func(b boundary) bool { return b.step >= step })
	if i < 0 {
		return 0, false
	}
	return d.bounds[i].stamp, true
}
