package read

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"memscope/internal/event"
)

// decoder turns text into rows. It belongs to one goroutine.
type decoder struct {
	*layout
	want Want
	plan []step // the columns that are decoded

	pid, tid ident // those of the row before, which mostly are those of the next
	device   int32
	deviceAt []byte
}

// step says which field holds a column.
type step struct{ field, column uint8 }

// ident is a number with the text that it was read from.
type ident struct {
	text  []byte
	value uint64
}

func newDecoder(l *layout, want Want) *decoder {
	d := &decoder{layout: l, want: want}
	needs := [columns]bool{colID: want&ID != 0, colEvent: true, colType: true, colName: want&Name != 0, colStamp: true, colPID: want&PID != 0, colTID: want&TID != 0,
		colDevice: want&Device != 0, colPtr: want&Addr != 0, colAttr: want&(AttrText|attrKeys) != 0, colPython: want&Stacks != 0, colC: want&Stacks != 0}
	for i := range l.n {
		if c := l.column[i]; c != colOther && needs[c] {
			d.plan = append(d.plan, step{uint8(i), c})
		}
	}
	return d
}

// read reads a process or thread id.
func (n *ident) read(cell []byte) uint64 {
	if string(cell) != string(n.text) || n.text == nil {
		n.text, n.value = append(n.text[:0], cell...), id(cell)
	}
	return n.value
}

// rows decodes every row of b.text into b.Rows.
func (d *decoder) rows(b *Batch) {
	b.Rows, b.faults, b.faultCount, b.sorted, b.cut = b.Rows[:0], b.faults[:0], 0, true, false
	var fields [maxColumns]field
	text := b.text // b.text may grow behind it
	for at := 0; at < len(text); {
		n, next, ok := split(text, at, fields[:d.n])
		if !ok || n != d.n {
			next = d.broken(b, at, next, n, ok)
			at = next
			continue
		}
		d.append(b, at, next, fields[:n])
		at = next
	}
}

// append decodes one row, b.text[at:end] in a CSV file, into b.Rows.
func (d *decoder) append(b *Batch, at, end int, fields []field) {
	n := len(b.Rows)
	if n == cap(b.Rows) {
		rows := make([]Row, n, max(256, 2*n))
		copy(rows, b.Rows)
		b.Rows = rows
	}
	r := &b.Rows[:n+1][n]
	if reason := d.row(r, b, fields); reason != "" {
		b.fault(at, reason)
		return
	}
	r.start, r.end = uint32(at), uint32(end)
	b.Rows = b.Rows[:n+1]
	b.sorted = b.sorted && (n == 0 || r.Stamp >= b.Rows[n-1].Stamp)
}

// broken notes a row that is no row, and says where to go on.
func (d *decoder) broken(b *Batch, at, next, n int, ok bool) int {
	text := b.text
	if line := bytes.TrimSpace(text[at:lineEnd(text, at)]); ok && len(line) == 0 {
		return next
	}
	reason := "a quoted field has no end"
	if ok {
		reason = fmt.Sprintf("%d fields instead of %d", n, d.n)
	}
	b.fault(at, reason)
	switch {
	case d.native && !(ok && next < len(text) && rowStart(text[next:])):
		next = resync(text, at)
	case !ok:
		next = len(text)
	}
	b.cut = b.last && next == len(text) && !(ok && text[len(text)-1] == '\n')
	return next
}

// row decodes one row; a reason says why it is none.
func (d *decoder) row(r *Row, b *Batch, fields []field) (reason string) {
	text := b.text
	*r = Row{ID: event.Unknown, PID: NoID, TID: NoID, Size: event.Unknown, Used: event.Unknown, Total: event.Unknown,
		ProcessUsed: event.Unknown, DeviceUsed: event.Unknown, Device: event.DeviceNone, Pool: NoPool}
	var typ, attr field
	for _, p := range d.plan {
		f := fields[p.field]
		if f.start == f.end {
			continue
		}
		cell := text[f.start:f.end]
		switch p.column {
		case colID:
			v, ok := integer(cell)
			if !ok {
				return fmt.Sprintf("ID %q is no number", clip(cell))
			}
			r.ID = v
		case colEvent:
			r.Kind = kindOf(cell)
		case colType:
			typ = f
		case colName:
			if string(cell) != "N/A" {
				r.Name = Span{f.start, f.end}
			}
		case colStamp:
			v, ok := integer(cell)
			if !ok || v <= 0 {
				return fmt.Sprintf("timestamp %q is no time", clip(cell))
			}
			r.Stamp = v
		case colPID:
			r.PID = d.pid.read(cell)
		case colTID:
			r.TID = d.tid.read(cell)
		case colDevice:
			if string(cell) != string(d.deviceAt) {
				d.deviceAt, d.device = append(d.deviceAt[:0], cell...), device(cell)
			}
			r.Device = d.device
		case colPtr:
			r.Addr = address(cell)
		case colAttr:
			attr = f
		case colPython:
			r.Python = Span{f.start, f.end}
		case colC:
			r.C = Span{f.start, f.end}
		}
	}
	if r.Stamp == 0 {
		return "no timestamp"
	}
	r.kind(text[typ.start:typ.end])
	d.attr(r, b, attr)
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

func (d *decoder) attr(r *Row, b *Batch, f field) {
	if f.start == f.end {
		return
	}
	if cell := b.text[f.start:f.end]; cell[0] == '{' && isJSON(cell) {
		f = b.plain(cell)
	}
	if d.want&AttrText != 0 {
		r.AttrText = Span{f.start, f.end}
	}
	switch r.Kind {
	case event.Malloc, event.Free, event.Access:
		r.attrNumbers(b.text[f.start:f.end], f.start, d.want)
	}
}

// plain turns an Attr cell in the notation of a database into the other one, which it puts behind the rows.
func (b *Batch) plain(cell []byte) field {
	if b.csv {
		cell = bytes.ReplaceAll(cell, []byte(`""`), quote)
	}
	start := len(b.text)
	b.text = AppendPlain(b.text, cell)
	return field{start: uint32(start), end: uint32(len(b.text))}
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
