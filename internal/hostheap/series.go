package hostheap

import (
	"container/heap"
)

const (
	topStacks   = 256  // looked at in each beat (contract 6.2)
	mostSeries  = 1024 // stacks with a series
	mostPoints  = 2048 // of a series; then every second one goes
	changeBeats = 8    // over which a change is looked at
)

// point is a stack at one beat, since the window was opened.
type point struct {
	live   uint64 // bytes
	births uint64
}

// track is the series of one stack.
type track struct {
	start  int // beat of the first point
	step   int // beats
	points []point
}

// series are the stacks that change, beat by beat. Who is in stays in, until there are too many. A stack that does not change needs none:
// what a large program has made once would leave no room for a small leak.
type series struct {
	beats   int
	tracks  map[uint32]*track
	evicted map[uint32]bool
	past    []past // by stack
}

// past is what is known of a stack without a series.
type past struct {
	first   int32     // beat in which it was first seen, plus one
	changed int32     // last beat that found other live bytes than the one before
	live    uint64    // bytes at the last beat
	before  uint64    // some beats ago
	powers  [2]uint64 // at the last beat that is a power of two, and at the one before that: a half to three quarters of the time ago
}

func newSeries() *series { return &series{tracks: map[uint32]*track{}, evicted: map[uint32]bool{}} }

// beat takes the counts of the window by stack.
func (s *series) beat(counts []Counts) {
	s.beats++
	for len(s.past) < len(counts) {
		s.past = append(s.past, past{})
	}
	for i := range counts {
		p := &s.past[i]
		if p.first == 0 && counts[i].Allocs > 0 {
			p.first = int32(s.beats)
		}
		if live := counts[i].LiveBytes(); live != p.live {
			p.live, p.changed = live, int32(s.beats)
		}
	}
	top := append(s.top((*past).change), s.top((*past).growth)...)
	for _, id := range top {
		if s.tracks[id] == nil {
			if len(s.tracks) >= mostSeries && !s.evict(top) {
				break
			}
			s.tracks[id] = &track{start: s.beats, step: 1}
		}
	}
	for id, t := range s.tracks {
		if (s.beats-t.start)%t.step != 0 {
			continue
		}
		c := counts[id]
		t.points = append(t.points, point{c.LiveBytes(), c.Births()})
		if len(t.points) >= mostPoints {
			for i := range mostPoints / 2 {
				t.points[i] = t.points[2*i]
			}
			t.points = t.points[:mostPoints/2]
			t.step *= 2
		}
	}
	for i := range s.past {
		p := &s.past[i]
		if s.beats%changeBeats == 0 {
			p.before = p.live
		}
		if s.beats&(s.beats-1) == 0 {
			p.powers = [2]uint64{p.live, p.powers[0]}
		}
	}
}

// change is what has changed lately, growth what has for long; bytes. A leak among many that come and go is the latter.
func (p *past) change() uint64 { return max(p.live, p.before) - min(p.live, p.before) }
func (p *past) growth() uint64 { return max(p.live, p.powers[1]) - min(p.live, p.powers[1]) }

// flat is for how many beats a stack has not changed.
func (s *series) flat(id uint32) int {
	if int(id) >= len(s.past) || s.past[id].first == 0 {
		return 0
	}
	return s.beats - int(s.past[id].changed)
}

type weighed struct {
	id     uint32
	weight uint64
}

// lightest is a heap with the least weight on top.
type lightest []weighed

func (h lightest) Len() int           { return len(h) }
func (h lightest) Less(i, j int) bool { return h[i].weight < h[j].weight }
func (h lightest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *lightest) Push(x any)        { *h = append(*h, x.(weighed)) }
func (h *lightest) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// top is the stacks with the greatest weights other than 0, half of those that are looked at in a beat.
func (s *series) top(weight func(*past) uint64) []uint32 {
	h := make(lightest, 0, topStacks/2)
	for id := range s.past {
		if id == StackOverflow || id == StackUntracked {
			continue
		}
		w := weighed{uint32(id), weight(&s.past[id])}
		switch {
		case w.weight == 0:
		case len(h) < topStacks/2:
			heap.Push(&h, w)
		case w.weight > h[0].weight:
			h[0] = w
			heap.Fix(&h, 0)
		}
	}
	ids := make([]uint32, len(h))
	for i := range h {
		ids[i] = h[i].id
	}
	return ids
}

// evict gives up the series of the stack that has changed least and is not among the top ones.
func (s *series) evict(top []uint32) bool {
	keep := map[uint32]bool{}
	for _, id := range top {
		keep[id] = true
	}
	var least *weighed
	for id := range s.tracks {
		p := &s.past[id]
		if w := (weighed{id, max(p.change(), p.growth())}); !keep[id] && (least == nil || w.weight < least.weight) {
			least = &w
		}
	}
	if least == nil {
		return false
	}
	delete(s.tracks, least.id)
	s.evicted[least.id] = true
	return true
}

// forget drops what is known of a stack whose id another one gets.
func (s *series) forget(id uint32) {
	delete(s.tracks, id)
	delete(s.evicted, id)
	if int(id) < len(s.past) {
		s.past[id] = past{}
	}
}

// clone copies what a snapshot needs, so that the next beats do not change it.
func (s *series) clone() *series {
	c := &series{beats: s.beats, tracks: map[uint32]*track{}, evicted: map[uint32]bool{}, past: append([]past(nil), s.past...)}
	for id, t := range s.tracks {
		c.tracks[id] = &track{start: t.start, step: t.step, points: append([]point(nil), t.points...)}
	}
	for id := range s.evicted {
		c.evicted[id] = true
	}
	return c
}
