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

// TextBytes is the text behind Text, a view into the ring.
func (r Record) TextBytes() []byte {
	n := min(uint64(r.Text().Length), r.textRoom())
	return unsafe.Slice((*byte)(unsafe.Add(r.p, unsafe.Sizeof(Text{}))), n)
}

// textRoom is the longest text that the record can have, in bytes.
func (r Record) textRoom() uint64 { return min(r.Size()-uint64(unsafe.Sizeof(Text{})), TextMax) }

// lastStamp bounds stamps, in ns (146 years), so that a wall clock can be added to any.
const lastStamp = 1 << 62

// Plausible says whether the agent can have written the fields that readers take as an index, a length or a card. Ask it of a
// copy: in a ring the target may still change them.
func (r Record) Plausible() bool {
	h := r.Head()
	if h.Pool >= Pools || h.Device > DeviceCPU || h.Flags&^(FlagShadow|FlagCreate) != 0 || h.Stamp < 0 || h.Stamp >= lastStamp {
		return false
	}
	return !hasText(r.Type()) || uint64(r.Text().Length) <= r.textRoom()
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
	}
	if hasText(typ) {
		return uint64(unsafe.Sizeof(Text{}))
	}
	return 0
}

// hasText says whether records of a type are a Text.
func hasText(typ uint16) bool {
	switch typ {
	case TypeMark, TypeRangeStart, TypeRangeEnd, TypeACLInit, TypeACLFini, TypeStartTrace, TypeStopTrace, TypeStep, TypeLog:
		return true
	}
	return false
}
