package hostheap

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"memscope/internal/hostheap/lsi"
)

// Snapshot is what a window holds at one moment, without the texts of stacks, which stay in the tables.
type Snapshot struct {
	Stage    int
	Window   uint32 // in the tables
	PID      int    // as the process sees itself
	Options  Options
	Opened   time.Time
	Ended    time.Time
	Beat     time.Duration
	Beats    int  // that were taken
	Interim  bool // the window is open
	Dead     bool // the process ended with the window open
	Orderly  bool // ... after its exit handlers
	Replaced bool // ... because it executed another program
	Late     int  // threads that were inside the hook and did not leave it: after a death their last call is half done

	NativeDepth, PythonDepth int
	Attached                 bool // the hook had begun its work
	Flags                    uint32
	Allocator                string // the library with the real malloc, "" when unknown
	Total                    Counts // all stacks, the unknown bucket and the overflow channel included
	Stacks                   int    // with allocations in the window
	Unknown, Overflow        Counts
	Recycled                 int
	Folded                   Counts // of the recycled stacks; in Total
	Truncated                uint32 // Trunc…
	Tally                    Tally
	Frozen                   Size // interim: allocated while the ledger was read
	SeriesStacks             int

	// Of the walk over the ledger.
	Unfreed         Size
	UnfreedOverflow Size
	Buckets         [Buckets]Size
	Walk            Walk

	Sites []Site      // stacks with live blocks, most suspicious first
	Rest  int         // stacks with live blocks that are too small to be judged one by one
	Live  []LiveStack // all of them, the largest first
}

// LiveStack is a stack with live blocks, as the walk found them.
type LiveStack struct {
	Stack  uint32
	Blocks Size
}

// Degraded is why a site has no series to be judged by; the words are those of contract 6.2.
type Degraded string

// Reasons.
const (
	Judged             Degraded = ""
	NoSeries           Degraded = "no_series"
	SeriesEvicted      Degraded = "series_evicted"
	InsufficientSeries Degraded = "insufficient_series"
	NoWarmupThread     Degraded = "no_warmup_thread"
)

// Site is a stack that is judged.
type Site struct {
	Stack    uint32
	Counts   Counts
	Unfreed  Size // by the walk
	Verdict  lsi.Verdict
	Degraded Degraded
	Beats    int // of its series

	history lsi.Stack
}

// judgedMost is how many stacks without a series are judged, those that hold most.
const judgedMost = 1024

// snapshot takes the numbers of a window; look completes it.
func (r *Recorder) snapshot(w *window, se *series, counts []Counts, ended time.Time) *Snapshot {
	h := r.tables.Header()
	s := &Snapshot{
		Stage: w.stage, Window: w.number, PID: int(int32(atomic.LoadUint32(&h.Pid))), Options: w.options, Opened: w.opened, Ended: ended,
		Beat: r.beat, Beats: se.beats, Orderly: atomic.LoadUint32(&h.State) == Ended,
		NativeDepth: int(r.tables.h.Native_depth), PythonDepth: int(r.tables.h.Python_depth),
		Attached: atomic.LoadUint64(&h.Attached) != 0, Flags: atomic.LoadUint32(&h.Flags),
		Total: total(counts, w.folded), Recycled: w.recycled, Folded: w.folded, Truncated: atomic.LoadUint32(&h.Truncated),
		Tally: r.tables.Tally().Sub(w.tally), SeriesStacks: len(se.tracks),
	}
	if l, ok := r.tables.Library(atomic.LoadUint32(&h.Allocator)); ok {
		s.Allocator = l.Path
	}
	s.Unknown, s.Overflow = counts[StackUnknown], counts[StackOverflow]
	s.Unknown.Add(w.folded)
	var small []Site
	for id := range counts {
		c := counts[id]
		if id >= StackFirst && c.Allocs > 0 {
			s.Stacks++
		}
		if c.LiveBlocks() == 0 || id == StackOverflow || id == StackUntracked {
			continue
		}
		site := Site{Stack: uint32(id), Counts: c}
		site.history = history(se, uint32(id), c, ended.Sub(w.opened), r.beat)
		site.Degraded, site.Beats = r.degraded(se, uint32(id), ended.Sub(w.opened))
		if se.tracks[uint32(id)] != nil {
			s.Sites = append(s.Sites, site)
		} else {
			small = append(small, site)
		}
	}
	if len(small) > judgedMost {
		slices.SortFunc(small, func(a, b Site) int { return cmp.Compare(b.Counts.LiveBytes(), a.Counts.LiveBytes()) })
		s.Rest = len(small) - judgedMost
		small = small[:judgedMost]
	}
	s.Sites = append(s.Sites, small...)
	return s
}

// degraded says whether a stack can be judged by its series, and how many beats that has.
func (r *Recorder) degraded(se *series, id uint32, length time.Duration) (Degraded, int) {
	t := se.tracks[id]
	expected := int(length / r.beat)
	switch {
	case se.beats*2 < expected && expected >= 2:
		return NoWarmupThread, se.beats
	case t == nil && known(se, id):
		return Judged, se.flat(id)
	case t != nil && len(t.points)*t.step < lsi.LeastBeats, t == nil && se.beats < lsi.LeastBeats:
		n := 0
		if t != nil {
			n = len(t.points) * t.step
		}
		return InsufficientSeries, n
	case t == nil && se.evicted[id]:
		return SeriesEvicted, 0
	case t == nil:
		return NoSeries, 0
	}
	return Judged, len(t.points) * t.step
}

// known says that a stack needs no series to be judged by: for half of its time or more it has not changed.
func known(se *series, id uint32) bool {
	flat := se.flat(id)
	return flat >= lsi.LeastBeats && 2*flat >= se.beats-int(se.past[id].first-1)
}

// history is what the index wants to know of a stack, but for the survivors.
func history(se *series, id uint32, c Counts, length, beat time.Duration) lsi.Stack {
	beats := float64(length) / float64(beat)
	first := 0.0
	if int(id) < len(se.past) && se.past[id].first > 0 {
		first = float64(se.past[id].first - 1)
	} else {
		first = float64(se.beats) // since the last beat
	}
	st := lsi.Stack{
		Span: max(beats-first, 0.1), Step: 1, AllocCount: float64(c.Births()), ResizeCount: float64(c.Resized), LiveCount: float64(c.LiveBlocks()), LiveBytes: float64(c.LiveBytes()),
		BeatsPerDay: float64(24*time.Hour) / float64(beat),
	}
	if deaths := c.Deaths(); deaths > 0 {
		st.MeanLifetime = float64(c.Lifetime) / ticksPerBeat / float64(deaths)
	}
	t := se.tracks[id]
	if t == nil && known(se, id) {
		for range se.flat(id) {
			st.Live = append(st.Live, float64(se.past[id].live))
		}
	}
	if t == nil || len(t.points)*t.step < lsi.LeastBeats || len(t.points) < 2 {
		return st
	}
	st.Step = float64(t.step)
	begin := uint64(0)
	if t.start > int(first)+1 { // what was before the series is not of its first step
		begin = t.points[0].births
	}
	for _, p := range t.points {
		st.Live = append(st.Live, float64(p.live))
		st.Allocs = append(st.Allocs, float64(p.births-min(begin, p.births)))
		begin = p.births
	}
	return st
}

// look walks over the ledger and judges the sites.
func (s *Snapshot) look(t *Tables, dead bool) {
	c := s.census(t, dead)
	s.Walk, s.Buckets = c.reader.walk, c.buckets()
	for id := range c.stacks {
		size := c.stacks[id].Size
		if size.Count == 0 {
			continue
		}
		s.Unfreed.Count += size.Count
		s.Unfreed.Bytes += size.Bytes
		if id == StackOverflow {
			s.UnfreedOverflow = size
			continue
		}
		s.Live = append(s.Live, LiveStack{uint32(id), size})
	}
	slices.SortStableFunc(s.Live, func(a, b LiveStack) int { return cmp.Compare(b.Blocks.Bytes, a.Blocks.Bytes) })
	share(len(s.Sites), func(_, i int) {
		site := &s.Sites[i]
		site.Unfreed = c.stacks[site.Stack].Size
		if site.Degraded != Judged {
			site.history.Live = nil
		}
		site.history.Survivors = make([]float64, lsi.Bins)
		for bin, n := range c.stacks[site.Stack].survivors {
			site.history.Survivors[bin] = float64(n)
		}
		site.Verdict = lsi.Judge(&site.history)
		site.history = lsi.Stack{}
	})
	s.Sites = slices.DeleteFunc(s.Sites, func(x Site) bool { return x.Unfreed.Count == 0 })
	slices.SortFunc(s.Sites, func(a, b Site) int {
		return cmp.Or(cmp.Compare(b.Verdict.LSI, a.Verdict.LSI), cmp.Compare(b.Unfreed.Bytes, a.Unfreed.Bytes), cmp.Compare(a.Stack, b.Stack))
	})
}
