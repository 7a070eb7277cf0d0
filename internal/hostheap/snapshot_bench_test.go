package hostheap_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"memscope/internal/hostheap"
	"memscope/internal/hostheap/heaptest"
)

// BenchmarkSnapshot takes interim snapshots of two million blocks of 256 stacks, whose tables have gaps. cpu-ms/op is processor time, of all threads.
func BenchmarkSnapshot(b *testing.B) {
	const blocks, stacks = 2_000_000, 256
	tables, err := hostheap.NewTables(hostheap.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	defer tables.Close()
	r := hostheap.NewRecorder(tables, 100*time.Millisecond)
	p := heaptest.New(tables)
	if _, err := r.Open(hostheap.Options{}); err != nil {
		b.Fatal(err)
	}
	first := p.Stack(nil, nil)
	for range stacks - 1 {
		p.Stack(nil, nil)
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	const base = 0x7f0000000000
	for i := range uint64(blocks * 4 / 3) {
		p.Malloc(0, base+i*80, 7+16*rnd.Uint64N(8), first+uint32(rnd.IntN(stacks)))
	}
	for live := blocks * 4 / 3; live > blocks; {
		if addr := base + rnd.Uint64N(blocks*4/3)*80; p.Live(addr) {
			p.Free(0, addr, 0)
			live--
		}
	}
	b.ResetTimer()
	used := processTime(b)
	for b.Loop() {
		s, err := r.Interim()
		if err != nil || s.Unfreed.Count != blocks || s.Walk.Degraded != 0 {
			b.Fatalf("%v, %+v", err, s)
		}
	}
	b.ReportMetric(float64(processTime(b)-used)/1e6/float64(b.N), "cpu-ms/op")
	b.StopTimer()
	if _, err := r.Close(false); err != nil {
		b.Fatal(err)
	}
}
