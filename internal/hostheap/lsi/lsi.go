// Package lsi judges call stacks of the host heap: the Leak Suspicion Index from 0 to 100, its five factors, and the class. It knows
// series of numbers and ages, not where they come from. docs/host-leaks.md explains the index for users.
package lsi

import "math"

// Stack is what is known of one stack in one window. Time is in beats since the stack's first allocation in the window.
type Stack struct {
	Span float64 // beats from the first allocation to the end of the window

	// Live bytes at the end of each step of Step beats, and the allocations in it; the last ones end with the window. Nil when
	// there is no series.
	Live   []float64
	Allocs []float64
	Step   float64

	AllocCount, LiveCount, LiveBytes float64
	ResizeCount                      float64 // of blocks that are in AllocCount once
	MeanLifetime                     float64 // of the freed blocks, beats; 0 when none was freed
	// Survivors counts the live blocks by the time of their allocation, Bins parts of the span from its beginning; nil when unknown.
	Survivors []float64

	BeatsPerDay float64
}

// Bins is the usual resolution of Survivors.
const Bins = 256

// LeastBeats is the shortest series that is judged.
const LeastBeats = 20

// Verdict is the judgement of a stack.
type Verdict struct {
	LSI                                         float64
	Growth, Release, Lifetime, Pattern, Scale   float64
	Neutral                                     bool    // Growth and Pattern are not known: 0.5 each
	Slope                                       float64 // bytes per beat in the last half
	Class                                       Class
	Saturating, BoundedAge, ShortWindow, Rising bool
	FewSteps                                    bool // what growth there is came in fewer than leastSteps
	Replaced                                    bool // what lives is what has come last, of blocks that are freed in the end; looked at where the index is high
}

// Class is what a stack is taken for.
type Class uint8

// Classes (contract 6.4).
const (
	GrowthWatch Class = iota
	GrowthWatchTurnover
	SuspectedLeak
	ResidentEarly
	ResidentTurnover
)

var classNames = [...]string{"growth_watch", "growth_watch/turnover", "suspected_leak", "resident/early", "resident/turnover"}

func (c Class) String() string { return classNames[c] }

// Resident says that the stack belongs to the baselines.
func (c Class) Resident() bool { return c >= ResidentEarly }

// Thresholds of the classes. docs/host-leaks.md has the evaluation.
const (
	suspectLSI     = 55
	suspectGrowth  = 0.45
	suspectRelease = 0.35
	flatGrowth     = 0.2 // below: it does not grow
	turnoverRatio  = 0.1 // of the allocated blocks that are live, at most
	earlyShare     = 0.8 // of the live blocks that were allocated before the last third
	shortBeats     = 60
	saturatingConc = 0.5
	stoppedChance  = 0.05
	boundedLife    = 0.1
	neutral        = 0.5
	leastFloor     = 4096 // bytes that are taken for noise where none is seen; or
	leastBlocks    = 4    // so many blocks, where that is less
	halfParts      = 16   // of the last half; growth within one of them is one step, as that of a burst
	leastSteps     = 3    // of growth in the last half; a table that grows by a factor of 1.5 or more has two
)

// Judge applies the index.
func Judge(s *Stack) Verdict {
	v := Verdict{ShortWindow: s.Span < shortBeats}
	conc := 1.0
	if len(s.Live) == 0 || float64(len(s.Live))*s.Step < LeastBeats || len(s.Live) < 12 {
		v.Neutral, v.Growth, v.Pattern = true, neutral, neutral
	} else {
		v.Growth, v.Pattern, v.Slope, conc, v.Rising = growth(s)
		v.FewSteps = v.Growth >= suspectGrowth && steps(merged(lasting(s.Live[len(s.Live)/2:]), halfParts)) < leastSteps
	}
	v.Release = release(s)
	v.Lifetime = lifetime(s)
	v.Scale = scale(s, v.Slope)
	gate := 0.35 + 0.65*min(1, 1.6*min(v.Growth, max(v.Pattern, v.Growth/2)))
	v.LSI = 100 * gate * (0.30*v.Growth + 0.20*v.Release + 0.20*v.Lifetime + 0.20*v.Pattern + 0.10*v.Scale)
	v.Saturating = conc < saturatingConc || thinning(s) || !v.Neutral && stopped(s)
	v.Replaced = v.LSI >= suspectLSI && replaced(s)
	v.BoundedAge = v.Lifetime < boundedLife && v.Growth >= suspectGrowth
	v.Class = classify(s, &v)
	return v
}

func classify(s *Stack, v *Verdict) Class {
	turnover := s.AllocCount > 0 && s.LiveCount/s.AllocCount <= turnoverRatio
	flat := v.Growth < flatGrowth && !v.Neutral
	switch {
	case v.LSI >= suspectLSI && v.Growth >= suspectGrowth && v.Release >= suspectRelease && !v.Neutral && !v.Saturating && !v.FewSteps && !v.Replaced:
		return SuspectedLeak
	case flat && turnover:
		return ResidentTurnover
	case flat && earlyFraction(s) >= earlyShare:
		return ResidentEarly
	case turnover && (v.Rising || v.Neutral):
		return GrowthWatchTurnover
	}
	return GrowthWatch
}

// earlyFraction is the share of the live blocks that were allocated before the last third of the span.
func earlyFraction(s *Stack) float64 {
	early, all := 0.0, 0.0
	for i, n := range s.Survivors {
		all += n
		if float64(i)+0.5 < float64(len(s.Survivors))*2/3 {
			early += n
		}
	}
	if all == 0 {
		return 0
	}
	return early / all
}

// growth is G, P, the slope in bytes per beat, and how far the growth holds on (1: fully).
func growth(s *Stack) (g, p, slope, conc float64, rising bool) {
	y := s.Live
	n := len(y)
	half := y[n/2:]
	b := theilSen(half)
	floor := max(spread(half, b), 0.01*median(half), leastGrowth(s))
	delta := b * float64(len(half))
	snr, q := 0.0, 0.0
	if delta > 0 {
		snr = delta / (delta + 2*floor)
		if whole := theilSen(y[n/3:]); whole > 0 {
			q = clamp(theilSen(y[n-n/3:]) / whole)
		}
	}
	v := valleys(y)
	k := len(v)
	rise := max(v[k-1]-v[k/2], 0)
	first := v[k/2] - v[0]
	persist := 1.0
	if first > 0 {
		persist = clamp(rise / first)
	}
	valley := rise / (rise + 2*floor)
	mid := (v[2*k/3] - v[k/3]) / float64(2*k/3-k/3)
	last := (v[k-1] - v[2*k/3]) / float64(k-1-2*k/3)
	conc = 1
	if mid > 2*floor {
		conc = clamp((last/mid*s.doubt() - 0.45) / 0.45)
	}
	g = clamp(max(snr*q, valley*math.Sqrt(persist)) * math.Sqrt(conc))
	tau := kendall(v[1:])
	m := direction(half)
	p = clamp(max(tau*(0.5+0.5*valley), 0.5*m*(1+tau)))
	return g, p, b / s.Step, conc, valley > 0.1 || snr*q > 0.1
}

// leastGrowth is what counts as noise at least, in bytes: a handful of blocks is no growth, but for large ones.
func leastGrowth(s *Stack) float64 {
	if s.LiveCount <= 0 {
		return leastFloor
	}
	return min(leastFloor, leastBlocks*s.LiveBytes/s.LiveCount)
}

// doubt is the factor by which the growth of the last third may be more, by one standard error, than it is against the third before:
// what comes in few blocks, or few steps of large ones, differs by chance.
func (s *Stack) doubt() float64 {
	n := len(s.Live)
	count := func(from, to int) float64 {
		begin := s.Span - float64(n)*s.Step
		return max(s.survivors(begin+float64(from)*s.Step, begin+float64(to)*s.Step), steps(lasting(s.Live[from:to])), 1)
	}
	return math.Exp(math.Sqrt(1/count(n/3, 2*n/3) + 1/count(2*n/3, n)))
}

// valleys splits the span into segments and returns the least of each.
func valleys(y []float64) []float64 {
	k := min(max(len(y)/10, 6), 12)
	v := make([]float64, k)
	for i := range v {
		segment := y[i*len(y)/k : (i+1)*len(y)/k]
		v[i] = segment[0]
		for _, x := range segment {
			v[i] = min(v[i], x)
		}
	}
	return v
}

// cut is the age in beats from which a block counts as mature: younger ones are mostly in use.
func cut(s *Stack) float64 {
	return min(0.25*s.Span, 3*s.MeanLifetime+1)
}

// thinning says that ever fewer blocks are left over, as when names are interned: their births are more likely if the rate falls like
// 1/t than if it is constant. By a few points of the live bytes, as in growth(), that is not seen when blocks are few. What was made before
// an eighth of the time is left out: a base, on which a leak may stand.
func thinning(s *Stack) bool {
	if s.Survivors == nil || s.Span <= 0 || s.ResizeCount > s.AllocCount { // growth by realloc is no matter of births
		return false
	}
	const from = 1.0 / 8
	mature := 1 - cut(s)/s.Span
	ratio, bins := 0.0, float64(len(s.Survivors)) // ratio: logarithm of the likelihood of 1/t over that of constant
	for i, n := range s.Survivors {
		at := (float64(i) + 0.5) / bins / mature
		if at > from && at < 1 {
			ratio += n * math.Log((1-from)/(at*math.Log(1/from)))
		}
	}
	return ratio > 0
}

// stopped says that growth which came in many steps has not gone on for a tenth of the time or more, for longer than ever before, and
// that this is no chance. Steps that come in clusters, as those of a program that works in phases, count as one each. The first eighth of the
// time is left out: a start may pause as it likes.
func stopped(s *Stack) bool {
	n := len(s.Live)
	growth := lasting(s.Live[n/8:])
	last, longest := pauses(growth)
	before := growth[:len(growth)-last]
	if 10*last < n || last <= longest || len(before) == 0 {
		return false
	}
	events := steps(before) / clustering(before, 6)
	return math.Pow(float64(len(before))/float64(len(growth)), events) < stoppedChance
}

// replaced says that the survivors are what has come last, of blocks that are all freed in the end: their ages are likelier when they live for
// as long as the others did than when they stay for ever, and there are no more old ones than that leaves, by one standard error. So it is in a
// cache that turns over, or where connections come anew one by one, however much of it there is at the end. How long blocks live is taken as
// exponential, by the time that all have lived, freed ones and survivors, for each one that was freed.
func replaced(s *Stack) bool {
	deaths := s.AllocCount - s.LiveCount
	if s.Survivors == nil || deaths < 1 || s.Span <= 0 {
		return false
	}
	width := s.Span / float64(len(s.Survivors))
	count, ages := 0.0, 0.0
	for i, n := range s.Survivors {
		count += n
		ages += n * (s.Span - (float64(i)+0.5)*width)
	}
	life := (deaths*s.MeanLifetime + ages) / deaths
	allocs := s.allocs()
	all, left, old, oldLeft := 0.0, 0.0, 0.0, 0.0 // allocations, and what replacement leaves of them; survivors of the older half, and the same
	for i, n := range s.Survivors {
		born := float64(i) * width
		made := allocs(born, born+width)
		stay := made * math.Exp(-(s.Span-born-width/2)/life)
		all += made
		left += stay
		if i < len(s.Survivors)/2 {
			old += n
			oldLeft += stay
		}
	}
	return count*math.Log(all/left) > ages/life && old <= oldLeft+math.Sqrt(oldLeft)
}

// release is R: how little of what could have been freed was, and whether what survives goes on surviving.
func release(s *Stack) float64 {
	if s.Survivors == nil || s.Span <= 0 {
		return neutral
	}
	mature, allocs := s.Span-cut(s), s.allocs()
	survived, allocated := s.survivors(0, mature), allocs(0, mature)
	if allocated <= 0 || survived <= 0 {
		return 0
	}
	ratio := clamp(survived / allocated)
	plateau := 1.0
	young := rate(s.survivors(mature/2, mature*0.75), allocs(mature/2, mature*0.75))
	old := rate(s.survivors(0, mature/2), allocs(0, mature/2))
	if young > 0 { // by one standard error
		plateau = clamp(old / young * math.Exp(math.Sqrt(1/max(s.survivors(0, mature/2), 1)+1/max(s.survivors(mature/2, mature*0.75), 1))))
	}
	return plateau * (0.4 + 0.6*math.Sqrt(ratio))
}

func rate(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return clamp(part / whole)
}

// survivors is the number of live blocks that were allocated between two moments, in beats.
func (s *Stack) survivors(from, to float64) float64 {
	return integrate(s.Survivors, from*float64(len(s.Survivors))/s.Span, to*float64(len(s.Survivors))/s.Span)
}

// allocs gives the number of allocations between two moments. What was before the series is taken as even.
func (s *Stack) allocs() func(from, to float64) float64 {
	known := float64(len(s.Allocs)) * s.Step
	start := max(s.Span-known, 0)
	before := s.AllocCount
	for _, n := range s.Allocs {
		before -= n
	}
	before = max(before, 0)
	return func(from, to float64) float64 {
		total := 0.0
		if start > 0 {
			total = before * max(min(to, start)-from, 0) / start
		}
		if known > 0 {
			total += integrate(s.Allocs, (from-start)/s.Step, (to-start)/s.Step)
		}
		return total
	}
}

// integrate sums a histogram from a place to another one, both in bins.
func integrate(h []float64, from, to float64) float64 {
	from, to = max(from, 0), min(to, float64(len(h)))
	sum := 0.0
	for i := int(from); i < len(h) && float64(i) < to; i++ {
		sum += h[i] * (min(to, float64(i+1)) - max(from, float64(i)))
	}
	return sum
}

// lifetime is L: whether the ages of the mature survivors are spread evenly, as those of a constant leak are.
func lifetime(s *Stack) float64 {
	if s.Survivors == nil || s.Span <= 0 {
		return neutral
	}
	end := (s.Span - cut(s)) / s.Span * float64(len(s.Survivors))
	total := integrate(s.Survivors, 0, end)
	if total <= 0 {
		return 0
	}
	d, sum := 0.0, 0.0
	for i := 0; float64(i) < end; i++ {
		part := min(end-float64(i), 1)
		at := float64(i) / end
		d = max(d, math.Abs(sum/total-at))
		sum += s.Survivors[i] * part
		d = max(d, math.Abs(sum/total-min((float64(i)+part)/end, 1)))
	}
	return clamp(1.25 - 2*d)
}

// scale is S: how much it is, for the order among equals.
func scale(s *Stack, slope float64) float64 {
	const octaves = 14
	size := clamp(math.Log2(max(s.LiveBytes/(64<<10), 1)) / octaves)
	daily := clamp(math.Log2(max(slope*s.BeatsPerDay/(1<<20), 1)) / octaves)
	return (size + daily) / 2
}
