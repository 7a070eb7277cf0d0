package ledger

import (
	"math/rand/v2"
	"testing"

	"memscope/internal/event"
)

// Enough blocks to grow the index and the slabs several times, with and without an ordered index, against a map.
func TestManyBlocks(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(3, 4))
		var last event.Event
		l := New(func(ev *event.Event, _ *Block) { last = *ev })
		if ordered {
			run(t, l, "free pta 0 0x1 @1")
		}
		live := map[uint64]int64{}
		var addrs []uint64
		var used int64
		for i := range 400_000 {
			stamp := int64(i + 2)
			if len(addrs) > 0 && rng.IntN(5) < 2 {
				j := rng.IntN(len(addrs))
				addr := addrs[j]
				addrs[j] = addrs[len(addrs)-1]
				addrs = addrs[:len(addrs)-1]
				used -= live[addr]
				inside := uint64(0)
				if ordered {
					inside = uint64(rng.IntN(int(live[addr])))
				}
				ev := event.Event{Kind: event.Free, Pool: event.PTA, Device: event.DeviceNone, Addr: addr + inside, Stamp: stamp}
				l.Apply(&ev)
				if last.Size != live[addr] || last.Used != used {
					t.Fatalf("event %d: size %d used %d, want %d %d", i, last.Size, last.Used, live[addr], used)
				}
				delete(live, addr)
				continue
			}
			addr := uint64(rng.IntN(1<<20)) << 9
			if live[addr] != 0 {
				continue
			}
			live[addr] = int64(1 + rng.IntN(512))
			used += live[addr]
			addrs = append(addrs, addr)
			ev := event.Event{Kind: event.Malloc, Pool: event.PTA, Addr: addr, Size: live[addr], Stamp: stamp}
			l.Apply(&ev)
			if last.Used != used {
				t.Fatalf("event %d: used %d, want %d", i, last.Used, used)
			}
		}
		n := 0
		l.Live(func(b *Block) bool {
			if n++; live[b.Addr] != b.Size {
				t.Fatalf("0x%x: %d bytes, want %d", b.Addr, b.Size, live[b.Addr])
			}
			return true
		})
		if n != len(live) {
			t.Fatalf("%d blocks live, want %d", n, len(live))
		}
		frees := 0
		l.sink = func(*event.Event, *Block) { frees++ }
		l.Exit(1 << 40)
		if frees != len(live) {
			t.Fatalf("%d FREE rows at exit, want %d", frees, len(live))
		}
	}
}

// Entries whose homes are one place, and the last places of the table, must survive removals around them.
func TestIndexRemoval(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var x index
	x.resize(minIndexBits)
	const homes = 6 // the last 3 places and the first 3
	hashOf := func(id uint32) uint32 {
		home := (uint32(len(x.table)) - 3 + id%homes) % uint32(len(x.table))
		return home<<x.shift | id%3 // few different hashes
	}
	live := map[uint32]bool{}
	for range 20_000 {
		id := uint32(1 + rng.IntN(60))
		if live[id] {
			x.remove(hashOf(id), id)
			delete(live, id)
		} else {
			x.add(hashOf(id), id)
			live[id] = true
		}
		for want := range live {
			h, found := hashOf(want), false
			for got, at := x.next(h, x.start(h)); got != 0; got, at = x.next(h, at) {
				found = found || got == want
			}
			if !found {
				t.Fatalf("id %d is lost", want)
			}
		}
	}
	for _, e := range x.table {
		if e != 0 && !live[uint32(e)] {
			t.Fatalf("id %d is left", uint32(e))
		}
	}
}

// On the way of an event nothing is allocated.
func TestNoAllocation(t *testing.T) {
	l := New(func(*event.Event, *Block) {})
	var ev event.Event
	stamp := int64(0)
	step := func() {
		for _, pool := range []event.Pool{event.HAL, event.PTA} {
			stamp += 2
			ev = event.Event{Kind: event.Malloc, Pool: pool, Addr: 0x1000, Size: 8, Stamp: stamp}
			l.Apply(&ev)
			ev = event.Event{Kind: event.Malloc, Pool: pool, Addr: 0x1000, Size: 8, Stamp: stamp} // a conflict
			l.Apply(&ev)
			ev = event.Event{Kind: event.Free, Pool: pool, Addr: 0x1000, Stamp: stamp + 1}
			l.Apply(&ev)
		}
	}
	if n := testing.AllocsPerRun(1000, step); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// choices makes a history from the bytes of a fuzzer; when they run out it is all zeros.
type choices struct{ data []byte }

func (c *choices) next(n int) int {
	if len(c.data) == 0 {
		return 0
	}
	v := int(c.data[0])
	c.data = c.data[1:]
	if n > 256 && len(c.data) > 0 {
		v = v<<8 | int(c.data[0])
		c.data = c.data[1:]
	}
	return v % n
}

func FuzzHistory(f *testing.F) {
	rng := rand.New(rand.NewPCG(8, 9))
	for _, n := range []int{0, 50, 500, 3000} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data)
	}
	addrs := addresses(12)
	f.Fuzz(func(t *testing.T, data []byte) {
		src := &choices{data}
		history(t, src, min(len(data)/8, 2000), addrs)
	})
}
