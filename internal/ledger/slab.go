package ledger

const (
	slabBits   = 10
	slabBlocks = 1 << slabBits

	// A group of slots is small enough to look at all of them, and large enough for the births of all groups to stay in
	// a near cache.
	groupBits   = 4
	groupBlocks = 1 << groupBits
)

// store hands out slots for blocks and takes them back. Slots are named by ids from 1, so that 0 can mean none.
// A slot keeps its place, so pointers to blocks stay good until the slot is given back.
type store struct {
	slabs  []*[slabBlocks]Block
	newest []int64 // by group of slots: no block in it has a later birth
	free   uint32  // first free slot, a list through Block.slot
	top    uint32  // slots ever handed out
}

func (s *store) at(id uint32) *Block {
	id--
	return &s.slabs[id>>slabBits][id%slabBlocks]
}

// take hands out a slot, to be filled by the caller with a Block that is used. A search for young blocks will find it
// under the stamp birth.
func (s *store) take(birth int64) (uint32, *Block) {
	id := s.free
	if id != 0 {
		s.free = s.at(id).slot
	} else {
		if s.top%slabBlocks == 0 {
			s.slabs = append(s.slabs, new([slabBlocks]Block))
		}
		if s.top%groupBlocks == 0 {
			s.newest = append(s.newest, forever)
		}
		s.top++
		id = s.top
	}
	group := &s.newest[(id-1)>>groupBits]
	*group = max(*group, birth)
	return id, s.at(id)
}

func (s *store) drop(id uint32) {
	b := s.at(id)
	b.used, b.slot = false, s.free
	s.free = id
}

// each visits the blocks whose birth is since or later, and some others, until visit returns false.
func (s *store) each(since int64, visit func(id uint32, b *Block) bool) {
	for g, newest := range s.newest {
		if newest < since {
			continue
		}
		first := uint32(g)<<groupBits + 1
		for id := first; id < first+groupBlocks; id++ {
			if b := s.at(id); b.used && !visit(id, b) {
				return
			}
		}
	}
}
