package inefficient

import "memscope/internal/event"

// IdleThreshold is how many operators may lie between two accesses of a tensor that is not idle.
const IdleThreshold = 3000

// Frame counts the operators of one framework in one process (contract 5.4). What happens outside of an operator counts as an
// operator of its own.
type Frame struct {
	api        uint32
	lastMalloc uint32 // api of the latest operator that allocated and has ended; 0: none
	lastFree   uint32
	inOp       bool
	malloced   bool // within the operator that runs
	freed      bool
}

// Op says that an operator starts or ends.
func (f *Frame) Op(start bool) {
	if f.inOp = start; start {
		f.api++
	} else {
		f.settle()
	}
}

func (f *Frame) settle() {
	if f.malloced {
		f.lastMalloc = f.api
	}
	if f.freed {
		f.lastFree = f.api
	}
	f.malloced, f.freed = false, false
}

// Tensor is what was done to a block. It is nobody's until its MALLOC.
type Tensor struct {
	born   uint32 // api of the MALLOC
	access uint32 // api of the first access by another operator; 0: none
	prev   uint32 // api of what was done last
	// Waste is what was found so far.
	Waste    event.Waste
	accessed bool // last
}

// Touch takes a MALLOC, FREE or ACCESS. t is its block, nil for one whose MALLOC was not seen, of which nothing can be said.
func (f *Frame) Touch(kind event.Kind, t *Tensor, threshold uint32) {
	if !f.inOp {
		f.api++
	}
	f.malloced = f.malloced || kind == event.Malloc
	f.freed = f.freed || kind == event.Free
	if !f.inOp {
		f.settle()
	}
	switch {
	case t == nil:
		return
	case kind == event.Malloc:
		*t = Tensor{born: f.api}
	case kind == event.Access:
		if t.accessed && f.api-t.prev > threshold {
			t.Waste |= event.TemporaryIdleness
		}
		if t.access == 0 && f.api != t.born {
			t.access = f.api
		}
		if f.lastFree != 0 && t.born < f.lastFree && f.lastFree < t.access {
			t.Waste |= event.EarlyAllocation
		}
	case kind == event.Free:
		if f.lastMalloc != 0 && t.accessed && t.prev < f.lastMalloc && f.lastMalloc < f.api {
			t.Waste |= event.LateDeallocation
		}
	}
	t.prev, t.accessed = f.api, kind == event.Access
}
