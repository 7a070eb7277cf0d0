package ledger

import "math"

const (
	slabBits   = 10
	slabBlocks = 1 << slabBits
)

// slab is a run of slots. newest bounds the births of what it holds from above, which lets a search for young blocks
// pass over it.
type slab struct {
	blocks [slabBlocks]Block
	live   int
	newest int64
}

// store hands out slots for blocks and takes them back. Slots are named by ids from 1, so that 0 can mean none.
// A slot keeps its place, so pointers to blocks stay good until the slot is given back.
type store struct {
	slabs []*slab
	free  uint32 // first free slot, a list through Block.next
	top   uint32 // slots ever handed out
}

func (s *store) at(id uint32) *Block {
	id--
	return &s.slabs[id>>slabBits].blocks[id%slabBlocks]
}

// put stores a block. now is the newest stamp that a search for young blocks shall find it under.
func (s *store) put(b Block, now int64) uint32 {
	id := s.free
	if id != 0 {
		s.free = s.at(id).next
	} else {
		if s.top%slabBlocks == 0 {
			s.slabs = append(s.slabs, &slab{newest: math.MinInt64})
		}
		s.top++
		id = s.top
	}
	b.used, b.next = true, 0
	*s.at(id) = b
	sl := s.slabs[(id-1)>>slabBits]
	sl.live++
	sl.newest = max(sl.newest, now)
	return id
}

func (s *store) drop(id uint32) {
	b := s.at(id)
	b.used, b.next = false, s.free
	s.free = id
	sl := s.slabs[(id-1)>>slabBits]
	if sl.live--; sl.live == 0 {
		sl.newest = math.MinInt64
	}
}

// each visits every block that may be born at or after the stamp since, until visit returns false.
func (s *store) each(since int64, visit func(id uint32, b *Block) bool) {
	for i, sl := range s.slabs {
		if sl.live == 0 || sl.newest < since {
			continue
		}
		for j := range sl.blocks {
			if b := &sl.blocks[j]; b.used && !visit(uint32(i<<slabBits+j+1), b) {
				return
			}
		}
	}
}
