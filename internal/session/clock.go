package session

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is CLOCK_MONOTONIC in ns, the clock of the records.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // the clock and the pointer are good
	}
	return t.Nano()
}

// wallOffset is what turns a monotonic stamp into ns since the epoch. It is taken once per session, so that a wall clock that is set
// meanwhile reorders nothing. The narrowest of a few readings counts.
func wallOffset() int64 {
	var offset int64
	best := int64(1 << 62)
	for range 10 {
		before := monotonic()
		wall := time.Now().UnixNano()
		after := monotonic()
		if after-before < best {
			best, offset = after-before, wall-(before+after)/2
		}
	}
	return offset
}
