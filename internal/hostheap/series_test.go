package hostheap

import "testing"

// TestSeriesByNeed: a small leak has a series, though more stacks than there are series hold more, others come and go by more, and the
// table was full before the leak began. What has not changed for long is judged without one.
func TestSeriesByNeed(t *testing.T) {
	const made, churning, leak = 3000, 300, 3400
	s := newSeries()
	counts := make([]Counts, leak+1)
	for beat := range 300 {
		for id := StackFirst; id < made; id++ {
			if beat < 5 && id%5 == beat { // as modules are imported, one after the other
				counts[id].Add(Counts{Allocs: 100, AllocBytes: 100000})
			}
		}
		for id := made; id < made+churning; id++ {
			counts[id].Add(Counts{Allocs: 1, AllocBytes: 5000})
			if beat%2 == id%2 && beat > 0 {
				counts[id].Add(Counts{Frees: 2, FreeBytes: 10000})
			}
		}
		if beat%15 == 10 {
			counts[leak].Add(Counts{Allocs: 1, AllocBytes: 60})
		}
		s.beat(counts)
	}
	if len(s.tracks) > mostSeries {
		t.Errorf("%d series", len(s.tracks))
	}
	switch track := s.tracks[leak]; {
	case track == nil:
		t.Fatal("the leak has no series")
	case len(track.points) < 250:
		t.Errorf("the series of the leak has %d points", len(track.points))
	}
	for id := uint32(StackFirst); id < made; id++ {
		if s.tracks[id] == nil && !known(s, id) {
			t.Fatalf("stack %d has no series, and has not changed for %d beats", id, s.flat(id))
		}
	}
	if known(s, leak) {
		t.Error("the leak counts as flat")
	}
}
