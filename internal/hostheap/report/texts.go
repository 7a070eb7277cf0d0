package report

import (
	"fmt"
	"strconv"
	"time"

	"memscope/internal/hostheap"
)

// Symbolizer says where an address is in a library. A line of 0 and an empty function are not known.
type Symbolizer interface {
	Place(l *hostheap.Library, number uint32, pc uint64) (function, file string, line int)
}

// Deadline is how long symbolization may take for one report; after it frames are library and offset.
const Deadline = 60 * time.Second

// Texts turns frames into text, each once. A look-up that hangs is left alone at the deadline.
type Texts struct {
	tables     *hostheap.Tables
	program    string // path of the program itself, which the loader does not name
	symbolizer Symbolizer
	deadline   time.Time
	late       bool
	known      map[hostheap.NativeFrame]Place
	libraries  map[uint32]*hostheap.Library
	symbolized int
}

// Place is a native frame, resolved as far as possible.
type Place struct {
	Library  string
	Offset   uint64 // in the file
	Function string
	File     string
	Line     int
}

// NewTexts resolves frames of the tables until the deadline. program is the path of the program that was run.
func NewTexts(t *hostheap.Tables, program string, s Symbolizer, deadline time.Time) *Texts {
	return &Texts{tables: t, program: program, symbolizer: s, deadline: deadline, known: map[hostheap.NativeFrame]Place{}, libraries: map[uint32]*hostheap.Library{}}
}

// Coverage is the number of different native frames that were asked for, how many have a function, and whether time ran out.
func (x *Texts) Coverage() (frames, symbolized int, late bool) {
	return len(x.known), x.symbolized, x.late
}

// Stack is the frames of a stack, innermost first.
func (x *Texts) Stack(f *hostheap.Frames) (c, python []string) {
	for _, n := range f.Native {
		c = append(c, x.Place(n).text(n.PC))
	}
	if f.CutNative {
		c = append(c, "(the walk ended here)")
	}
	for _, p := range f.Python {
		python = append(python, pythonText(p))
	}
	if f.CutPython {
		python = append(python, "(the walk ended here)")
	}
	return c, python
}

func pythonText(p hostheap.PythonFrame) string {
	function, file := p.Function, p.File
	if function == "" {
		function = "?"
	}
	if file == "" {
		file = "?"
	}
	if p.Line == 0 {
		return file + " " + function
	}
	return file + "(" + strconv.Itoa(p.Line) + "): " + function
}

// text is the frame as everywhere in this program: lib(function) [0xaddress] at file:line.
func (p Place) text(pc uint64) string {
	address := fmt.Sprintf("[0x%x]", pc)
	if p.Library == "" {
		return address
	}
	function := p.Function
	if function == "" {
		function = fmt.Sprintf("+0x%x", p.Offset)
	}
	text := p.Library + "(" + function + ") " + address
	if p.Line > 0 {
		text += " at " + p.File + ":" + strconv.Itoa(p.Line)
	}
	return text
}

// Place resolves a frame.
func (x *Texts) Place(f hostheap.NativeFrame) Place {
	if p, ok := x.known[f]; ok {
		return p
	}
	p := Place{}
	if l := x.library(f.Module); l != nil {
		p.Library, p.Offset = l.Path, f.PC-l.Bias
		p.Function, p.File, p.Line = x.ask(l, f)
		if p.Function != "" {
			x.symbolized++
		}
	}
	x.known[f] = p
	return p
}

func (x *Texts) library(number uint32) *hostheap.Library {
	if l, ok := x.libraries[number]; ok {
		return l
	}
	var found *hostheap.Library
	if l, ok := x.tables.Library(number); ok {
		if l.Path == "" {
			l.Path = x.program
		}
		found = &l
	}
	x.libraries[number] = found
	return found
}

// ask asks the symbolizer, but does not wait beyond the deadline.
func (x *Texts) ask(l *hostheap.Library, f hostheap.NativeFrame) (function, file string, line int) {
	left := time.Until(x.deadline)
	if x.late || x.symbolizer == nil || left <= 0 {
		x.late = x.late || x.symbolizer != nil
		return "", "", 0
	}
	type answer struct {
		function, file string
		line           int
	}
	answers := make(chan answer, 1)
	go func() {
		function, file, line := x.symbolizer.Place(l, f.Module, f.PC)
		answers <- answer{function, file, line}
	}()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a.function, a.file, a.line
	case <-timer.C:
		x.late = true
		return "", "", 0
	}
}
