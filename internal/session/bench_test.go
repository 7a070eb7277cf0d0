package session

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"memscope/internal/config"
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
		for _, taken := c.turn(); taken > 0; _, taken = c.turn() {
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

// operators publishes n operators of one card, each of them five events: its start, a block, an access to it, its end, and the free of the
// block of 64 operators before. The first block of all stays.
func operators(p *wiretest.Producer, from, n uint64) {
	a := wire.Alloc{Size: 512}
	a.H.Pool = wire.PoolPTA
	f := wire.Free{}
	f.H.Pool, f.H.Device = wire.PoolPTA, wire.DeviceNone
	const text = "torch._ops.aten.add.Tensor\ndtype:torch.float16,shape:torch.Size([2, 3])"
	const size = (uint64(unsafe.Sizeof(wire.Access{})) + uint64(len(text)) + 7) &^ 7
	for i := from; i < from+n; i++ {
		p.Text(1, wire.TypeAtenStart, 0, 0, "torch._ops.aten.add.Tensor")
		a.Addr = 1<<40 + i*512
		p.Alloc(1, a)
		pos, _ := p.Reserve(size)
		p.Busy(pos, size, wire.TypeAtenAccess, 1)
		to := wiretest.Payload[wire.Access](p, pos)
		to.H.Pool, to.Addr, to.Size, to.Kind, to.Length = wire.PoolPTA, a.Addr, 512, wire.AccessRead, uint32(len(text))
		copy(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(to), unsafe.Sizeof(*to))), len(text)), text)
		p.Publish(pos)
		p.Text(1, wire.TypeAtenEnd, 0, 0, "torch._ops.aten.add.Tensor")
		if i > 64 {
			f.Addr = 1<<40 + (i-64)*512
			p.Free(1, wire.TypeFree, f)
		}
	}
}

// BenchmarkOwners: processor time of an event into the spool, with the default analysis and with decompose and inefficient besides; in
// turns of the two, so that the ratio means something on a busy machine. The producer's time is taken out.
func BenchmarkOwners(b *testing.B) {
	const chunk = 4096
	var clients [2]*client
	var producers [2]*wiretest.Producer
	var used [2]time.Duration
	for i, more := range []config.Analyses{0, config.Decompose | config.Inefficient} {
		clients[i], producers[i] = handDriven(b, &process{fd: -1}, 8<<20)
		cfg := clients[i].cfg
		cfg.Analysis |= more
		cfg.Events |= config.Access
		cfg.DumpEvents = cfg.Events
		clients[i].configure(&cfg)
		producers[i].Text(1, wire.TypeLabelPush, wire.DeviceNone, wire.LevelComponent, "fsdp2")
	}
	events := uint64(0)
	for b.Loop() {
		for i, c := range clients {
			operators(producers[i], events, chunk)
			before := processorTime()
			for _, taken := c.turn(); taken > 0; _, taken = c.turn() {
			}
			used[i] += processorTime() - before
		}
		events += chunk
	}
	b.ReportMetric(float64(used[0].Nanoseconds())/float64(5*events), "ns/event")
	b.ReportMetric(float64(used[1].Nanoseconds())/float64(5*events), "ns/event-with")
	b.ReportMetric(float64(used[1])/float64(used[0]), "ratio")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
