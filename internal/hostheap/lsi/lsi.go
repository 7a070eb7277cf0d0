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
	decayShare     = 0.75
	decayErrors    = 1.6 // standard errors
	boundedLife    = 0.1
	neutral        = 0.5
	leastFloor     = 4096 // bytes
)

// Judge applies the index.
func Judge(s *Stack) Verdict {
	v := Verdict{ShortWindow: s.Span < shortBeats}
	conc := 1.0
	if len(s.Live) == 0 || float64(len(s.Live))*s.Step < LeastBeats || len(s.Live) < 12 {
		v.Neutral, v.Growth, v.Pattern = true, neutral, neutral
	} else {
		v.Growth, v.Pattern, v.Slope, conc, v.Rising = growth(s)
	}
	v.Release = release(s)
	v.Lifetime = lifetime(s)
	v.Scale = scale(s, v.Slope)
	gate := 0.35 + 0.65*min(1, 1.6*min(v.Growth, max(v.Pattern, v.Growth/2)))
	v.LSI = 100 * gate * (0.30*v.Growth + 0.20*v.Release + 0.20*v.Lifetime + 0.20*v.Pattern + 0.10*v.Scale)
	v.Saturating = conc < saturatingConc || decaying(s)
	v.BoundedAge = v.Lifetime < boundedLife && v.Growth >= suspectGrowth
	v.Class = classify(s, &v)
	return v
}

func classify(s *Stack, v *Verdict) Class {
	turnover := s.AllocCount > 0 && s.LiveCount/s.AllocCount <= turnoverRatio
	flat := v.Growth < flatGrowth && !v.Neutral
	switch {
	case v.LSI >= suspectLSI && v.Growth >= suspectGrowth && v.Release >= suspectRelease && !v.Neutral && !v.Saturating:
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
	floor := max(spread(half, b), 0.01*median(half), leastFloor)
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
		conc = clamp((last/mid - 0.45) / 0.45)
	}
	g = clamp(max(snr*q, valley*math.Sqrt(persist)) * math.Sqrt(conc))
	tau := kendall(v[1:])
	m := direction(half)
	p = clamp(max(tau*(0.5+0.5*valley), 0.5*m*(1+tau)))
	return g, p, b / s.Step, conc, valley > 0.1 || snr*q > 0.1
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

// decaying says that ever fewer blocks are left over: significantly fewer from the last third than from the one before. The
// valleys of growth() tell it from bytes at a few points, which misses growth like the logarithm of time when blocks are few.
func decaying(s *Stack) bool {
	if s.Survivors == nil || s.Span <= 0 {
		return false
	}
	const parts = 8 // of each third; how much they differ tells bursts from chance
	mature := s.Span - cut(s)
	var third [2]float64
	noise := 0.0
	for i := range third {
		squares := 0.0
		for j := range parts {
			from := mature / 3 * (float64(i+1) + float64(j)/parts)
			n := s.survivors(from, from+mature/3/parts)
			third[i] += n
			squares += n * n
		}
		mean := third[i] / parts
		noise += max(squares-mean*third[i], 0) * parts / (parts - 1) // the variance of the third
	}
	before, last := third[0], third[1]
	noise = max(noise, before+last)
	return last < decayShare*before && before-last > decayErrors*math.Sqrt(noise)
}

// release is R: how little of what could have been freed was, and whether what survives goes on surviving.
func release(s *Stack) float64 {
	if s.Survivors == nil || s.Span <= 0 {
		return neutral
	}
	mature := s.Span - cut(s)
	survived, allocated := s.survivors(0, mature), s.allocs(0, mature)
	if allocated <= 0 || survived <= 0 {
		return 0
	}
	ratio := clamp(survived / allocated)
	plateau := 1.0
	young := rate(s.survivors(mature/2, mature*0.75), s.allocs(mature/2, mature*0.75))
	old := rate(s.survivors(0, mature/2), s.allocs(0, mature/2))
	if young > 0 {
		plateau = clamp(old / young)
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

// allocs is the number of allocations between two moments. What was before the series is taken as even.
func (s *Stack) allocs(from, to float64) float64 {
	known := float64(len(s.Allocs)) * s.Step
	start := max(s.Span-known, 0)
	sum := 0.0
	for _, n := range s.Allocs {
		sum += n
	}
	total := 0.0
	if start > 0 {
		before := max(s.AllocCount-sum, 0)
		total = before * max(min(to, start)-from, 0) / start
	}
	if known > 0 {
		total += integrate(s.Allocs, (from-start)/s.Step, (to-start)/s.Step)
	}
	return total
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
