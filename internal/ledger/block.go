package ledger

import "memscope/internal/event"

// State is where a block is in its life (contract 3.3). When a FREE row with event.Shadow reaches a Sink, the state of
// its block tells why nobody's free stands behind it.
type State uint8

const (
	// Normal: allocated while tracing. On a shadow FREE: it still lived when the process went away.
	Normal State = iota
	// ShadowCreated: allocated while not tracing; has no row yet.
	ShadowCreated
	// Promoted: ShadowCreated that lived on into tracing; its MALLOC row is a shadow. On a shadow FREE: as Normal.
	Promoted
	// ShadowFreed: had a MALLOC row and was freed while not tracing.
	ShadowFreed
	// Residual: its free was never seen, and its address was allocated again.
	Residual
	// Ghost: stands for the unknown block of an unmatched FREE or ACCESS, for one event.
	Ghost
)

// Block is one block of memory. The size of this struct is most of what a live block costs; it holds no pointers, so
// that the garbage collector never looks at the slabs. What a free needs stands first, in fewer cache lines.
type Block struct {
	Addr    uint64
	Size    int64  // bytes
	AllocID uint64 // allocation_id, from 1
	last    int64  // stamp of the newest row of this block; the next one is later; 0 before there is one
	Device  int32
	slot    uint32 // slab: where it is, 0 for a ghost; of a free slot: the next one
	Module  int16
	Pool    event.Pool
	Page    event.Page
	Flags   event.Flags // event.Created, event.Pinned
	State   State
	used    bool // slab: the slot holds a block
	Open    bool // an analyzer's, set at the MALLOC row: what that says may change until the FREE

	Kernel  uint64 // kernel launches of the process before this block
	BornSeq uint64 // Seq of the MALLOC row; 0 before there is one
	Born    int64  // stamp of the allocation, ns; kept by a promotion and by a failed free
	TID     uint64 // thread that allocated
	Stack   uint32 // where it was allocated, as in event.Event
}
