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

	TypeKernelName   = C.MS_KERNEL_NAME
	TypeKernelLaunch = C.MS_KERNEL_LAUNCH
	TypeKernelClock  = C.MS_KERNEL_CLOCK
	TypeKernelRun    = C.MS_KERNEL_RUN
	TypeKernelNotice = C.MS_KERNEL_NOTICE
	TypeKernelClosed = C.MS_KERNEL_CLOSED

	TypeAtbStart       = C.MS_ATB_START
	TypeAtbEnd         = C.MS_ATB_END
	TypeAtbAccess      = C.MS_ATB_ACCESS
	TypeAtbKernelStart = C.MS_ATB_KERNEL_START
	TypeAtbKernelEnd   = C.MS_ATB_KERNEL_END

	TypeStack  = C.MS_STACK
	TypeCode   = C.MS_CODE
	TypeModule = C.MS_MODULE

	TypeSnapshot = C.MS_SNAPSHOT
	TypeOOM      = C.MS_OOM

	TypeWatchBegin  = C.MS_WATCH_BEGIN
	TypeWatchData   = C.MS_WATCH_DATA
	TypeWatchEnd    = C.MS_WATCH_END
	TypeWatchAhead  = C.MS_WATCH_AHEAD
	TypeWatchKernel = C.MS_WATCH_KERNEL

	TypeLabelPush    = C.MS_LABEL_PUSH
	TypeLabelPop     = C.MS_LABEL_POP
	TypeLabelAddress = C.MS_LABEL_ADDRESS

	TypePyName     = C.MS_PY_NAME
	TypePyCall     = C.MS_PY_CALL
	TypePyReturn   = C.MS_PY_RETURN
	TypePyOpen     = C.MS_PY_OPEN
	TypePyStop     = C.MS_PY_STOP
	TypeAtenStart  = C.MS_ATEN_START
	TypeAtenEnd    = C.MS_ATEN_END
	TypeAtenAccess = C.MS_ATEN_ACCESS
	TypePyBegin    = C.MS_PY_BEGIN
	TypePyEnd      = C.MS_PY_END

	TypeACLAlloc = C.MS_ACL_ALLOC
	TypeMap      = C.MS_MAP
	TypeUnmap    = C.MS_UNMAP
)

const (
	LevelFramework = C.MS_LEVEL_FRAMEWORK
	LevelComponent = C.MS_LEVEL_COMPONENT
	LevelProcess   = C.MS_LEVEL_PROCESS
	LevelDetail1   = C.MS_LEVEL_DETAIL_1
	LevelDetail2   = C.MS_LEVEL_DETAIL_2
	LevelUser      = C.MS_LEVEL_USER
	LabelMax       = C.MS_LABEL_MAX
)

// StreamNone is the stream of a task of a card that does not say.
const StreamNone = C.MS_STREAM_NONE

const (
	WatchChunk = C.MS_WATCH_CHUNK
	WatchName  = C.MS_WATCH_NAME
)

const (
	AccessUnknown = C.MS_ACCESS_UNKNOWN
	AccessRead    = C.MS_ACCESS_READ
	AccessWrite   = C.MS_ACCESS_WRITE
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
	PoolNamed        = C.MS_NAMED
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
	NoPython  = C.MS_NO_PYTHON
	NotPython = C.MS_NOT_PYTHON
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
	RefusedOptions = C.MS_REFUSED_OPTIONS
)

const (
	Join      = C.MS_JOIN
	Configure = C.MS_CONFIGURE
	Flush     = C.MS_FLUSH
	Finish    = C.MS_FINISH

	HeapJoin  = C.MS_HEAP_JOIN
	HeapStart = C.MS_HEAP_START
	HeapStop  = C.MS_HEAP_STOP
	HeapCheck = C.MS_HEAP_CHECK

	Control = C.MS_CONTROL
	AskMax  = C.MS_ASK_MAX
)

const (
	CheckDeviceHeap = C.MS_CHECK_DEVICE_HEAP
	CheckCANNHeap   = C.MS_CHECK_CANN_HEAP
)

const (
	SayOut   = C.MS_SAY_OUT
	SayError = C.MS_SAY_ERROR
	SayWait  = C.MS_SAY_WAIT
)

const (
	TracingDefault = C.MS_TRACING_DEFAULT
	TracingOn      = C.MS_TRACING_ON
	TracingOff     = C.MS_TRACING_OFF
)

type (
	Header       C.struct_ms_ring
	Head         C.struct_ms_head
	Alloc        C.struct_ms_alloc
	Free         C.struct_ms_free
	Text         C.struct_ms_text
	KernelLaunch C.struct_ms_kernel_launch
	KernelClock  C.struct_ms_kernel_clock
	KernelRun    C.struct_ms_kernel_run
	Snapshot     C.struct_ms_snapshot
	OOM          C.struct_ms_oom
	Access       C.struct_ms_access
	WatchData    C.struct_ms_watch_data
	WatchKernel  C.struct_ms_watch_kernel
	Stack        C.struct_ms_stack
	Code         C.struct_ms_code
	Loaded       C.struct_ms_loaded
	ACLAlloc     C.struct_ms_acl_alloc
	Map          C.struct_ms_map
	Hello        C.struct_ms_hello
	Config       C.struct_ms_config
	Welcome      C.struct_ms_welcome
)
