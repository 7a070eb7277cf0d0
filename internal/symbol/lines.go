package symbol

import (
	"debug/dwarf"
	"encoding/binary"
	"slices"

	"github.com/ianlancetaylor/demangle"
)

// mostName bounds the name of a C++ function, 1 << 9 bytes; one of a template may have any length.
const mostName = 9

// readable is a symbol's name as the program has it.
func readable(name string) string {
	return demangle.Filter(name, demangle.NoClones, demangle.MaxLength(mostName))
}

// lines finds files and lines in DWARF. Its index is made when it is asked for the first time.
type lines struct {
	image *image // nil: there is no DWARF, or it cannot be read
	data  *dwarf.Data
	units []span
}

// span is a range of addresses of a compilation unit.
type span struct {
	low, high uint64
	unit      *dwarf.Entry
}

func (l *lines) find(at uint64) (file string, line int) {
	if l.image == nil {
		return "", 0
	}
	if l.data == nil && !l.index() {
		l.image = nil
		return "", 0
	}
	i, _ := slices.BinarySearchFunc(l.units, at, func(s span, at uint64) int {
		if s.low <= at {
			return -1
		}
		return 1
	})
	if i == 0 || at >= l.units[i-1].high {
		return "", 0
	}
	r, err := l.data.LineReader(l.units[i-1].unit)
	if err != nil || r == nil {
		return "", 0
	}
	// Not SeekPC: that takes the sequences for sorted, which functions in sections of their own are not.
	for last := (dwarf.LineEntry{EndSequence: true}); ; {
		var next dwarf.LineEntry
		if err := r.Next(&next); err != nil {
			return "", 0
		}
		if !last.EndSequence && last.Address <= at && at < next.Address && last.File != nil {
			return last.File.Name, last.Line
		}
		last = next
	}
}

// index opens the DWARF and lists the address ranges of its units.
func (l *lines) index() bool {
	f := l.image
	data, err := dwarf.New(f.section(".debug_abbrev"), nil, nil, f.section(".debug_info"), f.section(".debug_line"), nil,
		f.section(".debug_ranges"), f.section(".debug_str"))
	if err != nil {
		return false
	}
	for _, name := range []string{".debug_addr", ".debug_line_str", ".debug_str_offsets", ".debug_rnglists"} {
		if s := f.section(name); s != nil {
			if err := data.AddSection(name, s); err != nil {
				return false
			}
		}
	}
	r := data.Reader()
	for _, at := range units(f.section(".debug_info")) {
		r.Seek(at)
		unit, err := r.Next()
		if err != nil || unit == nil || unit.Tag != dwarf.TagCompileUnit {
			continue
		}
		ranges, err := data.Ranges(unit)
		if err != nil {
			continue
		}
		for _, x := range ranges {
			if x[0] < x[1] {
				l.units = append(l.units, span{x[0], x[1], unit})
			}
		}
	}
	slices.SortFunc(l.units, func(a, b span) int { return compare(a.low, b.low) })
	l.data = data
	return true
}

// units lists where the first entries of the compilation units are (DWARF 5, 7.5.1.1; before, 7.5.1): behind a header of length,
// version, and, of differing order, abbreviation offset and address size.
func units(info []byte) (at []dwarf.Offset) {
	const compile, skeleton = 1, 4 // DW_UT_compile, DW_UT_skeleton
	le := binary.LittleEndian
	for begin := uint64(0); begin+16 <= uint64(len(info)); {
		size, head, offset := uint64(le.Uint32(info[begin:])), uint64(4), uint64(4)
		if size == 0xffffffff { // 64-bit DWARF
			size, head, offset = le.Uint64(info[begin+4:]), 12, 8
		}
		next := begin + head + size
		if next <= begin || next > uint64(len(info)) || size < 3+offset {
			return at
		}
		version, kind := le.Uint16(info[begin+head:]), info[begin+head+2]
		first := begin + head + 2 + offset + 1
		switch {
		case version == 5 && kind == skeleton:
			first += 1 + 8
		case version == 5:
			first++
		}
		if version < 5 || kind == compile || kind == skeleton {
			at = append(at, dwarf.Offset(first))
		}
		begin = next
	}
	return at
}
