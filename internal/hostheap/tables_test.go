package hostheap_test

import (
	"math/rand/v2"
	"testing"

	"memscope/internal/hostheap"
	"memscope/internal/hostheap/heaptest"
)

// small are tables for tests.
func small(t *testing.T) *hostheap.Tables {
	t.Helper()
	tables, err := hostheap.NewTables(hostheap.Limits{ArenaBytes: 64 << 20, TextBytes: 1 << 20, Slots: 16, Modules: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tables.Close() })
	return tables
}

// TestBooks: counters and blocks are what a process has done, by a random history over three threads, in tables mapped once more.
func TestBooks(t *testing.T) {
	tables := small(t)
	p := heaptest.New(tables)
	tables.Header().Window = 1
	rnd := rand.New(rand.NewPCG(1, 2))
	type want struct {
		size  uint64
		stack uint32
		tick  uint32
	}
	live := map[uint64]want{}
	var stacks []uint32
	for range 200 {
		stacks = append(stacks, p.Stack([]hostheap.NativeFrame{{PC: rnd.Uint64N(1 << 40), Module: 1}}, nil))
	}
	counts := map[uint32]hostheap.Counts{}
	var addrs []uint64
	for i := range 40000 {
		tables.Header().Tick = uint32(i / 4) // beyond 11 bits: regions rescale
		if rnd.IntN(3) > 0 || len(addrs) == 0 {
			addr := 0x7f0000000000 + rnd.Uint64N(1<<28)<<4
			if _, taken := live[addr]; taken {
				continue
			}
			w := want{1 + rnd.Uint64N(4096), stacks[rnd.IntN(len(stacks))], uint32(i / 4)}
			if rnd.IntN(100) == 0 {
				w.size = 2<<20 + rnd.Uint64N(1<<30)
			}
			if w.size > 1<<20 && (p.Region(addr+1<<16).Window != 0 || p.Large(addr) != 0) || p.Large(addr-1<<16) != 0 {
				continue // the regions that a large block covers have no others
			}
			p.Malloc(uint32(rnd.IntN(3)), addr, w.size, w.stack)
			live[addr] = w
			addrs = append(addrs, addr)
			c := counts[w.stack]
			c.Add(hostheap.Counts{Allocs: 1, AllocBytes: w.size})
			counts[w.stack] = c
		} else {
			at := rnd.IntN(len(addrs))
			addr := addrs[at]
			addrs[at] = addrs[len(addrs)-1]
			addrs = addrs[:len(addrs)-1]
			w := live[addr]
			if size := 1 + rnd.Uint64N(4096); w.size <= 4096 && rnd.IntN(3) == 0 { // a realloc, at the same stack or another one
				stack := stacks[rnd.IntN(len(stacks))]
				p.Resize(uint32(rnd.IntN(3)), addr, size, stack)
				old, fresh := counts[w.stack], hostheap.Counts{Allocs: 1, AllocBytes: size}
				old.Add(hostheap.Counts{Frees: 1, FreeBytes: w.size})
				if stack == w.stack {
					fresh.Resized = 1
				} else {
					old.Lifetime += uint64(uint32(i/4) - w.tick)
				}
				counts[w.stack] = old
				c := counts[stack]
				c.Add(fresh)
				counts[stack] = c
				live[addr] = want{size, stack, w.tick}
				addrs = append(addrs, addr)
				continue
			}
			p.Free(uint32(rnd.IntN(3)), addr, 0)
			delete(live, addr)
			c := counts[w.stack]
			c.Add(hostheap.Counts{Frees: 1, FreeBytes: w.size, Lifetime: uint64(uint32(i/4) - w.tick)})
			counts[w.stack] = c
		}
	}
	seen := 0
	walk := tables.Blocks(1, false, func(b hostheap.Block) {
		seen++
		w, ok := live[b.Addr]
		if !ok || w.size != b.Size || w.stack != b.Stack || b.Tick > w.tick || w.tick-b.Tick > 2*b.Grain {
			t.Fatalf("block %+v, want %+v", b, w)
		}
	})
	if seen != len(live) || walk.Degraded > 0 || walk.Regions == 0 {
		t.Errorf("%d blocks of %d, %+v", seen, len(live), walk)
	}
	for id, c := range tables.Counters(nil) {
		if c != counts[uint32(id)] {
			t.Errorf("stack %d: %+v, want %+v", id, c, counts[uint32(id)])
		}
	}
	if n := walkAll(tables, 2); n != 0 {
		t.Errorf("another window has %d blocks", n)
	}
}

func walkAll(tables *hostheap.Tables, window uint32) (n int) {
	tables.Blocks(window, false, func(hostheap.Block) { n++ })
	return n
}

// TestLockedRegion: while the target runs its locked region counts as degraded; after its death what is there is read, once.
func TestLockedRegion(t *testing.T) {
	tables := small(t)
	p := heaptest.New(tables)
	tables.Header().Window = 1
	s := p.Stack(nil, nil)
	p.Malloc(0, 0x10000, 32, s)
	p.Malloc(0, 0x20000, 32, s)
	p.Malloc(0, 0x10000, 32, s) // the same granule twice, as a thread leaves it that dies in the middle of a change
	p.Region(0x10000).Lock |= 1
	n := 0
	walk := tables.Blocks(1, false, func(hostheap.Block) { n++ })
	if n != 1 || walk.Degraded != 1 {
		t.Errorf("alive: %d blocks, %+v", n, walk)
	}
	n = 0
	if walk = tables.Blocks(1, true, func(hostheap.Block) { n++ }); n != 2 || walk.Locked != 1 || walk.Degraded != 0 {
		t.Errorf("dead: %d blocks, %+v", n, walk)
	}
}

// TestDebris: whatever a target writes into its tables, reading them neither crashes nor hangs.
func TestDebris(t *testing.T) {
	tables := small(t)
	p := heaptest.New(tables)
	tables.Header().Window = 1
	stack := p.Stack([]hostheap.NativeFrame{{PC: 1, Module: p.Library("l", 0, 1, 0, nil)}}, []hostheap.PythonFrame{{"f", "f.py", 3}})
	p.Malloc(1, 0x10000, 3<<20, stack)
	rnd := rand.New(rand.NewPCG(3, 4))
	h := tables.Header()
	words := tables.Debris()
	for range 600 {
		w := words[rnd.IntN(len(words))]
		w[rnd.IntN(len(w))] = rnd.Uint32()
		h.Stack_next, h.Slot_high, h.Module_next, h.Python_next = rnd.Uint32(), rnd.Uint32N(40), rnd.Uint32(), rnd.Uint32()
		tables.Blocks(1, rnd.IntN(2) == 0, func(hostheap.Block) {})
		tables.Stack(stack)
		tables.Library(1)
	}
	tables.Counters(nil)
	tables.Tally()
}
