package hostheap

import (
	"math"
	"sync/atomic"
	"unsafe"
)

// Frames is a call stack, innermost frame first, the native and the Python one apart.
type Frames struct {
	Hash        uint64
	Incarnation uint32 // of the id: a recycled one means another stack
	Native      []NativeFrame
	Python      []PythonFrame
	CutNative   bool // the walk ended early
	CutPython   bool
}

// NativeFrame is a return address; the call is in the byte before it. Module 0 is in no library.
type NativeFrame struct {
	PC     uint64
	Module uint32
}

// PythonFrame is a place in a Python function. Texts that could not be read are empty, a line that is not known 0.
type PythonFrame struct {
	Function, File string
	Line           int
}

// Stack reads a stack. false: the id has no record, or one that is being written all the time.
func (t *Tables) Stack(id uint32) (Frames, bool) {
	if id < StackFirst || id >= t.stackCount() {
		return Frames{}, false
	}
	offset := t.h.Stacks_at + uint64(id)*uint64(t.h.Stack_bytes)
	rec := at[Stack](t, offset)
	if rec == nil {
		return Frames{}, false
	}
	for range regionTries {
		before := atomic.LoadUint32(&rec.Incarnation)
		if before&1 == 1 {
			continue
		}
		f := Frames{
			Hash: atomic.LoadUint64(&rec.Hash), Incarnation: before,
			CutNative: rec.Flags&CutNative != 0, CutPython: rec.Flags&CutPython != 0,
		}
		natives, pythons := uint64(rec.Natives), uint64(rec.Pythons)
		if natives+pythons > uint64(t.h.Native_depth+t.h.Python_depth) {
			return Frames{}, false
		}
		places := slice[uint32](t, offset+uint64(unsafe.Sizeof(*rec)), natives+pythons)
		for i, place := range places {
			if i < int(natives) {
				f.Native = append(f.Native, t.native(place))
			} else {
				f.Python = append(f.Python, t.python(place))
			}
		}
		if atomic.LoadUint32(&rec.Incarnation) == before {
			return f, f.Hash != 0
		}
	}
	return Frames{}, false
}

// native is the location in a place of the table; place 0 means that the table was full.
func (t *Tables) native(place uint32) NativeFrame {
	if place == 0 || place >= t.h.Natives {
		return NativeFrame{}
	}
	v := atomic.LoadUint64(at[uint64](t, t.h.Natives_at+uint64(place)*8))
	const module = 48
	return NativeFrame{PC: v & (1<<module - 1), Module: uint32(v >> module)}
}

func (t *Tables) python(place uint32) PythonFrame {
	if place == 0 || place >= min(atomic.LoadUint32(&t.Header().Python_next), t.h.Pythons) {
		return PythonFrame{}
	}
	p := at[PythonLine](t, t.h.Pythons_at+uint64(place)*uint64(unsafe.Sizeof(PythonLine{})))
	line := atomic.LoadUint32(&p.Line)
	if line == 0 {
		return PythonFrame{}
	}
	f := PythonFrame{Function: string(t.text(p.Function)), File: string(t.text(p.File))}
	if line != math.MaxUint32 {
		f.Line = int(line)
	}
	return f
}

// Library is a module of the target, also one that was unloaded since.
type Library struct {
	Start, End, Bias uint64
	Path             string // "" when unknown
	BuildID          []byte // nil when it has none
	Gone             bool
}

// Library reads a module by its number.
func (t *Tables) Library(number uint32) (Library, bool) {
	if number == 0 || number >= min(atomic.LoadUint32(&t.Header().Module_next), t.h.Modules) {
		return Library{}, false
	}
	m := at[Module](t, t.h.Modules_at+uint64(number)*uint64(unsafe.Sizeof(Module{})))
	end := atomic.LoadUint64(&m.End)
	if end == 0 {
		return Library{}, false
	}
	l := Library{Start: m.Start, End: end, Bias: m.Bias, Path: string(t.text(m.Path)), Gone: atomic.LoadUint32(&m.Gone) != 0}
	if n := m.Id_bytes; n > 0 && n <= uint32(len(m.Id)) {
		l.BuildID = append(l.BuildID, m.Id[:n]...)
	}
	return l, true
}

// text is the bytes of a reference, nil for none.
func (t *Tables) text(reference uint32) []byte {
	offset := uint64(reference) * 4
	if reference == 0 || offset+4 > t.h.Text_bytes {
		return nil
	}
	length := uint64(*at[uint32](t, t.h.Text_at+offset))
	if offset+4+length > t.h.Text_bytes {
		return nil
	}
	return slice[byte](t, t.h.Text_at+offset+4, length)
}
