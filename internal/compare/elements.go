// Package compare aligns the launches of two dumps and tells how differently they changed memory (contract 5.6).
package compare

import (
	"memscope/internal/dump/read"
	"memscope/internal/event"
)

// Level says which launches are compared.
type Level uint8

// Levels, as a set.
const (
	Op     Level = 1 << iota // operators, by their END rows
	Kernel                   // KERNEL_LAUNCH rows
)

// Element is one launch: what it is called and by how many bytes the framework's pool grew across it.
type Element struct {
	Name   int32 // in Names
	Kernel bool
	Net    int64 // bytes, negative if more was freed than allocated
}

// Names numbers names, the same for both sides of a comparison.
type Names struct {
	All   []string
	index map[string]int32
}

// Of is the number of a name.
func (n *Names) Of(b []byte) int32 {
	if i, ok := n.index[string(b)]; ok {
		return i
	}
	if n.index == nil {
		n.index = make(map[string]int32)
	}
	s := string(b)
	i := int32(len(n.All))
	n.All = append(n.All, s)
	n.index[s] = i
	return i
}

// Wants are the columns that Launches reads.
const Wants = read.ID | read.PID | read.TID | read.Device | read.Name | read.Size | read.Shadow

// Launches makes elements of the rows of a dump, which must come in time order.
//
// The net of an operator is that of the MALLOC and FREE rows of its thread between its START and its END row, whatever
// other operators run within it. The net of a kernel is that of all rows of the card since the launch before, since the
// memory for a kernel is allocated before it is launched. Synthetic (shadow) rows are nobody's doing and do not count.
type Launches struct {
	level Level
	names *Names
	pool  func() (event.Pool, bool) // the framework's, once it is known
	emit  func(device int32, at int64, e Element)

	threads map[thread]*calls
	cached  thread
	calls   *calls
	cards   map[int32]int64 // net since the last kernel launch
}

type thread struct{ pid, tid uint64 }

// calls are the operators that run on a thread, the innermost last, and its net so far, by card.
type calls struct {
	open []call
	net  map[int32]int64
}

type call struct {
	name int32
	net  int64 // of the thread and card, when it began
	card int32
}

// NewLaunches makes a collector that hands elements to emit, in the order of their rows. pool tells the pool that counts.
func NewLaunches(level Level, names *Names, pool func() (event.Pool, bool), emit func(device int32, at int64, e Element)) *Launches {
	return &Launches{level: level, names: names, pool: pool, emit: emit, threads: make(map[thread]*calls), cards: make(map[int32]int64)}
}

// Row takes the next row.
func (l *Launches) Row(b *read.Batch, r *read.Row) {
	switch r.Kind {
	case event.Malloc, event.Free:
		if pool, known := l.pool(); !known || r.Pool != pool || r.Flags&event.Shadow != 0 || r.Size < 0 {
			return
		}
		delta := r.Size
		if r.Kind == event.Free {
			delta = -delta
		}
		if l.level&Op != 0 {
			l.thread(r).net[r.Device] += delta
		}
		l.cards[r.Device] += delta
	case event.OpLaunch:
		if l.level&Op != 0 {
			l.operator(b, r)
		}
	case event.KernelLaunch:
		if l.level&Kernel != 0 && r.Sub == event.Launched {
			l.emit(r.Device, r.Stamp, Element{Name: l.names.Of(b.Text(r.Name)), Kernel: true, Net: l.cards[r.Device]})
			l.cards[r.Device] = 0
		}
	}
}

func (l *Launches) operator(b *read.Batch, r *read.Row) {
	c := l.thread(r)
	name := l.names.Of(b.Text(r.Name))
	switch r.Sub {
	case event.AtenStart, event.AtbStart:
		c.open = append(c.open, call{name, c.net[r.Device], r.Device})
	case event.AtenEnd, event.AtbEnd:
		net := int64(0) // without a START row nothing is known
		for i := len(c.open) - 1; i >= 0; i-- {
			if c.open[i].name == name && c.open[i].card == r.Device {
				net = c.net[r.Device] - c.open[i].net
				c.open = c.open[:i]
				break
			}
		}
		l.emit(r.Device, r.Stamp, Element{Name: name, Net: net})
	}
}

func (l *Launches) thread(r *read.Row) *calls {
	t := thread{r.PID, r.TID}
	if l.calls == nil || t != l.cached {
		c := l.threads[t]
		if c == nil {
			c = &calls{net: make(map[int32]int64)}
			l.threads[t] = c
		}
		l.cached, l.calls = t, c
	}
	return l.calls
}
