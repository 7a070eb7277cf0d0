package read

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"memscope/internal/event"
)

// decoder turns text into rows.
type decoder struct {
	*layout
	want Want
}

// rows decodes every row of b.text into b.Rows.
func (d *decoder) rows(b *Batch) {
	b.Rows, b.faults, b.faultCount, b.sorted = b.Rows[:0], b.faults[:0], 0, true
	var fields [maxColumns]field
	last := int64(-1 << 63)
	for at := 0; at < len(b.text); {
		n, next, ok := split(b.text, at, fields[:d.n])
		if !ok || n != d.n {
			next = d.broken(b, at, next, n, ok)
			at = next
			continue
		}
		if len(b.Rows) == cap(b.Rows) {
			b.grow()
		}
		b.Rows = b.Rows[:len(b.Rows)+1]
		r := &b.Rows[len(b.Rows)-1]
		if reason := d.row(r, b.text, fields[:n]); reason != "" {
			b.Rows = b.Rows[:len(b.Rows)-1]
			b.fault(at, reason)
		} else {
			r.start = uint32(at)
			b.sorted = b.sorted && r.Stamp >= last
			last = r.Stamp
		}
		at = next
	}
}

// broken notes a row that is no row, and says where to go on.
func (d *decoder) broken(b *Batch, at, next, n int, ok bool) int {
	line := bytes.TrimSpace(b.text[at:lineEnd(b.text, at)])
	switch {
	case ok && len(line) == 0:
		return next
	case !ok:
		b.fault(at, "a quoted field has no end")
	default:
		b.fault(at, fmt.Sprintf("%d fields instead of %d", n, d.n))
	}
	if d.native && !(ok && next < len(b.text) && rowStart(b.text[next:])) {
		return resync(b.text, at)
	}
	if !ok {
		return len(b.text)
	}
	return next
}

func (b *Batch) grow() {
	rows := make([]Row, len(b.Rows), max(256, 2*cap(b.Rows)))
	copy(rows, b.Rows)
	b.Rows = rows
}

// row decodes one row; a reason says why it is none.
func (d *decoder) row(r *Row, text []byte, fields []field) (reason string) {
	*r = Row{ID: event.Unknown, PID: NoID, TID: NoID, Size: event.Unknown, Used: event.Unknown, Total: event.Unknown,
		ProcessUsed: event.Unknown, DeviceUsed: event.Unknown, Device: event.DeviceNone, Pool: NoPool}
	var typ, attr field
	for i, f := range fields {
		if f.start == f.end {
			continue
		}
		cell := text[f.start:f.end]
		switch d.column[i] {
		case colID:
			if d.want&ID != 0 {
				v, ok := integer(cell)
				if !ok {
					return fmt.Sprintf("ID %q is no number", clip(cell))
				}
				r.ID = v
			}
		case colEvent:
			r.Kind = kindOf(cell)
		case colType:
			typ = f
		case colName:
			if d.want&Name != 0 && string(cell) != "N/A" {
				r.Name = Span{f.start, f.end}
			}
		case colStamp:
			v, ok := integer(cell)
			if !ok || v <= 0 {
				return fmt.Sprintf("timestamp %q is no time", clip(cell))
			}
			r.Stamp = v
		case colPID:
			if d.want&PID != 0 {
				r.PID = id(cell)
			}
		case colTID:
			if d.want&TID != 0 {
				r.TID = id(cell)
			}
		case colDevice:
			if d.want&Device != 0 {
				r.Device = device(cell)
			}
		case colPtr:
			if d.want&Addr != 0 {
				r.Addr = address(cell)
			}
		case colAttr:
			attr = f
		case colPython:
			if d.want&Stacks != 0 {
				r.Python = Span{f.start, f.end}
			}
		case colC:
			if d.want&Stacks != 0 {
				r.C = Span{f.start, f.end}
			}
		}
	}
	if r.Stamp == 0 {
		return "no timestamp"
	}
	r.kind(text[typ.start:typ.end])
	d.attr(r, text, attr)
	return ""
}

// kind reads the Event Type column, whose meaning depends on Kind.
func (r *Row) kind(typ []byte) {
	switch r.Kind {
	case event.Malloc, event.Free:
		r.Pool, r.Flags = poolOf(typ)
		if r.Pool == NoPool {
			r.Pool, r.Flags = poolOf(bytes.ToUpper(bytes.TrimSpace(typ)))
		}
	default:
		r.Sub = subOf(typ)
	}
}

func (d *decoder) attr(r *Row, text []byte, f field) {
	if f.start == f.end {
		return
	}
	if d.want&AttrText != 0 {
		r.AttrText = Span{f.start, f.end}
	}
	switch r.Kind {
	case event.Malloc, event.Free:
		if d.want&attrKeys == 0 {
			return
		}
	case event.Access:
		if d.want&(AllocID|Access|Size) == 0 {
			return
		}
	default:
		return
	}
	cell := text[f.start:f.end]
	if cell[0] != '{' || isJSON(cell) {
		r.attrJSON(cell, f, d.want)
		return
	}
	r.attrNumbers(cell, f.start, d.want)
}

// attrJSON reads the other notation, by way of the plain one. It is for old databases and for CSV files made from them, so
// it may be slow. An owner cannot be handed on as a piece of the text if that is escaped; then it is left out.
func (r *Row) attrJSON(cell []byte, f field, want Want) {
	cell = bytes.TrimSpace(cell)
	if f.quoted {
		cell = bytes.ReplaceAll(cell, []byte(`""`), []byte(`"`))
	}
	plain := AppendPlain(nil, cell)
	if len(plain) == 0 {
		return
	}
	var owner Span
	r.attrNumbers(plain, 0, want)
	if r.Owner.Len() > 0 {
		text := plain[r.Owner.Start:r.Owner.End]
		if i := bytes.Index(cell, text); i >= 0 && !f.quoted {
			owner = Span{f.start + uint32(i), f.start + uint32(i+len(text))}
		}
		r.Owner = owner
	}
}

func clip(b []byte) []byte { return b[:min(len(b), 40)] }

// integer reads a decimal number, outer blanks allowed.
func integer(b []byte) (int64, bool) {
	if len(b) > 0 && (b[0] == ' ' || b[len(b)-1] == ' ') {
		b = bytes.TrimSpace(b)
	}
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	var v uint64
	for len(b) >= 8 {
		d, ok := eightDigits(b)
		if !ok {
			return 0, false
		}
		v, b = v*1e8+d, b[8:]
	}
	for _, c := range b {
		if c -= '0'; c > 9 {
			return 0, false
		}
		v = v*10 + uint64(c)
	}
	if v > 1<<63-1 {
		return 0, false
	}
	if negative {
		return -int64(v), true
	}
	return int64(v), true
}

// eightDigits reads the first eight bytes of b, all at once: neighbours are joined to numbers of two digits, these to four,
// these to eight.
func eightDigits(b []byte) (uint64, bool) {
	x := binary.LittleEndian.Uint64(b) ^ 0x3030303030303030
	if (x|(x+0x7676767676767676))&0x8080808080808080 != 0 { // a byte above 9
		return 0, false
	}
	x = x*10 + x>>8
	x = (x & 0x00ff00ff00ff00ff) * (100<<16 + 1) >> 16 & 0x0000ffff0000ffff
	return x * (10000<<32 + 1) >> 32, true
}

// id reads a process or thread id.
func id(b []byte) uint64 {
	if v, ok := integer(b); ok && v >= 0 {
		return uint64(v)
	}
	return NoID
}

func device(b []byte) int32 {
	if v, ok := integer(b); ok && v >= 0 && v < int64(event.DeviceNone) {
		return int32(v)
	}
	switch string(bytes.ToLower(bytes.TrimSpace(b))) {
	case "cpu", "host": // host is the older word
		return event.DeviceCPU
	}
	return event.DeviceNone
}

// address reads a hexadecimal number with or without 0x, or 0.
func address(b []byte) uint64 {
	if len(b) > 0 && (b[0] == ' ' || b[len(b)-1] == ' ') {
		b = bytes.TrimSpace(b)
	}
	if len(b) > 2 && b[0] == '0' && b[1]|0x20 == 'x' {
		b = b[2:]
	}
	if len(b) > 16 {
		return 0
	}
	var v uint64
	for _, c := range b {
		digit := nibble[c]
		if digit > 15 {
			return 0
		}
		v = v<<4 | uint64(digit)
	}
	return v
}

var nibble = func() (t [256]uint8) {
	for i := range t {
		t[i] = 255
	}
	for i := range 10 {
		t['0'+i] = uint8(i)
	}
	for i := range 6 {
		t['a'+i], t['A'+i] = uint8(10+i), uint8(10+i)
	}
	return t
}()
