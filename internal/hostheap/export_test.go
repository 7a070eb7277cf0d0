package hostheap

import (
	"sync/atomic"
	"time"
	"unsafe"

	"memscope/internal/hostheap/lsi"
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

// Census counts the live blocks as a snapshot does: by stack, and those of one stack by their age, in a window of so many beats that
// this stack has been allocating for the last span of.
func (t *Tables) Census(window uint32, dead bool, stack uint32, beats, span float64) (live []Size, survivors [lsi.Bins]uint32, buckets [Buckets]Size, walk Walk) {
	opened := time.Unix(0, 0)
	s := &Snapshot{Window: window, Opened: opened, Ended: opened.Add(time.Duration(beats * float64(Beat))), Beat: Beat}
	s.Sites = []Site{{Stack: stack, history: lsi.Stack{Span: span}}}
	c := s.census(t, dead)
	live = make([]Size, len(c.stacks))
	for i := range c.stacks {
		live[i] = c.stacks[i].Size
	}
	return live, *c.stacks[stack].survivors, c.buckets(), c.reader.walk
}
