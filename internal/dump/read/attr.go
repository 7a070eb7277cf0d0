package read

import (
	"bytes"

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

// attrNumbers reads the keys in want from the plain notation. It is the hot path of every scan: keys have a fixed order in
// our dumps, but any order is read, and it ends when everything asked for was seen.
func (r *Row) attrNumbers(cell []byte, base uint32, want Want) {
	body := cell
	if len(body) > 0 && body[len(body)-1] == '}' {
		body = body[:len(body)-1]
	}
	at := 1
	for want&attrKeys != 0 && at < len(body) {
		colon := at
		for colon < len(body) && body[colon] != ':' {
			colon++
		}
		if colon == len(body) {
			return
		}
		key := body[at:colon]
		at = colon + 1
		var v int64
		var end int
		switch string(key) {
		case "addr": // the Ptr column has it
			end = at
			for end < len(body) && body[end] != ',' {
				end++
			}
		case "allocation_id":
			v, end = number(body, at)
			r.AllocID = uint64(max(v, 0))
			want &^= AllocID
		case "size":
			r.Size, end = number(body, at)
			want &^= Size
		case "used":
			r.Used, end = number(body, at)
			want &^= Used
		case "total":
			r.Total, end = number(body, at)
			want &^= Total
		case "process_used":
			r.ProcessUsed, end = number(body, at)
			want &^= ProcessUsed
		case "device_used":
			r.DeviceUsed, end = number(body, at)
			want &^= DeviceUsed
		default:
			end = valueEnd(body, at)
			want &^= r.attrWord(key, body[at:end], Span{base + uint32(at), base + uint32(end)})
		}
		if end < len(body) && body[end] != ',' { // a number with something behind it
			end = valueEnd(body, end)
		}
		at = end + 1
	}
}

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

// number reads a decimal number of up to 18 digits at body[at] and says where it ends; event.Unknown: there is none.
func number(body []byte, at int) (v int64, end int) {
	start := at
	negative := at < len(body) && body[at] == '-'
	if negative {
		at++
		start++
	}
	for at < len(body) && body[at]-'0' <= 9 {
		v = v*10 + int64(body[at]-'0')
		at++
	}
	switch {
	case at == start || at-start > 18:
		return event.Unknown, at
	case negative:
		return -v, at
	}
	return v, at
}
