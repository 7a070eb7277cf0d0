package inefficient

import (
	"strings"
	"testing"

	"memscope/internal/analysis/analysistest"
	"memscope/internal/config"
	"memscope/internal/event"
)

type process struct {
	*analysistest.Process
	stamp int64
}

func newProcess() *process {
	c := config.Default()
	c.Analysis = config.Inefficient
	return &process{Process: analysistest.New(c, Registration())}
}

func (p *process) tick() int64 { p.stamp++; return p.stamp }

func (p *process) op(sub event.Sub) {
	p.Apply(event.Event{Kind: event.OpLaunch, Sub: sub, Name: "op", Stamp: p.tick()})
}
func (p *process) malloc(addr uint64) { p.Malloc(event.PTA, 0, addr, 1024, p.tick()) }
func (p *process) free(addr uint64)   { p.Free(event.PTA, addr, p.tick()) }
func (p *process) access(addr uint64) { p.Access(event.PTA, 0, addr, 1024, p.tick()) }

// report compares what the terminal says.
func (p *process) report(t *testing.T, want string) {
	t.Helper()
	var got strings.Builder
	p.Set.Report(&got)
	if got.String() != "[msmemscope] Info: "+want+"\n" {
		t.Errorf("the report is %q, want %q", got.String(), want)
	}
}

// TestNoAccess: blocks without operators are not judged, and the report says so.
func TestNoAccess(t *testing.T) {
	p := newProcess()
	p.malloc(0x10000)
	p.free(0x10000)
	p.report(t, "--analysis=inefficient judged nothing: no operator of PyTorch or ATB was seen to access memory.")
}

const early, late, idle = event.EarlyAllocation, event.LateDeallocation, event.TemporaryIdleness

// The example of contract 5.4.
func TestWorked(t *testing.T) {
	p := newProcess()
	p.op(event.AtenStart)
	p.malloc(0x10000)
	p.malloc(0x20000)
	p.op(event.AtenEnd)
	p.free(0x20000)
	p.op(event.AtenStart)
	p.access(0x10000)
	p.op(event.AtenEnd)
	p.malloc(0x30000)
	p.free(0x10000)
	if len(p.Wastes) != 1 || p.Wastes[1] != early|late {
		t.Errorf("%v", p.Wastes)
	}
	p.report(t, "process 123: 1 inefficient block(s), 1024 bytes: 1 allocated too early, 1 freed too late, 0 left idle; their MALLOC rows have inefficient_type.")
}

func TestIdle(t *testing.T) {
	for _, between := range []int{199, IdleThreshold - 1, IdleThreshold} {
		p := newProcess()
		p.malloc(0x10000)
		p.access(0x10000)
		for range between {
			p.op(event.AtenStart)
			p.op(event.AtenEnd)
		}
		p.access(0x10000)
		if got := p.Wastes[1]; got != map[bool]event.Waste{true: idle}[between == IdleThreshold] {
			t.Errorf("%d operators between: %v", between, got)
		}
	}
}

// TestApart: cards and frameworks do not see each other's operators.
func TestApart(t *testing.T) {
	p := newProcess()
	p.malloc(0x10000)
	p.malloc(0x20000)
	p.Malloc(event.PTA, 1, 0x30000, 1024, p.tick())
	p.Malloc(event.ATB, 0, 0x40000, 1024, p.tick())
	p.Free(event.PTA, 0x30000, p.tick())
	p.Free(event.ATB, 0x40000, p.tick())
	p.access(0x10000)
	if len(p.Wastes) != 0 {
		t.Errorf("%v", p.Wastes)
	}
	p.free(0x20000)
	p.access(0x10000) // the first access was before the free
	if len(p.Wastes) != 0 {
		t.Errorf("%v", p.Wastes)
	}
}

// TestShadow: nobody did what a synthetic row says.
func TestShadow(t *testing.T) {
	p := newProcess()
	p.Apply(event.Event{Kind: event.Malloc, Pool: event.PTA, Addr: 0x50000, Size: 1024, Flags: event.Paused})
	p.Apply(event.Event{Kind: event.System, Sub: event.StartTrace, Stamp: p.tick()})
	p.malloc(0x10000)
	p.malloc(0x20000)
	p.malloc(0x20000) // the free of the one before was not seen
	p.access(0x10000)
	p.access(0x50000)
	p.malloc(0x60000)
	p.free(0x50000) // would be late, had its MALLOC been seen
	if len(p.Wastes) != 0 {
		t.Errorf("%v", p.Wastes)
	}
	p.Exit(p.tick())
	if len(p.Wastes) != 0 {
		t.Errorf("at the exit: %v", p.Wastes)
	}
}
