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

// shadowFree passes on a synthetic FREE of b at stamp, or right after the last row of b.
func (l *Ledger) shadowFree(b *Block, stamp int64, tid uint64) {
	stamp = max(stamp, b.last+1)
	l.freed.set(b, stamp)
	l.emit(l.shadow(event.Free, b, stamp, tid), b)
}

// promote gives a block that was allocated while not tracing its MALLOC row.
func (l *Ledger) promote(b *Block, stamp int64) {
	b.State, b.last, b.BornSeq = Promoted, stamp, l.seq+1
	l.emit(l.shadow(event.Malloc, b, stamp, b.TID), b)
}

// promoteNow is promote in the middle of tracing: an event that belongs to tracing met a block that was allocated while
// it was off. That is a matter of a moment, in which threads do not agree yet on whether tracing is on.
func (l *Ledger) promoteNow(b *Block, stamp int64) {
	l.settle()
	l.promote(b, l.freed.after(place{b.Pool, b.Addr}, stamp))
}

// settle passes on the pending FREE rows when tracing has gone on before its START_TRACE came to us, or has not quite
// ended: the next row may be of a block in the place of one of them.
func (l *Ledger) settle() {
	for _, p := range l.pending {
		l.shadowFree(l.store.at(p.id), l.due(p), p.tid)
		l.store.drop(p.id)
	}
	l.pending = l.pending[:0]
}

// due is the stamp of a pending FREE when no START_TRACE comes: right behind the last STOP_TRACE.
func (l *Ledger) due(p pending) int64 {
	if l.stopped != 0 {
		return l.stopped + 1
	}
	return p.stamp
}

// startTrace gives what was freed while not tracing its FREE, and what was allocated its MALLOC, both at the start, and
// then passes on START_TRACE.
func (l *Ledger) startTrace(ev *event.Event) {
	// A block may have been freed and another one allocated in its place. l.freed remembers few, and here may be many.
	reused := make(map[place]int64, len(l.pending))
	for i := range l.pending {
		b := l.store.at(l.pending[i].id)
		l.pending[i].stamp = max(ev.Stamp, b.last+1)
		p := place{b.Pool, b.Addr}
		reused[p] = max(reused[p], l.pending[i].stamp)
	}
	l.tracing, l.stopped = true, 0
	l.settle()
	start := ev.Stamp
	for _, id := range l.ids(func(b *Block) bool { return b.State == ShadowCreated }) {
		b := l.store.at(id)
		stamp := start
		if freed, ok := reused[place{b.Pool, b.Addr}]; ok {
			stamp = freed + 1
		}
		l.promote(b, stamp)
		ev.Stamp = max(ev.Stamp, stamp)
	}
	l.emit(ev, nil)
}

func (l *Ledger) stopTrace(stamp int64) {
	l.tracing = false
	// A second STOP_TRACE changes nothing: rows may already be due right behind the first.
	if l.stopped == 0 {
		l.stopped = stamp
	}
}

// Horizon is the newest stamp up to which rows are final, when no later event will carry a stamp ≤ safe. While
// tracing is stopped this stands still, since blocks that are freed meanwhile get their FREE right behind the stop.
func (l *Ledger) Horizon(safe int64) int64 {
	switch {
	case l.stopped != 0:
		return min(safe, l.stopped)
	case len(l.pending) > 0:
		return min(safe, l.pending[0].stamp-1)
	}
	return safe
}

// Exit ends the process: every block that has a MALLOC row gets its FREE, in the order of their stamps, and the table is
// empty. stamp is used if the process was tracing; otherwise the rows stand right behind the last STOP_TRACE.
func (l *Ledger) Exit(stamp int64) {
	if l.stopped != 0 {
		stamp = l.stopped + 1
	}
	type row struct {
		b     *Block
		stamp int64
		tid   uint64
	}
	var rows []row
	for _, p := range l.pending {
		rows = append(rows, row{l.store.at(p.id), l.due(p), p.tid})
	}
	for _, id := range l.ids(func(b *Block) bool { return b.State == Normal || b.State == Promoted }) {
		b := l.store.at(id)
		rows = append(rows, row{b, stamp, b.TID})
	}
	for i := range rows {
		rows[i].stamp = max(rows[i].stamp, rows[i].b.last+1)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.stamp, b.stamp) })
	for _, r := range rows {
		l.shadowFree(r.b, r.stamp, r.tid)
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
