package all_test

import (
	"testing"

	"memscope/internal/analysis/all"
	"memscope/internal/analysis/analysistest"
	"memscope/internal/config"
	"memscope/internal/event"
)

// A training loop on two cards with a block forgotten in every step from the second on: first the leaks of each card,
// then the tables, as contract 7 orders them.
func TestReportOfATraining(t *testing.T) {
	p := analysistest.New(config.Default(), all.Registrations()...)
	stamp, addr := int64(0), uint64(0x1000)
	tick := func() int64 { stamp++; return stamp }
	alloc := func(device int32, size int64) uint64 {
		addr += 0x10_0000
		p.Malloc(event.PTA, device, addr, size, tick())
		return addr
	}
	for _, device := range []int32{0, 1} {
		alloc(device, 4<<20) // weights
	}
	id := uint64(0)
	for step := range 4 {
		for _, device := range []int32{0, 1} {
			id++
			p.Begin(device, id, tick())
			activation := alloc(device, 1<<20)
			if step == 2 {
				alloc(device, 2048)
			}
			p.Free(event.PTA, activation, tick())
			p.End(device, id, tick())
		}
	}
	const want = `====== ERROR: Detected memory leaks on device 0 ======
Direct Pytorch Caching memory pool leak of 0.001953 Mb(s) at 0x801000 in kernel_0 at step 5.
====== SUMMARY: 0.00195312 Mb(s) leaked in 1 allocation(s) ======
====== ERROR: Detected memory leaks on device 1 ======
Direct Pytorch Caching memory pool leak of 0.001953 Mb(s) at 0xa01000 in kernel_0 at step 6.
====== SUMMARY: 0.00195312 Mb(s) leaked in 1 allocation(s) ======
======= Pytorch Caching memory pool Gap Analysis of Device 0 =======
	MinAlloc/MaxAlloc(%)     MinAllocMem(MB)          StepId                   
MinGap	80.0000                  4.0000                   3                        
MaxGap	80.0078                  4.0020                   5                        
======= Pytorch Caching memory pool Gap Analysis of Device 1 =======
	MinAlloc/MaxAlloc(%)     MinAllocMem(MB)          StepId                   
MinGap	80.0000                  4.0000                   2                        
MaxGap	80.0078                  4.0020                   6                        
`
	if got := p.Exit(tick()); got != want {
		t.Errorf("report:\n%s\nwant:\n%s", got, want)
	}
}
