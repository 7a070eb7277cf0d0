package hostheap

import (
	"container/heap"
)

const (
	topStacks    = 256  // looked at in each beat (contract 6.2)
	mostSeries   = 1024 // stacks with a series
	mostPoints   = 2048 // of a series; then every second one goes
	changeBeats  = 8    // over which a change is looked at
	changeWeight = 8
)

// point is a stack at one beat, since the window was opened.
type point struct {
	live          uint64 // bytes
	allocs, frees uint64
}

// track is the series of one stack.
type track struct {
	start  int // beat of the first point
	step   int // beats
	points []point
}

// series are the stacks that matter, beat by beat. Who is in stays in, until there are too many.
type series struct {
	beats   int
	tracks  map[uint32]*track
	evicted map[uint32]bool
	first   []int32  // beat in which a stack was first seen, plus one
	before  []uint64 // live bytes some beats ago
}

func newSeries() *series { return &series{tracks: map[uint32]*track{}, evicted: map[uint32]bool{}} }

// beat takes the counts of the window by stack.
func (s *series) beat(counts []Counts) {
	s.beats++
	for len(s.first) < len(counts) {
		s.first = append(s.first, 0)
		s.before = append(s.before, 0)
	}
	for i := range counts {
		if s.first[i] == 0 && counts[i].Allocs > 0 {
			s.first[i] = int32(s.beats)
		}
	}
	top := s.top(counts)
	for _, id := range top {
		if s.tracks[id] == nil {
			if len(s.tracks) >= mostSeries && !s.evict(counts, top) {
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
		t.points = append(t.points, point{c.LiveBytes(), c.Allocs, c.Frees})
		if len(t.points) >= mostPoints {
			for i := range mostPoints / 2 {
				t.points[i] = t.points[2*i]
			}
			t.points = t.points[:mostPoints/2]
			t.step *= 2
		}
	}
	if s.beats%changeBeats == 0 {
		for i := range counts {
			s.before[i] = counts[i].LiveBytes()
		}
	}
}

// weight is how much a stack matters: what it holds, or how fast that changes.
func (s *series) weight(id int, c *Counts) uint64 {
	live, before := c.LiveBytes(), s.before[id]
	change := max(live, before) - min(live, before)
	return max(live, change*changeWeight)
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

// top is the stacks that matter most now.
func (s *series) top(counts []Counts) []uint32 {
	h := make(lightest, 0, topStacks)
	for id := range counts {
		if counts[id].Allocs == 0 || id == StackOverflow || id == StackUntracked {
			continue
		}
		w := weighed{uint32(id), s.weight(id, &counts[id])}
		switch {
		case w.weight == 0:
		case len(h) < topStacks:
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

// evict gives up the series that matters least and is not among the top ones.
func (s *series) evict(counts []Counts, top []uint32) bool {
	keep := map[uint32]bool{}
	for _, id := range top {
		keep[id] = true
	}
	var least *weighed
	for id := range s.tracks {
		if w := (weighed{id, s.weight(int(id), &counts[id])}); !keep[id] && (least == nil || w.weight < least.weight) {
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
	if int(id) < len(s.first) {
		s.first[id], s.before[id] = 0, 0
	}
}

// clone copies what a snapshot needs, so that the next beats do not change it.
func (s *series) clone() *series {
	c := &series{beats: s.beats, tracks: map[uint32]*track{}, evicted: map[uint32]bool{}, first: append([]int32(nil), s.first...)}
	for id, t := range s.tracks {
		c.tracks[id] = &track{start: t.start, step: t.step, points: append([]point(nil), t.points...)}
	}
	for id := range s.evicted {
		c.evicted[id] = true
	}
	return c
}
