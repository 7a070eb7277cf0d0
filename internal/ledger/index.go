package ledger

import (
	"math/bits"

	"memscope/internal/event"
)

// index finds the slot of a block by pool and address: a hash table with open addressing and linear probing.
//
// It is our own for three reasons: an entry is 8 bytes without pointers (a Go map of the same takes 3 to 5 times that
// and cannot hold two blocks of one address on two devices), a probe compares hashes and so touches the slab only for
// the block that it is after, and deletion shifts back, so that a table that lives for days has no tombstones.
//
// An entry is hash<<32 | id, 0 when empty. The upper bits of the hash are the entry's home, hence growing and shifting
// need no look at the blocks.
type index struct {
	table []uint64
	shift uint // home = hash >> shift
	count int
}

const minIndexBits = 10

func hash(pool event.Pool, addr uint64) uint32 {
	hi, lo := bits.Mul64(addr^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93+uint64(pool)<<1)
	return uint32((hi ^ lo) >> 32)
}

func (x *index) resize(tableBits uint) {
	old := x.table
	x.table = make([]uint64, 1<<tableBits)
	x.shift = 32 - tableBits
	for _, e := range old {
		if e != 0 {
			x.place(e)
		}
	}
}

func (x *index) place(e uint64) {
	mask := uint32(len(x.table) - 1)
	i := uint32(e>>32) >> x.shift
	for x.table[i] != 0 {
		i = (i + 1) & mask
	}
	x.table[i] = e
}

func (x *index) add(h, id uint32) {
	// At most 3/4 full: 11 to 21 bytes per block.
	if x.count+1 > len(x.table)/4*3 {
		x.resize(uint(max(minIndexBits, bits.Len(uint(len(x.table))))))
	}
	x.count++
	x.place(uint64(h)<<32 | uint64(id))
}

// next walks the ids whose hash is h. It begins with from = start(h); id 0 ends it.
func (x *index) next(h, from uint32) (id, after uint32) {
	mask := uint32(len(x.table) - 1)
	for i := from & mask; ; i = (i + 1) & mask {
		e := x.table[i]
		if e == 0 {
			return 0, i
		}
		if uint32(e>>32) == h {
			return uint32(e), i + 1
		}
	}
}

func (x *index) start(h uint32) uint32 { return h >> x.shift }

func (x *index) remove(h, id uint32) {
	mask := uint32(len(x.table) - 1)
	hole := x.start(h)
	for want := uint64(h)<<32 | uint64(id); x.table[hole] != want; hole = (hole + 1) & mask {
	}
	x.count--
	// Move back what would no longer be found from its home with the hole in between.
	for i := (hole + 1) & mask; x.table[i] != 0; i = (i + 1) & mask {
		home := x.start(uint32(x.table[i] >> 32))
		if (i-home)&mask >= (i-hole)&mask {
			x.table[hole] = x.table[i]
			hole = i
		}
	}
	x.table[hole] = 0
}
