package session

import (
	"math/rand/v2"
	"testing"

	"memscope/internal/dump/spool"
)

// TestHold compares with a table of all open blocks.
func TestHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		var h hold
		open := map[uint64]spool.Pos{} // where the flush before it ended
		var end spool.Pos
		id, first := uint64(0), uint64(0)
		for range 400 {
			switch rng.IntN(10) {
			case 0:
				end += spool.Pos(rng.IntN(holdSpan))
				got, least := h.horizon(end), end
				for _, at := range open {
					least = min(least, at)
				}
				if got > least {
					t.Fatalf("the horizon %d is behind an open block at %d", got, least)
				}
				if len(open) == 0 && got != end {
					t.Fatalf("nothing is open, and the horizon is %d, not %d", got, end)
				}
				if least-got >= 2*holdSpan {
					t.Fatalf("the horizon is at %d, the first open block at %d", got, least)
				}
			case 1:
				if rng.IntN(20) == 0 {
					if id > 0 {
						h.lift()
						h.free(id) // too late
					}
					h.lift()
					first = id + 1
					clear(open)
				}
			case 2, 3, 4, 5:
				id += 1 + rng.Uint64N(3)
				h.malloc(id)
				open[id] = end
			default:
				for id := range open { // any
					h.free(id)
					delete(open, id)
					break
				}
			}
			if first > 0 && h.changeable(first-1) || !h.changeable(id+1) {
				t.Fatal("changeable is wrong")
			}
		}
	}
}
