package session

import (
	"sort"

	"memscope/internal/dump/spool"
	"memscope/internal/event"
	"memscope/internal/ledger"
)

// holdSpan is how much of the spool one span covers at least, so that their number stays small in a long run.
const holdSpan = 256 << 10

// hold knows the horizon of the rendering: the end of the part of the spool in which no row can change any more. It counts, span
// by span of the spool, the live blocks whose MALLOC rows are open (ledger.Block.Open).
type hold struct {
	spans []span
	end   spool.Pos // of the spool at the last flush
	first uint64    // rows of MALLOCs with a lower allocation id may be out
	last  uint64    // allocation id of the newest open MALLOC
}

type span struct {
	id    uint64    // of its first open MALLOC
	start spool.Pos // no row of the span is below
	open  int
}

// row takes each row that is stored, and its block.
func (h *hold) row(ev *event.Event, b *ledger.Block) {
	switch {
	case ev.Kind == event.System && ev.Sub == event.StopTrace:
		h.lift()
	case b == nil || !b.Open:
	case ev.Kind == event.Malloc:
		h.malloc(ev.AllocID)
	case ev.Kind == event.Free:
		h.free(ev.AllocID)
	}
}

// malloc notes an open MALLOC. Allocation ids ascend.
func (h *hold) malloc(id uint64) {
	h.last = id
	if n := len(h.spans); n == 0 || h.end-h.spans[n-1].start >= holdSpan {
		h.spans = append(h.spans, span{id: id, start: h.end})
	}
	h.spans[len(h.spans)-1].open++
}

// free notes that the MALLOC row of an allocation id is final.
func (h *hold) free(id uint64) {
	if id < h.first {
		return
	}
	i := sort.Search(len(h.spans), func(i int) bool { return h.spans[i].id > id }) - 1
	if i < 0 { // its MALLOC was not stored
		return
	}
	h.spans[i].open--
	for len(h.spans) > 0 && h.spans[0].open == 0 {
		h.spans = h.spans[1:]
	}
}

// lift makes every row so far final.
func (h *hold) lift() { h.spans, h.first = nil, h.last+1 }

// changeable says whether the MALLOC row of an allocation id may still be changed.
func (h *hold) changeable(id uint64) bool { return id >= h.first }

// horizon says, at a flush that ended at end, up to where rows may go out.
func (h *hold) horizon(end spool.Pos) spool.Pos {
	h.end = end
	if len(h.spans) > 0 {
		return h.spans[0].start
	}
	return end
}
