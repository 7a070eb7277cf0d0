package lsi

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// scored is one site of the evaluation.
type scored struct {
	generator int
	seed      int
	leak      bool
	lsi       float64
	suspected bool
}

// evaluate judges every generator with so many seeds.
func evaluate(beats, seeds int) (all []scored) {
	for i, g := range generators {
		for seed := range seeds {
			v := Judge(simulate(beats, uint64(seed), g.make(rand.New(rand.NewPCG(uint64(seed), 5)), beats)))
			all = append(all, scored{i, seed, g.leak, v.LSI, v.Class == SuspectedLeak})
		}
	}
	return all
}

// figures are the results of one window length.
type figures struct {
	truePositive, falsePositive, leaks int
	auc                                float64
}

func count(all []scored) figures {
	f := figures{}
	all = slices.SortedFunc(slices.Values(all), func(a, b scored) int { return cmp.Compare(a.lsi, b.lsi) })
	rank, clean := 0.0, 0
	for _, s := range all {
		switch {
		case s.leak:
			f.leaks++
			rank += float64(clean)
			if s.suspected {
				f.truePositive++
			}
		default:
			clean++
			if s.suspected {
				f.falsePositive++
			}
		}
	}
	f.auc = rank / float64(clean) / float64(f.leaks)
	return f
}

// only are those that a condition holds for.
func only(all []scored, which func(x scored) bool) []scored {
	return slices.DeleteFunc(slices.Clone(all), func(x scored) bool { return !which(x) })
}

func (f figures) precision() float64 {
	return float64(f.truePositive) / float64(max(f.truePositive+f.falsePositive, 1))
}
func (f figures) recall() float64 { return float64(f.truePositive) / float64(f.leaks) }

// TestEvaluation: the index finds the leaks among the generators, and no other. With -v it prints the table of docs/host-leaks.md.
func TestEvaluation(t *testing.T) {
	for _, c := range []struct {
		beats, seeds      int
		precision, recall float64
	}{{60, 40, 0.95, 0.45}, {300, 40, 0.95, 0.85}, {1200, 10, 0.95, 0.85}} {
		all := evaluate(c.beats, c.seeds)
		for _, part := range []struct {
			name  string
			holds func(x scored) bool
		}{
			{"the first generators, odd seeds", func(x scored) bool { return x.generator < firstGenerators && x.seed%2 == 1 }},
			{"the first generators, even seeds", func(x scored) bool { return x.generator < firstGenerators && x.seed%2 == 0 }},
			{"the later generators, odd seeds", func(x scored) bool { return x.generator >= firstGenerators && x.seed%2 == 1 }},
			{"the later generators, even seeds", func(x scored) bool { return x.generator >= firstGenerators && x.seed%2 == 0 }},
		} {
			f := count(only(all, part.holds))
			t.Logf("%d beats, %s: precision %.3f, recall %.3f, AUC %.3f", c.beats, part.name, f.precision(), f.recall(), f.auc)
		}
		f := count(all)
		t.Logf("%d beats: precision %.3f, recall %.3f, AUC %.3f", c.beats, f.precision(), f.recall(), f.auc)
		for i, g := range generators {
			var index []float64
			suspected := 0
			for _, s := range only(all, func(x scored) bool { return x.generator == i }) {
				index = append(index, s.lsi)
				if s.suspected {
					suspected++
				}
			}
			t.Logf("    %-34s median %5.1f, suspected %d of %d", g.name, median(index), suspected, c.seeds)
		}
		if f.precision() < c.precision || f.recall() < c.recall {
			t.Errorf("%d beats: precision %.3f, recall %.3f; at least %.2f, %.2f", c.beats, f.precision(), f.recall(),
				c.precision, c.recall)
		}
	}
	for _, g := range ambiguous {
		v := Judge(simulate(300, 1, g.make(rand.New(rand.NewPCG(1, 5)), 300)))
		t.Logf("%-24s %5.1f %v", g.name, v.LSI, v.Class)
	}
}

// TestFactors prints the factors of every generator with -v.
func TestFactors(t *testing.T) {
	for _, g := range generators {
		v := Judge(simulate(300, 3, g.make(rand.New(rand.NewPCG(3, 5)), 300)))
		t.Logf("%-24s %5.1f G %.2f R %.2f L %.2f P %.2f S %.2f %v", g.name, v.LSI, v.Growth, v.Release, v.Lifetime,
			v.Pattern, v.Scale, v.Class)
	}
}

// TestMetamorphic: what must not change the judgement does not (the evaluation's protocol, docs/host-leaks.md).
func TestMetamorphic(t *testing.T) {
	for _, g := range generators {
		for seed := range uint64(10) {
			make := func(beats int) *Stack { return simulate(beats, seed, g.make(rand.New(rand.NewPCG(seed, 5)), beats)) }
			v := Judge(make(300))
			doubled := make(300)
			doubled.LiveBytes *= 2
			for i := range doubled.Live {
				doubled.Live[i] *= 2
			}
			if w := Judge(doubled); !near(v.LSI, w.LSI) && v.LSI >= suspectLSI {
				t.Errorf("%s, %d: %.1f, with twice the sizes %.1f", g.name, seed, v.LSI, w.LSI)
			}
			if w := Judge(everySecond(make(300))); !near(v.LSI, w.LSI) && v.Class == SuspectedLeak && w.Class == ResidentEarly {
				t.Errorf("%s, %d: %.1f %v, with every second beat %.1f %v", g.name, seed, v.LSI, v.Class, w.LSI, w.Class)
			}
			less := make(300)
			less.Live, less.Allocs = nil, nil
			if w := Judge(less); w.Class == SuspectedLeak || !w.Neutral {
				t.Errorf("%s, %d: %v without a series", g.name, seed, w.Class)
			}
		}
	}
}

func near(a, b float64) bool { return a-b < 8 && b-a < 8 }

func everySecond(s *Stack) *Stack {
	half := *s
	half.Live, half.Allocs, half.Step = nil, nil, 2
	for i := 1; i < len(s.Live); i += 2 {
		half.Live = append(half.Live, s.Live[i])
		half.Allocs = append(half.Allocs, s.Allocs[i-1]+s.Allocs[i])
	}
	return &half
}
