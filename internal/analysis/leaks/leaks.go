// Package leaks finds blocks of the framework pools that outlive the step they were allocated in (contract 5.1), and
// driver memory that is never freed.
package leaks

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"memscope/internal/analysis"
	"memscope/internal/analysis/steps"
	"memscope/internal/config"
	"memscope/internal/event"
	"memscope/internal/ledger"
)

// Registration describes the analyzer.
func Registration() analysis.Registration {
	return analysis.Registration{
		Name:     "leaks",
		Priority: analysis.High,
		Kinds:    []event.Kind{event.Malloc, event.Free},
		Enabled:  analysis.OnSteps,
		New: func(env analysis.Env) analysis.Analyzer {
			return &analyzer{env: env, seen: map[key]bool{}, found: map[int32][]candidate{}, ended: map[int32]uint64{}}
		},
	}
}

type key struct {
	device int32
	pool   event.Pool
	addr   uint64
	step   uint64
}

// candidate is a block that lived on behind the end of its step. It stays one even if it is freed later.
type candidate struct {
	key
	size   int64 // bytes
	kernel uint64
}

type analyzer struct {
	env   analysis.Env
	seen  map[key]bool
	found map[int32][]candidate // by device
	ended map[int32]uint64      // highest step that has ended, by device
	hal   hal
	pid   uint64 // of the process, once a framework's pool has given a block
}

// Event implements analysis.Analyzer.
func (a *analyzer) Event(ev *event.Event, b *ledger.Block) {
	if ev.Pool == event.HAL && ev.Device != event.DeviceNone && a.checksHAL() {
		a.hal.event(a.env.Log, ev, b)
	}
	if ev.Kind != event.Free {
		if analysis.OfSteps(ev.Pool) {
			a.pid = ev.PID
		}
		return
	}
	name := "device memory"
	switch {
	case analysis.OfSteps(ev.Pool):
		name = a.env.PoolName(ev.Pool)
	case ev.Pool != event.HAL:
		return
	}
	switch b.State {
	case ledger.Ghost:
		a.env.Log.Logf(config.Warning, "process %d, device %d, %s: free of 0x%x, where no block is",
			ev.PID, ev.Device, name, ev.Addr)
	case ledger.Residual:
		a.env.Log.Logf(config.Warning,
			"process %d, device %d, %s: 0x%x is allocated again, though its block of %d bytes was not freed",
			ev.PID, ev.Device, name, ev.Addr, b.Size)
	}
}

// checksHAL: with collection that starts later, driver memory from before would look like a leak (contract 9, row 24).
func (a *analyzer) checksHAL() bool { return a.env.Config.Mode == config.Immediate }

// Step implements analysis.StepWatcher.
func (a *analyzer) Step(c steps.Change) {
	if !c.End || c.Step <= a.ended[c.Device] {
		return
	}
	// What was born before the last end has been looked at then. The first step is the warm-up.
	first := max(a.ended[c.Device], 2)
	a.ended[c.Device] = c.Step
	tracker := a.env.Steps
	since, ok := tracker.Begin(c.Device, first)
	warm, _ := tracker.Begin(c.Device, 2)
	if !ok {
		return
	}
	var fresh []candidate
	a.env.Ledger.LiveSince(since, func(b *ledger.Block) bool {
		if b.Device != c.Device || b.Born < warm || b.State != ledger.Normal || !analysis.OfSteps(b.Pool) {
			return true
		}
		step := tracker.At(b.Device, b.Born, b.BornSeq)
		k := key{b.Device, b.Pool, b.Addr, step}
		if step <= 1 || step >= c.Step || a.seen[k] {
			return true
		}
		a.seen[k] = true
		fresh = append(fresh, candidate{k, b.Size, b.Kernel})
		return true
	})
	slices.SortFunc(fresh, compare)
	for _, f := range fresh {
		a.env.Log.Logf(config.Warning, "device %d, step %d: 0x%x (%d bytes) lives for %d steps; is there a leak in %s?",
			f.device, c.Step, f.addr, f.size, c.Step-f.step, a.env.PoolName(f.pool))
	}
	a.found[c.Device] = append(a.found[c.Device], fresh...)
}

func compare(x, y candidate) int {
	return cmp.Or(cmp.Compare(x.step, y.step), cmp.Compare(x.addr, y.addr), cmp.Compare(x.pool, y.pool))
}

// Report implements analysis.Analyzer (contract 7).
func (a *analyzer) Report(w io.Writer) {
	devices := make([]int32, 0, len(a.found))
	for d, found := range a.found {
		if len(found) > 0 {
			devices = append(devices, d)
		}
	}
	slices.Sort(devices)
	for _, d := range devices {
		found := a.found[d]
		slices.SortFunc(found, compare)
		fmt.Fprintf(w, "====== ERROR: Detected memory leaks on device %d ======\n", d)
		sum := 0.0
		for _, c := range found {
			sum += float64(c.size)
			fmt.Fprintf(w, "Direct %s leak of %f Mb(s) at 0x%x in kernel_%d at step %d.\n",
				a.env.PoolName(c.pool), float64(c.size)/(1<<20), c.addr, c.kernel, c.step)
		}
		fmt.Fprintf(w, "====== SUMMARY: %.6g Mb(s) leaked in %d allocation(s) ======\n", sum/(1<<20), len(found))
	}
	if a.checksHAL() {
		a.hal.report(w, a.env.Log)
	}
	if marked, other, times := a.env.Steps.Marked(); a.pid != 0 && !marked {
		seen := ""
		if times > 1 {
			seen = fmt.Sprintf(" (there is %.60q, %d times)", strings.Trim(other, `"`), times)
		}
		fmt.Fprintf(w, "[msmemscope] Info: process %d marked no steps, so pools of frameworks were not checked for leaks: a step is an mstx range \"step start\"%s"+
			" or ends with msmemscope.step(). `msmemscope dump leak-candidates` needs none.\n", a.pid, seen)
	}
}
