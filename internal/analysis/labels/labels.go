// Package labels keeps the labels that threads have put on what they allocate (contract 5.5, abi.md 3.9).
package labels

import (
	"slices"
	"strings"

	"memscope/internal/event"
)

const (
	mostLabels  = 3       // different ones of a thread at a level, and of the user's
	mostThreads = 1 << 16 // that hold labels; those of further ones are ignored
)

// Tracker knows the labels of each thread of a process. It belongs to one goroutine.
type Tracker struct {
	threads map[uint64]*thread
	none    *Owner // the root of all owners
	tid     uint64 // asked for last, so that most questions need no look-up
	owner   *Owner
}

// New returns a Tracker without labels.
func New() *Tracker {
	none := &Owner{}
	return &Tracker{threads: make(map[uint64]*thread), none: none, owner: none}
}

// thread has the labels of each level; those of the user's levels are all at User1, and fill the three in the order of their pushes.
type thread struct {
	levels [User1 + 1][]nested
}

// nested is a label and how often it was pushed.
type nested struct {
	label string
	count int
}

// Of is what a thread's labels say now. Its framework is empty.
func (t *Tracker) Of(tid uint64) *Owner {
	if tid != t.tid {
		t.tid, t.owner = tid, t.none
		if th := t.threads[tid]; th != nil {
			t.owner = th.owner(t.none)
		}
	}
	return t.owner
}

// Apply takes a LabelPush or LabelPop.
func (t *Tracker) Apply(ev *event.Event) {
	if ev.Value > User3 {
		return
	}
	th := t.threads[ev.TID]
	switch {
	case ev.Sub == event.LabelPush && th == nil && len(t.threads) < mostThreads:
		th = new(thread)
		t.threads[ev.TID] = th
		fallthrough
	case ev.Sub == event.LabelPush && th != nil:
		th.push(int(ev.Value), Escape(ev.Name))
	case ev.Sub == event.LabelPop && th != nil:
		if th.pop(int(ev.Value), Escape(ev.Name)); th.empty() {
			delete(t.threads, ev.TID)
		}
	}
	if ev.TID == t.tid {
		t.tid, t.owner = 0, t.none // no thread has the id 0
	}
}

func (t *thread) push(level int, label string) {
	stack := &t.levels[min(level, User1)]
	if i := find(*stack, label); i >= 0 {
		(*stack)[i].count++
	} else if len(*stack) < mostLabels {
		*stack = append(*stack, nested{label, 1})
	}
}

func (t *thread) pop(level int, label string) {
	stack := &t.levels[min(level, User1)]
	i := find(*stack, label)
	if i < 0 {
		return
	}
	if (*stack)[i].count--; (*stack)[i].count == 0 {
		*stack = slices.Delete(*stack, i, i+1)
	}
}

func find(stack []nested, label string) int {
	return slices.IndexFunc(stack, func(n nested) bool { return n.label == label })
}

func (t *thread) empty() bool {
	return !slices.ContainsFunc(t.levels[:], func(s []nested) bool { return len(s) > 0 })
}

func (t *thread) owner(o *Owner) *Owner {
	for level, stack := range t.levels[:User1] {
		if n := len(stack); n > 0 && level != Framework { // the framework follows from whose memory it is
			o = o.With(level, stack[n-1].label)
		}
	}
	for i, n := range t.levels[User1] {
		o = o.With(User1+i, n.label)
	}
	return o
}

var escapes = strings.NewReplacer("\n", `\n`, "\f", `\f`, "\r", `\r`, "\b", `\b`, "\t", `\t`, "\v", `\v`, "\x7f", `\u007F`)

// Escape is a label as it is stored.
func Escape(label string) string { return escapes.Replace(label) }
