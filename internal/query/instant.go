package query

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// instant is a time as people give it: as it stands in the Timestamp column, or by its distance from the first or the last
// row of what is asked.
type instant struct {
	ns   int64
	from anchor
}

type anchor uint8

const (
	fromEpoch anchor = iota
	fromFirst
	fromLast // ns is negative
)

// timeForms is what help texts say.
const timeForms = "ns as in the Timestamp column, +10s: that long after the first row, -500ms: before the last"

func parseInstant(s string) (t instant, err error) {
	if s != "" && (s[0] == '+' || s[0] == '-') {
		t.from = map[byte]anchor{'+': fromFirst, '-': fromLast}[s[0]]
		d, err := time.ParseDuration(s)
		if err != nil {
			return t, fmt.Errorf("%q is no distance in time such as +10s or -500ms", s)
		}
		t.ns = int64(d)
		return t, nil
	}
	if t.ns, err = strconv.ParseInt(s, 10, 64); err != nil {
		return t, fmt.Errorf("%q is no time: %s", s, timeForms)
	}
	return t, nil
}

// at is the time in ns, when the rows are from first to last (0: there are none).
func (t instant) at(first, last int64) int64 {
	switch {
	case t.from == fromEpoch:
		return t.ns
	case last == 0:
		return 0
	case t.from == fromFirst:
		if first > math.MaxInt64-t.ns {
			return math.MaxInt64
		}
		return first + t.ns
	}
	return last + t.ns
}
