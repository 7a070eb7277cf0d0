// Package oom tells, when the driver has no memory left, what asked for how much, which blocks came last, and which are the
// largest (contract 3.4 and 5.7), with a snapshot of that moment and one of the moment when memory can be had again.
package oom

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"time"

	"memscope/internal/analysis"
	"memscope/internal/config"
	"memscope/internal/dump/cells"
	"memscope/internal/event"
	"memscope/internal/ledger"
)

// quiet is how long after the lists no others are written: a program that runs out of memory tries again at once.
const quiet = int64(2 * time.Second)

// Registration describes the analyzer.
func Registration() analysis.Registration {
	return analysis.Registration{
		Name:     "oom",
		Priority: analysis.High,
		Kinds:    []event.Kind{event.OOMDetail, event.Malloc, event.Free},
		Enabled:  func(c *config.Config) bool { return c.Analysis&config.OOM != 0 },
		New: func(env analysis.Env) analysis.Analyzer {
			return &analyzer{env: env, pools: map[int32]*pool{}, refused: map[int32]int{}}
		},
	}
}

// pool is PyTorch's caching pool on one card, bytes.
type pool struct {
	reserved, peakReserved, allocated, peakAllocated int64
}

type analyzer struct {
	env     analysis.Env
	pools   map[int32]*pool
	pid     uint64
	refused map[int32]int // requests, by card
	listed  int64         // stamp of the last lists, 0 before
	out     []int32       // cards that have run out and have had no allocation since
}

// Event implements analysis.Analyzer.
func (a *analyzer) Event(ev *event.Event, _ *ledger.Block) {
	switch {
	case ev.Sub == event.OOMTrigger:
		a.trigger(ev)
	case ev.Kind == event.OOMDetail || ev.Flags&event.Shadow != 0:
	case ev.Pool == event.PTA:
		p := a.pool(ev.Device)
		p.allocated, p.reserved = ev.Used, max(ev.Total, 0)
		p.peakAllocated, p.peakReserved = max(p.peakAllocated, p.allocated), max(p.peakReserved, p.reserved)
	case ev.Pool == event.HAL && ev.Kind == event.Malloc:
		if i := slices.Index(a.out, ev.Device); i >= 0 {
			a.out = slices.Delete(a.out, i, i+1)
			a.snapshot(ev)
		}
	}
}

// Report implements analysis.Analyzer. What there is to say is in the rows; the terminal says that, and how to read them.
func (a *analyzer) Report(w io.Writer) {
	for _, device := range slices.Sorted(maps.Keys(a.refused)) {
		what := fmt.Sprintf("device %d:", device)
		if device == event.DeviceCPU {
			what = "pinned host"
		}
		fmt.Fprintf(w, "[msmemscope] Info: %s memory ran out, %d request(s) of process %d were refused; "+
			"`msmemscope dump oom --pid=%d %s` tells who held it.\n", what, a.refused[device], a.pid, a.pid, a.env.Config.OutputPath)
	}
}

func (a *analyzer) pool(device int32) *pool {
	p := a.pools[device]
	if p == nil {
		p = &pool{}
		a.pools[device] = p
	}
	return p
}

func (a *analyzer) trigger(ev *event.Event) {
	a.pid = ev.PID
	a.refused[ev.Device]++
	if a.listed == 0 || ev.Stamp-a.listed >= quiet {
		a.listed = ev.Stamp
		recent, top := choose(a.env.Ledger, ev.Device, a.env.Config.OOMTopK)
		a.rows(ev, event.OOMRecent, "OOM_RecentAlloc", recent)
		a.rows(ev, event.OOMTop, "OOM_TopAlloc", top)
	}
	a.snapshot(ev)
	if !slices.Contains(a.out, ev.Device) {
		a.out = append(a.out, ev.Device)
	}
}

// rows emits a row for each block.
func (a *analyzer) rows(ev *event.Event, sub event.Sub, name string, blocks []ledger.Block) {
	for i := range blocks {
		b := &blocks[i]
		pool := cells.Pool(b.Pool)
		switch {
		case b.Pool >= event.Named:
			pool = a.env.Config.PoolName(b.Pool)
		case b.Flags&event.Pinned != 0:
			pool = cells.Pool(event.Host)
		}
		a.env.Emit(&event.Event{
			Kind: event.OOMDetail, Sub: sub, Name: name, Device: ev.Device, Stamp: ev.Stamp, PID: ev.PID, TID: ev.TID, Stack: b.Stack,
			Attrs: fmt.Sprintf("pool:%s,ptr:0x%016x,size:%d,timestamp:%d,step:%d,kernel:%d", pool, b.Addr, b.Size, b.Born,
				a.env.Steps.At(b.Device, b.Born, b.BornSeq), b.Kernel),
		})
	}
}

// snapshot emits what the caching pool has. What the card has in all is not known here.
func (a *analyzer) snapshot(ev *event.Event) {
	p := a.pool(ev.Device)
	a.env.Emit(&event.Event{
		Kind: event.Snapshot, Name: "OOM_Snapshot", Device: ev.Device, Stamp: ev.Stamp, PID: ev.PID, TID: ev.TID, Stack: ev.Stack,
		Attrs: fmt.Sprintf("reserved:%d,peak_reserved:%d,allocated:%d,peak_allocated:%d,pt_utilization:%.6f",
			p.reserved, p.peakReserved, p.allocated, p.peakAllocated, ratio(p.allocated, p.reserved)),
	})
}

func ratio(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// choose answers the k youngest and the k largest live blocks: those of the frameworks' and the user's pools on the device, and the
// driver's of any device.
func choose(l *ledger.Ledger, device int32, k int) (recent, top []ledger.Block) {
	younger := func(a, b *ledger.Block) bool {
		return a.Born > b.Born || a.Born == b.Born && a.AllocID > b.AllocID
	}
	larger := func(a, b *ledger.Block) bool { return a.Size > b.Size || a.Size == b.Size && younger(a, b) }
	l.Live(func(b *ledger.Block) bool {
		if b.Pool == event.HAL || b.Pool != event.Host && b.Device == device {
			recent = keep(recent, b, k, younger)
			top = keep(top, b, k, larger)
		}
		return true
	})
	return recent, top
}

// keep puts b where it belongs among the at most k best.
func keep(best []ledger.Block, b *ledger.Block, k int, before func(a, b *ledger.Block) bool) []ledger.Block {
	if len(best) == k && !before(b, &best[k-1]) {
		return best
	}
	i := sort.Search(len(best), func(i int) bool { return before(b, &best[i]) })
	best = slices.Insert(best, i, *b)
	return best[:min(len(best), k)]
}
