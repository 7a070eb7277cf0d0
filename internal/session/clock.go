package session

import "golang.org/x/sys/unix"

// monotonic is CLOCK_MONOTONIC in ns, the clock of the records.
func monotonic() int64 { return read(unix.CLOCK_MONOTONIC) }

func read(clock int32) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic(err) // the clock and the pointer are good
	}
	return t.Nano()
}

// wallOffset is what turns a monotonic stamp into ns since the epoch. It is taken once per session, so that a wall clock that is set
// meanwhile reorders nothing. The coarse clocks stand still from tick to tick and are set together, so between two equal readings of
// one the other tells the difference to the nanosecond; where they are no such clocks, the narrowest of a few readings counts.
func wallOffset() int64 {
	var offset int64
	best := int64(1 << 62)
	for range 10 {
		before := read(unix.CLOCK_MONOTONIC_COARSE)
		wall := read(unix.CLOCK_REALTIME_COARSE)
		after := read(unix.CLOCK_MONOTONIC_COARSE)
		if after-before < best {
			best, offset = after-before, wall-(before+after)/2
		}
	}
	return offset
}
