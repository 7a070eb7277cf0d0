package hostheap_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"memscope/internal/hostheap"
	"memscope/internal/hostheap/heaptest"
	"memscope/internal/hostheap/lsi"
)

// TestCensus: what several goroutines count is what a visit of each block finds; blocks of several GiB, large ones, rescaled regions,
// stack ids that do not exist, and a region that is locked.
func TestCensus(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	tables := small(t)
	p := heaptest.New(tables)
	h := tables.Header()
	h.Window = 1
	rnd := rand.New(rand.NewPCG(7, 8))
	var stacks []uint32
	for range 50 {
		stacks = append(stacks, p.Stack(nil, nil))
	}
	stacks = append(stacks, hostheap.StackUnknown, hostheap.StackOverflow, hostheap.StackUntracked)
	const base = 0x7f0000000000
	for i := range uint64(60000) {
		h.Tick = uint32(i / 20) // the later ones have regions that rescale
		addr := base + rnd.Uint64N(20)<<28 + rnd.Uint64N(1<<22)&^15
		if p.Live(addr) {
			continue
		}
		p.Malloc(0, addr, rnd.Uint64N(1<<rnd.IntN(21)), stacks[rnd.IntN(len(stacks))])
	}
	for i := range uint64(6) {
		p.Malloc(0, base+25<<30+i<<26, 2<<20<<i, stacks[i])
	}
	h.Stack_next -= 5 // the blocks of the last ones are debris
	watched := stacks[3]
	check := func(dead bool) {
		t.Helper()
		live := make([]hostheap.Size, h.Stack_next)
		var survivors [lsi.Bins]uint32
		var buckets [hostheap.Buckets]hostheap.Size
		walk := tables.Blocks(1, dead, func(b hostheap.Block) {
			if int(b.Stack) >= len(live) {
				b.Stack = hostheap.StackUnknown
			}
			for _, size := range []*hostheap.Size{&live[b.Stack], &buckets[hostheap.Bucket(b.Size)]} {
				size.Count++
				size.Bytes += b.Size
			}
			if b.Stack == watched { // a span of 2560 ticks behind 440 others, 10 ticks for each bin
				survivors[min(max(int(b.Tick)*2+int(b.Grain)-880, 0)/20, lsi.Bins-1)]++
			}
		})
		gotLive, gotSurvivors, gotBuckets, gotWalk := tables.Census(1, dead, watched, 300, 256)
		if !slices.Equal(gotLive, live) || gotBuckets != buckets || gotWalk != walk {
			t.Errorf("dead %v: %+v %+v, want %+v %+v; stacks differ: %v", dead, gotWalk, gotBuckets, walk, buckets, !slices.Equal(gotLive, live))
		}
		if gotSurvivors != survivors {
			t.Errorf("dead %v: survivors %v, want %v", dead, gotSurvivors, survivors)
		}
		if live[watched].Count == 0 || walk.Regions < 100 || buckets[hostheap.Buckets-1].Count < 6 {
			t.Errorf("too little to compare: %+v, %+v", walk, buckets)
		}
	}
	check(false)
	p.Region(base + 5<<28).Lock |= 1
	check(false)
	check(true)
}
