package wire

import (
	"encoding/binary"
	"unsafe"
)

// Record is a view of one published record, in a ring until the Reader's next Release, or in a copy.
type Record struct {
	p    unsafe.Pointer
	mark uint64
}

// Type is one of the Type constants.
func (r Record) Type() uint16 { return uint16(r.mark >> MarkTypeShift) }

// TID is the producing thread, as numbered where the target runs.
func (r Record) TID() uint32 { return uint32(r.mark) }

// Size is the whole record in bytes.
func (r Record) Size() uint64 { return markSize(r.mark) }

// Head is the part that every record has.
func (r Record) Head() *Head { return (*Head)(r.p) }

// Alloc is the record as an allocation. Only for TypeAlloc.
func (r Record) Alloc() *Alloc { return (*Alloc)(r.p) }

// Free is the record as a free. Only for TypeFree and TypeUndo.
func (r Record) Free() *Free { return (*Free)(r.p) }

// Text is the record as a value with text. Only for the other types.
func (r Record) Text() *Text { return (*Text)(r.p) }

// KernelLaunch is the record as a launch. Only for TypeKernelLaunch.
func (r Record) KernelLaunch() *KernelLaunch { return (*KernelLaunch)(r.p) }

// KernelClock is the record as a reading of a card's counter. Only for TypeKernelClock.
func (r Record) KernelClock() *KernelClock { return (*KernelClock)(r.p) }

// KernelRun is the record as the begin or end of a task. Only for TypeKernelRun.
func (r Record) KernelRun() *KernelRun { return (*KernelRun)(r.p) }

// Snapshot is the record as a snapshot. Only for TypeSnapshot.
func (r Record) Snapshot() *Snapshot { return (*Snapshot)(r.p) }

// OOM is the record as a call that found no memory. Only for TypeOOM.
func (r Record) OOM() *OOM { return (*OOM)(r.p) }

// Access is the record as an access. Only for TypeAtenAccess.
func (r Record) Access() *Access { return (*Access)(r.p) }

// WatchData is what a watched tensor's record of TypeWatchData has of it, a view into the ring. ok is false for a damaged record.
func (r Record) WatchData() (b []byte, ok bool) {
	d := (*WatchData)(r.p)
	length, begin := uint64(d.Length), uint64(unsafe.Sizeof(*d))
	if length > r.Size()-begin {
		return nil, false
	}
	return unsafe.Slice((*byte)(unsafe.Add(r.p, begin)), length), true
}

// WatchKernel is the record as the name of what was dumped ahead. Only for TypeWatchKernel.
func (r Record) WatchKernel() *WatchKernel { return (*WatchKernel)(r.p) }

// Stack is the record as a stack. Only for TypeStack.
func (r Record) Stack() *Stack { return (*Stack)(r.p) }

// Code is the record as a function of Python. Only for TypeCode.
func (r Record) Code() *Code { return (*Code)(r.p) }

// Loaded is the record as a library. Only for TypeModule.
func (r Record) Loaded() *Loaded { return (*Loaded)(r.p) }

// Behind is what follows the fixed part of a TypeStack, TypeCode or TypeModule: as many bytes as the fixed part says. ok is
// false when the record does not have them.
func (r Record) Behind() (b []byte, ok bool) {
	var begin uintptr
	var size uint64
	switch r.Type() {
	case TypeStack:
		s := r.Stack()
		begin, size = unsafe.Sizeof(*s), 8*uint64(s.C_frames)
		if s.Py_frames < NotPython {
			size += 8 * uint64(s.Py_frames)
		}
	case TypeCode:
		c := r.Code()
		begin, size = unsafe.Sizeof(*c), uint64(c.File_length)+uint64(c.Function_length)
	case TypeModule:
		m := r.Loaded()
		begin, size = unsafe.Sizeof(*m), uint64(m.Path_length)+uint64(m.Build_id_length)
	}
	if size > r.Size()-uint64(begin) {
		return nil, false
	}
	return unsafe.Slice((*byte)(unsafe.Add(r.p, begin)), size), true
}

// ACLAlloc is the record as a block of AscendCL's. Only for TypeACLAlloc.
func (r Record) ACLAlloc() *ACLAlloc { return (*ACLAlloc)(r.p) }

// Map is the record as a mapping. Only for TypeMap and TypeUnmap.
func (r Record) Map() *Map { return (*Map)(r.p) }

// TextBytes is the text behind Text, Snapshot, Access or ACLAlloc, a view into the ring.
func (r Record) TextBytes() []byte {
	length, begin := r.text()
	return unsafe.Slice((*byte)(unsafe.Add(r.p, begin)), min(uint64(length), r.Size()-uint64(begin), TextMax))
}

// text is the length of the record's text as written, and where it begins.
func (r Record) text() (length uint32, begin uintptr) {
	switch r.Type() {
	case TypeSnapshot:
		return r.Snapshot().Length, unsafe.Sizeof(Snapshot{})
	case TypeAtenAccess, TypeAtbAccess:
		return r.Access().Length, unsafe.Sizeof(Access{})
	case TypeACLAlloc:
		return r.ACLAlloc().Length, unsafe.Sizeof(ACLAlloc{})
	}
	return r.Text().Length, unsafe.Sizeof(Text{})
}

// lastStamp bounds stamps, in ns (146 years), so that a wall clock can be added to any.
const lastStamp = 1 << 62

// Plausible says whether the agent can have written the fields that readers take as an index, a length or a card. Ask it of a
// copy: in a ring the target may still change them.
func (r Record) Plausible() bool {
	h := r.Head()
	if h.Pool >= Pools || h.Device > DeviceCPU || h.Flags&^(FlagShadow|FlagCreate) != 0 || h.Stamp < 0 || h.Stamp >= lastStamp {
		return false
	}
	switch r.Type() {
	case TypeStack, TypeCode, TypeModule:
		_, ok := r.Behind()
		return ok
	}
	if typ := r.Type(); !hasText(typ) && typ != TypeSnapshot && typ != TypeAtenAccess && typ != TypeAtbAccess && typ != TypeACLAlloc {
		return true
	}
	length, begin := r.text()
	return length <= TextMax && uint64(length) <= r.Size()-uint64(begin)
}

// AppendTo appends a copy of the record to b.
func (r Record) AppendTo(b []byte) []byte {
	n := len(b)
	b = append(b, unsafe.Slice((*byte)(r.p), r.Size())...)
	binary.NativeEndian.PutUint64(b[n:], r.mark) // the one that was checked, whatever the target has made of it meanwhile
	return b
}

// RecordAt is a view of the copy that b begins with. What AppendTo has appended to must have been empty or copies of records.
func RecordAt(b []byte) Record {
	return Record{p: unsafe.Pointer(unsafe.SliceData(b)), mark: binary.NativeEndian.Uint64(b)}
}

func markSize(mark uint64) uint64 {
	const words = 1<<(MarkStateShift-MarkWordsShift) - 1
	return (mark >> MarkWordsShift & words) * RecordAlign
}

func markState(mark uint64) uint64 { return mark >> MarkStateShift }

// leastSize is the smallest record of a type in bytes, 0 for a type that does not exist.
func leastSize(typ uint16) uint64 {
	switch typ {
	case TypeAlloc:
		return uint64(unsafe.Sizeof(Alloc{}))
	case TypeFree, TypeUndo:
		return uint64(unsafe.Sizeof(Free{}))
	case TypeKernelLaunch:
		return uint64(unsafe.Sizeof(KernelLaunch{}))
	case TypeKernelClock:
		return uint64(unsafe.Sizeof(KernelClock{}))
	case TypeKernelRun:
		return uint64(unsafe.Sizeof(KernelRun{}))
	case TypeSnapshot:
		return uint64(unsafe.Sizeof(Snapshot{}))
	case TypeOOM:
		return uint64(unsafe.Sizeof(OOM{}))
	case TypePyCall, TypePyReturn, TypePyOpen:
		return uint64(unsafe.Sizeof(Head{}))
	case TypeStack:
		return uint64(unsafe.Sizeof(Stack{}))
	case TypeCode:
		return uint64(unsafe.Sizeof(Code{}))
	case TypeModule:
		return uint64(unsafe.Sizeof(Loaded{}))
	case TypeWatchData:
		return uint64(unsafe.Sizeof(WatchData{}))
	case TypeWatchKernel:
		return uint64(unsafe.Sizeof(WatchKernel{}))
	case TypeAtenAccess, TypeAtbAccess:
		return uint64(unsafe.Sizeof(Access{}))
	case TypeACLAlloc:
		return uint64(unsafe.Sizeof(ACLAlloc{}))
	case TypeMap, TypeUnmap:
		return uint64(unsafe.Sizeof(Map{}))
	}
	if hasText(typ) {
		return uint64(unsafe.Sizeof(Text{}))
	}
	return 0
}

// hasText says whether records of a type are a Text.
func hasText(typ uint16) bool {
	switch typ {
	case TypeMark, TypeRangeStart, TypeRangeEnd, TypeACLInit, TypeACLFini, TypeStartTrace, TypeStopTrace, TypeStep, TypeLog,
		TypeKernelName, TypeKernelNotice, TypeKernelClosed, TypeLabelPush, TypeLabelPop, TypeLabelAddress, TypePyName, TypePyStop, TypePyBegin, TypePyEnd,
		TypeAtenStart, TypeAtenEnd, TypeAtbStart, TypeAtbEnd, TypeAtbKernelStart, TypeAtbKernelEnd, TypeWatchBegin, TypeWatchEnd, TypeWatchAhead:
		return true
	}
	return false
}
