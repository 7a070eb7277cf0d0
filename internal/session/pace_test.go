package session

import (
	"runtime"
	"testing"
)

// TestPace: one processor while nobody is in a hurry, all from the first to the last of those who are.
func TestPace(t *testing.T) {
	const all = 3
	before := runtime.GOMAXPROCS(all)
	defer runtime.GOMAXPROCS(before)
	var p pace
	expect := func(want int) {
		t.Helper()
		if got := runtime.GOMAXPROCS(0); got != want {
			t.Errorf("%d processors, want %d", got, want)
		}
	}
	p.hurry()
	p.rest()
	expect(all) // never told to be slow
	p.slow()
	expect(1)
	p.hurry()
	expect(all)
	p.hurry()
	p.rest()
	expect(all)
	p.rest()
	expect(1)
}
