package session

import (
	"path/filepath"
	"strings"

	"memscope/internal/dump/stacks"
	"memscope/internal/leakcheck"
)

// stackLibraries are the libraries between the program and its memory, and our own: not the program's places.
var stackLibraries = []string{
	"libascend_acl_hook.so", "libascend_kernel_hook.so", "libascendcl.so", "libascendcl_impl.so", "libacl_rt_impl.so", "libruntime.so",
	"libascend_hal.so",
}

// systemLibraries are libraries whose lines say nothing about a program: what starts it, and the interpreter, which has frames of its own.
var systemLibraries = []string{"libc.so", "libc-", "libpthread", "ld-linux", "libstdc++.so", "libpython", "python"}

func among(names []string, path string) bool {
	base := filepath.Base(path)
	for _, name := range names {
		if strings.HasPrefix(base, name) {
			return true
		}
	}
	return false
}

// originOf is the origin that frames tell, innermost first: the first line of the program's that is known. Where the code that called
// the stack has none, it is that of Python, or else that of a caller.
func originOf(c, python []stacks.Place) (o leakcheck.Origin) {
	take := func(p *stacks.Place) bool {
		if p.Line > 0 {
			o.File, o.Line = p.File, p.Line
		}
		return p.Line > 0
	}
	for len(c) > 0 && among(stackLibraries, c[0].Library) {
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
	if len(c) > 0 && !among(systemLibraries, c[0].Library) && take(&c[0]) || len(python) > 0 && take(&python[0]) {
		return o
	}
	for i := range c {
		if !among(systemLibraries, c[i].Library) && take(&c[i]) {
			break
		}
	}
	return o
}
