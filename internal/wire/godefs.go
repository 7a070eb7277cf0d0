//go:build ignore

// Input of `go tool cgo -godefs`: which parts of native/include/wire.h the Go twin has, and under which names.
// The layout test parses this file too and fails when the header has something that is not listed here.

package wire

// #include "../../native/include/wire.h"
import "C"

const (
	Version     = C.MS_WIRE_VERSION
	Magic       = C.MS_WIRE_MAGIC
	HeaderBytes = C.MS_RING_HEADER_BYTES
	MinBytes    = C.MS_RING_MIN_BYTES
	RecordAlign = C.MS_RECORD_ALIGN
	TextMax     = C.MS_TEXT_MAX
)

const (
	TypeAlloc      = C.MS_ALLOC
	TypeFree       = C.MS_FREE
	TypeUndo       = C.MS_UNDO
	TypeMark       = C.MS_MARK
	TypeRangeStart = C.MS_RANGE_START
	TypeRangeEnd   = C.MS_RANGE_END
	TypeACLInit    = C.MS_ACL_INIT
	TypeACLFini    = C.MS_ACL_FINI
	TypeStartTrace = C.MS_START_TRACE
	TypeStopTrace  = C.MS_STOP_TRACE
	TypeStep       = C.MS_STEP
	TypeLog        = C.MS_LOG
)

const (
	StateBusy      = C.MS_STATE_BUSY
	StateReady     = C.MS_STATE_READY
	MarkStateShift = C.MS_MARK_STATE_SHIFT
	MarkWordsShift = C.MS_MARK_WORDS_SHIFT
	MarkTypeShift  = C.MS_MARK_TYPE_SHIFT
)

const (
	PoolHost         = C.MS_HOST
	PoolHAL          = C.MS_HAL
	PoolPTA          = C.MS_PTA
	PoolPTAWorkspace = C.MS_PTA_WORKSPACE
	PoolMindSpore    = C.MS_MINDSPORE
	PoolATB          = C.MS_ATB
	Pools            = C.MS_POOLS
)

const (
	DeviceNone = C.MS_DEVICE_NONE
	DeviceCPU  = C.MS_DEVICE_CPU
)

const (
	FlagShadow = C.MS_F_SHADOW
	FlagCreate = C.MS_F_CREATE
)

const (
	LogDebug = C.MS_LOG_DEBUG
	LogInfo  = C.MS_LOG_INFO
	LogWarn  = C.MS_LOG_WARN
	LogError = C.MS_LOG_ERROR
)

const (
	Accepted       = C.MS_ACCEPTED
	RefusedVersion = C.MS_REFUSED_VERSION
	RefusedClosing = C.MS_REFUSED_CLOSING
	RefusedMemory  = C.MS_REFUSED_MEMORY
)

type (
	Header  C.struct_ms_ring
	Head    C.struct_ms_head
	Alloc   C.struct_ms_alloc
	Free    C.struct_ms_free
	Text    C.struct_ms_text
	Hello   C.struct_ms_hello
	Config  C.struct_ms_config
	Welcome C.struct_ms_welcome
)
