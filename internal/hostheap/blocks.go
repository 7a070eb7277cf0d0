package hostheap

import (
	"encoding/binary"
	"runtime"
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
	regionsPerGiB = 1 << (GiBShift - RegionShift)
	regionTries   = 64
	// regionPatience is the number of tries after which a reader sleeps in between.
	regionPatience = 4
	regionPause    = 50 * time.Microsecond
)

// Blocks visits every live block of a window. With dead the process is gone: what is locked is read all the same.
func (t *Tables) Blocks(window uint32, dead bool, visit func(Block)) Walk {
	var w Walk
	var entries []uint64
	for gib, unit := range t.directory() {
		regions := arena[Region](t, unit, regionsPerGiB)
		for i := range regions {
			r := &regions[i]
			if atomic.LoadUint32(&r.Window) != window {
				continue
			}
			w.Regions++
			copied, scale, ok := t.copyRegion(r, window, entries[:0], dead, &w)
			entries = copied
			if !ok {
				w.Degraded++
				continue
			}
			base := uint64(gib)<<GiBShift | uint64(i)<<RegionShift
			t.emit(copied, base, scale, gib, i, dead && atomic.LoadUint32(&r.Lock)&1 == 1, visit)
		}
	}
	return w
}

// copyRegion copies the entries of a region that does not change meanwhile.
func (t *Tables) copyRegion(r *Region, window uint32, into []uint64, dead bool, w *Walk) (entries []uint64, scale uint8, ok bool) {
	for try := range regionTries {
		before := atomic.LoadUint32(&r.Lock)
		if before&1 == 1 && !dead {
			switch { // whoever holds the lock may be off its processor
			case try >= regionPatience:
				time.Sleep(regionPause)
			case try > 0:
				runtime.Gosched()
			}
			continue
		}
		if atomic.LoadUint32(&r.Window) != window { // never the case for a window that is open
			return into[:0], 0, true
		}
		word := atomic.LoadUint32(&r.Table)
		if word == 0 { // a death before the region's first entry
			return into[:0], 0, true
		}
		class, scale := word&(1<<ClassBits-1), r.Scale // a scale that changes meanwhile changes the lock
		if class >= Classes || scale > 31 {
			if dead {
				return into, 0, false
			}
			continue
		}
		table := arena[uint64](t, word>>ClassBits, uint64(2+class%2)<<(3+class/2))
		into = into[:0]
		for i := range table {
			if e := atomic.LoadUint64(&table[i]); e != 0 {
				into = append(into, e)
			}
		}
		if atomic.LoadUint32(&r.Lock) == before {
			if before&1 == 1 {
				w.Locked++
			}
			return into, uint8(scale), true
		}
	}
	return into, 0, false
}

// emit visits the blocks of one region; twice: the same granule may be there twice.
func (t *Tables) emit(entries []uint64, base uint64, scale uint8, gib, region int, twice bool, visit func(Block)) {
	for i, e := range entries {
		if twice && repeated(entries[:i], e) {
			continue
		}
		b := Block{
			Addr:  base | e>>GranuleShift<<3,
			Stack: uint32(e>>StackShift) & StackMost,
			Size:  e >> SizeShift & SizeLarge,
			Tick:  uint32(e&AgeMost) << scale,
			Grain: 1 << scale,
		}
		if b.Stack == StackUntracked {
			continue
		}
		if b.Size == SizeLarge {
			b.Size = t.largeSize(gib, region+1)
		}
		visit(b)
	}
}

func repeated(entries []uint64, e uint64) bool {
	for _, o := range entries {
		if o>>GranuleShift == e>>GranuleShift {
			return true
		}
	}
	return false
}

// largeSize is the size of the large block that begins in the region before this one.
func (t *Tables) largeSize(gib, region int) uint64 {
	gib += region / regionsPerGiB
	unit := at[uint32](t, t.h.Directory_at+uint64(gib)*4)
	if unit == nil || gib >= int(t.h.Directory) {
		return SizeLarge
	}
	regions := arena[Region](t, atomic.LoadUint32(unit), regionsPerGiB)
	if regions == nil {
		return SizeLarge
	}
	return atomic.LoadUint64(&regions[region%regionsPerGiB].Large)
}

// directory is a copy of the ledger's directory. It is read as a file, because a look through the mapping would make every page of it.
func (t *Tables) directory() []uint32 {
	units := make([]uint32, t.h.Directory)
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(units))), len(units)*binary.Size(units[0]))
	if t.file == nil {
		copy(units, slice[uint32](t, t.h.Directory_at, uint64(t.h.Directory)))
	} else if _, err := t.file.ReadAt(bytes, int64(t.h.Directory_at)); err != nil {
		return nil
	}
	return units
}
