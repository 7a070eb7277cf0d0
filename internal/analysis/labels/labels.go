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

type thread struct {
	system [User1][]nested
	user   []string
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
	if level >= User1 {
		if len(t.user) < mostLabels {
			t.user = append(t.user, label)
		}
		return
	}
	stack := &t.system[level]
	if i := find(*stack, label); i >= 0 {
		(*stack)[i].count++
	} else if len(*stack) < mostLabels {
		*stack = append(*stack, nested{label, 1})
	}
}

func (t *thread) pop(level int, label string) {
	if level >= User1 {
		for i := len(t.user) - 1; i >= 0; i-- {
			if t.user[i] == label {
				t.user = slices.Delete(t.user, i, i+1)
				return
			}
		}
		return
	}
	stack := &t.system[level]
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
	return len(t.user) == 0 && !slices.ContainsFunc(t.system[:], func(s []nested) bool { return len(s) > 0 })
}

func (t *thread) owner(o *Owner) *Owner {
	for level, stack := range t.system {
		if n := len(stack); n > 0 && level != Framework { // the framework follows from whose memory it is
			o = o.With(level, stack[n-1].label)
		}
	}
	for i, label := range t.user {
		o = o.With(User1+i, label)
	}
	return o
}

var escapes = strings.NewReplacer("\n", `\n`, "\f", `\f`, "\r", `\r`, "\b", `\b`, "\t", `\t`, "\v", `\v`, "\x7f", `\u007F`)

// Escape is a label as it is stored.
func Escape(label string) string { return escapes.Replace(label) }
