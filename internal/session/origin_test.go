package session

import (
	"strings"
	"testing"

	"memscope/internal/dump/stacks"
)

func TestOriginOf(t *testing.T) {
	acl := stacks.Place{Library: "/cann/lib64/libascendcl.so", Function: "aclrtMalloc", File: "forward.c", Line: 1}
	hook := stacks.Place{Library: "/x/libascend_acl_hook.so", Function: "put_block", File: "record.c", Line: 2}
	bare := stacks.Place{Library: "/app/libvendor.so", Function: "vendor"}
	user := stacks.Place{Library: "/app/app", Function: "Buffer::Buffer(unsigned long)", File: "buffer.cpp", Line: 12}
	begin := stacks.Place{Library: "/app/app", Function: "main", File: "main.cpp", Line: 90}
	start := stacks.Place{Library: "/app/app", Function: "_start", File: "start.S", Line: 120}
	libc := stacks.Place{Library: "/lib64/libc.so.6", Function: "call", File: "libc.h", Line: 58}
	eval := stacks.Place{Library: "/usr/lib/libpython3.11.so.1.0", Function: "eval", File: "ceval.c", Line: 1}
	py := stacks.Place{Function: "step", File: "train.py", Line: 7}
	for _, c := range []struct {
		name      string
		c, python []stacks.Place
		file      string
		line      int
		function  string
		functions string
	}{
		{name: "nothing"},
		{"the first frame outside of the stack", []stacks.Place{hook, acl, user, begin, libc, start}, nil, "buffer.cpp", 12, user.Function, user.Function + ";main"},
		{"a library without lines, called by one with", []stacks.Place{hook, bare, begin, start}, nil, "main.cpp", 90, "vendor", "vendor;main"},
		{"Python comes before a caller in C", []stacks.Place{bare, eval, begin}, []stacks.Place{py}, "train.py", 7, "vendor", "vendor;eval;main;step"},
		{"C with a line comes before Python", []stacks.Place{user, eval}, []stacks.Place{py}, "buffer.cpp", 12, user.Function, user.Function + ";eval;step"},
		{"no line of the C library or the interpreter", []stacks.Place{bare, eval, libc}, nil, "", 0, "vendor", "vendor;eval;call"},
		{"only the stack itself", []stacks.Place{hook, acl}, nil, "", 0, "", ""},
	} {
		o := originOf(c.c, c.python)
		if o.File != c.file || o.Line != c.line || o.Function != c.function || strings.Join(o.Functions, ";") != c.functions {
			t.Errorf("%s: %+v", c.name, o)
		}
	}
}
