package ledger

import (
	"math"

	"github.com/tidwall/btree"
)

// span is one block in an ordered index: by address, at one address by age.
type span struct {
	addr    uint64
	allocID uint64
	id      uint32
}

// spans is the ordered index of a pool, for questions about addresses inside blocks.
type spans struct {
	tree    *btree.BTreeG[span]
	overlap bool   // two blocks have overlapped at some time (cards may use the same addresses)
	longest uint64 // no block was ever longer
}

func newSpans() *spans {
	less := func(a, b span) bool {
		if a.addr != b.addr {
			return a.addr < b.addr
		}
		return a.allocID < b.allocID
	}
	return &spans{tree: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
}

func (s *spans) add(st *store, id uint32) {
	b := st.at(id)
	size := uint64(max(b.Size, 0))
	s.longest = max(s.longest, size)
	// As long as nothing overlaps, a new block can only overlap its neighbours.
	if !s.overlap {
		me := span{b.Addr, b.AllocID, id}
		s.tree.Descend(me, func(p span) bool {
			s.overlap = p.addr == b.Addr || b.Addr-p.addr < uint64(max(st.at(p.id).Size, 0))
			return false
		})
		s.tree.Ascend(me, func(n span) bool {
			s.overlap = s.overlap || n.addr == b.Addr || n.addr-b.Addr < size
			return false
		})
	}
	s.tree.Set(span{b.Addr, b.AllocID, id})
}

func (s *spans) remove(b *Block) { s.tree.Delete(span{addr: b.Addr, allocID: b.AllocID}) }

// find returns the block with the highest address that ok accepts and that contains all of [addr, addr+size), or 0.
// At one address the youngest wins. An address just behind a block is not inside it.
func (s *spans) find(st *store, addr, size uint64, ok func(*Block) bool) (id uint32) {
	s.tree.Descend(span{addr: addr, allocID: math.MaxUint64}, func(p span) bool {
		b, off := st.at(p.id), addr-p.addr
		if length := uint64(max(b.Size, 0)); off < length && size <= length-off && ok(b) {
			id = p.id
			return false
		}
		return s.overlap && off < s.longest
	})
	return id
}
