package ledger

import (
	"slices"

	"memscope/internal/event"
)

const undoCount = 1024

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
		u.slots = make([]undoSlot, undoCount)
	}
	u.slots[ev.TID%undoCount] = undoSlot{block: *b, addr: ev.Addr, tid: ev.TID, id: id}
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
	if s := &u.slots[tid%undoCount]; s.tid == tid && s.id != 0 {
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
	if l.stopped == 0 {
		l.settle()
	}
	stamp = l.birth(stamp)
	id, p := l.store.take(stamp)
	*p = b
	p.slot = id
	l.add(id, p)
	switch {
	case p.State == ShadowCreated && l.tracing:
		l.promote(p, stamp)
	case hadRow && l.stopped == 0:
		l.scratch = event.Event{
			Kind: event.Malloc, Pool: b.Pool, Flags: b.Flags, Page: b.Page, Module: b.Module, Device: b.Device,
			Stamp: stamp, PID: l.pid, TID: tid, Addr: b.Addr, Size: b.Size, AllocID: b.AllocID,
			Total: event.Unknown, ProcessUsed: event.Unknown, DeviceUsed: event.Unknown,
		}
		l.fillUsage(&l.scratch, p)
		l.emit(&l.scratch, p)
	}
}
