package ledger

import (
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"memscope/internal/event"
)

const manyBlocks = 1 << 20

// filled is a ledger with manyBlocks live blocks of 512 bytes and up, in address order, as an allocator hands them out.
func filled(pool event.Pool) *Ledger {
	l := New(func(*event.Event, *Block) {})
	var ev event.Event
	for i := range manyBlocks {
		ev = event.Event{Kind: event.Malloc, Pool: pool, Addr: 0x12c1_0000_0000 + uint64(i)*512, Size: 512, Stamp: int64(i), TID: 1}
		l.Apply(&ev)
	}
	return l
}

// BenchmarkPair frees one of 1 M live blocks, anywhere, and allocates it again: one op is two events.
func BenchmarkPair(b *testing.B) {
	for _, bench := range []struct {
		name   string
		pool   event.Pool
		device int32 // of the FREE
	}{{"PTA", event.PTA, event.DeviceNone}, {"HAL", event.HAL, event.DeviceNone}} {
		b.Run(bench.name, func(b *testing.B) {
			l := filled(bench.pool)
			l.DropUnmatched[bench.pool] = true
			order := randomOrder()
			var ev event.Event
			stamp := int64(manyBlocks)
			b.ReportAllocs()
			b.ResetTimer()
			began := cpuTime()
			for i := range b.N {
				addr := order[i%len(order)]
				stamp += 2
				ev = event.Event{Kind: event.Free, Pool: bench.pool, Device: bench.device, Addr: addr, Stamp: stamp, TID: 1}
				l.Apply(&ev)
				ev = event.Event{Kind: event.Malloc, Pool: bench.pool, Addr: addr, Size: 512, Stamp: stamp + 1, TID: 1}
				l.Apply(&ev)
			}
			reportEvents(b, cpuTime()-began)
		})
	}
}

// BenchmarkPairGoMap is BenchmarkPair with nothing but a Go map of blocks, to compare with.
func BenchmarkPairGoMap(b *testing.B) {
	type key struct {
		addr uint64
		pool event.Pool
	}
	m := map[key]Block{}
	for i := range manyBlocks {
		a := 0x12c1_0000_0000 + uint64(i)*512
		m[key{a, event.PTA}] = Block{Addr: a, Size: 512}
	}
	order := randomOrder()
	b.ResetTimer()
	began := cpuTime()
	for i := range b.N {
		k := key{order[i%len(order)], event.PTA}
		old := m[k]
		delete(m, k)
		m[k] = Block{Addr: k.addr, Size: old.Size}
	}
	reportEvents(b, cpuTime()-began)
}

// randomOrder is addresses of filled in random order.
func randomOrder() []uint64 {
	rng := rand.New(rand.NewPCG(1, 2))
	order := make([]uint64, 1<<18)
	for i := range order {
		order[i] = 0x12c1_0000_0000 + uint64(rng.IntN(manyBlocks))*512
	}
	return order
}

// reportEvents prints the processor time per event, two events per op; on a busy machine the clock on the wall says little.
func reportEvents(b *testing.B, cpu time.Duration) {
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(2*b.N), "cpu-ns/event")
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkStack is the easy case: the block allocated last is freed first.
func BenchmarkStack(b *testing.B) {
	l := filled(event.PTA)
	var ev event.Event
	stamp := int64(manyBlocks)
	b.ReportAllocs()
	b.ResetTimer()
	began := cpuTime()
	for range b.N {
		stamp += 2
		ev = event.Event{Kind: event.Malloc, Pool: event.PTA, Addr: 1 << 50, Size: 512, Stamp: stamp, TID: 1}
		l.Apply(&ev)
		ev = event.Event{Kind: event.Free, Pool: event.PTA, Device: event.DeviceNone, Addr: 1 << 50, Stamp: stamp + 1, TID: 1}
		l.Apply(&ev)
	}
	reportEvents(b, cpuTime()-began)
}

// BenchmarkMemory prints what 1 M live blocks cost: in the Go heap, and resident.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		debug.FreeOSMemory()
		runtime.ReadMemStats(&before)
		rss := residentKB()
		l := filled(event.PTA)
		grown := residentKB() - rss
		runtime.GC()
		runtime.ReadMemStats(&after)
		heap := float64(after.HeapAlloc - before.HeapAlloc)
		b.ReportMetric(heap/manyBlocks, "heap-B/block")
		b.ReportMetric(float64(grown)*1024/manyBlocks, "rss-B/block")
		runtime.KeepAlive(l)
	}
}

// residentKB is RssAnon of this process, 0 where the system does not tell.
func residentKB() (kb int) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			for _, c := range rest {
				if c >= '0' && c <= '9' {
					kb = kb*10 + int(c-'0')
				}
			}
		}
	}
	return kb
}

// BenchmarkScan visits the live blocks that a step end has to look at: all, and the few that are young.
func BenchmarkScan(b *testing.B) {
	l := filled(event.PTA)
	for name, since := range map[string]int64{"all": 0, "young": manyBlocks - 1000} {
		b.Run(name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				l.LiveSince(since, func(b *Block) bool {
					if b.Born >= since {
						n++
					}
					return true
				})
			}
			if n == 0 {
				b.Fatal("nothing visited")
			}
		})
	}
}
