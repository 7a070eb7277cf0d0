package cells

import (
	"encoding/binary"
	"math/bits"
)

// A row is mostly numbers, which take most of its time. Here eight digits are made at once, in one register: half the processor time of strconv.

// piece is the number behind those of eight digits.
const piece = 100_000_000

const asciiZeros = 0x3030303030303030

// digits gives the eight decimal digits of v < piece, one a byte, the first in the lowest. Each step splits all fields of x: the low
// half of a field takes what the field is by a power of ten, and the high half the rest, which one subtraction brings about:
// x<<n - q*(power<<n - 1) is q + (x-q*power)<<n. The second and third division are multiplications as exact as they have to be.
func digits(v uint64) uint64 {
	x := v<<32 - uint64(uint32(v)/10000)*(10000<<32-1)
	x = x<<16 - x*10486>>20&0x7f_0000_007f*(100<<16-1)
	return x<<8 - x*103>>10&0x0f_000f_000f_000f*(10<<8-1)
}

// AppendUint appends v in decimal digits.
func AppendUint(b []byte, v uint64) []byte {
	switch {
	case v < 10:
		return append(b, '0'+byte(v))
	case v < piece:
		return appendPiece(b, v)
	case v < piece*piece:
		b = appendPiece(b, v/piece)
	default:
		b = appendPiece(b, v/(piece*piece))
		b = binary.LittleEndian.AppendUint64(b, digits(v/piece%piece)|asciiZeros)
	}
	return binary.LittleEndian.AppendUint64(b, digits(v%piece)|asciiZeros)
}

// appendPiece appends 0 < v < piece without leading zeros.
func appendPiece(b []byte, v uint64) []byte {
	d := digits(v)
	zeros := bits.TrailingZeros64(d) & 56
	b = binary.LittleEndian.AppendUint64(b, (d|asciiZeros)>>zeros)
	return b[:len(b)-zeros/8]
}

// AppendInt appends v in decimal digits, with a minus sign where it is negative.
func AppendInt(b []byte, v int64) []byte {
	if v < 0 {
		return AppendUint(append(b, '-'), -uint64(v))
	}
	return AppendUint(b, uint64(v))
}

// hex gives the eight lower-case hexadecimal digits of v as text, the first in the highest byte.
func hex(v uint32) uint64 {
	x := uint64(v)
	x = (x | x<<16) & 0x0000ffff_0000ffff
	x = (x | x<<8) & 0x00ff00ff_00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f_0f0f0f0f
	letters := (x + 0x06060606_06060606) >> 4 & 0x01010101_01010101
	return x + asciiZeros + letters*('a'-'0'-10)
}

// appendAddr appends an address as 0x and 16 lower-case hexadecimal digits.
func appendAddr(b []byte, addr uint64) []byte {
	b = binary.BigEndian.AppendUint64(append(b, "0x"...), hex(uint32(addr>>32)))
	return binary.BigEndian.AppendUint64(b, hex(uint32(addr)))
}
