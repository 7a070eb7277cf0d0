package wire

import (
	"sync/atomic"
	"unsafe"
)

// Status says why Next returned no record.
type Status uint8

const (
	// Ready: there is a record.
	Ready Status = iota
	// Empty: everything that was reserved has been read, or nothing more fits before a Release.
	Empty
	// Stuck: the next record is reserved, and its thread has not finished it.
	Stuck
	// Broken: what lies at the next position is no record. The target has overwritten the ring; only Resync gets further.
	Broken
)

// Lost counts the records that deaths left unfinished.
type Lost struct {
	Busy     uint64 // begun by a thread that died before it published
	Unmarked uint64 // stretches reserved by threads that died before they wrote anything; one or more records each
}

// Reader is the one consumer of a ring. It is not safe for concurrent use.
type Reader struct {
	ring *Ring
	head uint64 // what the producers see
	next uint64 // everything below has been handed out; head ≤ next
	lost Lost

	owed bool // space was given back since the last wake

	safe     int64
	snapshot snapshot
	settled  int64
	settling snapshot
	threads  [threadSlots]threadStamp
}

// snapshot says that no record at or behind tail has a stamp ≤ time: the tail was read after the clock.
type snapshot struct {
	time int64
	tail uint64
}

// threadStamp is the stamp of the last record of a thread, in the slot of its id. Threads that share a slot only make Safe later.
type threadStamp struct {
	tid   uint32
	stamp int64
}

const threadSlots = 256

// NewReader reads ring from its beginning.
func NewReader(ring *Ring) *Reader {
	return &Reader{ring: ring, safe: -1, snapshot: snapshot{time: -1}}
}

// Next hands out the next record in ring order. The record is a view into the ring, valid until Release.
func (r *Reader) Next() (Record, Status) {
	if r.next-r.head == r.ring.size {
		return Record{}, Empty // a whole ring handed out: at next lies the first of it again
	}
	mark := r.ring.mark(r.next)
	if markState(mark) == StateReady {
		if !r.plausible(r.next, mark) {
			return Record{}, Broken
		}
		p := r.ring.at(r.next)
		r.next += markSize(mark)
		rec := Record{p: p, mark: mark}
		r.passed(rec.TID(), rec.Head().Stamp)
		return rec, Ready
	}
	tail := atomic.LoadUint64(&r.ring.Header().Tail)
	switch {
	case r.next == tail:
		return Record{}, Empty
	case tail-r.head > r.ring.size, mark != 0 && !r.plausible(r.next, mark):
		return Record{}, Broken
	}
	return Record{}, Stuck
}

// plausible says whether a mark other than 0 can be that of a record at pos.
func (r *Reader) plausible(pos, mark uint64) bool {
	least := leastSize(uint16(mark >> MarkTypeShift))
	size := markSize(mark)
	if least == 0 || size < least || pos+size-r.head > r.ring.size {
		return false
	}
	state := markState(mark)
	return (state == StateReady || state == StateBusy) && (*Head)(r.ring.at(pos)).Pos == pos
}

// Pending is the number of bytes handed out and not yet released.
func (r *Reader) Pending() uint64 { return r.next - r.head }

// Release clears what was handed out and gives the space back. Waiting producers are woken when half of the ring is free
// or nothing more is to be read: a wake for every few bytes would cost more than it brings.
func (r *Reader) Release() {
	h := r.ring.Header()
	if n := r.next - r.head; n > 0 {
		clear(unsafe.Slice((*byte)(r.ring.at(r.head)), n))
		r.head = r.next
		atomic.StoreUint64(&h.Head, r.head)
		r.owed = true
	}
	if !r.owed || atomic.LoadUint32(&h.Waiters) == 0 {
		return
	}
	used := atomic.LoadUint64(&h.Tail) - r.head
	if used <= r.ring.size/2 || markState(r.ring.mark(r.next)) != StateReady {
		r.owed = false
		r.ring.wake()
	}
}

// Backlog is the number of bytes that are reserved and not handed out yet.
func (r *Reader) Backlog() uint64 { return atomic.LoadUint64(&r.ring.Header().Tail) - r.next }

// Waiters is the number of producers that wait for space.
func (r *Reader) Waiters() uint32 { return atomic.LoadUint32(&r.ring.Header().Waiters) }

// passed notes that a record was handed out. Its thread had stamped the one before it before it reserved this one, so what
// lies behind this one has no older stamp.
func (r *Reader) passed(tid uint32, stamp int64) {
	slot := &r.threads[tid%threadSlots]
	if slot.tid == tid {
		r.safe = max(r.safe, slot.stamp-1)
	}
	*slot = threadStamp{tid, stamp}
}

// Safe says up to which stamp (CLOCK_MONOTONIC ns) every record has been handed out; -1 before anything is known. now reads
// that clock. Call it after each batch. While records come, it follows from their own stamps at the distance of a record or
// two of each running thread; when there are no more, it is the time.
func (r *Reader) Safe(now func() int64) int64 {
	if r.snapshot.tail <= r.next {
		r.safe = max(r.safe, r.snapshot.time)
		r.snapshot.time = now()
		r.snapshot.tail = atomic.LoadUint64(&r.ring.Header().Tail)
		if r.snapshot.tail <= r.next {
			r.safe = max(r.safe, r.snapshot.time)
		}
	}
	return r.safe
}

// Settled says up to which stamp everything that cards had to say has been handed out, as far as is known, while somebody listens to
// them. Call it after each batch.
func (r *Reader) Settled() int64 {
	if h := r.ring.Header(); r.settling.tail <= r.next {
		r.settled = r.settling.time
		r.settling = snapshot{time: atomic.LoadInt64(&h.Settled), tail: atomic.LoadUint64(&h.Tail)}
		if r.settling.tail <= r.next {
			r.settled = r.settling.time
		}
	}
	return r.settled
}

// StuckAt describes the record at which Next is stuck: its position, and its thread, 0 while that is not known.
func (r *Reader) StuckAt() (pos uint64, tid uint32) { return r.next, uint32(r.ring.mark(r.next)) }

// SkipBusy passes over the record at which Next is stuck, because thread tid, which had begun it, is gone. It does nothing
// when the record has been published in the meantime.
func (r *Reader) SkipBusy(tid uint32) {
	mark := r.ring.mark(r.next)
	if markState(mark) == StateBusy && uint32(mark) == tid && r.plausible(r.next, mark) {
		r.next += markSize(mark)
		r.lost.Busy++
	}
}

// Resync passes over whatever is unfinished or damaged at the next position, for a ring to which nobody writes any more. It
// returns false at the end of the ring.
func (r *Reader) Resync() bool {
	tail := r.deadTail()
	mark := r.ring.mark(r.next)
	if r.next < tail && markState(mark) == StateBusy && r.plausible(r.next, mark) {
		r.next += markSize(mark)
		r.lost.Busy++
		return true
	}
	if r.next >= tail {
		return false
	}
	// Nothing but the place is known. The bytes of an unmarked record are zero but for its position, so a mark with the
	// right position can only be the next record.
	r.lost.Unmarked++
	for r.next += RecordAlign; r.next < tail; r.next += RecordAlign {
		if mark := r.ring.mark(r.next); mark != 0 && r.plausible(r.next, mark) {
			break
		}
	}
	return r.next < tail
}

// deadTail is the end of what may hold records; a damaged tail counts as a full ring.
func (r *Reader) deadTail() uint64 {
	tail := atomic.LoadUint64(&r.ring.Header().Tail)
	if tail-r.head > r.ring.size || tail%RecordAlign != 0 {
		return r.head + r.ring.size
	}
	return tail
}

// Lost is what Resync and SkipBusy have passed over so far.
func (r *Reader) Lost() Lost { return r.lost }
