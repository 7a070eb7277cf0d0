package spool

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"

	"memscope/internal/event"
)

// An encoded event is: kind and pool (one byte, pool above), mask (three bytes), stamp (varint, difference to the event before), then
// each field whose bit is set in mask, in the order of the bits. A clear bit says "as predicted from the events before it
// in this block", which is what most fields of most events are. Signed differences are zigzag varints.
const (
	hasSub     = 1 << iota // byte; else 0
	hasBits                // byte, Flags; byte, Page; else both 0
	hasModule              // zigzag; else that of the event before
	hasDevice              // zigzag difference to the event before
	hasSeq                 // zigzag difference to the event before; else 1 more
	hasPID                 // zigzag difference to the event before
	hasTID                 // zigzag difference to the event before
	hasAddr                // zigzag difference to the last event with an address; else 0
	hasSize                // zigzag; else 0
	hasUsed                // zigzag difference to: last of this pool, plus Size of a Malloc, less Size of a Free
	hasTotal               // zigzag difference to the last of this pool
	hasAlloc               // zigzag difference to the last event with an id; else 0
	hasProcess             // zigzag difference to the event before
	hasCard                // DeviceUsed, zigzag difference to the event before
	hasValue               // varint; else 0
	hasName                // varint length, bytes; else empty
	hasStack               // varint; else 0
	hasWaste               // byte; else 0
	hasOwner               // like Name
	hasAttrs               // like Name
)

const (
	// MaxName is the number of bytes that are kept of a name, an owner, and attributes; all three fit into a block.
	MaxName = 8 << 10
	// maxFields bounds an encoded event without its texts: 4 bytes, 4 more single bytes, and 18 varints.
	maxFields = 4 + 4 + 18*binary.MaxVarintLen64
	poolShift = 4
)

// state is what predictions lean on. Each block starts from the zero state, so that it can be decoded alone.
type state struct {
	last        event.Event // fields of the event before
	addr        uint64      // last that was not 0
	alloc       uint64
	used, total [event.Pools]int64
}

// predict gives the Used and Total that an event has if nothing surprising happened.
func (s *state) predict(ev *event.Event) (used, total int64) {
	p := ev.Pool
	used, total = s.used[p], s.total[p]
	switch ev.Kind {
	case event.Malloc:
		used += ev.Size
	case event.Free:
		used -= ev.Size
	default:
		return 0, 0
	}
	return used, total
}

// advance makes ev the event before.
func (s *state) advance(ev *event.Event) {
	s.last.Stamp, s.last.Seq, s.last.PID, s.last.TID = ev.Stamp, ev.Seq, ev.PID, ev.TID
	s.last.Module, s.last.Device = ev.Module, ev.Device
	s.last.ProcessUsed, s.last.DeviceUsed = ev.ProcessUsed, ev.DeviceUsed
	if ev.Addr != 0 {
		s.addr = ev.Addr
	}
	if ev.AllocID != 0 {
		s.alloc = ev.AllocID
	}
	if ev.Kind == event.Malloc || ev.Kind == event.Free {
		s.used[ev.Pool], s.total[ev.Pool] = ev.Used, ev.Total
	}
}

func putUvarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func putVarint(b []byte, v int64) []byte { return putUvarint(b, uint64(v)<<1^uint64(v>>63)) }

// encode appends ev to b.
func (s *state) encode(b []byte, ev *event.Event) []byte {
	at := len(b)
	b = append(b, byte(ev.Kind)|byte(ev.Pool)<<poolShift, 0, 0, 0)
	b = putVarint(b, ev.Stamp-s.last.Stamp)
	mask := 0
	if ev.Sub != 0 {
		mask |= hasSub
		b = append(b, byte(ev.Sub))
	}
	if ev.Flags != 0 || ev.Page != 0 {
		mask |= hasBits
		b = append(b, byte(ev.Flags), byte(ev.Page))
	}
	if ev.Module != s.last.Module {
		mask |= hasModule
		b = putVarint(b, int64(ev.Module))
	}
	if ev.Device != s.last.Device {
		mask |= hasDevice
		b = putVarint(b, int64(ev.Device)-int64(s.last.Device))
	}
	if ev.Seq != s.last.Seq+1 {
		mask |= hasSeq
		b = putVarint(b, int64(ev.Seq-s.last.Seq))
	}
	if ev.PID != s.last.PID {
		mask |= hasPID
		b = putVarint(b, int64(ev.PID-s.last.PID))
	}
	if ev.TID != s.last.TID {
		mask |= hasTID
		b = putVarint(b, int64(ev.TID-s.last.TID))
	}
	if ev.Addr != 0 {
		mask |= hasAddr
		b = putVarint(b, int64(ev.Addr-s.addr))
	}
	if ev.Size != 0 {
		mask |= hasSize
		b = putVarint(b, ev.Size)
	}
	used, total := s.predict(ev)
	if ev.Used != used {
		mask |= hasUsed
		b = putVarint(b, ev.Used-used)
	}
	if ev.Total != total {
		mask |= hasTotal
		b = putVarint(b, ev.Total-total)
	}
	if ev.AllocID != 0 {
		mask |= hasAlloc
		b = putVarint(b, int64(ev.AllocID-s.alloc))
	}
	if ev.ProcessUsed != s.last.ProcessUsed {
		mask |= hasProcess
		b = putVarint(b, ev.ProcessUsed-s.last.ProcessUsed)
	}
	if ev.DeviceUsed != s.last.DeviceUsed {
		mask |= hasCard
		b = putVarint(b, ev.DeviceUsed-s.last.DeviceUsed)
	}
	if ev.Value != 0 {
		mask |= hasValue
		b = putUvarint(b, ev.Value)
	}
	if ev.Name != "" {
		mask |= hasName
		b = putText(b, ev.Name)
	}
	if ev.Stack != 0 {
		mask |= hasStack
		b = putUvarint(b, uint64(ev.Stack))
	}
	if ev.Waste != 0 {
		mask |= hasWaste
		b = append(b, byte(ev.Waste))
	}
	if ev.Owner != "" {
		mask |= hasOwner
		b = putText(b, ev.Owner)
	}
	if ev.Attrs != "" {
		mask |= hasAttrs
		b = putText(b, ev.Attrs)
	}
	b[at+1], b[at+2], b[at+3] = byte(mask), byte(mask>>8), byte(mask>>16)
	s.advance(ev)
	return b
}

func putText(b []byte, text string) []byte {
	text = text[:min(len(text), MaxName)]
	return append(putUvarint(b, uint64(len(text))), text...)
}

var errEncoding = errors.New("not an encoded event")

// The readers below take the place to read at and give the one behind what they read, or one behind the end of b when b ends
// early. So the place stays in a register: decoding is for the most part waiting for where the next field begins.

// uvarint reads a varint.
func uvarint(b []byte, at uint) (uint64, uint) {
	if at < uint(len(b)) && b[at] < 0x80 {
		return uint64(b[at]), at + 1
	}
	return longVarint(b, at)
}

// longVarint reads up to eight bytes at once, because lengths are hard to guess.
func longVarint(b []byte, at uint) (uint64, uint) {
	if at+8 <= uint(len(b)) {
		x := binary.LittleEndian.Uint64(b[at:])
		if ends := ^x & 0x80808080_80808080; ends != 0 {
			x &= ends ^ (ends - 1) // up to the first end
			x = x&0x007f007f_007f007f | x&0x7f007f00_7f007f00>>1
			x = x&0x00003fff_00003fff | x&0x3fff0000_3fff0000>>2
			return x&0x0fffffff | x&0x0fffffff_00000000>>4, at + uint(bits.TrailingZeros64(ends)/8+1)
		}
	}
	if at < uint(len(b)) {
		if v, n := binary.Uvarint(b[at:]); n > 0 {
			return v, at + uint(n)
		}
	}
	return 0, uint(len(b)) + 1
}

func varint(b []byte, at uint) (int64, uint) {
	u, at := uvarint(b, at)
	return int64(u>>1) ^ -int64(u&1), at
}

func readByte(b []byte, at uint) (byte, uint) {
	if at < uint(len(b)) {
		return b[at], at + 1
	}
	return 0, uint(len(b)) + 1
}

// readText reads a text; names gives equal ones the same string, so that one that returns costs no allocation.
func readText(b []byte, at uint, names *interner) (string, uint) {
	n, at := uvarint(b, at)
	if at > uint(len(b)) || n > uint64(uint(len(b))-at) {
		return "", uint(len(b)) + 1
	}
	return names.get(b[at : at+uint(n)]), at + uint(n)
}

// decode reads one event from the front of b into ev, every field of it, and returns what is left of b.
func (s *state) decode(b []byte, ev *event.Event, names *interner) ([]byte, error) {
	if len(b) < 4 {
		return nil, errEncoding
	}
	mask := int(b[1]) | int(b[2])<<8 | int(b[3])<<16
	*ev = event.Event{} // and then its fields one by one: a literal of them would be made elsewhere and copied
	ev.Kind, ev.Pool = event.Kind(b[0]&(1<<poolShift-1)), event.Pool(b[0]>>poolShift)
	ev.Module, ev.Device = s.last.Module, s.last.Device
	ev.Seq, ev.PID, ev.TID = s.last.Seq+1, s.last.PID, s.last.TID
	ev.ProcessUsed, ev.DeviceUsed = s.last.ProcessUsed, s.last.DeviceUsed
	var v byte
	var d int64
	var u uint64
	d, at := varint(b, 4)
	ev.Stamp = s.last.Stamp + d
	if mask&hasSub != 0 {
		v, at = readByte(b, at)
		ev.Sub = event.Sub(v)
	}
	if mask&hasBits != 0 {
		v, at = readByte(b, at)
		ev.Flags = event.Flags(v)
		v, at = readByte(b, at)
		ev.Page = event.Page(v)
	}
	if mask&hasModule != 0 {
		d, at = varint(b, at)
		ev.Module = int16(d)
	}
	if mask&hasDevice != 0 {
		d, at = varint(b, at)
		ev.Device = int32(int64(s.last.Device) + d)
	}
	if mask&hasSeq != 0 {
		d, at = varint(b, at)
		ev.Seq = s.last.Seq + uint64(d)
	}
	if mask&hasPID != 0 {
		d, at = varint(b, at)
		ev.PID += uint64(d)
	}
	if mask&hasTID != 0 {
		d, at = varint(b, at)
		ev.TID += uint64(d)
	}
	if mask&hasAddr != 0 {
		d, at = varint(b, at)
		ev.Addr = s.addr + uint64(d)
	}
	if mask&hasSize != 0 {
		ev.Size, at = varint(b, at)
	}
	ev.Used, ev.Total = s.predict(ev)
	if mask&hasUsed != 0 {
		d, at = varint(b, at)
		ev.Used += d
	}
	if mask&hasTotal != 0 {
		d, at = varint(b, at)
		ev.Total += d
	}
	if mask&hasAlloc != 0 {
		d, at = varint(b, at)
		ev.AllocID = s.alloc + uint64(d)
	}
	if mask&hasProcess != 0 {
		d, at = varint(b, at)
		ev.ProcessUsed += d
	}
	if mask&hasCard != 0 {
		d, at = varint(b, at)
		ev.DeviceUsed += d
	}
	if mask&hasValue != 0 {
		ev.Value, at = uvarint(b, at)
	}
	if mask&hasName != 0 {
		ev.Name, at = readText(b, at, names)
	}
	if mask&hasStack != 0 {
		u, at = uvarint(b, at)
		ev.Stack = uint32(u)
	}
	if mask&hasWaste != 0 {
		v, at = readByte(b, at)
		ev.Waste = event.Waste(v)
	}
	if mask&hasOwner != 0 {
		ev.Owner, at = readText(b, at, names)
	}
	if mask&hasAttrs != 0 {
		ev.Attrs, at = readText(b, at, names)
	}
	if at > uint(len(b)) || !plausible(ev) {
		return nil, errEncoding
	}
	s.advance(ev)
	return b[at:], nil
}

// plausible says whether an event can be one of the collector's. Its kind, pool and device select tables and directories.
func plausible(ev *event.Event) bool {
	return ev.Kind >= event.System && ev.Kind <= event.OOMDetail &&
		ev.Device >= 0 && ev.Device <= math.MaxUint16 // the width of the field in the records, wire.h
}

// interner gives equal names the same string, which spares most allocations. It forgets everything when it is full.
type interner struct {
	names  map[string]string
	recent [64]string // what was asked for last, at places that follow from a few bytes
}

const internMax = 4096

func (n *interner) get(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	recent := &n.recent[(len(b)+int(b[len(b)/2])*5+int(b[len(b)-1])*3)%len(n.recent)]
	if *recent == string(b) {
		return *recent
	}
	s, ok := n.names[string(b)]
	if !ok {
		if n.names == nil || len(n.names) >= internMax {
			n.names = make(map[string]string)
		}
		s = string(b)
		n.names[s] = s
	}
	*recent = s
	return s
}
