package read

import (
	"bytes"
	"encoding/binary"

	"memscope/internal/event"
)

// Attrs walks over an Attr cell in either notation: {key:value,key:value} of a CSV file, whose values may hold commas and
// colons, and the JSON object of a database. visit returns false to stop.
func Attrs(cell []byte, visit func(key, value []byte) bool) {
	cell = bytes.TrimSpace(cell)
	if len(cell) < 2 || cell[0] != '{' {
		return
	}
	if isJSON(cell) {
		jsonAttrs(cell, visit)
		return
	}
	body := cell[1:]
	if body[len(body)-1] == '}' {
		body = body[:len(body)-1]
	}
	for len(body) > 0 {
		colon := bytes.IndexByte(body, ':')
		if colon < 0 {
			return
		}
		end := valueEnd(body, colon+1)
		if !visit(body[:colon], body[colon+1:end]) || end == len(body) {
			return
		}
		body = body[end+1:]
	}
}

// Attr finds one value in an Attr cell; nil: there is no such key.
func Attr(cell []byte, key string) (value []byte) {
	Attrs(cell, func(k, v []byte) bool {
		if string(k) != key {
			return true
		}
		value = v
		return false
	})
	return value
}

// valueEnd finds the end of the value that begins at body[at]: the last comma before the next colon, as long as what stands
// between the two can be a key; otherwise both belong to the value.
func valueEnd(body []byte, at int) int {
	for from := at; ; {
		colon := bytes.IndexByte(body[from:], ':')
		if colon < 0 {
			return len(body)
		}
		colon += from
		comma := bytes.LastIndexByte(body[at:colon], ',')
		if comma >= 0 && isKey(body[at+comma+1:colon]) {
			return at + comma
		}
		from = colon + 1
	}
}

func isKey(b []byte) bool {
	for i, c := range b {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_':
		case c >= '0' && c <= '9' && i > 0, c == ' ' && i > 0:
		default:
			return false
		}
	}
	return len(b) > 0
}

// attrNumbers reads the keys in want from a cell in the plain notation. It is the hot path of every scan: keys have a fixed
// order in our dumps, but any order is read, and it ends when everything asked for was seen.
func (r *Row) attrNumbers(text []byte, cell Span, want Want) {
	at, stop := int(cell.Start)+1, int(cell.End)
	if stop > 0 && text[stop-1] == '}' {
		stop--
	}
	if want &= attrKeys; want == 0 {
		return
	}
	for i := range usualKeys {
		k := &usualKeys[i]
		n := int(k.n)
		if at+n >= stop || at+8 > len(text) || binary.LittleEndian.Uint64(text[at:])&k.mask != k.head ||
			n > 8 && binary.LittleEndian.Uint64(text[at+n-8:]) != k.tail {
			continue
		}
		end := at + n
		var v int64
		switch {
		case k.want == Addr: // the Ptr column has it
			end = plainEnd(text[:stop], end)
		case want&k.want == 0:
			end = digitsEnd(text, end)
		default:
			v, end = number(text, end, stop)
		}
		if end > stop || end < stop && text[end] != ',' {
			break
		}
		at = end + 1
		if want&k.want == 0 {
			continue
		}
		switch k.want {
		case AllocID:
			r.AllocID = uint64(max(v, 0))
		case Size:
			r.Size = v
		case Used:
			r.Used = v
		case Total:
			r.Total = v
		case ProcessUsed:
			r.ProcessUsed = v
		case DeviceUsed:
			r.DeviceUsed = v
		}
		if want &^= k.want; want == 0 {
			return
		}
	}
	for want != 0 && at < stop {
		colon := at
		for colon < stop && text[colon] != ':' {
			colon++
		}
		if colon == stop {
			return
		}
		key := text[at:colon]
		at = colon + 1
		var v int64
		var end int
		switch string(key) {
		case "addr":
			end = at
			for end < stop && text[end] != ',' {
				end++
			}
		case "allocation_id":
			v, end = number(text, at, stop)
			r.AllocID = uint64(max(v, 0))
			want &^= AllocID
		case "size":
			r.Size, end = number(text, at, stop)
			want &^= Size
		case "used":
			r.Used, end = number(text, at, stop)
			want &^= Used
		case "total":
			r.Total, end = number(text, at, stop)
			want &^= Total
		case "process_used":
			r.ProcessUsed, end = number(text, at, stop)
			want &^= ProcessUsed
		case "device_used":
			r.DeviceUsed, end = number(text, at, stop)
			want &^= DeviceUsed
		default:
			end = at + valueEnd(text[at:stop], 0)
			want &^= r.attrWord(key, text[at:end], Span{uint32(at), uint32(end)})
		}
		if end < stop && text[end] != ',' { // a number with something behind it
			end += valueEnd(text[end:stop], 0)
		}
		at = end + 1
	}
}

// usualKey is a key with its colon, as words: the first eight bytes, which of them count, and the last eight.
type usualKey struct {
	head, mask, tail uint64
	n                uint8
	want             Want
}

// usualKeys are the keys with which most Attr cells begin, in their order.
var usualKeys = func() (keys [7]usualKey) {
	for i, k := range [...]struct {
		name string
		want Want
	}{{"allocation_id:", AllocID}, {"addr:", Addr}, {"size:", Size}, {"used:", Used}, {"total:", Total}, {"process_used:", ProcessUsed},
		{"device_used:", DeviceUsed}} {
		n := len(k.name)
		word := append([]byte(k.name), make([]byte, 8)...)
		keys[i] = usualKey{head: binary.LittleEndian.Uint64(word), mask: 1<<(8*min(n, 8)) - 1, n: uint8(n), want: k.want}
		if n > 8 {
			keys[i].tail = binary.LittleEndian.Uint64(word[n-8:])
		}
	}
	return keys
}()

// attrWord reads a key whose value is no number, and says which wish that fulfils.
func (r *Row) attrWord(key, value []byte, at Span) Want {
	switch string(key) {
	case "shadow":
		if string(value) == "true" {
			r.Flags |= event.Shadow
		}
		return Shadow
	case "pinned":
		if string(value) == "true" {
			r.Flags |= event.Pinned
		}
	case "owner":
		r.Owner = at
		return Owner
	case "page_type":
		switch string(value) {
		case "huge":
			r.Page = event.PageHuge
		case "giant":
			r.Page = event.PageGiant
		}
	case "alloc_type":
		if string(value) == "create" {
			r.Flags |= event.Created
		}
		return Page
	case "type":
		r.Pool, _ = poolOf(value)
		return Access
	}
	return 0
}

// number reads a decimal number of up to 18 digits in text[at:stop] and says where it ends; event.Unknown: there is none.
func number(text []byte, at, stop int) (v int64, end int) {
	from := at
	if at < stop && text[at] == '-' {
		from++
	}
	u, end := digits(text, from)
	if end > stop { // of another cell
		u, end = digits(text[:stop], from)
	}
	if end == from || end-from > 18 {
		return event.Unknown, end
	}
	if from > at {
		return -int64(u), end
	}
	return int64(u), end
}
