package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/ulikunitz/xz"
	"golang.org/x/sys/unix"
)

// object is what is known of one library.
type object struct {
	cost  int64 // bytes of memory, about
	used  int64
	maps  [][]byte
	funcs functions
	lines lines
}

// image is an ELF file, mapped.
type image struct {
	*elf.File
	data   []byte
	copied int64 // bytes of sections that had to be unpacked
}

var errOther = errors.New("not the file that was loaded")

// open reads the functions of a module's file, and finds its DWARF. Nothing that goes wrong is worth more than a frame with
// less in it.
func open(m *Module, debugDirs []string) *object {
	o := &object{}
	file, err := o.image(m.Path, m.BuildID)
	if err != nil {
		return o
	}
	detached := o.detached(m, file, debugDirs)
	o.funcs.add(file, file.SectionByType(elf.SHT_DYNSYM))
	switch {
	case file.Section(".symtab") != nil:
		o.funcs.add(file, file.Section(".symtab"))
	case detached != nil && detached.Section(".symtab") != nil:
		o.funcs.add(detached, detached.Section(".symtab"))
	default:
		if mini := miniDebug(file); mini != nil {
			o.funcs.add(mini, mini.Section(".symtab"))
		}
	}
	o.funcs.sort()
	for _, f := range []*image{file, detached} {
		if f != nil && f.Section(".debug_line") != nil {
			o.lines.image = f
			break
		}
	}
	o.recount()
	return o
}

// recount brings cost up to date and answers by how much it has grown.
func (o *object) recount() int64 {
	const least = 4096
	cost := least + o.funcs.size() + int64(cap(o.lines.units))*24
	if o.lines.image != nil {
		cost += o.lines.image.copied
	}
	grown := cost - o.cost
	o.cost = cost
	return grown
}

func (o *object) close() {
	for _, m := range o.maps {
		_ = unix.Munmap(m)
	}
	*o = object{cost: o.cost, used: o.used}
}

// spoil forgets a file that turned out to be damaged, for good.
func (o *object) spoil() { o.close() }

func (o *object) function(at uint64) (name string, offset uint64, ok bool) { return o.funcs.find(at) }

func (o *object) line(at uint64) (string, int) { return o.lines.find(at) }

// image maps a file, which must have the build id that is given, if one is.
func (o *object) image(path string, id []byte) (*image, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() == 0 || info.Size() != int64(int(info.Size())) {
		return nil, errOther
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	o.maps = append(o.maps, data)
	file, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	im := &image{File: file, data: data}
	if len(id) > 0 && !bytes.Equal(im.buildID(), id) {
		return nil, errOther
	}
	return im, nil
}

// section is the content of a section, without a copy if it can be.
func (f *image) section(name string) []byte {
	const mostUnpacked = 1 << 30
	s := f.Section(name)
	if s == nil || s.Type == elf.SHT_NOBITS || s.Size > mostUnpacked {
		return nil
	}
	if s.Flags&elf.SHF_COMPRESSED == 0 && s.Offset <= uint64(len(f.data)) && s.FileSize <= uint64(len(f.data))-s.Offset {
		return f.data[s.Offset : s.Offset+s.FileSize : s.Offset+s.FileSize]
	}
	data, err := s.Data()
	if err != nil {
		return nil
	}
	f.copied += int64(len(data))
	return data
}

// buildID reads the note "GNU", type 3.
func (f *image) buildID() []byte {
	note := f.section(".note.gnu.build-id")
	if len(note) < 16 {
		return nil
	}
	size := f.ByteOrder.Uint32(note[4:])
	if uint64(size) > uint64(len(note)-16) || string(note[12:16]) != "GNU\x00" {
		return nil
	}
	return note[16 : 16+size]
}

// detached is the separate debug file: by build id, or as .gnu_debuglink names it (a name, padded to 4 bytes, and the file's CRC).
func (o *object) detached(m *Module, file *image, debugDirs []string) *image {
	id := file.buildID()
	if len(id) > 1 {
		for _, dir := range debugDirs {
			if f, err := o.image(buildIDFile(dir, id), id); err == nil {
				return f
			}
		}
	}
	link := file.section(".gnu_debuglink")
	end := bytes.IndexByte(link, 0)
	if end <= 0 || len(link) < 4 {
		return nil
	}
	sum := file.ByteOrder.Uint32(link[len(link)-4:])
	dir, name := filepath.Dir(m.Path), filepath.Base(string(link[:end]))
	paths := []string{filepath.Join(dir, name), filepath.Join(dir, ".debug", name)}
	for _, d := range debugDirs {
		paths = append(paths, filepath.Join(d, dir, name))
	}
	for _, path := range paths {
		if path == m.Path {
			continue
		}
		if f, err := o.image(path, nil); err == nil && (len(id) > 0 && bytes.Equal(f.buildID(), id) || crc32.ChecksumIEEE(f.data) == sum) {
			return f
		}
	}
	return nil
}

// miniDebug is the ELF file in .gnu_debugdata: the .symtab that the distribution stripped, xz-compressed.
func miniDebug(file *image) *image {
	const most = 64 << 20
	packed := file.section(".gnu_debugdata")
	if packed == nil {
		return nil
	}
	r, err := xz.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(r, most))
	if err != nil {
		return nil
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	return &image{File: f, data: data}
}

// functions are the functions of a library, by address.
type functions struct {
	list  []function
	names [][]byte // string tables
}

type function struct {
	at, size uint64
	name     uint32 // in a string table
	table    uint8
	local    bool
}

// add reads a symbol table (ELF gABI "Symbol Table").
func (l *functions) add(f *image, s *elf.Section) {
	if s == nil || int(s.Link) >= len(f.Sections) {
		return
	}
	table, names := f.section(s.Name), f.section(f.Sections[s.Link].Name)
	const entry = 24 // bytes, ELF64
	if f.Class != elf.ELFCLASS64 || f.ByteOrder != binary.LittleEndian || names == nil {
		return
	}
	number := uint8(len(l.names))
	l.names = append(l.names, names)
	for ; len(table) >= entry; table = table[entry:] {
		le := binary.LittleEndian
		kind := elf.SymType(table[4] & 0xf)
		if (kind != elf.STT_FUNC && kind != elf.STT_GNU_IFUNC) || elf.SectionIndex(le.Uint16(table[6:])) == elf.SHN_UNDEF {
			continue
		}
		l.list = append(l.list, function{
			at: le.Uint64(table[8:]), size: le.Uint64(table[16:]), name: le.Uint32(table), table: number,
			local: elf.SymBind(table[4]>>4) == elf.STB_LOCAL,
		})
	}
}

func (l *functions) size() int64 { return int64(cap(l.list)) * 32 }

// sort puts what is to be found first of several at one address last.
func (l *functions) sort() {
	slices.SortFunc(l.list, func(a, b function) int {
		switch {
		case a.at != b.at:
			return compare(a.at, b.at)
		case a.local != b.local && a.local:
			return -1
		case a.local != b.local:
			return 1
		case a.size != b.size:
			return compare(a.size, b.size)
		}
		return compare(uint64(b.name), uint64(a.name))
	})
	l.list = slices.Clip(l.list)
}

func compare(a, b uint64) int {
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

// find is the function that a return address belongs to: the byte before it is in it.
func (l *functions) find(at uint64) (name string, offset uint64, ok bool) {
	const nested = 16 // functions that begin within another one, at most
	inside := at - 1
	i, _ := slices.BinarySearchFunc(l.list, inside, func(f function, at uint64) int {
		if f.at <= at {
			return -1
		}
		return 1
	})
	for n := 0; i > 0 && n < nested; n++ {
		i--
		f := &l.list[i]
		if inside-f.at < f.size || f.size == 0 && n == 0 {
			return readable(cut(l.names[f.table], f.name)), at - f.at, true
		}
	}
	return "", 0, false
}

// cut is the string at a place of a string table.
func cut(table []byte, at uint32) string {
	if uint64(at) >= uint64(len(table)) {
		return ""
	}
	text := table[at:]
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	return string(text)
}
