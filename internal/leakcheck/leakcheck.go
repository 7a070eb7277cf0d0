// Package leakcheck is what a leak check finds, and how it is told: the text of contract 8, or JSON. Which allocations are not to be
// told of, suppressions, is here, too.
package leakcheck

import (
	"path/filepath"
	"strings"

	"memscope/internal/dump/stacks"
)

// Space is a kind of memory, as the text calls it.
type Space string

// Spaces.
const (
	GM   Space = "GM"   // of a card
	Host Space = "HOST" // of the host, handed out by the stack
)

// Sum counts blocks.
type Sum struct {
	Allocations int   `json:"allocations"`
	Bytes       int64 `json:"bytes"`
}

// Add counts a block of so many bytes.
func (s *Sum) Add(bytes int64) {
	s.Allocations++
	s.Bytes += bytes
}

// Leak is a block that was allocated and not freed.
type Leak struct {
	Bytes   int64
	Address uint64
	Space   Space
	Device  int32 // event.DeviceNone: unknown
	Thread  uint64
	Origin  int // in the Process's
}

// Origin is where blocks were allocated.
type Origin struct {
	File      string   // empty: unknown
	Line      int      // from 1
	Function  string   // of the program, that has called the stack; empty: unknown
	Functions []string // of the stack, innermost first
}

// Process is what a process has leaked, in the order of the allocations.
type Process struct {
	PID        uint64
	Name       string
	Origins    []Origin
	Leaks      []Leak
	Suppressed Sum // which are not in Leaks
}

// stack are the libraries between the program and its memory, and our own: not the program's places.
var stack = []string{
	"libascend_acl_hook.so", "libascend_kernel_hook.so", "libascendcl.so", "libascendcl_impl.so", "libacl_rt_impl.so", "libruntime.so",
	"libascend_hal.so",
}

// system are libraries whose lines say nothing about a program: what starts it, and the interpreter, which has frames of its own.
var system = []string{"libc.so", "libc-", "libpthread", "ld-linux", "libstdc++.so", "libpython", "python"}

func among(names []string, path string) bool {
	base := filepath.Base(path)
	for _, name := range names {
		if strings.HasPrefix(base, name) {
			return true
		}
	}
	return false
}

// FromStack is the origin that frames tell, innermost first: the first line of the program's that is known. Where the code that called
// the stack has none, it is that of Python, or else that of a caller.
func FromStack(c, python []stacks.Place) (o Origin) {
	take := func(p *stacks.Place) bool {
		if p.Line > 0 {
			o.File, o.Line = p.File, p.Line
		}
		return p.Line > 0
	}
	for len(c) > 0 && among(stack, c[0].Library) {
		c = c[1:]
	}
	for i := range c { // what starts a program may have lines, too
		switch f := c[i].Function; {
		case f == "main":
			c = c[:i+1]
		case f == "_start", strings.HasPrefix(f, "__libc_start"):
			c = c[:i]
		default:
			continue
		}
		break
	}
	for _, p := range append(c[:len(c):len(c)], python...) {
		if p.Function != "" {
			o.Functions = append(o.Functions, p.Function)
		}
	}
	if len(c) > 0 {
		o.Function = c[0].Function
	}
	if len(c) > 0 && !among(system, c[0].Library) && take(&c[0]) || len(python) > 0 && take(&python[0]) {
		return o
	}
	for i := range c {
		if !among(system, c[i].Library) && take(&c[i]) {
			break
		}
	}
	return o
}
