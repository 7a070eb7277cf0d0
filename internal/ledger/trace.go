package ledger

import (
	"cmp"
	"slices"

	"memscope/internal/event"
)

// shadow fills scratch with a synthetic row of b.
func (l *Ledger) shadow(kind event.Kind, b *Block, stamp int64, tid uint64) *event.Event {
	l.scratch = event.Event{
		Kind: kind, Pool: b.Pool, Flags: b.Flags | event.Shadow, Page: b.Page, Module: b.Module, Device: b.Device,
		Stamp: stamp, PID: l.pid, TID: tid, Addr: b.Addr, Size: b.Size, AllocID: b.AllocID,
		Used: event.Unknown, Total: event.Unknown, ProcessUsed: event.Unknown, DeviceUsed: event.Unknown,
	}
	return &l.scratch
}

// shadowFree passes on a synthetic FREE of b.
func (l *Ledger) shadowFree(b *Block, stamp int64, tid uint64) {
	l.emit(l.shadow(event.Free, b, stamp, tid), b)
}

// promote gives a block that was allocated while not tracing its MALLOC row. It does so in the middle of tracing, too, when an
// event that belongs to tracing meets such a block: for a moment, threads do not agree on whether tracing is on.
func (l *Ledger) promote(b *Block, stamp int64) {
	b.State, b.BornSeq = Promoted, l.seq+1
	l.emit(l.shadow(event.Malloc, b, stamp, b.TID), b)
}

// settle passes on the pending FREE rows, which stand right behind the last STOP_TRACE.
func (l *Ledger) settle() {
	for _, p := range l.pending {
		stamp := p.stamp
		if l.stopped != 0 {
			stamp = l.stopped + 1
		}
		l.shadowFree(l.store.at(p.id), stamp, p.tid)
		l.store.drop(p.id)
	}
	l.pending = l.pending[:0]
}

// startTrace gives what was freed while not tracing its FREE, and what was allocated its MALLOC, both at the start, and
// then passes on START_TRACE.
func (l *Ledger) startTrace(ev *event.Event) {
	// A block may have been freed and another one allocated in its place, which comes last, being later.
	type place struct {
		pool event.Pool
		addr uint64
	}
	freed := make(map[place]bool, len(l.pending))
	for i := range l.pending {
		l.pending[i].stamp = ev.Stamp
		b := l.store.at(l.pending[i].id)
		freed[place{b.Pool, b.Addr}] = true
	}
	l.tracing, l.stopped = true, 0
	l.settle()
	var replaced []*Block
	for _, id := range l.ids(func(b *Block) bool { return b.State == ShadowCreated }) {
		if b := l.store.at(id); freed[place{b.Pool, b.Addr}] {
			replaced = append(replaced, b)
		} else {
			l.promote(b, max(ev.Stamp, b.Born))
		}
	}
	for _, b := range replaced {
		l.promote(b, l.birth(ev.Stamp))
	}
	if ev.Flags&event.Paused == 0 {
		l.emit(ev, nil)
	}
}

func (l *Ledger) stopTrace(stamp int64) { l.tracing, l.stopped = false, stamp }

// Exit ends the process: every block that has a MALLOC row gets its FREE, and the table is empty. stamp is used if the process
// was tracing; otherwise the rows stand right behind the last STOP_TRACE.
func (l *Ledger) Exit(stamp int64) {
	l.settle()
	if l.stopped != 0 {
		stamp = l.stopped + 1
	}
	for _, id := range l.ids(func(b *Block) bool { return b.State == Normal || b.State == Promoted }) {
		b := l.store.at(id)
		l.shadowFree(b, stamp, b.TID)
	}
	l.reset()
}

// ids are the slots of the blocks that want accepts, in the order of their allocation ids.
func (l *Ledger) ids(want func(*Block) bool) []uint32 {
	var ids []uint32
	l.store.each(forever, func(id uint32, b *Block) bool {
		if want(b) {
			ids = append(ids, id)
		}
		return true
	})
	slices.SortFunc(ids, func(a, b uint32) int {
		return cmp.Compare(l.store.at(a).AllocID, l.store.at(b).AllocID)
	})
	return ids
}
