// Package ledger is the one table of live blocks of a process. It takes events in the order of time (for each address: the
// order in which things happened), completes them (allocation id, size and device of what is freed, usage), and passes
// on what has a row, with the synthetic rows that make every allocation_id have one MALLOC and one FREE. The rows are in
// the order of time, too: none has an older stamp than the one before, and a row of an address has a newer one than the row
// before it of that address.
//
// The rules are those of contract 3.3 and 5.0. Sizes are bytes, stamps are nanoseconds. A Ledger is for one goroutine.
package ledger

import (
	"math"

	"memscope/internal/event"
)

// Sink takes the rows. b is the block of a MALLOC, FREE or ACCESS and nil for other kinds. Both are valid only during
// the call, b is read-only but for Open, and the sink must not call back into anything of the Ledger that changes it.
// Live still visits a block during the call for its FREE.
type Sink func(ev *event.Event, b *Block)

// Ledger is the state of one process. Make it with New.
type Ledger struct {
	// DropUnmatched names the pools of which a FREE that fits no live block is dropped without a row, and where only
	// the exact address fits. A collector sets it for HAL, and for every pool when a filter hides some allocations.
	// In other pools such a FREE makes a ghost (contract 5.0), after a search for a block around the address.
	DropUnmatched [event.Pools]bool

	sink  Sink
	store store
	index index
	spans [event.Pools]*spans // nil until first needed
	sums  [event.Pools]sums

	seq, allocs, kernels uint64

	last  int64 // stamp of the last row; none is older
	ended int64 // stamp of the last row that ended a block

	tracing bool      // between START_TRACE and STOP_TRACE
	stopped int64     // stamp of the STOP_TRACE in force, 0 when there is none
	pending []pending // ShadowFreed blocks, in the order of their frees

	undo    undoSlots
	pid     uint64
	scratch event.Event // synthetic rows; here, so that passing its address to the sink does not allocate
}

// pending is a block that waits for its FREE row.
type pending struct {
	id    uint32
	stamp int64
	tid   uint64
}

// New returns a Ledger that passes its rows to sink.
func New(sink Sink) *Ledger {
	l := &Ledger{sink: sink}
	l.reset()
	return l
}

func (l *Ledger) reset() {
	l.store = store{}
	l.index = index{}
	l.index.resize(minIndexBits)
	l.spans = [event.Pools]*spans{}
	l.sums = [event.Pools]sums{}
	l.pending = nil
	l.undo = undoSlots{}
}

// Apply takes one event of any kind, completes it in place and passes it on if it has a row; synthetic rows that it
// implies come first. Seq is given here, in the order of passing on. Paused events change the table and are not passed
// on, not even a START_TRACE or STOP_TRACE, which takes effect all the same.
//
// ev.Pool must be a pool. Used and Total of HAL and host events are computed here, and Used of every pool; Total of
// the framework pools, ProcessUsed and DeviceUsed are the caller's.
func (l *Ledger) Apply(ev *event.Event) {
	if ev.Sub == event.ExecuteStart || ev.Sub == event.ExecuteEnd { // on a card, of no process: in the order of time is all
		l.emit(ev, nil)
		return
	}
	l.pid = ev.PID
	if ev.Flags&event.Paused == 0 && len(l.pending) > 0 && ev.Sub != event.StartTrace {
		// Tracing has gone on before its START_TRACE came to us, or has not quite ended.
		l.settle()
	}
	switch ev.Kind {
	case event.Malloc:
		l.malloc(ev)
		return
	case event.Free:
		l.release(ev)
		return
	case event.System:
		switch ev.Sub {
		case event.StartTrace:
			l.startTrace(ev)
			return
		case event.StopTrace:
			if ev.Flags&event.Paused == 0 {
				l.emit(ev, nil)
			}
			l.stopTrace(ev.Stamp)
			return
		}
	}
	if ev.Flags&event.Paused != 0 {
		return
	}
	switch ev.Kind {
	case event.Access:
		l.access(ev)
		return
	case event.KernelLaunch:
		if ev.Sub == event.Launched {
			l.kernels++
		}
	}
	l.emit(ev, nil)
}

// emit passes on a row, of b if that is not nil, no earlier than the rows before it allow.
func (l *Ledger) emit(ev *event.Event, b *Block) {
	ev.Stamp = max(ev.Stamp, l.last)
	if b != nil {
		ev.Stamp = max(ev.Stamp, b.last+1)
		b.last = ev.Stamp
	}
	l.last = ev.Stamp
	if ev.Kind == event.Free || b != nil && b.State == Ghost {
		l.ended = ev.Stamp
	}
	l.seq++
	ev.Seq = l.seq
	l.sink(ev, b)
}

// birth is the stamp of the first row of a block. It is newer than that of the last row that ended a block, which may have
// been at the same address; whether it was need not be known, since few rows share a stamp.
func (l *Ledger) birth(stamp int64) int64 {
	stamp = max(stamp, l.last)
	if stamp == l.ended {
		stamp++
	}
	return stamp
}

func (l *Ledger) malloc(ev *event.Event) {
	paused := ev.Flags&event.Paused != 0
	if id := l.find(ev.Pool, ev.Addr, ev.Device, false); id != 0 {
		l.evict(id, ev)
	}
	ev.Stamp = l.birth(ev.Stamp)
	l.allocs++
	id, b := l.store.take(ev.Stamp)
	*b = Block{
		slot: id, Addr: ev.Addr, Size: ev.Size, AllocID: l.allocs, Kernel: l.kernels, Born: ev.Stamp, TID: ev.TID, Stack: ev.Stack,
		Device: ev.Device, Module: ev.Module, Pool: ev.Pool, Page: ev.Page,
		Flags: ev.Flags & (event.Created | event.Pinned), used: true,
	}
	l.add(id, b)
	l.fillUsage(ev, b)
	switch {
	case !paused:
		b.BornSeq = l.seq + 1
		ev.AllocID = b.AllocID
		l.emit(ev, b)
	case l.tracing:
		// The thread had not seen yet that tracing is on. The block needs its row, or its FREE would have none.
		l.promote(b, ev.Stamp)
	default:
		b.State = ShadowCreated
	}
}

// evict ends a block whose address is allocated again by ev, though nobody freed it.
func (l *Ledger) evict(id uint32, ev *event.Event) {
	b := l.store.at(id)
	if b.State != ShadowCreated {
		b.State = Residual
		stamp := ev.Stamp
		if ev.Flags&event.Paused != 0 && l.stopped != 0 {
			stamp = l.stopped + 1
		}
		l.shadowFree(b, stamp, ev.TID)
	}
	l.remove(id)
	l.store.drop(id)
}

func (l *Ledger) release(ev *event.Event) {
	paused := ev.Flags&event.Paused != 0
	id := l.locate(ev)
	if id == 0 {
		l.undo.forget(ev.TID)
		if !paused && !l.DropUnmatched[ev.Pool] {
			l.ghost(ev)
		}
		return
	}
	b := l.store.at(id)
	if !paused && b.State == ShadowCreated {
		l.promote(b, l.birth(ev.Stamp))
	}
	// Only the driver's frees can fail.
	if b.Pool == event.HAL {
		l.undo.remember(ev, id, b)
	}
	ev.Size, ev.Device, ev.Module, ev.Page = b.Size, b.Device, b.Module, b.Page
	ev.Flags |= b.Flags
	l.remove(id)
	switch {
	case !paused:
		ev.AllocID = b.AllocID
		l.fillUsage(ev, b)
		l.emit(ev, b)
	case b.State == ShadowCreated:
	case l.tracing: // the thread had not seen yet that tracing is on
		b.State = ShadowFreed
		l.shadowFree(b, ev.Stamp, ev.TID)
	default:
		b.State = ShadowFreed
		l.pending = append(l.pending, pending{id, ev.Stamp, ev.TID})
		return
	}
	l.store.drop(id)
}

func (l *Ledger) access(ev *event.Event) {
	if ev.Addr == 0 {
		return
	}
	id := l.locate(ev)
	if id == 0 {
		l.ghost(ev)
		return
	}
	b := l.store.at(id)
	if b.State == ShadowCreated {
		l.promote(b, l.birth(ev.Stamp))
	}
	ev.Device, ev.AllocID = b.Device, b.AllocID
	l.emit(ev, b)
}

// ghost gives a FREE or ACCESS of an unknown block a block of its own, for this one row.
func (l *Ledger) ghost(ev *event.Event) {
	l.allocs++
	ev.AllocID = l.allocs
	b := Block{
		Addr: ev.Addr, Size: ev.Size, AllocID: ev.AllocID, Kernel: l.kernels, Device: ev.Device, Module: -1,
		Pool: ev.Pool, State: Ghost,
	}
	l.fillUsage(ev, &b)
	ev.Stamp = l.birth(ev.Stamp)
	l.emit(ev, &b)
}

// locate finds the block that a FREE or ACCESS means, 0 if there is none.
func (l *Ledger) locate(ev *event.Event) uint32 {
	anyDevice := ev.Device == event.DeviceNone
	id := l.find(ev.Pool, ev.Addr, ev.Device, anyDevice)
	if id != 0 || ev.Kind == event.Free && l.DropUnmatched[ev.Pool] {
		return id
	}
	s := l.spans[ev.Pool]
	if s == nil {
		s = newSpans()
		l.spans[ev.Pool] = s
		l.store.each(forever, func(id uint32, b *Block) bool {
			if b.State != ShadowFreed && b.Pool == ev.Pool {
				s.add(&l.store, id)
			}
			return true
		})
	}
	return s.find(&l.store, ev.Addr, uint64(max(ev.Size, 0)), func(b *Block) bool {
		return anyDevice || b.Device == ev.Device
	})
}

// Holding is the live block of a pool that addr lies in, on any device; nil when there is none.
func (l *Ledger) Holding(pool event.Pool, addr uint64) *Block {
	id := l.locate(&event.Event{Kind: event.Access, Pool: pool, Addr: addr, Device: event.DeviceNone})
	if id == 0 {
		return nil
	}
	return l.store.at(id)
}

// find looks up an exact address; among blocks on several devices the youngest wins.
func (l *Ledger) find(pool event.Pool, addr uint64, device int32, anyDevice bool) (found uint32) {
	h := hash(pool, addr)
	for id, at := l.index.next(h, l.index.start(h)); id != 0; id, at = l.index.next(h, at) {
		b := l.store.at(id)
		if b.Addr != addr || b.Pool != pool || !anyDevice && b.Device != device {
			continue
		}
		if found == 0 || b.AllocID > l.store.at(found).AllocID {
			found = id
		}
	}
	return found
}

// add makes a block live.
func (l *Ledger) add(id uint32, b *Block) {
	l.index.add(hash(b.Pool, b.Addr), id)
	l.sums[b.Pool].add(b.Device, b.Size)
	if s := l.spans[b.Pool]; s != nil {
		s.add(&l.store, id)
	}
}

// remove makes a block no longer live; its slot stays until it is dropped.
func (l *Ledger) remove(id uint32) {
	b := l.store.at(id)
	l.index.remove(hash(b.Pool, b.Addr), id)
	l.sums[b.Pool].add(b.Device, -b.Size)
	if s := l.spans[b.Pool]; s != nil {
		s.remove(b)
	}
}

// forever is a stamp before all others.
const forever = math.MinInt64

// Live visits the blocks that live and have a MALLOC row, in no order, until visit returns false.
func (l *Ledger) Live(visit func(*Block) bool) { l.LiveSince(forever, visit) }

// LiveSince is Live for the blocks that were born, or came back by an Undo, at the stamp since or later; it visits some
// others too. It is much cheaper than Live when these are few.
func (l *Ledger) LiveSince(since int64, visit func(*Block) bool) {
	l.store.each(since, func(_ uint32, b *Block) bool {
		if b.State == ShadowCreated || b.State == ShadowFreed {
			return true
		}
		return visit(b)
	})
}
