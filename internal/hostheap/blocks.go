package hostheap

import (
	"encoding/binary"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"
)

// Block is a live block of a window.
type Block struct {
	Addr  uint64
	Size  uint64
	Stack uint32
	Tick  uint32 // when it was allocated, rounded down to Grain
	Grain uint32 // ticks
}

// Walk says what a walk over the ledger could not read.
type Walk struct {
	Regions  int // with blocks of the window
	Degraded int // of these, those that were changing all the time: their blocks are missing
	Locked   int // after a death: locked for ever, read as they are
}

const (
	regionTries = 64
	// regionPatience is the number of tries after which a reader sleeps in between.
	regionPatience = 4
	regionPause    = 50 * time.Microsecond
)

// entry is a block in the table of its region.
type entry uint64

func (e entry) granule() uint64 { return uint64(e) >> GranuleShift }
func (e entry) stack() uint32   { return uint32(e>>StackShift) & StackMost }
func (e entry) size() uint64    { return uint64(e) >> SizeShift & SizeLarge } // SizeLarge: the next region has it
func (e entry) age() uint32     { return uint32(e & AgeMost) }

// part is some regions in a row; a walk goes over parts.
type part struct {
	gib, first int // number of the GiB, and of the first region within
	regions    []Region
	large      []uint64 // size of the large block that begins in each, bytes
}

// partRegions is small enough that parts of a small heap keep several readers busy.
const partRegions = 128

// parts are all regions that there are, in the order of addresses.
func (t *Tables) parts() (parts []part) {
	for gib, unit := range t.directory() {
		all := arena[GiB](t, unit, 1)
		if len(all) == 0 {
			continue
		}
		for first := 0; first < GiBRegions; first += partRegions {
			parts = append(parts, part{gib, first, all[0].Regions[first : first+partRegions], all[0].Large[first : first+partRegions]})
		}
	}
	return parts
}

// Blocks visits every live block of a window, in the order of regions. With dead the process is gone: what is locked is read all the same.
func (t *Tables) Blocks(window uint32, dead bool, visit func(Block)) Walk {
	r := reader{t: t, window: window, dead: dead}
	for _, p := range t.parts() {
		r.read(p, func(entries []entry) {
			for _, e := range entries {
				if e.stack() == StackUntracked {
					continue
				}
				b := Block{Addr: r.base() | e.granule()<<3, Size: e.size(), Stack: e.stack(), Tick: e.age() << r.scale, Grain: 1 << r.scale}
				if b.Size == SizeLarge {
					b.Size = r.large
				}
				visit(b)
			}
		})
	}
	return r.walk
}

// reader reads one region after another; each goroutine has its own.
type reader struct {
	t      *Tables
	window uint32
	dead   bool
	walk   Walk

	gib, region int // that is being read
	scale       uint8
	large       uint64 // size of the block with SizeLarge, bytes
	copied      []entry
}

// base is the address of the region.
func (r *reader) base() uint64 { return uint64(r.gib)<<GiBShift | uint64(r.region)<<RegionShift }

// read gives visit the blocks of each region of a part that are of the window; they are valid until it returns.
func (r *reader) read(p part, visit func([]entry)) {
	for i := range p.regions {
		region := &p.regions[i]
		if atomic.LoadUint32(&region.Window) != r.window {
			continue
		}
		r.walk.Regions++
		r.gib, r.region = p.gib, p.first+i
		entries, ok := r.copyRegion(region)
		if !ok {
			r.walk.Degraded++
			continue
		}
		r.large = atomic.LoadUint64(&p.large[i])
		visit(entries)
	}
}

// copyRegion copies the entries of a region that does not change meanwhile.
func (r *reader) copyRegion(region *Region) (entries []entry, ok bool) {
	for try := range regionTries {
		before := atomic.LoadUint32(&region.Lock)
		locked := before&1 == 1
		if locked && !r.dead {
			switch { // whoever holds the lock may be off its processor
			case try >= regionPatience:
				time.Sleep(regionPause)
			case try > 0:
				runtime.Gosched()
			}
			continue
		}
		if atomic.LoadUint32(&region.Window) != r.window { // never the case for a window that is open
			return nil, true
		}
		word := atomic.LoadUint32(&region.Table)
		if word == 0 { // a death before the region's first entry
			return nil, true
		}
		class, scale := word&(1<<ClassBits-1), region.Scale // a scale that changes meanwhile changes the lock
		if class >= Classes || scale > 31 {
			if r.dead {
				return nil, false
			}
			continue
		}
		entries := r.copyTable(arena[uint64](r.t, word>>ClassBits, uint64(2+class%2)<<(3+class/2)))
		if atomic.LoadUint32(&region.Lock) == before {
			r.scale = scale
			if locked {
				r.walk.Locked++
				entries = withoutRepeated(entries)
			}
			return entries, true
		}
	}
	return nil, false
}

// copyTable copies what is in a table. The places in use are as random as hashes are, so that a branch for each would cost more than the copy.
func (r *reader) copyTable(table []uint64) []entry {
	if len(r.copied) < len(table) {
		r.copied = make([]entry, len(table))
	}
	copied := r.copied[:len(table)]
	n := 0
	for i := range table {
		e := atomic.LoadUint64(&table[i])
		copied[n] = entry(e)
		if e != 0 {
			n++
		}
	}
	return copied[:n]
}

// withoutRepeated keeps the first entry of each granule: a thread that dies in the middle of a change may leave one there twice.
func withoutRepeated(entries []entry) []entry {
	kept := entries[:0]
	for _, e := range entries {
		if !slices.ContainsFunc(kept, func(o entry) bool { return o.granule() == e.granule() }) {
			kept = append(kept, e)
		}
	}
	return kept
}

// directory is a copy of the ledger's directory. It is read as a file, because a look through the mapping would make every page of it.
func (t *Tables) directory() []uint32 {
	units := make([]uint32, t.h.Directory)
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(units))), len(units)*binary.Size(units[0]))
	if _, err := t.file.ReadAt(bytes, int64(t.h.Directory_at)); err != nil {
		return nil
	}
	return units
}
