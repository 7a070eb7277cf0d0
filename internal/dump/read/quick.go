package read

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"

	"memscope/internal/event"
)

// typed is what an Event and an Event Type cell say.
type typed struct {
	text  [40]byte // both with their commas, as they stand in the file
	n     int
	kind  event.Kind
	sub   event.Sub
	pool  event.Pool
	flags event.Flags
}

// whose is what a Process Id, a Thread Id and a Device Id cell say.
type whose struct {
	text     []byte // all three with their commas, as they stand in the file
	pid, tid uint64
	device   int32
}

// quick decodes the row at text[at:] of a file with our own columns into r, in one go and mostly by comparing with rows
// before: what a row is and whose it is stands in few words, which come again and again. It knows how most rows look; for a
// row that is unusual in any way ok is false, and it goes the long way, which is split and row.
func (d *decoder) quick(r *Row, text []byte, at int) (next int, ok bool) {
	*r = unknownRow
	r.start = uint32(at)
	end := plainEnd(text, at)
	if end+20 > len(text) || text[end] != ',' || text[at] == '"' {
		return 0, false
	}
	if d.want&ID != 0 {
		id, stop := digits(text, at)
		if stop != end || at == end || end-at > 18 {
			return 0, false
		}
		r.ID = int64(id)
	}
	at = end + 1

	x := binary.LittleEndian.Uint64(text[at:]) + 3*binary.LittleEndian.Uint64(text[at+8:])
	e := &d.typed[x*0x9e3779b97f4a7c15>>60]
	if end = at + e.n; e.n == 0 || end > len(text) || string(text[at:end]) != string(e.text[:e.n]) {
		if end = d.learnType(e, text, at); end < 0 {
			return 0, false
		}
	}
	r.Kind, r.Sub, r.Pool, r.Flags = e.kind, e.sub, e.pool, e.flags
	at = end

	cell, at, ok := quickCell(text, at)
	if !ok {
		return 0, false
	}
	if d.want&Name != 0 && string(text[cell.Start:cell.End]) != "N/A" {
		r.Name = cell
	}
	if end = d.readStamp(r, text, at); end < 0 {
		return 0, false
	}
	at = end + 1

	if end = at + len(d.whose.text); end == at || end > len(text) || string(text[at:end]) != string(d.whose.text) {
		if end = d.learnWhose(text, at); end < 0 {
			return 0, false
		}
	}
	r.PID, r.TID, r.Device = d.whose.pid, d.whose.tid, d.whose.device
	at = end

	if cell, at, ok = quickCell(text, at); !ok {
		return 0, false
	}
	if d.want&Addr != 0 {
		r.Addr = address(text[cell.Start:cell.End])
	}
	if cell, at, ok = quickCell(text, at); !ok {
		return 0, false
	}
	if cell.Len() > 0 {
		if text[cell.Start] == '{' && isJSON(text[cell.Start:cell.End]) {
			return 0, false
		}
		d.attr(r, text, cell)
	}
	if cell, at, ok = quickCell(text, at); !ok {
		return 0, false
	}
	if d.want&Stacks != 0 {
		r.Python = cell
	}
	if at < len(text) && text[at] == '"' {
		end := closing(text, at+1)
		if end < 0 {
			return 0, false
		}
		if d.want&Stacks != 0 && end > at+1 {
			r.C = Span{uint32(at + 1), uint32(end)}
		}
		at = end + 1
	}
	if at < len(text) && text[at] == '\r' {
		at++
	}
	if at >= len(text) || text[at] != '\n' {
		return 0, false
	}
	r.end = uint32(at + 1)
	return at + 1, true
}

// readStamp reads the Timestamp at text[at:] and says where it ends; -1: it is unusual. In a row of numbers of 19 digits the
// first eleven change ten times in a second: only the last eight are read.
func (d *decoder) readStamp(r *Row, text []byte, at int) (end int) {
	if end = at + 19; end < len(text) && binary.LittleEndian.Uint64(text[at:]) == d.stamp.head && binary.LittleEndian.Uint64(text[at+3:]) == d.stamp.next && text[end] == ',' {
		if v, stop := digits(text[:end], at+11); stop == end {
			r.Stamp = d.stamp.base + int64(v)
			return end
		}
	}
	v, end := digits(text, at)
	if v-1 >= math.MaxInt64 || end-at > 19 || end >= len(text) || text[end] != ',' {
		return -1
	}
	if end-at == 19 {
		d.stamp.head, d.stamp.next = binary.LittleEndian.Uint64(text[at:]), binary.LittleEndian.Uint64(text[at+3:])
		d.stamp.base = int64(v - v%1e8)
	}
	r.Stamp = int64(v)
	return end
}

// learnType reads the Event and the Event Type at text[at:] into e and says where they end; -1: they are unusual.
func (d *decoder) learnType(e *typed, text []byte, at int) int {
	kind := plainEnd(text, at)
	if kind == len(text) || text[at] == '"' || text[kind] != ',' {
		return -1
	}
	typ := plainEnd(text, kind+1)
	if typ == len(text) || text[kind+1] == '"' || text[typ] != ',' || typ+1-at > len(e.text) {
		return -1
	}
	r := Row{Kind: kindOf(text[at:kind]), Pool: NoPool}
	r.kind(text[kind+1:typ], d.pools)
	e.n = copy(e.text[:], text[at:typ+1])
	e.kind, e.sub, e.pool, e.flags = r.Kind, r.Sub, r.Pool, r.Flags
	return typ + 1
}

// learnWhose is learnType for the ids.
func (d *decoder) learnWhose(text []byte, at int) int {
	w := &d.whose
	w.text = w.text[:0] // nothing, should this fail
	var cells [3][]byte
	end := at
	for i := range cells {
		from := end
		if end = plainEnd(text, from); end == len(text) || text[from] == '"' || text[end] != ',' {
			return -1
		}
		cells[i] = text[from:end]
		end++
	}
	w.pid, w.tid, w.device = NoID, NoID, event.DeviceNone
	if d.want&PID != 0 {
		w.pid = d.pid.read(cells[0])
	}
	if d.want&TID != 0 {
		w.tid = d.tid.read(cells[1])
	}
	if d.want&Device != 0 {
		w.device = device(cells[2])
	}
	w.text = append(w.text, text[at:end]...)
	return end
}

// quickCell finds the field at text[at:], which a comma must end, and says where the next one begins.
func quickCell(text []byte, at int) (cell Span, next int, ok bool) {
	switch {
	case at >= len(text):
		return cell, 0, false
	case text[at] == ',':
		return cell, at + 1, true
	case text[at] == '"':
		at++
		end := bytes.IndexByte(text[at:], '"') + at
		if end < at || end+1 >= len(text) || text[end+1] != ',' {
			if end = closing(text, at); end < 0 || end+1 >= len(text) || text[end+1] != ',' {
				return cell, 0, false
			}
		}
		if end > at {
			cell = Span{uint32(at), uint32(end)}
		}
		return cell, end + 2, true
	}
	end := plainEnd(text, at)
	if end == len(text) || text[end] != ',' {
		return cell, 0, false
	}
	return Span{uint32(at), uint32(end)}, end + 1, true
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plainEnd finds the next comma or line feed at or behind at; len(text): none.
func plainEnd(text []byte, at int) int {
	for ; at+8 <= len(text); at += 8 {
		x := binary.LittleEndian.Uint64(text[at:])
		comma, feed := x^(ones*','), x^(ones*'\n')
		if zero := ((comma-ones)&^comma | (feed-ones)&^feed) & highs; zero != 0 { // the lowest bit set marks the first that is one of them
			return at + bits.TrailingZeros64(zero)>>3
		}
	}
	for ; at < len(text) && text[at] != ',' && text[at] != '\n'; at++ {
	}
	return at
}

var powers = [9]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}

// digits reads the decimal number that begins at text[at] and says where it ends, eight digits at a time. v is right for up
// to 19 digits.
func digits(text []byte, at int) (v uint64, end int) {
	for at+8 <= len(text) {
		x := binary.LittleEndian.Uint64(text[at:]) ^ ones*'0'
		n := uint(bits.TrailingZeros64((x|(x+ones*0x76))&highs)) >> 3 // how many come first that are not above 9
		// Put behind zeros, neighbours are joined to numbers of two digits, these to four, these to eight.
		x <<= 64 - 8*n
		x = x*10 + x>>8
		x = (x & 0x00ff00ff00ff00ff) * (100<<16 + 1) >> 16 & 0x0000ffff0000ffff
		v = v*powers[n] + x*(10000<<32+1)>>32
		at += int(n)
		if n < 8 {
			return v, at
		}
	}
	for ; at < len(text) && text[at]-'0' <= 9; at++ {
		v = v*10 + uint64(text[at]-'0')
	}
	return v, at
}

// digitsEnd is where the digits that begin at text[at] end.
func digitsEnd(text []byte, at int) int {
	for at+8 <= len(text) {
		x := binary.LittleEndian.Uint64(text[at:]) ^ ones*'0'
		n := bits.TrailingZeros64((x|(x+ones*0x76))&highs) >> 3
		if at += n; n < 8 {
			return at
		}
	}
	for ; at < len(text) && text[at]-'0' <= 9; at++ {
	}
	return at
}
