package render

import (
	"cmp"
	"slices"

	"memscope/internal/event"
)

// queue holds events in the order (stamp, seq). What comes in is nearly in order and nearly all goes out soon, so it is a
// sorted list; adding is an append, and one sort per block, which is a look when the order is right already.
type queue struct {
	keys  []key // sorted from gone to fresh
	gone  int   // keys that were popped
	fresh int   // keys from here on were added since the last sort and are not filled in
	slots []event.Event
	free  []int32
}

type key struct {
	stamp int64
	seq   uint64
	slot  int32
}

func (k key) compare(o key) int {
	if c := cmp.Compare(k.stamp, o.stamp); c != 0 {
		return c
	}
	return cmp.Compare(k.seq, o.seq)
}

// add makes room for an event, to be filled in before the next call.
func (q *queue) add() *event.Event {
	var slot int32
	if n := len(q.free); n > 0 {
		slot, q.free = q.free[n-1], q.free[:n-1]
	} else {
		slot = int32(len(q.slots))
		q.slots = append(q.slots, event.Event{})
	}
	q.keys = append(q.keys, key{slot: slot})
	return &q.slots[slot]
}

// unadd takes the last add back.
func (q *queue) unadd() {
	n := len(q.keys) - 1
	q.free = append(q.free, q.keys[n].slot)
	q.keys = q.keys[:n]
}

// sort puts what was added in its place.
func (q *queue) sort() {
	ordered := true
	for i := q.fresh; i < len(q.keys); i++ {
		k := &q.keys[i]
		ev := &q.slots[k.slot]
		k.stamp, k.seq = ev.Stamp, ev.Seq
		ordered = ordered && (i == q.gone || q.keys[i-1].compare(*k) <= 0)
	}
	if !ordered {
		slices.SortFunc(q.keys[q.gone:], key.compare)
	}
	q.fresh = len(q.keys)
}

// first is the event whose turn it is, nil when there is none. It is valid until pop.
func (q *queue) first() *event.Event {
	if q.gone == len(q.keys) {
		return nil
	}
	return &q.slots[q.keys[q.gone].slot]
}

// pop removes the first event.
func (q *queue) pop() {
	q.free = append(q.free, q.keys[q.gone].slot)
	q.gone++
}

// compact forgets what was popped.
func (q *queue) compact() {
	n := copy(q.keys, q.keys[q.gone:])
	q.keys, q.gone, q.fresh = q.keys[:n], 0, n
}

// all copies the events, in order.
func (q *queue) all() []event.Event {
	out := make([]event.Event, 0, len(q.keys)-q.gone)
	for _, k := range q.keys[q.gone:] {
		out = append(out, q.slots[k.slot])
	}
	return out
}
