package session

import (
	"sync/atomic"
	"testing"

	"memscope/internal/wire"
	"memscope/internal/wire/wiretest"
)

// pairs publishes n events of a storm that keeps `live` blocks: an allocation and a free in turn.
func pairs(p *wiretest.Producer, tid uint32, from, n, live uint64) {
	a := wire.Alloc{Size: 4096, Detail: hal(0, 33, 0)}
	a.H.Pool = wire.PoolHAL
	f := wire.Free{}
	f.H.Pool, f.H.Device = wire.PoolHAL, wire.DeviceNone
	for i := from; i < from+n; i += 2 {
		a.Addr = i * 2048
		p.Alloc(tid, a)
		f.Addr = max(i, 2*live) - 2*live
		f.Addr *= 2048
		p.Free(tid, wire.TypeFree, f)
	}
}

// BenchmarkIntoSpool: from the ring through ledger and analyzers into the spool, one event, on one thread, without the
// rendering and without the producer, whose time is taken out.
func BenchmarkIntoSpool(b *testing.B) {
	c, p := handDriven(b, &process{fd: -1}, 8<<20)
	const chunk = 32 << 10
	events := uint64(0)
	for b.Loop() {
		b.StopTimer()
		pairs(p, 1, events, chunk, 64)
		events += chunk
		b.StartTimer()
		for _, moved := c.turn(); moved; _, moved = c.turn() {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
}

// BenchmarkThroughRing: the same with a producer at work meanwhile.
func BenchmarkThroughRing(b *testing.B) {
	c, p := handDriven(b, &process{fd: -1}, 8<<20)
	var stop atomic.Bool
	ended := make(chan struct{})
	events := uint64(0)
	go func() {
		defer close(ended)
		for !stop.Load() {
			pairs(p, 1, events, 1000, 64)
			events += 1000
		}
	}()
	for b.Loop() {
		c.turn()
	}
	stop.Store(true)
	p.Ring.Shut()
	<-ended
	b.ReportMetric(float64(events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}
