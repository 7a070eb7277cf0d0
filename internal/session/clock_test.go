package session

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestWallOffset: a stamp lies between two readings of the wall clock around it, however close they are.
func TestWallOffset(t *testing.T) {
	for range 100 {
		offset := wallOffset()
		for range 100 {
			before := read(unix.CLOCK_REALTIME)
			stamp := monotonic() + offset
			if after := read(unix.CLOCK_REALTIME); stamp < before || stamp > after {
				t.Fatalf("%d is not in %d to %d", stamp, before, after)
			}
		}
	}
	if a, b := wallOffset(), wallOffset(); a != b {
		t.Errorf("offset %d, then %d", a, b)
	}
}
