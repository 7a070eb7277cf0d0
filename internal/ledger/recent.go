package ledger

import (
	"slices"

	"memscope/internal/event"
)

const recentSlots = 1024

// freedStamps remembers the stamps of recent FREE rows, so that an allocation at the same place and, for a coarse
// clock, at the same time, gets a later one. A free and the allocation after it that have one stamp are neighbours in
// time, so a small cache that forgets on collision is enough. Devices are not told apart: at worst a stamp is 1 ns off.
type freedStamps struct{ slots []freedStamp }

type freedStamp struct {
	place
	stamp int64
}

// place is where a block can be.
type place struct {
	pool event.Pool
	addr uint64
}

func (f *freedStamps) slot(p place) *freedStamp {
	if f.slots == nil {
		f.slots = make([]freedStamp, recentSlots)
	}
	return &f.slots[hash(p.pool, p.addr)%recentSlots]
}

func (f *freedStamps) set(b *Block, stamp int64) {
	p := place{b.Pool, b.Addr}
	s := f.slot(p)
	if s.place == p {
		stamp = max(stamp, s.stamp)
	}
	*s = freedStamp{p, stamp}
}

// after returns stamp, or a later one if a block of the same place was freed at stamp or later.
func (f *freedStamps) after(p place, stamp int64) int64 {
	if s := f.slot(p); s.stamp >= stamp && s.place == p {
		return s.stamp + 1
	}
	return stamp
}

// undoSlots remembers the last driver free of each thread until that thread frees again, since only then is it known
// to have succeeded. A thread's slot follows from its id; two threads that share one are 1024 ids apart, and only the
// failed free of the earlier one would then stay a free.
type undoSlots struct{ slots []undoSlot }

type undoSlot struct {
	block Block  // as it was before the free
	addr  uint64 // as the free named it
	tid   uint64
	id    uint32
}

func (u *undoSlots) remember(ev *event.Event, id uint32, b *Block) {
	if u.slots == nil {
		u.slots = make([]undoSlot, recentSlots)
	}
	u.slots[ev.TID%recentSlots] = undoSlot{block: *b, addr: ev.Addr, tid: ev.TID, id: id}
}

func (u *undoSlots) forget(tid uint64) {
	if s := u.find(tid); s != nil {
		*s = undoSlot{}
	}
}

func (u *undoSlots) find(tid uint64) *undoSlot {
	if u.slots == nil {
		return nil
	}
	if s := &u.slots[tid%recentSlots]; s.tid == tid && s.id != 0 {
		return s
	}
	return nil
}

// Undo takes back the last free of addr by thread tid, because the driver refused it. If its FREE row is out, the block
// comes back under a new allocation id, with a MALLOC row at stamp. Birth and state stay what they were. Nothing happens
// when that free met no known block, or when another block has taken its place.
func (l *Ledger) Undo(addr, tid uint64, stamp int64) {
	s := l.undo.find(tid)
	if s == nil || s.addr != addr {
		return
	}
	b, id := s.block, s.id
	*s = undoSlot{}
	if l.find(b.Pool, b.Addr, b.Device, false) != 0 {
		return
	}
	hadRow := b.State != ShadowCreated
	if i := slices.IndexFunc(l.pending, func(p pending) bool { return p.id == id }); i >= 0 &&
		l.store.at(id).AllocID == b.AllocID {
		// The FREE row is not out yet.
		l.pending = slices.Delete(l.pending, i, i+1)
		l.store.drop(id)
		hadRow = false
	}
	if hadRow {
		l.allocs++
		b.AllocID = l.allocs
		if l.stopped != 0 { // as if allocated while not tracing
			b.State = ShadowCreated
		}
	}
	id, p := l.store.take(stamp)
	*p = b
	l.add(id, p)
	switch {
	case p.State == ShadowCreated && l.tracing:
		l.promoteNow(p, stamp)
	case hadRow && l.stopped == 0:
		l.settle()
		p.last = l.freed.after(place{b.Pool, b.Addr}, stamp)
		l.scratch = event.Event{
			Kind: event.Malloc, Pool: b.Pool, Flags: b.Flags, Page: b.Page, Module: b.Module, Device: b.Device,
			Stamp: p.last, PID: l.pid, TID: tid, Addr: b.Addr, Size: b.Size, AllocID: b.AllocID,
			Total: event.Unknown, ProcessUsed: event.Unknown, DeviceUsed: event.Unknown,
		}
		l.fillUsage(&l.scratch, p)
		l.emit(&l.scratch, p)
	}
}
