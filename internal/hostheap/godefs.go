//go:build ignore

// Input of `go tool cgo -godefs`: the Go names for native/include/hostheap.h. The layout test parses the header and fails
// when it has something that is not listed here.

package hostheap

// #include "../../native/include/hostheap.h"
import "C"

const (
	Magic    = C.MS_HEAP_MAGIC
	Version  = C.MS_HEAP_VERSION
	Align    = C.MS_HEAP_ALIGN
	TickNs   = C.MS_HEAP_TICK_NS
	Unit     = C.MS_HEAP_UNIT
	Buckets  = C.MS_HEAP_BUCKETS
	Classes  = C.MS_HEAP_CLASSES
	DepthMax = C.MS_HEAP_DEPTH_MAX
)

const (
	Slots          = C.MS_HEAP_SLOTS
	Index          = C.MS_HEAP_INDEX
	Stacks         = C.MS_HEAP_STACKS
	Natives        = C.MS_HEAP_NATIVES
	Pythons        = C.MS_HEAP_PYTHONS
	Lookup         = C.MS_HEAP_LOOKUP
	Modules        = C.MS_HEAP_MODULES
	TextBytes      = C.MS_HEAP_TEXT_BYTES
	Spares         = C.MS_HEAP_SPARES
	Directory      = C.MS_HEAP_DIRECTORY
	ArenaMiB       = C.MS_HEAP_ARENA_MIB
	Blocks         = C.MS_HEAP_BLOCKS
	OverflowBlocks = C.MS_HEAP_OVERFLOW_BLOCKS
)

const (
	TruncBlocks  = C.MS_HEAP_TRUNC_BLOCKS
	TruncStacks  = C.MS_HEAP_TRUNC_STACKS
	TruncStopped = C.MS_HEAP_TRUNC_STOPPED
)

const (
	Attached = C.MS_HEAP_ATTACHED
	Ended    = C.MS_HEAP_ENDED
)

const (
	Python     = C.MS_HEAP_PYTHON
	PythonLost = C.MS_HEAP_PYTHON_LOST
	InFront    = C.MS_HEAP_IN_FRONT
	FindObject = C.MS_HEAP_FIND_OBJECT
)

const (
	Counters = C.MS_HEAP_COUNTERS
)

const (
	ClassBits    = C.MS_HEAP_CLASS_BITS
	RegionShift  = C.MS_HEAP_REGION_SHIFT
	GiBShift     = C.MS_HEAP_GIB_SHIFT
	GranuleShift = C.MS_HEAP_GRANULE_SHIFT
	StackShift   = C.MS_HEAP_STACK_SHIFT
	StackMost    = C.MS_HEAP_STACK_MOST
	SizeShift    = C.MS_HEAP_SIZE_SHIFT
	SizeLarge    = C.MS_HEAP_SIZE_LARGE
	AgeMost      = C.MS_HEAP_AGE_MOST
	GiBRegions   = C.MS_HEAP_GIB_REGIONS
)

const (
	StackUnknown   = C.MS_HEAP_STACK_UNKNOWN
	StackOverflow  = C.MS_HEAP_STACK_OVERFLOW
	StackUntracked = C.MS_HEAP_STACK_UNTRACKED
	StackFirst     = C.MS_HEAP_STACK_FIRST
)

const (
	CutNative = C.MS_HEAP_CUT_NATIVE
	CutPython = C.MS_HEAP_CUT_PYTHON
)

type (
	Header     C.struct_ms_heap
	Size       C.struct_ms_heap_size
	Slot       C.struct_ms_heap_slot
	Count      C.struct_ms_heap_count
	Region     C.struct_ms_heap_region
	GiB        C.struct_ms_heap_gib
	Stack      C.struct_ms_heap_stack
	Module     C.struct_ms_heap_module
	PythonLine C.struct_ms_heap_python
)
