package read

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// field is one field of a row, without its quotes.
type field struct {
	start, end uint32
	quoted     bool
}

// split cuts the row that begins at buf[at] into fields and returns how many there are (those past len(f) are counted but
// not kept) and where the next row begins. Quoting is that of RFC 4180; a quote within a quoted field that is neither
// doubled nor followed by the end of the field counts as text, because older dumps do not double them. ok is false if a
// quoted field does not end in buf.
func split(buf []byte, at int, f []field) (n, next int, ok bool) {
	line := lineEnd(buf, at)
	for {
		var cell field
		if at < len(buf) && buf[at] == '"' {
			end := closing(buf, at+1)
			if end < 0 {
				return n, len(buf), false
			}
			cell = field{uint32(at + 1), uint32(end), true}
			at = end + 1
			if at > line {
				line = lineEnd(buf, at)
			}
		} else {
			end := comma(buf, at, line)
			if end == line && end > at && buf[end-1] == '\r' {
				end--
			}
			cell = field{uint32(at), uint32(end), false}
			at = end
		}
		if n < len(f) {
			f[n] = cell
		}
		n++
		if at >= len(buf) || buf[at] != ',' {
			return n, min(line+1, len(buf)), true
		}
		at++
	}
}

// comma finds the next comma in buf[at:end]; end: none. Fields are short: eight bytes at a time beat a call of IndexByte.
func comma(buf []byte, at, end int) int {
	for ; at+8 <= end; at += 8 {
		x := binary.LittleEndian.Uint64(buf[at:]) ^ ones*','
		if zero := (x - ones) &^ x & highs; zero != 0 { // the lowest bit set marks the first byte that is a comma
			return at + bits.TrailingZeros64(zero)/8
		}
	}
	for ; at < end && buf[at] != ','; at++ {
	}
	return at
}

func lineEnd(buf []byte, at int) int {
	if i := bytes.IndexByte(buf[at:], '\n'); i >= 0 {
		return at + i
	}
	return len(buf)
}

// closing finds the quote that ends the field whose text begins at at; -1: none.
func closing(buf []byte, at int) int {
	for {
		i := bytes.IndexByte(buf[at:], '"')
		if i < 0 {
			return -1
		}
		quote := at + i
		at = quote + 1
		switch {
		case at == len(buf), buf[at] == ',', buf[at] == '\n':
			return quote
		case buf[at] == '\r' && (at+1 == len(buf) || buf[at+1] == '\n'):
			return quote
		case buf[at] == '"':
			at++
		}
	}
}

// wholeRows returns the length of the part of buf, which begins with a row, that holds whole rows only. 0: not even one.
func wholeRows(buf []byte, l *layout) int {
	inside := bytes.Count(buf, quote)&1 != 0
	for end := len(buf); ; {
		i := bytes.LastIndexByte(buf[:end], '\n')
		if i < 0 {
			break
		}
		if bytes.Count(buf[i+1:end], quote)&1 != 0 {
			inside = !inside
		}
		if !inside {
			return i + 1
		}
		end = i
	}
	// Either a row that is longer than buf, or a stray quote has turned inside and outside round.
	if l.native {
		for end := len(buf); ; {
			i := bytes.LastIndexByte(buf[:end], '\n')
			if i <= 0 {
				break
			}
			if rowStart(buf[i+1:]) {
				return i + 1
			}
			end = i
		}
	}
	return 0
}

var quote = []byte{'"'}

// rowStart tells whether b looks like the beginning of a row: a number, a comma, an event.
func rowStart(b []byte) bool {
	i := 0
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	if i == 0 || i >= len(b) || b[i] != ',' {
		return false
	}
	b = b[i+1:]
	if i = bytes.IndexByte(b, ','); i < 0 {
		return false
	}
	return kindOf(b[:i]) != 0
}

// resync finds the first thing behind at that looks like a row.
func resync(buf []byte, at int) int {
	for {
		at = lineEnd(buf, at) + 1
		if at >= len(buf) {
			return len(buf)
		}
		if rowStart(buf[at:]) {
			return at
		}
	}
}
