package session

import "memscope/internal/wire"

// pending holds the records that are read until it is certain that no older one follows, in the order of their stamps; equal
// stamps stay in the order of the ring. The ring is nearly in order: threads that reserve within nanoseconds may read the clock
// in the other order, and one that is interrupted in between is late.
type pending struct {
	index []entry // sorted
	first int     // entries before it have been taken
	bytes []byte  // copies of records
	spare []byte
}

type entry struct {
	stamp  int64 // CLOCK_MONOTONIC ns
	offset int   // of the copy in bytes
}

// add copies a record. A damaged one is left out; that gives false.
func (p *pending) add(rec wire.Record) bool {
	e := entry{offset: len(p.bytes)}
	p.bytes = rec.AppendTo(p.bytes)
	if rec = wire.RecordAt(p.bytes[e.offset:]); !rec.Plausible() {
		p.bytes = p.bytes[:e.offset]
		return false
	}
	e.stamp = rec.Head().Stamp
	i := len(p.index)
	p.index = append(p.index, e)
	for ; i > p.first && p.index[i-1].stamp > e.stamp; i-- {
		p.index[i] = p.index[i-1]
	}
	p.index[i] = e
	return true
}

// take hands out the records up to a stamp, in order.
func (p *pending) take(safe int64, use func(wire.Record)) {
	for ; p.first < len(p.index) && p.index[p.first].stamp <= safe; p.first++ {
		use(wire.RecordAt(p.bytes[p.index[p.first].offset:]))
	}
	rest := p.index[p.first:]
	if p.first < len(rest) {
		return // what stays is moved when it is the smaller part, so that a record is copied twice at most, on average
	}
	p.spare = p.spare[:0]
	for i, e := range rest {
		p.index[i] = entry{e.stamp, len(p.spare)}
		p.spare = wire.RecordAt(p.bytes[e.offset:]).AppendTo(p.spare)
	}
	p.index, p.first = p.index[:len(rest)], 0
	p.bytes, p.spare = p.spare, p.bytes
}
