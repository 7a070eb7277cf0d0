package ledger

// Notes holds what an analyzer has to remember of each live block, beside the ledger's table. The zero value is ready.
type Notes[T any] struct{ slabs []*[slabBlocks]T }

// Of is the note on b, nil for a ghost. Until the block's MALLOC row it is what an earlier block has left there.
func (n *Notes[T]) Of(b *Block) *T {
	if b.slot == 0 {
		return nil
	}
	id := b.slot - 1
	for uint32(len(n.slabs)) <= id>>slabBits {
		n.slabs = append(n.slabs, nil)
	}
	slab := &n.slabs[id>>slabBits]
	if *slab == nil {
		*slab = new([slabBlocks]T)
	}
	return &(*slab)[id%slabBlocks]
}
