package session

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"memscope/internal/wire"
	"memscope/internal/wire/wiretest"
)

// What 128 threads that are interrupted at random leave in a ring comes out in the order of (stamp, place in the ring), while
// little is held back.
func TestPendingOrder(t *testing.T) {
	ring, err := wire.NewRing(wire.MinBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	p, reader := &wiretest.Producer{Ring: ring}, wire.NewReader(ring)
	rng := rand.New(rand.NewPCG(1, 2))
	type record struct{ stamp, place int64 }
	const n, threads, step = 300_000, 128, 100
	var all, got []record
	var waiting pending
	take := func(rec wire.Record) { got = append(got, record{rec.Head().Stamp, int64(rec.Alloc().Addr)}) }
	var busy [threads]int64 // until when
	most, running := 0, 0
	for i := range int64(n) {
		for rng.IntN(200) == 0 || busy[running] > i*step { // the cores run few threads at a time
			running = rng.IntN(threads)
		}
		stamp := i*step + rng.Int64N(8)/7*rng.Int64N(3*step)
		if rng.IntN(1000) == 0 { // interrupted between its reservation and the clock
			stamp += rng.Int64N(2000 * step)
		}
		busy[running] = stamp
		all = append(all, record{stamp, i})
		pos := ring.Header().Tail
		p.Alloc(uint32(1000+running), wire.Alloc{Addr: uint64(i)})
		wiretest.Payload[wire.Head](p, pos).Stamp = stamp
		if ring.Header().Tail-ring.Header().Head < ring.Size()/2 {
			continue
		}
		for reader.Backlog() > ring.Size()/4 { // never empty
			for reader.Pending() < ring.Size()/16 {
				rec, _ := reader.Next()
				waiting.add(rec)
			}
			waiting.take(reader.Safe(func() int64 { return i * step }), take)
			reader.Release()
			most = max(most, len(waiting.index))
		}
	}
	for rec, status := reader.Next(); status == wire.Ready; rec, status = reader.Next() {
		waiting.add(rec)
	}
	waiting.take(math.MaxInt64, take)
	slices.SortFunc(all, func(a, b record) int { return cmp.Or(cmp.Compare(a.stamp, b.stamp), cmp.Compare(a.place, b.place)) })
	if !slices.Equal(got, all) {
		t.Error("records are lost or out of order")
	}
	if most > 100 || len(waiting.index) != 0 || len(waiting.bytes) != 0 {
		t.Errorf("%d of %d records were held back at once, %d remain", most, n, len(waiting.index))
	}
}
