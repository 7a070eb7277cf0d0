package read

import (
	"bytes"
	"fmt"

	"memscope/internal/event"
)

// decoder turns text into rows. It belongs to one goroutine.
type decoder struct {
	*layout
	want  Want
	plan  []step // the columns that are decoded
	pools *Pools

	own   bool // the fields are our own columns, in their order
	typed [16]typed
	stamp struct { // the last one: its first eight digits and the eight from the fourth on, as they stand, and its value without the last eight
		head, next uint64
		base       int64
	}
	whose whose // that of the row before, which mostly is that of the next

	pid, tid ident
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

func newDecoder(l *layout, want Want, pools *Pools) *decoder {
	d := &decoder{layout: l, want: want, pools: pools, own: l.n == columns}
	needs := [columns]bool{colID: want&ID != 0, colEvent: true, colType: true, colName: want&Name != 0, colStamp: true, colPID: want&PID != 0, colTID: want&TID != 0,
		colDevice: want&Device != 0, colPtr: want&Addr != 0, colAttr: want&(AttrText|attrKeys) != 0, colPython: want&Stacks != 0, colC: want&Stacks != 0}
	for i, c := range l.column[:l.n] {
		if c != colOther && needs[c] {
			d.plan = append(d.plan, step{uint8(i), c})
		}
		d.own = d.own && int(c) == i
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
		if d.own {
			if next, ok := d.quick(b.grown(), text, at); ok {
				b.took()
				at = next
				continue
			}
		}
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
	r := b.grown()
	if reason := d.row(r, b, fields); reason != "" {
		b.fault(at, reason)
		return
	}
	r.start, r.end = uint32(at), uint32(end)
	b.took()
}

// grown gives the place of the next row of b, which took accepts.
func (b *Batch) grown() *Row {
	n := len(b.Rows)
	if n == cap(b.Rows) {
		rows := make([]Row, n, max(256, 2*n))
		copy(rows, b.Rows)
		b.Rows = rows
	}
	return &b.Rows[:n+1][n]
}

func (b *Batch) took() {
	n := len(b.Rows)
	b.Rows = b.Rows[:n+1]
	b.sorted = b.sorted && (n == 0 || b.Rows[n].Stamp >= b.Rows[n-1].Stamp)
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

var unknownRow = Row{ID: event.Unknown, PID: NoID, TID: NoID, Size: event.Unknown, Used: event.Unknown, Total: event.Unknown,
	ProcessUsed: event.Unknown, DeviceUsed: event.Unknown, Device: event.DeviceNone, Pool: NoPool}

// row decodes one row; a reason says why it is none.
func (d *decoder) row(r *Row, b *Batch, fields []field) (reason string) {
	text := b.text
	*r = unknownRow
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
	r.kind(text[typ.start:typ.end], d.pools)
	if attr.start < attr.end {
		if cell := text[attr.start:attr.end]; cell[0] == '{' && isJSON(cell) {
			attr = b.plain(cell)
		}
		d.attr(r, b.text, Span{attr.start, attr.end})
	}
	return ""
}

// kind reads the Event Type column, whose meaning depends on Kind.
func (r *Row) kind(typ []byte, pools *Pools) {
	switch r.Kind {
	case event.Malloc, event.Free:
		r.Pool, r.Flags = poolOf(typ)
		if r.Pool == NoPool {
			r.Pool, r.Flags = poolOf(bytes.ToUpper(bytes.TrimSpace(typ)))
		}
		if r.Pool == NoPool && pools != nil {
			r.Pool = pools.row(typ)
		}
	default:
		r.Sub = subOf(typ)
	}
}

// attr reads an Attr cell in the plain notation.
func (d *decoder) attr(r *Row, text []byte, cell Span) {
	if d.want&AttrText != 0 {
		r.AttrText = cell
	}
	switch r.Kind {
	case event.Malloc, event.Free, event.Access:
		r.attrNumbers(text, cell, d.want)
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
	v, end := digits(b, 0)
	if end < len(b) {
		return 0, false
	}
	if v > 1<<63-1 {
		return 0, false
	}
	if negative {
		return -int64(v), true
	}
	return int64(v), true
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
