package session

import "testing"

// TestBrief: helper programs are named, the most frequent ones first, and only some of many.
func TestBrief(t *testing.T) {
	s := &session{brief: map[string]int{}}
	if got := s.tellBrief(); got != "" {
		t.Errorf("nothing: %q", got)
	}
	const begin, end = "[msmemscope] Info: ", " helper program(s) that ran for less than 1s have no report on their host heap: "
	for _, name := range []string{"sh run.sh", "ls", "cat", "ls"} {
		s.tooBrief(name)
	}
	if got, want := s.tellBrief(), begin+"4"+end+"ls (2), cat, sh run.sh."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, name := range []string{"a", "b", "d", "e", "f", "g", "h"} {
		s.tooBrief(name)
	}
	if got, want := s.tellBrief(), begin+"11"+end+"ls (2), a, b, cat, d, e, f, g, others."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
