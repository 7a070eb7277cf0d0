// Package event is the event model that every other room speaks: plain data, no behaviour, no imports from the project.
//
// An Event is what one row of a dump says. The collector makes it from a wire record, the ledger completes it, analyzers
// read it, the spool stores it, a rendering prints it; the offline readers make the same values from a file.
package event

// Kind is the Event column (contract 3.1).
type Kind uint8

// Kinds in the order of the contract. Kinds is their number.
const (
	System Kind = iota + 1
	Malloc
	Free
	Access
	OpLaunch
	KernelLaunch
	Mstx
	Snapshot
	OOMDetail
	Label // never a row: a label comes, goes, or is put on a block; Value is its level
	Kinds
)

// Sub is the Event Type column. For Malloc and Free it follows from Pool and Device, and Sub stays SubNone.
type Sub uint8

// Sub values, grouped by Kind.
const (
	SubNone Sub = iota
	ACLInit
	ACLFini
	StartTrace
	StopTrace
	Step
	Mark
	RangeStart
	RangeEnd
	Read // Access
	Write
	AccessUnknown
	AtenStart // OpLaunch
	AtenEnd
	AtbStart
	AtbEnd
	Launched // KernelLaunch: handed to the device, KERNEL_LAUNCH
	KernelStart
	KernelEnd
	ExecuteStart // on the device
	ExecuteEnd
	OOMTrigger // OOMDetail
	OOMRecent
	OOMTop
	LabelPush // Label: from here on for what the thread TID allocates
	LabelPop
	LabelAddress // for the live block at Addr
)

// Pool says whose memory a block is.
type Pool uint8

// Pools; the values are those of enum ms_pool in native/include/wire.h.
const (
	Host Pool = iota
	HAL
	PTA
	PTAWorkspace
	MindSpore
	ATB
	Named           // the first of the user's own pools (--pools), in the order of the option
	Pools Pool = 16 // number of pools
)

// Device ids with a meaning of their own; the values are those of wire.h.
const (
	DeviceNone int32 = 9999  // printed N/A
	DeviceCPU  int32 = 10000 // printed cpu
)

// Page is the page type of a HAL block.
type Page uint8

// Page types in the driver's numbering.
const (
	PageNormal Page = iota
	PageHuge
	PageGiant
)

// Flags qualify an event.
type Flags uint8

const (
	// Paused marks an event seen while not tracing. It changes the ledger and reaches nobody else.
	Paused Flags = 1 << iota
	// Shadow marks a synthetic row: printed with shadow:true and without usage numbers.
	Shadow
	// Created marks a HAL block made by halMemCreate.
	Created
	// Pinned marks host memory seen through the driver.
	Pinned
)

// Waste says how a block is used inefficiently (contract 5.4).
type Waste uint8

// Ways to waste; a block may show several.
const (
	EarlyAllocation Waste = 1 << iota
	LateDeallocation
	TemporaryIdleness
)

// Unknown is the value of a usage number that nobody could tell; such a key is left out of the row.
const Unknown int64 = -1

// Event is one event. Sizes are bytes, stamps are wall-clock nanoseconds since the epoch.
type Event struct {
	Kind   Kind
	Sub    Sub
	Pool   Pool
	Flags  Flags
	Page   Page
	Module int16 // HAL module id, -1 unknown
	Device int32

	Stamp   int64
	Seq     uint64 // position in the process's causal order, from 1; breaks ties of Stamp
	PID     uint64
	TID     uint64
	Addr    uint64
	Size    int64
	Used    int64 // HAL and host: live bytes after this event; pools: what the pool has handed out
	Total   int64 // pools: bytes reserved
	AllocID uint64

	ProcessUsed int64 // bytes, Unknown when not asked or not answered
	DeviceUsed  int64

	Value uint64 // range id of Mstx ranges, number of Step, Task of a kernel launch
	Name  string

	Stack uint32 // id in the process's table of stacks, 0 for none
	Waste Waste  // of a Malloc, once it is known
	Owner string // of a Malloc, once it is known: labels joined by @ (contract 5.5)
	// Attrs is what the Attr column of an event of this kind holds beside the fields above: "key:value,key:value".
	Attrs string
}

// Task is the Value of a kernel that was launched or runs on the device.
func Task(stream, task uint32) uint64 { return uint64(stream)<<32 | uint64(task) }
