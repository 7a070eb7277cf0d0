package leakcheck

import (
	"strings"
	"testing"
)

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
