// Package stacks keeps the call stacks of one process: what the target has defined, on disk beside the spool, and the text of
// a stack when a row wants it. The text is made late, because most stacks are asked for seldom, and a file costs less than a
// symbol table.
//
//	spool/stacks   append-only; entries: payload bytes u32; CRC-32C u32 of the payload; payload
//
// A payload is a letter and little-endian fields: 'm' a library: number u32, start, end, bias u64, path length u16, path, build
// id; 'c' a Python function: number u32, file length u16, file, function; 's' a stack: id u32, state of Python u8, frames of C
// u16, as u64 each, pairs of u32: number of a function, line.
package stacks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"sync"

	"memscope/internal/output"
	"memscope/internal/symbol"
)

// Python says what a stack has of Python.
type Python uint8

// What a stack can have of Python.
const (
	Unwanted Python = iota // the column is empty
	None                   // the thread runs no Python: NA
	Recorded               // frames
)

// OnlyEmptyPython is the id of the stack of no frames that rows have where stacks of Python are wanted up to a depth of 0.
const OnlyEmptyPython uint32 = math.MaxUint32

// FrameShift: bits of a C frame below the number of its library.
const FrameShift = 48

// Line is a frame of Python.
type Line struct{ Code, Line uint32 }

// Stack is a definition; innermost frames first.
type Stack struct {
	C      []uint64 // return address | number of the library << FrameShift
	Python Python
	Lines  []Line
}

const (
	fileName = "stacks"
	fileMode = 0o640
	header   = 8
	// mostText bounds the texts that are kept, in bytes.
	mostText = 64 << 20
)

// castagnoli is made when it is first needed: the launcher never needs it.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// Table is the stacks of one process. One goroutine may define while others ask.
type Table struct {
	symbols *symbol.Symbolizer

	mu      sync.Mutex
	file    *os.File // nil before Create
	size    int64    // bytes in it
	buf     []byte   // what is not in it yet
	failed  error
	modules map[uint32]*symbol.Module
	codes   map[uint32]string // "file(%d): function" without the line
	stacks  map[uint32]int64  // position of the payload
	texts   map[uint32][2]string
	bytes   int // of texts
}

// New makes an empty table in memory.
func New(symbols *symbol.Symbolizer) *Table {
	return &Table{
		symbols: symbols, modules: map[uint32]*symbol.Module{}, codes: map[uint32]string{}, stacks: map[uint32]int64{},
		texts: map[uint32][2]string{},
	}
}

// Create makes the file, in the directory of a spool.
func (t *Table) Create(root *os.Root) error {
	f, err := root.OpenFile(fileName, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, fileMode)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.file = f
	return nil
}

// Open reads the table in the directory of a spool, up to where it is whole. Without a file it is empty.
func Open(root *os.Root, symbols *symbol.Symbolizer) (*Table, error) {
	t := New(symbols)
	f, err := output.OpenRegular(root, fileName, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	t.file = f
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	var head [header]byte
	for at := int64(0); ; {
		if _, err := f.ReadAt(head[:], at); err != nil {
			break
		}
		le := binary.LittleEndian
		size := int64(le.Uint32(head[:]))
		if size > info.Size()-at-header {
			break
		}
		payload := make([]byte, size)
		if _, err := f.ReadAt(payload, at+header); err != nil || crc32.Checksum(payload, castagnoli()) != le.Uint32(head[4:]) || !t.learn(payload, at+header) {
			break
		}
		at += header + size
		t.size = at
	}
	return t, nil
}

// Close closes the file.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return nil
	}
	f := t.file
	t.file = nil
	return f.Close()
}

// Module defines a library.
func (t *Table) Module(number uint32, m *symbol.Module) {
	le := binary.LittleEndian
	b := le.AppendUint32([]byte{'m'}, number)
	b = le.AppendUint64(le.AppendUint64(le.AppendUint64(b, m.Start), m.End), m.Bias)
	b = append(le.AppendUint16(b, uint16(len(m.Path))), m.Path...)
	t.define(append(b, m.BuildID...))
}

// Code defines a function of Python.
func (t *Table) Code(number uint32, file, function string) {
	le := binary.LittleEndian
	b := le.AppendUint32([]byte{'c'}, number)
	b = append(le.AppendUint16(b, uint16(len(file))), file...)
	t.define(append(b, function...))
}

// Stack defines what an id means.
func (t *Table) Stack(id uint32, s *Stack) {
	le := binary.LittleEndian
	b := append(le.AppendUint32([]byte{'s'}, id), byte(s.Python))
	b = le.AppendUint16(b, uint16(len(s.C)))
	for _, frame := range s.C {
		b = le.AppendUint64(b, frame)
	}
	for _, l := range s.Lines {
		b = le.AppendUint32(le.AppendUint32(b, l.Code), l.Line)
	}
	t.define(b)
}

func (t *Table) define(payload []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed != nil {
		return
	}
	le := binary.LittleEndian
	t.buf = le.AppendUint32(le.AppendUint32(t.buf, uint32(len(payload))), crc32.Checksum(payload, castagnoli()))
	at := t.size + int64(len(t.buf))
	t.buf = append(t.buf, payload...)
	t.learn(payload, at)
}

// learn takes a definition in. A stack that is defined again stays as it was.
func (t *Table) learn(payload []byte, at int64) bool {
	le := binary.LittleEndian
	if len(payload) < 7 {
		return false
	}
	number, rest := le.Uint32(payload[1:]), payload[5:]
	switch payload[0] {
	case 'm':
		if len(rest) < 26 || len(rest)-26 < int(le.Uint16(rest[24:])) {
			return false
		}
		n := int(le.Uint16(rest[24:]))
		t.modules[number] = &symbol.Module{
			Path: string(rest[26 : 26+n]), BuildID: append([]byte(nil), rest[26+n:]...),
			Start: le.Uint64(rest), End: le.Uint64(rest[8:]), Bias: le.Uint64(rest[16:]),
		}
	case 'c':
		n := int(le.Uint16(rest))
		if len(rest)-2 < n {
			return false
		}
		t.codes[number] = string(rest[2:2+n]) + "\x00" + string(rest[2+n:])
	case 's':
		if (len(rest)-3)%8 != 0 || (len(rest)-3)/8 < int(le.Uint16(rest[1:])) {
			return false
		}
		if _, known := t.stacks[number]; !known {
			t.stacks[number] = at<<16 | int64(min(len(payload), math.MaxUint16))
		}
	default:
		return false
	}
	return true
}

// Flush brings what was defined into the file, in one write. After an error the file takes nothing more, and stacks that are
// not in it have no text.
func (t *Table) Flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil || len(t.buf) == 0 || t.failed != nil {
		return nil
	}
	n, err := t.file.Write(t.buf)
	if err != nil {
		if n > 0 {
			_ = t.file.Truncate(t.size)
		}
		t.failed = fmt.Errorf("call stacks can no longer be stored in %s: %w", t.file.Name(), err)
		t.buf = nil
		return t.failed
	}
	t.size += int64(n)
	t.buf = t.buf[:0]
	return nil
}

// Columns are the two columns of call stacks of a row, in their double quotes, or empty (contract 3.1). Quotes within are not
// doubled.
func (t *Table) Columns(id uint32) (python, c string) {
	switch id {
	case 0:
		return "", ""
	case OnlyEmptyPython:
		return `""`, ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if text, ok := t.texts[id]; ok {
		return text[0], text[1]
	}
	s, ok := t.read(id)
	if !ok {
		return "", ""
	}
	text := [2]string{t.python(&s), t.c(&s)}
	if t.bytes > mostText {
		clear(t.texts)
		t.bytes = 0
	}
	t.texts[id] = text
	t.bytes += len(text[0]) + len(text[1])
	return text[0], text[1]
}

// Place is a frame, looked up; what is not known is empty or 0.
type Place struct {
	Library, Function, File string
	Line                    int
}

// Places are the frames of a stack, innermost first.
func (t *Table) Places(id uint32) (c, python []Place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.read(id)
	if !ok {
		return nil, nil
	}
	for _, frame := range s.C {
		var p Place
		if m := t.modules[uint32(frame>>FrameShift)]; m != nil {
			p.Library = m.Path
			p.Function, p.File, p.Line = t.symbols.Place(m, frame&(1<<FrameShift-1))
		}
		c = append(c, p)
	}
	for _, l := range s.Lines {
		if file, function, ok := strings.Cut(t.codes[l.Code], "\x00"); ok {
			python = append(python, Place{Function: function, File: file, Line: int(l.Line)})
		}
	}
	return c, python
}

func (t *Table) read(id uint32) (s Stack, ok bool) {
	place, ok := t.stacks[id]
	if !ok {
		return s, false
	}
	at, size := place>>16, int(place&math.MaxUint16)
	payload := make([]byte, size)
	switch {
	case at >= t.size && at-t.size+int64(size) <= int64(len(t.buf)):
		copy(payload, t.buf[at-t.size:])
	case t.file == nil || at >= t.size:
		return s, false
	default:
		if _, err := t.file.ReadAt(payload, at); err != nil && err != io.EOF {
			return s, false
		}
	}
	le := binary.LittleEndian
	if payload[0] != 's' || le.Uint32(payload[1:]) != id {
		return s, false
	}
	s.Python = Python(payload[5])
	n, rest := int(le.Uint16(payload[6:])), payload[8:]
	for ; len(rest) >= 8; rest = rest[8:] {
		if len(s.C) < n {
			s.C = append(s.C, le.Uint64(rest))
		} else {
			s.Lines = append(s.Lines, Line{le.Uint32(rest), le.Uint32(rest[4:])})
		}
	}
	return s, true
}

func (t *Table) python(s *Stack) string {
	switch s.Python {
	case Unwanted:
		return ""
	case None:
		return `"NA"`
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, l := range s.Lines {
		file, function, ok := strings.Cut(t.codes[l.Code], "\x00")
		if !ok {
			file, function = "?", "?"
		}
		fmt.Fprintf(&b, "%s(%d): %s\n", file, l.Line, function)
	}
	b.WriteByte('"')
	return b.String()
}

func (t *Table) c(s *Stack) string {
	if len(s.C) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, frame := range s.C {
		m := t.modules[uint32(frame>>FrameShift)]
		b.WriteString(t.symbols.Frame(m, frame&(1<<FrameShift-1)))
		b.WriteByte('\n')
	}
	b.WriteByte('"')
	return b.String()
}
