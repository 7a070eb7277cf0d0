package leakcheck

import (
	"strings"
	"testing"

	"memscope/internal/dump/stacks"
)

func TestFromStack(t *testing.T) {
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
		o := FromStack(c.c, c.python)
		if o.File != c.file || o.Line != c.line || o.Function != c.function || strings.Join(o.Functions, ";") != c.functions {
			t.Errorf("%s: %+v", c.name, o)
		}
	}
}

func TestRules(t *testing.T) {
	o := Origin{File: "/home/u/src/lib/buffer.cpp", Line: 12, Functions: []string{"pool::Buffer::Buffer(unsigned long)", "main"}}
	for rule, want := range map[string]bool{
		"file:/home/u/src/lib/buffer.cpp": true,
		"file:buffer.cpp":                 true,
		"file:lib/buffer.cpp":             true,
		"file:lib/*":                      true,
		"file:*.cpp":                      true,
		"file:*/src/*.cpp":                true,
		"file:ffer.cpp":                   false,
		"file:buffer":                     false,
		"file:lib":                        false,
		"line:buffer.cpp:12":              true,
		"line:lib/*:12":                   true,
		"line:buffer.cpp:13":              false,
		"function:main":                   true,
		"function:pool::*":                true,
		"function:pool::Buffer::Buffer":   true,
		"function:*(unsigned long)":       true,
		"function:Buffer":                 false,
		"function:*a*a*":                  false,
		"  function:main  ":               true,
		"# function:main":                 false,
		"":                                false,
	} {
		rules, err := Parse([]string{"", "file:other.c", rule})
		if err != nil {
			t.Errorf("%q: %v", rule, err)
		}
		if got := rules.Match(&o); got != want {
			t.Errorf("%q: %v", rule, got)
		}
	}
	if rules, _ := Parse([]string{"file:*", "line:*:1"}); rules.Match(&Origin{}) {
		t.Error("a pattern of files matches an unknown file")
	}
	for _, bad := range []string{"main.cpp", "leak:main", "file:", "function:", "line:main.cpp", "line:main.cpp:0", "line::5", "line:main.cpp:x"} {
		if _, err := Parse([]string{"", bad}); err == nil || !strings.Contains(err.Error(), "line 2, \""+bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("file:*a*\nline:b:5", "dir/aa", 5, "f(int)")
	f.Add("function:*", "", 0, "")
	f.Fuzz(func(t *testing.T, text, file string, line int, function string) {
		rules, err := Parse(strings.Split(text, "\n"))
		if err == nil {
			rules.Match(&Origin{File: file, Line: line, Functions: []string{function}})
		}
	})
}

func TestText(t *testing.T) {
	r := Report{Heap: "cann"}
	r.Add(&Process{PID: 7, Name: "a", Origins: []Origin{{}, {File: "bad\nname\x1b.c", Line: 3}}, Leaks: []Leak{{Bytes: 32800, Address: 0x124080024000, Space: GM}}})
	r.Add(&Process{PID: 7, Leaks: []Leak{{Bytes: 5, Address: 0x10, Space: Host, Origin: 1}}})
	const want = `====== ERROR: LeakCheck: detected memory leaks

======    Direct leak of 32800 byte(s) 
======      at 0x124080024000 on GM allocated in <unknown>:0 (serialNo:0)

======    Direct leak of 5 byte(s) 
======      at 0x10 on HOST allocated in bad?name?.c:3 (serialNo:0)

====== SUMMARY: 32805 byte(s) leaked in 2 allocation(s)
`
	text := func() string {
		var b strings.Builder
		if err := r.Text(&b); err != nil {
			t.Error(err)
		}
		return b.String()
	}
	if got := text(); got != want {
		t.Errorf("got:\n%s", got)
	}
	r.Add(&Process{PID: 8, Name: "clean"})
	if got := text(); got != "====== Process 7 (a)\n"+want {
		t.Errorf("two processes:\n%s", got)
	}
	r.Processes = r.Processes[1:]
	if got := text(); got != "" {
		t.Errorf("no leak: %q", got)
	}
}
