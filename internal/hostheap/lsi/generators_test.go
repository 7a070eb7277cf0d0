package lsi

import (
	"math"
	"math/rand/v2"
)

// site is one simulated call stack, beat after beat.
type site struct {
	*rand.Rand
	beats, now   int
	blocks       []simBlock // in the order of their birth
	live, allocs []float64

	total, freed, resized, lifetimes, bytes float64
}

type simBlock struct {
	born int
	size float64
}

func (s *site) alloc(n int, size float64) {
	for range n {
		z := math.Round(size * (0.8 + 0.4*s.Float64()))
		s.blocks = append(s.blocks, simBlock{s.now, z})
		s.bytes += z
	}
	s.total += float64(n)
	s.allocs[s.now] += float64(n)
}

func (s *site) drop(b simBlock) {
	s.freed++
	s.lifetimes += float64(s.now - b.born)
	s.bytes -= b.size
}

// freeOldest frees n blocks, of those above the first `keep`.
func (s *site) freeOldest(n, keep int) {
	n = min(n, len(s.blocks)-keep)
	if n <= 0 {
		return
	}
	for _, b := range s.blocks[keep : keep+n] {
		s.drop(b)
	}
	s.blocks = append(s.blocks[:keep], s.blocks[keep+n:]...)
}

// freeIf frees what the condition holds for.
func (s *site) freeIf(condition func(b simBlock) bool) {
	kept := s.blocks[:0]
	for _, b := range s.blocks {
		if condition(b) {
			s.drop(b)
		} else {
			kept = append(kept, b)
		}
	}
	s.blocks = kept
}

// resize is a realloc: a block becomes larger, and is as old as it was.
func (s *site) resize(i int, size float64) {
	s.resized++
	s.bytes += size - s.blocks[i].size
	s.blocks[i].size = size
}

func (s *site) freeRandom(n int) {
	for ; n > 0 && len(s.blocks) > 0; n-- {
		i := s.IntN(len(s.blocks))
		s.drop(s.blocks[i])
		s.blocks = append(s.blocks[:i], s.blocks[i+1:]...)
	}
}

// poisson draws around a mean.
func (s *site) poisson(mean float64) int {
	if mean > 50 {
		return max(0, int(math.Round(mean+math.Sqrt(mean)*s.NormFloat64())))
	}
	n, p, limit := 0, s.Float64(), math.Exp(-mean)
	for p > limit {
		p *= s.Float64()
		n++
	}
	return n
}

// older frees blocks that have lived so many beats or more.
func (s *site) older(beats int) { s.freeIf(func(b simBlock) bool { return s.now-b.born >= beats }) }

// simulate runs a generator for so many beats and returns what the tool would know.
func simulate(beats int, seed uint64, step func(s *site)) *Stack {
	s := &site{Rand: rand.New(rand.NewPCG(seed, 77)), beats: beats, live: make([]float64, beats), allocs: make([]float64, beats)}
	first := -1
	for s.now = range beats {
		step(s)
		s.live[s.now] = s.bytes
		if first < 0 && s.total > 0 {
			first = s.now
		}
	}
	if first < 0 {
		first = beats - 1
	}
	span := float64(beats - first)
	stack := &Stack{
		Span: span, Live: s.live[first:], Allocs: s.allocs[first:], Step: 1, AllocCount: s.total, ResizeCount: s.resized, LiveCount: float64(len(s.blocks)),
		LiveBytes: s.bytes, Survivors: make([]float64, Bins), BeatsPerDay: 86400,
	}
	if s.freed > 0 {
		stack.MeanLifetime = s.lifetimes / s.freed
	}
	for _, b := range s.blocks {
		stack.Survivors[min(int((float64(b.born-first)+s.Float64())/span*Bins), Bins-1)]++
	}
	return stack
}

// generator is a kind of call stack with its label.
type generator struct {
	name string
	leak bool
	make func(r *rand.Rand, beats int) func(s *site)
}

func always(step func(s *site)) func(*rand.Rand, int) func(*site) {
	return func(*rand.Rand, int) func(*site) { return step }
}

// firstGenerators are those that the index was made with; the others came when realloc and small leaks were looked at.
const firstGenerators = 29

var generators = []generator{
	{"linear", true, always(func(s *site) { s.alloc(s.poisson(5), 1000) })},
	{"partial 2%", true, always(func(s *site) {
		s.freeIf(func(b simBlock) bool { return !b.isKept() && s.now-b.born >= 2 })
		s.alloc(196, 500)
		s.leak(s.poisson(4), 500)
	})},
	{"burst per epoch", true, always(func(s *site) {
		if s.now%25 == 7 {
			s.alloc(100, 2000)
		}
	})},
	{"masked by churn", true, always(func(s *site) {
		s.leak(s.poisson(1), 1000)
		s.churn(60, 1000)
	})},
	{"late", true, func(r *rand.Rand, beats int) func(s *site) {
		start := int(float64(beats) * (0.3 + 0.3*r.Float64()))
		return func(s *site) {
			if s.now >= start || s.now == 0 {
				s.alloc(s.poisson(5), 1000)
			}
		}
	}},
	{"accelerating", true, always(func(s *site) { s.alloc(s.poisson(20*float64(s.now)/float64(s.beats)), 1000) })},
	{"saw-tooth of 15 beats with residue", true, always(sawTooth(15))},
	{"saw-tooth of 25 beats with residue", true, always(sawTooth(25))},
	{"on a base", true, always(func(s *site) {
		if s.now == 0 {
			s.alloc(4000, 1000)
		}
		s.alloc(s.poisson(3), 1000)
	})},
	{"rare", true, func(_ *rand.Rand, beats int) func(s *site) {
		return func(s *site) {
			if s.Float64() < 12/float64(beats) {
				s.alloc(1, 60000)
			}
		}
	}},

	{"cache warm-up, fast", false, func(_ *rand.Rand, beats int) func(s *site) {
		return func(s *site) { s.alloc(s.poisson(200*math.Exp(-float64(s.now)/(0.05*float64(beats)))), 1000) }
	}},
	{"cache warm-up, slow", false, func(_ *rand.Rand, beats int) func(s *site) {
		return func(s *site) { s.alloc(s.poisson(40*math.Exp(-float64(s.now)/(0.2*float64(beats)))), 1000) }
	}},
	{"LRU, full", false, always(func(s *site) {
		s.alloc(s.poisson(50), 1000)
		s.freeOldest(len(s.blocks)-500, 0)
	})},
	{"LRU, long residency", false, func(_ *rand.Rand, beats int) func(s *site) {
		return func(s *site) {
			s.alloc(s.poisson(10), 1000)
			s.freeOldest(len(s.blocks)-4*beats, 0)
		}
	}},
	{"random eviction", false, always(func(s *site) {
		s.alloc(s.poisson(30), 1000)
		s.freeRandom(len(s.blocks) - 600)
	})},
	{"arena doubling", false, always(func(s *site) {
		if n := s.now + 1; n&(n-1) == 0 {
			s.freeOldest(len(s.blocks), 0)
			s.alloc(1, float64(n)*4096)
		}
	})},
	{"vector realloc", false, func(*rand.Rand, int) func(s *site) {
		next, size := 1.0, 4096.0
		return func(s *site) {
			if float64(s.now) >= next {
				s.freeOldest(len(s.blocks), 0)
				next, size = next*1.5+1, size*1.5
				s.alloc(1, size)
			}
		}
	}},
	{"periodic burst", false, always(func(s *site) {
		if s.now%30 == 3 {
			s.alloc(500, 1000)
		}
		s.older(3)
	})},
	{"start-up resident", false, always(func(s *site) {
		if s.now < 3 {
			s.alloc(1000, 1000)
		}
	})},
	{"thread caches", false, func(r *rand.Rand, beats int) func(s *site) {
		return func(s *site) {
			if s.Float64() < 0.5*math.Exp(-float64(s.now)/(0.1*float64(beats))) {
				s.alloc(64, 1000)
			}
			s.churnTail(20, 1000)
		}
	}},
	{"stable queue", false, always(func(s *site) {
		s.alloc(s.poisson(50), 1000)
		s.freeOldest(len(s.blocks)-100-s.IntN(50), 0)
	})},
	{"short churn", false, always(func(s *site) { s.older(1); s.alloc(s.poisson(300), 500) })},
	{"TTL sessions", false, always(func(s *site) { s.alloc(s.poisson(10), 2000); s.older(20) })},
	{"GC saw-tooth, short", false, always(func(s *site) {
		s.alloc(s.poisson(50), 1000)
		if s.now%10 == 9 {
			s.freeOldest(len(s.blocks), 0)
		}
	})},
	{"GC saw-tooth, long", false, func(r *rand.Rand, beats int) func(s *site) {
		period := beats / 6
		phase := r.IntN(period)
		return func(s *site) {
			s.alloc(s.poisson(50), 1000)
			if (s.now+phase)%period == period-1 {
				s.freeOldest(len(s.blocks), 0)
			}
		}
	}},
	{"one-shot", false, func(r *rand.Rand, beats int) func(s *site) {
		when := r.IntN(beats)
		return func(s *site) {
			if s.now == when {
				s.alloc(1+s.IntN(500), 5000)
			}
		}
	}},
	{"interning, log growth", false, always(func(s *site) { s.alloc(s.poisson(400/float64(s.now+2)), 500) })},
	{"phase plateaus", false, func(r *rand.Rand, beats int) func(s *site) {
		return func(s *site) {
			if s.now%(beats/4+1) == 0 {
				s.freeOldest(len(s.blocks), 0)
				s.alloc(200+s.IntN(1800), 1000)
			}
		}
	}},
	{"daily wave", false, func(r *rand.Rand, beats int) func(s *site) {
		phase := r.Float64() * 2 * math.Pi
		period := float64(beats) / 3
		return func(s *site) {
			want := int(500 + 400*math.Sin(2*math.Pi*float64(s.now)/period+phase))
			s.alloc(s.poisson(20), 1000)
			s.alloc(max(want-len(s.blocks), 0), 1000)
			s.freeOldest(len(s.blocks)-want, 0)
		}
	}},

	{"buffer that grows by pages", true, always(func(s *site) {
		if s.now == 0 {
			s.alloc(1, 4096)
		}
		if s.Float64() < 0.4 {
			s.resize(0, s.blocks[0].size+4096)
		}
	})},
	{"buffers that grow by pages, full late", false, func(r *rand.Rand, beats int) func(s *site) {
		full := int(float64(beats) * (0.5 + 0.3*r.Float64()))
		return func(s *site) {
			if s.now == 0 {
				s.alloc(3, 4096)
			}
			if i := s.IntN(3); s.now < full && s.Float64() < 0.6 {
				s.resize(i, s.blocks[i].size+4096)
			}
		}
	}},
	{"buffers that stay behind after they have grown", true, always(func(s *site) {
		s.freeIf(func(b simBlock) bool { return !b.isKept() && s.Float64() < 0.1 })
		for i, b := range s.blocks {
			if s.now-b.born < 10 && s.Float64() < 0.2 {
				s.resize(i, 2*b.size-math.Mod(b.size, 1)) // a kept one stays one
			}
		}
		s.alloc(s.poisson(2), 200)
		s.leak(s.poisson(0.15), 200)
	})},
	{"vector by realloc, factor 1.5", false, vector(1.5)},
	{"vector by realloc, factor 2", false, vector(2)},
	{"connections with buffers that grow", false, always(func(s *site) {
		s.freeIf(func(simBlock) bool { return s.Float64() < 0.05 })
		for i, b := range s.blocks {
			if s.now-b.born < 10 && s.Float64() < 0.2 {
				s.resize(i, 2*b.size)
			}
		}
		s.alloc(s.poisson(3), 200)
	})},
	{"small leak, one block in two beats", true, always(func(s *site) {
		s.churnTail(5, 60)
		s.leak(s.poisson(0.5), 60)
	})},
	{"small tables, interned at last", false, always(func(s *site) { s.alloc(s.poisson(40/float64(s.now+2)), 60) })},
	{"few of many stay", true, always(func(s *site) {
		s.freeIf(func(b simBlock) bool { return !b.isKept() && s.Float64() < 0.4 })
		s.alloc(s.poisson(3), 700)
		s.leak(s.poisson(0.15), 700)
	})},
	{"table that fills in bursts, full late", false, func(r *rand.Rand, beats int) func(s *site) {
		full, bursts := float64(beats)*(0.6+0.2*r.Float64()), 8+r.IntN(8)
		starts := make([]float64, bursts)
		for i := range starts {
			starts[i] = full * (float64(i) + r.Float64()) / float64(bursts)
		}
		return func(s *site) {
			for _, start := range starts {
				if since := float64(s.now) - start; since >= 0 && since < 4 {
					s.alloc(s.poisson(3), 160)
				}
			}
		}
	}},
	{"pool at its high-water mark, under a load that rises", false, func(r *rand.Rand, beats int) func(s *site) {
		phase, load := 2*math.Pi*r.Float64(), 0.0
		return func(s *site) {
			load = 0.8*load + s.NormFloat64()
			rise := min(1, float64(s.now)/float64(beats)/0.6)
			want := (0.4 + 0.6*rise) * (60 + 20*math.Sin(float64(s.now)/5+phase) + 5*load)
			s.alloc(max(int(want)-len(s.blocks), 0), 4096)
		}
	}},
	{"table that fills steadily, full late", false, func(r *rand.Rand, beats int) func(s *site) {
		full := int(float64(beats) * (0.75 + 0.13*r.Float64()))
		return func(s *site) {
			if s.now < full {
				s.alloc(s.poisson(1.5), 100)
			}
		}
	}},
	{"connections that come anew one by one", false, func(r *rand.Rand, beats int) func(s *site) {
		ends := 2 + 3*r.Float64() // each of a number of them, as often
		return func(s *site) {    // those of the start are of another site, and so this one fills up
			n := len(s.blocks)
			s.freeIf(func(simBlock) bool { return s.Float64() < ends/float64(beats) })
			anew := n - len(s.blocks) + s.poisson(30*ends/float64(beats)*math.Exp(-ends*float64(s.now)/float64(beats)))
			s.alloc(anew, 5000)
		}
	}},
	{"some stay, others live long", true, func(_ *rand.Rand, beats int) func(s *site) {
		return func(s *site) {
			s.freeIf(func(b simBlock) bool { return !b.isKept() && s.Float64() < 5/float64(beats) })
			s.alloc(s.poisson(0.7), 800)
			s.leak(s.poisson(0.4), 800)
		}
	}},
}

// vector holds ever more, one a beat, and grows by a factor when it is full.
func vector(factor float64) func(*rand.Rand, int) func(*site) {
	return func(r *rand.Rand, _ int) func(s *site) {
		room := 16 * (1 + r.Float64())
		return func(s *site) {
			if s.now == 0 {
				s.alloc(1, room*400)
			}
			if float64(s.now) >= room {
				room *= factor
				s.resize(0, room*400)
			}
		}
	}
}

// ambiguous are kinds without a label; the table shows what they get.
var ambiguous = []generator{
	{"growing queue", true, always(func(s *site) { s.alloc(s.poisson(50), 1000); s.freeOldest(s.poisson(45), 0) })},
	{"stalled queue", true, always(func(s *site) { s.alloc(s.poisson(50), 1000) })},
	{"leak that was stopped", true, always(func(s *site) {
		if s.now < s.beats/2 {
			s.alloc(s.poisson(5), 1000)
		}
	})},
}

// leak allocates blocks that the other steps of the same site do not free.
func (s *site) leak(n int, size float64) {
	s.alloc(n, size)
	for i := len(s.blocks) - n; i < len(s.blocks); i++ {
		s.blocks[i].size += kept
	}
}

// kept marks a block in the fraction of its size: sizes are whole numbers.
const kept = 0.5

func (b simBlock) isKept() bool { return b.size != math.Trunc(b.size) }

// churn keeps a changing number of other blocks, up to 2*most.
func (s *site) churn(most int, size float64) {
	s.freeIf(func(b simBlock) bool { return !b.isKept() })
	s.alloc(s.IntN(2*most+1), size)
}

// churnTail allocates and frees within one beat.
func (s *site) churnTail(n int, size float64) {
	before := len(s.blocks)
	s.alloc(n, size)
	s.freeOldest(n, before)
}

// sawTooth fills for so many beats and then frees all but 8 % of that.
func sawTooth(period int) func(s *site) {
	return func(s *site) {
		s.alloc(s.poisson(20), 1000)
		if s.now%period == period-1 {
			s.freeIf(func(b simBlock) bool { return s.now-b.born < period && s.Float64() > 0.08 })
		}
	}
}
