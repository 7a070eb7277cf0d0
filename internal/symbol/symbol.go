// Package symbol says what an address in a process was: library, function, offset, and file and line where the compiler has
// left them. It needs the files of the libraries, not the process.
//
// A library's functions come from .symtab, of the file itself, its separate debug file or its .gnu_debugdata, and from
// .dynsym; files and lines from DWARF, of the file or its debug file. A file that is not the one that was loaded, by its
// build id, is not believed.
package symbol

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

// Module is a library, or the program, as a process had it loaded.
type Module struct {
	Path       string
	BuildID    []byte // nil: it has none
	Start, End uint64 // of its memory
	Bias       uint64 // address in memory minus address in the file
}

// Symbolizer answers for any number of processes. It may be used by several goroutines.
type Symbolizer struct {
	// DebugDirs are where separate debug files are looked for.
	DebugDirs []string

	mu    sync.Mutex
	files map[string]*object // by path and build id
	cost  int64
	clock int64
	texts map[place]string
}

type place struct {
	module *Module
	pc     uint64
}

const (
	// mostCost bounds what is kept of opened files, in bytes of our own memory.
	mostCost = 128 << 20
	// mostTexts bounds the frames that are kept.
	mostTexts = 64 << 10
)

// New makes a symbolizer that looks for debug files where the distributions put them.
func New() *Symbolizer {
	return &Symbolizer{DebugDirs: []string{"/usr/lib/debug"}, files: map[string]*object{}, texts: map[place]string{}}
}

// Frame is the text of a return address: `lib(function+0xoffset) [0xaddress] at file:line`. What is not known is left out, as
// backtrace_symbols(3) does; m is nil for code in no library.
func (s *Symbolizer) Frame(m *Module, pc uint64) string {
	address := "[0x" + strconv.FormatUint(pc, 16) + "]"
	if m == nil {
		return address
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if text, ok := s.texts[place{m, pc}]; ok {
		return text
	}
	at := pc - m.Bias
	function, file, line := s.find(m, at)
	text := m.Path + "(" + function + ") " + address
	if line > 0 {
		text += " at " + file + ":" + strconv.Itoa(line)
	}
	if len(s.texts) >= mostTexts {
		clear(s.texts)
	}
	s.texts[place{m, pc}] = text
	return text
}

// Place is what a return address in a library was, as far as it is known; line counts from 1.
func (s *Symbolizer) Place(m *Module, pc uint64) (function, file string, line int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	function, file, line = s.find(m, pc-m.Bias)
	if i := strings.LastIndex(function, "+0x"); i >= 0 {
		function = function[:i]
	}
	return function, file, line
}

// find looks a return address up, as an address in the file. function is "name+0xoffset" or "+0xoffset".
func (s *Symbolizer) find(m *Module, at uint64) (function, file string, line int) {
	function = fmt.Sprintf("+0x%x", at)
	// A file may shrink while we read its mapping, and whatever is in it is not ours.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if failure := recover(); failure != nil {
			s.object(m).spoil()
		}
	}()
	o := s.object(m)
	if name, offset, ok := o.function(at); ok {
		function = fmt.Sprintf("%s+0x%x", name, offset)
	}
	file, line = o.line(at - 1) // the call is before the address that it returns to
	s.cost += o.recount()
	return function, file, line
}

// object is the opened file of a module; one that cannot be used knows nothing.
func (s *Symbolizer) object(m *Module) *object {
	key := m.Path + "\x00" + hex.EncodeToString(m.BuildID)
	s.clock++
	o := s.files[key]
	if o == nil {
		s.makeRoom()
		o = open(m, s.DebugDirs)
		s.cost += o.cost
		s.files[key] = o
	}
	o.used = s.clock
	return o
}

// makeRoom closes files that were not used for longest.
func (s *Symbolizer) makeRoom() {
	for s.cost > mostCost {
		var oldest string
		for key, o := range s.files {
			if oldest == "" || o.used < s.files[oldest].used {
				oldest = key
			}
		}
		s.cost -= s.files[oldest].cost
		s.files[oldest].close()
		delete(s.files, oldest)
	}
}

// Close closes all files.
func (s *Symbolizer) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.files {
		o.close()
	}
	clear(s.files)
	clear(s.texts)
	s.cost = 0
}

// buildIDFile is where a distribution puts the debug file of a build id.
func buildIDFile(dir string, id []byte) string {
	text := hex.EncodeToString(id)
	return filepath.Join(dir, ".build-id", text[:2], text[2:]+".debug")
}
