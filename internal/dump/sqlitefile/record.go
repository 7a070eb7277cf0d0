package sqlitefile

import "encoding/binary"

// record is a row of values in SQLite's record format: a header with the length of itself and the type of each value, and the values.
type record struct {
	types []byte // of all values, as variable-length integers
	body  []byte
	ends  []columnEnd
	all   []byte
}

type columnEnd struct{ types, body int }

// Types of values. A text of n bytes has the type 13+2n, a blob 12+2n, an integer a type that says in how many bytes it stands.
const (
	typeNull = 0
	typeZero = 8 // the integers 0 and 1 have no bytes
	typeBlob = 12
	typeText = 13
)

func (r *record) reset() { r.types, r.body, r.ends = r.types[:0], r.body[:0], r.ends[:0] }

func (r *record) end() { r.ends = append(r.ends, columnEnd{len(r.types), len(r.body)}) }

// Null adds a NULL.
func (r *record) Null() {
	r.types = append(r.types, typeNull)
	r.end()
}

// Text adds a text. It is taken as it is, also where it is no UTF-8.
func (r *record) Text(text []byte) {
	r.types = appendVarint(r.types, typeText+2*uint64(len(text)))
	r.body = append(r.body, text...)
	r.end()
}

// String is Text.
func (r *record) String(text string) {
	r.types = appendVarint(r.types, typeText+2*uint64(len(text)))
	r.body = append(r.body, text...)
	r.end()
}

// Blob adds bytes.
func (r *record) Blob(b []byte) {
	r.types = appendVarint(r.types, typeBlob+2*uint64(len(b)))
	r.body = append(r.body, b...)
	r.end()
}

// Int adds an integer.
func (r *record) Int(v int64) {
	switch u := uint64(v); {
	case v == 0 || v == 1:
		r.types = append(r.types, typeZero+byte(v))
	case v == int64(int8(v)):
		r.types = append(r.types, 1)
		r.body = append(r.body, byte(v))
	case v == int64(int16(v)):
		r.types = append(r.types, 2)
		r.body = binary.BigEndian.AppendUint16(r.body, uint16(v))
	case v == v<<40>>40:
		r.types = append(r.types, 3)
		r.body = append(r.body, byte(u>>16), byte(u>>8), byte(u))
	case v == int64(int32(v)):
		r.types = append(r.types, 4)
		r.body = binary.BigEndian.AppendUint32(r.body, uint32(v))
	case v == v<<16>>16:
		r.types = append(r.types, 5)
		r.body = append(r.body, byte(u>>40), byte(u>>32), byte(u>>24), byte(u>>16), byte(u>>8), byte(u))
	default:
		r.types = append(r.types, 6)
		r.body = binary.BigEndian.AppendUint64(r.body, u)
	}
	r.end()
}

// head is the header. It is valid until the record changes.
func (r *record) head() []byte {
	n := len(r.types) + 1
	for n-len(r.types) < varintLen(uint64(n)) { // the length counts itself
		n++
	}
	r.all = append(appendVarint(r.all[:0], uint64(n)), r.types...)
	return r.all
}

// First bytes of sort keys: SQLite's order of types.
const (
	keyNull = iota
	keyInt
	keyText
	keyBlob
)

// sortKey appends a value in a form that has SQLite's order when it is compared as bytes.
func (r *record) sortKey(out []byte, column int) []byte {
	var from columnEnd
	if column > 0 {
		from = r.ends[column-1]
	}
	body := r.body[from.body:r.ends[column].body]
	switch t := r.types[from.types]; {
	case t == typeNull:
		return append(out, keyNull)
	case t < typeBlob:
		v := int64(t - typeZero)
		if len(body) > 0 {
			v = int64(int8(body[0]))
			for _, b := range body[1:] {
				v = v<<8 | int64(b)
			}
		}
		return binary.BigEndian.AppendUint64(append(out, keyInt), uint64(v)^1<<63)
	case r.types[r.ends[column].types-1]&1 == typeText&1: // the last byte of a variable-length integer has its lowest bits
		out = append(out, keyText)
	default:
		out = append(out, keyBlob)
	}
	return append(out, body...)
}

// fromSortKey adds the value of a sort key.
func (r *record) fromSortKey(key []byte) {
	switch key[0] {
	case keyNull:
		r.Null()
	case keyInt:
		r.Int(int64(binary.BigEndian.Uint64(key[1:]) ^ 1<<63))
	case keyText:
		r.Text(key[1:])
	default:
		r.Blob(key[1:])
	}
}

// appendVarint appends an integer in SQLite's variable length: seven bits in a byte, the highest first; a ninth byte has eight.
func appendVarint(b []byte, v uint64) []byte {
	n := varintLen(v)
	if n == 9 {
		for i := range 8 {
			b = append(b, byte(v>>(57-7*i))|0x80)
		}
		return append(b, byte(v))
	}
	for i := n - 1; i > 0; i-- {
		b = append(b, byte(v>>(7*i))|0x80)
	}
	return append(b, byte(v)&0x7f)
}

func varintLen(v uint64) int {
	n := 1
	for v >>= 7; v > 0 && n < 9; v >>= 7 {
		n++
	}
	return n
}
