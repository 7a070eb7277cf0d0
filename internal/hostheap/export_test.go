package hostheap

import (
	"sync/atomic"
	"unsafe"
)

// Debris is the parts of small tables that a test overwrites.
func (t *Tables) Debris() [][]uint32 {
	part := func(at, n uint64) []uint32 { return slice[uint32](t, at, n) }
	stack := uint64(StackFirst) * uint64(t.h.Stack_bytes)
	return [][]uint32{
		part(t.h.Stacks_at+stack, uint64(t.h.Stack_bytes)/4), part(t.h.Natives_at, 8),
		part(t.h.Modules_at+uint64(unsafe.Sizeof(Module{})), uint64(unsafe.Sizeof(Module{}))/4),
		part(t.h.Pythons_at, uint64(unsafe.Sizeof(PythonLine{}))/2), part(t.h.Text_at, 16), part(t.h.Directory_at, 4), part(t.h.Arena_at, 4096),
	}
}

// Turn adds to the turn of a slot.
func Turn(s *Slot, n uint32) { atomic.AddUint32(&s.Turn, n) }
