package read

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// isJSON tells the notations apart by what follows the opening brace.
func isJSON(cell []byte) bool {
	for _, c := range cell[1:] {
		switch c {
		case '"':
			return true
		case ' ', '\t', '\r', '\n':
		default:
			return false
		}
	}
	return false
}

// jsonAttrs walks over a flat JSON object. Values that are no strings are handed over as they stand. It stops at the first
// thing that is not JSON.
func jsonAttrs(cell []byte, visit func(key, value []byte) bool) {
	c := jsonCursor{rest: cell[1:]}
	for {
		c.blanks()
		key, ok := c.text()
		if !ok {
			return
		}
		c.blanks()
		if !c.skip(':') {
			return
		}
		c.blanks()
		value, ok := c.text()
		if !ok {
			value = c.word()
		}
		if !visit(key, value) {
			return
		}
		c.blanks()
		if !c.skip(',') {
			return
		}
	}
}

type jsonCursor struct{ rest []byte }

func (c *jsonCursor) blanks() { c.rest = bytes.TrimLeft(c.rest, " \t\r\n") }

func (c *jsonCursor) skip(b byte) bool {
	if len(c.rest) == 0 || c.rest[0] != b {
		return false
	}
	c.rest = c.rest[1:]
	return true
}

// word takes everything up to the end of the pair.
func (c *jsonCursor) word() []byte {
	end := bytes.IndexAny(c.rest, ",}")
	if end < 0 {
		end = len(c.rest)
	}
	w := bytes.TrimSpace(c.rest[:end])
	c.rest = c.rest[end:]
	return w
}

// text takes a string, if one is next. Bytes that are no UTF-8 pass through unchanged.
func (c *jsonCursor) text() ([]byte, bool) {
	if len(c.rest) == 0 || c.rest[0] != '"' {
		return nil, false
	}
	b := c.rest[1:]
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			c.rest = b[i+1:]
			return b[:i], true
		case '\\':
			return c.escaped(b, i)
		}
	}
	return nil, false
}

func (c *jsonCursor) escaped(b []byte, i int) ([]byte, bool) {
	out := bytes.Clone(b[:i])
	for i < len(b) {
		switch {
		case b[i] == '"':
			c.rest = b[i+1:]
			return out, true
		case b[i] != '\\':
			out = append(out, b[i])
			i++
		case i+1 == len(b):
			return nil, false
		case b[i+1] == 'u':
			r, n := unicodeEscape(b[i:])
			out = utf8.AppendRune(out, r)
			i += n
		default:
			if e := bytes.IndexByte([]byte("bfnrt"), b[i+1]); e >= 0 {
				out = append(out, "\b\f\n\r\t"[e])
			} else {
				out = append(out, b[i+1])
			}
			i += 2
		}
	}
	return nil, false
}

// unicodeEscape reads \uXXXX, a surrogate pair too, and says how many bytes it takes.
func unicodeEscape(b []byte) (rune, int) {
	hex := func(at int) (rune, bool) {
		if len(b) < at+6 || b[at] != '\\' || b[at+1] != 'u' {
			return 0, false
		}
		v, err := strconv.ParseUint(string(b[at+2:at+6]), 16, 16)
		return rune(v), err == nil
	}
	hi, ok := hex(0)
	if !ok {
		return utf8.RuneError, 2
	}
	if lo, ok := hex(6); ok && hi >= 0xd800 && hi < 0xdc00 && lo >= 0xdc00 && lo < 0xe000 {
		return (hi-0xd800)<<10 + (lo - 0xdc00) + 0x10000, 12
	}
	return hi, 6
}

// AppendJSON appends the Attr cell of a CSV file in the notation of a database: the same keys in the same order, every
// value a string. An empty cell becomes {}.
func AppendJSON(out, cell []byte) []byte {
	out = append(out, '{')
	first := true
	Attrs(cell, func(key, value []byte) bool {
		if !first {
			out = append(out, ',')
		}
		first = false
		out = appendJSONText(out, key)
		out = append(out, ':')
		out = appendJSONText(out, value)
		return true
	})
	return append(out, '}')
}

func appendJSONText(out, s []byte) []byte {
	out = append(out, '"')
	from := 0
	for i, c := range s {
		switch {
		case c == '"' || c == '\\':
			out = append(append(out, s[from:i]...), '\\', c)
		case c < 0x20:
			out = append(append(out, s[from:i]...), `\u00`...)
			out = append(out, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			continue
		}
		from = i + 1
	}
	return append(append(out, s[from:]...), '"')
}

// AppendPlain appends the Attr cell of a database in the notation of a CSV file, unquoted. {} becomes the empty cell.
func AppendPlain(out, cell []byte) []byte {
	start := len(out)
	Attrs(cell, func(key, value []byte) bool {
		if len(out) == start {
			out = append(out, '{')
		} else {
			out = append(out, ',')
		}
		out = append(out, key...)
		out = append(out, ':')
		out = append(out, value...)
		return true
	})
	if len(out) > start {
		out = append(out, '}')
	}
	return out
}
