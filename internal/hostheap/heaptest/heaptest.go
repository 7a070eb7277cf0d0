// Package heaptest plays the hook's side of the host heap's tables in tests: a process whose allocations a test makes one by one.
// It follows native/include/hostheap.h, without concurrency: one call at a time.
package heaptest

import (
	"sync/atomic"
	"unsafe"

	"memscope/internal/hostheap"
)

// Process is a made-up target.
type Process struct {
	h    *hostheap.Header
	base unsafe.Pointer
	live map[uint64]block

	locations map[uint64]uint32
	hash      uint64
}

type block struct {
	size  uint64
	stack uint32
	tick  uint32
}

// New is a process that has just got its tables.
func New(t *hostheap.Tables) *Process {
	h := t.Header()
	p := &Process{h: h, base: unsafe.Pointer(h), live: map[uint64]block{}, locations: map[uint64]uint32{}}
	h.Arena_next, h.Text_next, h.Stack_next, h.Slot_high, h.Module_next, h.Python_next = hostheap.Unit, 4, hostheap.StackFirst, 1, 1, 1
	h.Pid = 4711
	return p
}

func at[T any](p *Process, offset uint64) *T { return (*T)(unsafe.Add(p.base, offset)) }

// Arena takes bytes of the arena and returns their unit.
func (p *Process) Arena(bytes uint64) uint32 {
	unit := p.h.Arena_next / hostheap.Unit
	p.h.Arena_next += (bytes + hostheap.Unit - 1) &^ (hostheap.Unit - 1)
	if p.h.Arena_next > p.h.Arena_bytes {
		panic("the arena is full")
	}
	return uint32(unit)
}

func (p *Process) arena(unit uint32) uint64 { return p.h.Arena_at + uint64(unit)*hostheap.Unit }

// Text stores bytes and returns the reference.
func (p *Process) Text(b []byte) uint32 {
	reference := p.h.Text_next / 4
	place := p.h.Text_at + p.h.Text_next
	*at[uint32](p, place) = uint32(len(b))
	copy(unsafe.Slice(at[byte](p, place+4), len(b)), b)
	p.h.Text_next += (4 + uint64(len(b)) + 3) &^ 3
	return uint32(reference)
}

// Library enters a library and returns its number.
func (p *Process) Library(path string, start, end, bias uint64, id []byte) uint32 {
	n := p.h.Module_next
	m := at[hostheap.Module](p, p.h.Modules_at+uint64(n)*uint64(unsafe.Sizeof(hostheap.Module{})))
	m.Start, m.End, m.Bias, m.Path, m.Id_bytes = start, end, bias, p.Text([]byte(path)), uint32(len(id))
	copy(m.Id[:], id)
	p.h.Module_next++
	return n
}

// Python enters a place in a Python function and returns its number.
func (p *Process) Python(f hostheap.PythonFrame) uint32 {
	n := p.h.Python_next
	line := at[hostheap.PythonLine](p, p.h.Pythons_at+uint64(n)*uint64(unsafe.Sizeof(hostheap.PythonLine{})))
	line.Function, line.File, line.Line = p.Text([]byte(f.Function)), p.Text([]byte(f.File)), uint32(f.Line)
	p.h.Python_next++
	return n
}

// Stack enters a stack and returns its id; innermost frame first. With a full table it takes a recycled id, or answers the unknown bucket.
func (p *Process) Stack(native []hostheap.NativeFrame, python []hostheap.PythonFrame) uint32 {
	id := p.h.Stack_next
	switch {
	case id < p.h.Stacks:
		p.h.Stack_next++
	case p.h.Spare_tail != atomic.LoadUint32(&p.h.Spare_head):
		id = *at[uint32](p, p.h.Spares_at+uint64(p.h.Spare_tail&(p.h.Spares-1))*4)
		p.h.Spare_tail++
	default:
		p.h.Truncated |= hostheap.TruncStacks
		return hostheap.StackUnknown
	}
	offset := p.h.Stacks_at + uint64(id)*uint64(p.h.Stack_bytes)
	s := at[hostheap.Stack](p, offset)
	p.hash++
	s.Hash, s.Natives, s.Pythons = p.hash*0x9e3779b97f4a7c15|1<<63, uint8(len(native)), uint8(len(python))
	p.index(s.Hash, id)
	offset += uint64(unsafe.Sizeof(*s))
	for _, f := range native {
		*at[uint32](p, offset) = p.location(f.PC | uint64(f.Module)<<48)
		offset += 4
	}
	for _, f := range python {
		*at[uint32](p, offset) = p.Python(f)
		offset += 4
	}
	s.Incarnation += 2
	return id
}

func (p *Process) index(hash uint64, id uint32) {
	for i := hash; ; i++ {
		place := at[uint64](p, p.h.Index_at+(i&uint64(p.h.Index-1))*8)
		if *place&hostheap.StackMost == 0 { // free, or vacated
			*place = hash&^hostheap.StackMost | uint64(id)
			return
		}
	}
}

func (p *Process) location(value uint64) uint32 {
	if place, ok := p.locations[value]; ok {
		return place
	}
	place := uint32(len(p.locations)) + 1
	*at[uint64](p, p.h.Natives_at+uint64(place)*8) = value
	p.locations[value] = place
	return place
}

// Slot is a thread's counters.
func (p *Process) Slot(n uint32) *hostheap.Slot {
	p.h.Slot_high = max(p.h.Slot_high, n+1)
	return at[hostheap.Slot](p, p.h.Slots_at+uint64(n)*uint64(unsafe.Sizeof(hostheap.Slot{})))
}

func (p *Process) count(slot, stack uint32) *hostheap.Count {
	unit := &p.Slot(slot).Counters[stack/hostheap.Counters]
	size := uint64(unsafe.Sizeof(hostheap.Count{}))
	if *unit == 0 {
		*unit = p.Arena(size * hostheap.Counters)
	}
	return at[hostheap.Count](p, p.arena(*unit)+uint64(stack%hostheap.Counters)*size)
}

// Malloc makes a block. Outside of a window it does nothing, like the hook. slot is the thread.
func (p *Process) Malloc(slot uint32, addr, size uint64, stack uint32) {
	window := atomic.LoadUint32(&p.h.Window)
	if window == 0 {
		return
	}
	tick := atomic.LoadUint32(&p.h.Tick)
	c := p.count(slot, stack)
	c.Alloc_count++
	c.Alloc_bytes += size
	p.live[addr] = block{size, stack, tick}
	r := p.region(addr)
	if r.Window != window {
		r.Window, r.Used, r.Scale = window, 0, 0
		p.table(r, 0)
	}
	for tick>>r.Scale > hostheap.AgeMost {
		p.rescale(r)
	}
	entries := p.entries(r)
	if int(r.Used) == len(entries) {
		old := entries
		p.table(r, class(r)+1)
		entries = p.entries(r)
		copy(entries, old)
	}
	shown := min(size, hostheap.SizeLarge)
	entry := addr&0xffff>>3<<hostheap.GranuleShift | uint64(stack)<<hostheap.StackShift | shown<<hostheap.SizeShift | uint64(tick>>r.Scale)
	for i := range entries {
		if entries[i] == 0 {
			entries[i] = entry
			break
		}
	}
	r.Used++
	if size >= hostheap.SizeLarge {
		*p.large(addr) = size
	}
	r.Lock += 2
}

// Resize does what the hook does for a realloc that does not move the block.
func (p *Process) Resize(slot uint32, addr, size uint64, stack uint32) {
	old, now := p.live[addr], p.h.Tick
	p.Free(slot, addr, 0)
	p.h.Tick = old.tick
	p.Malloc(slot, addr, size, stack)
	p.h.Tick = now
	if old.stack == stack {
		c := p.count(slot, stack)
		c.Resized++
		c.Lifetime -= uint64(now - old.tick)
	}
}

// Free frees a block that Malloc has made in this window; another address counts as one from before it, of `usable` bytes.
func (p *Process) Free(slot uint32, addr, usable uint64) {
	if p.h.Window == 0 {
		return
	}
	b, ok := p.live[addr]
	if !ok {
		s := p.Slot(slot)
		bucket := hostheap.Bucket(usable)
		s.Prewindow[bucket].Count++
		s.Prewindow[bucket].Bytes += usable
		return
	}
	delete(p.live, addr)
	r := p.region(addr)
	entries := p.entries(r)
	for i, e := range entries {
		if e != 0 && e>>hostheap.GranuleShift == addr&0xffff>>3 {
			entries[i] = 0
			break
		}
	}
	r.Used--
	r.Lock += 2
	c := p.count(slot, b.stack)
	c.Free_count++
	c.Free_bytes += b.size
	c.Lifetime += uint64(atomic.LoadUint32(&p.h.Tick) - b.tick)
}

// Live says that Malloc has made the block and Free has not freed it.
func (p *Process) Live(addr uint64) bool { _, ok := p.live[addr]; return ok }

// Region is the ledger's region of an address.
func (p *Process) Region(addr uint64) *hostheap.Region { return p.region(addr) }

// Large is the size of the large block that began last in the region of an address; 0: none ever did.
func (p *Process) Large(addr uint64) uint64 { return *p.large(addr) }

func (p *Process) large(addr uint64) *uint64 {
	return &p.gib(addr).Large[addr>>hostheap.RegionShift%hostheap.GiBRegions]
}

func (p *Process) region(addr uint64) *hostheap.Region {
	return &p.gib(addr).Regions[addr>>hostheap.RegionShift%hostheap.GiBRegions]
}

func (p *Process) gib(addr uint64) *hostheap.GiB {
	unit := at[uint32](p, p.h.Directory_at+addr>>hostheap.GiBShift*4)
	if *unit == 0 {
		*unit = p.Arena(uint64(unsafe.Sizeof(hostheap.GiB{})))
	}
	return at[hostheap.GiB](p, p.arena(*unit))
}

// class is the size class of a region's table, places the number of its entries.
func class(r *hostheap.Region) uint32 { return r.Table & (1<<hostheap.ClassBits - 1) }

func places(class uint32) uint64 { return uint64(2+class%2) << (3 + class/2) }

func (p *Process) table(r *hostheap.Region, class uint32) {
	r.Table = p.Arena(places(class)*8)<<hostheap.ClassBits | class
}

func (p *Process) entries(r *hostheap.Region) []uint64 {
	return unsafe.Slice(at[uint64](p, p.arena(r.Table>>hostheap.ClassBits)), places(class(r)))
}

func (p *Process) rescale(r *hostheap.Region) {
	r.Scale++
	for i, e := range p.entries(r) {
		p.entries(r)[i] = e&^hostheap.AgeMost | e&hostheap.AgeMost>>1
	}
}
