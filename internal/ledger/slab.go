package ledger

import "math"

const (
	slabBits   = 10
	slabBlocks = 1 << slabBits
)

type slab [slabBlocks]Block

// summary is about one slab; apart from it, so that all summaries fit in a near cache. newest bounds the births of what the
// slab holds from above, which lets a search for young blocks pass over it.
type summary struct {
	newest int64
	live   int
}

// store hands out slots for blocks and takes them back. Slots are named by ids from 1, so that 0 can mean none.
// A slot keeps its place, so pointers to blocks stay good until the slot is given back.
type store struct {
	slabs     []*slab
	summaries []summary
	free      uint32 // first free slot, a list through Block.next
	top       uint32 // slots ever handed out
}

func (s *store) at(id uint32) *Block {
	id--
	return &s.slabs[id>>slabBits][id%slabBlocks]
}

// take hands out a slot, to be filled by the caller. now is the newest stamp that a search for young blocks shall find it
// under.
func (s *store) take(now int64) (uint32, *Block) {
	id := s.free
	if id != 0 {
		s.free = s.at(id).next
	} else {
		if s.top%slabBlocks == 0 {
			s.slabs = append(s.slabs, new(slab))
			s.summaries = append(s.summaries, summary{newest: math.MinInt64})
		}
		s.top++
		id = s.top
	}
	sum := &s.summaries[(id-1)>>slabBits]
	sum.live++
	sum.newest = max(sum.newest, now)
	return id, s.at(id)
}

func (s *store) drop(id uint32) {
	b := s.at(id)
	b.used, b.next = false, s.free
	s.free = id
	sum := &s.summaries[(id-1)>>slabBits]
	if sum.live--; sum.live == 0 {
		sum.newest = math.MinInt64
	}
}

// each visits every block that may be born at or after the stamp since, until visit returns false.
func (s *store) each(since int64, visit func(id uint32, b *Block) bool) {
	for i, sl := range s.slabs {
		if sum := s.summaries[i]; sum.live == 0 || sum.newest < since {
			continue
		}
		for j := range sl {
			if b := &sl[j]; b.used && !visit(uint32(i<<slabBits+j+1), b) {
				return
			}
		}
	}
}
