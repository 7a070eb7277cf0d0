// Package fluctuation tells how evenly each framework pool is used over the steps (contract 5.2, there called health).
//
// In every step from the second on it takes the lowest and the highest number of bytes that a pool had handed out. The
// steps in which these lie farthest apart and nearest together are the report: a healthy training repeats itself, so
// that both are alike.
package fluctuation

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"memscope/internal/analysis"
	"memscope/internal/analysis/steps"
	"memscope/internal/config"
	"memscope/internal/event"
	"memscope/internal/ledger"
)

// Registration describes the analyzer.
func Registration() analysis.Registration {
	return analysis.Registration{
		Name:     "fluctuation",
		Priority: analysis.High,
		Kinds:    []event.Kind{event.Malloc, event.Free},
		Enabled:  analysis.OnSteps,
		New:      func(env analysis.Env) analysis.Analyzer { return &analyzer{env: env, pools: map[key]*pool{}} },
	}
}

type key struct {
	device int32
	pool   event.Pool
}

func (a *analyzer) logf(k key, format string, args ...any) {
	a.env.Log.Logf(config.Info, "device %d, %s: "+format, append([]any{k.device, a.env.PoolName(k.pool)}, args...)...)
}

// gap is one settled step: how near the lowest use came to the highest.
type gap struct {
	step  uint64
	ratio float64 // lowest / highest
	low   int64   // bytes
}

type pool struct {
	used      int64 // bytes handed out now
	start     int64 // ... at the begin of the step
	low, high int64 // ... since the last settlement; high 0: nothing seen
	min, max  gap   // step 0: no step settled yet
}

type analyzer struct {
	env   analysis.Env
	pools map[key]*pool
}

func (a *analyzer) Event(ev *event.Event, _ *ledger.Block) {
	if !analysis.OfSteps(ev.Pool) || ev.Flags&event.Shadow != 0 {
		return
	}
	k := key{ev.Device, ev.Pool}
	p := a.pools[k]
	if p == nil {
		p = &pool{}
		a.pools[k] = p
	}
	p.used = ev.Used
	if a.env.Steps.Current(ev.Device) <= 1 {
		return
	}
	if p.high == 0 {
		p.low, p.high = p.used, p.used
	}
	p.low, p.high = min(p.low, p.used), max(p.high, p.used)
}

// Step implements analysis.StepWatcher.
func (a *analyzer) Step(c steps.Change) {
	for _, k := range a.keys() {
		if k.device != c.Device {
			continue
		}
		p := a.pools[k]
		if c.End {
			a.end(k, p, c.Step)
		} else {
			p.start = p.used
			a.logf(k, "step %d starts with %d bytes", c.Step, p.used)
		}
	}
}

func (a *analyzer) end(k key, p *pool, step uint64) {
	a.logf(k, "step %d ends with %d bytes", step, p.used)
	if step == 1 {
		return
	}
	if p.used == p.start {
		a.logf(k, "step %d gave back what it took", step)
	} else {
		a.logf(k, "step %d ends with %+d bytes against its start", step, p.used-p.start)
	}
	if current := a.env.Steps.Current(k.device); current > 1 {
		a.settle(k, p, current)
	}
}

func (a *analyzer) settle(k key, p *pool, step uint64) {
	if p.high == 0 {
		a.logf(k, "not used in step %d", step)
		return
	}
	g := gap{step, float64(p.low) / float64(p.high), p.low}
	switch {
	case p.min.step == 0:
		p.min, p.max = g, g
	case g.ratio > p.max.ratio:
		a.logf(k, "largest lowest/highest ratio rises from %f to %f", p.max.ratio, g.ratio)
		p.max = g
	case g.ratio < p.min.ratio:
		a.logf(k, "smallest lowest/highest ratio falls from %f to %f", p.min.ratio, g.ratio)
		p.min = g
	}
	p.low, p.high = 0, 0
}

// keys are the pools seen, by device and pool.
func (a *analyzer) keys() []key {
	keys := make([]key, 0, len(a.pools))
	for k := range a.pools {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y key) int {
		return cmp.Or(cmp.Compare(x.device, y.device), cmp.Compare(x.pool, y.pool))
	})
	return keys
}

// Report implements analysis.Analyzer: one table per device and pool (contract 7; the trailing blanks belong to it).
func (a *analyzer) Report(w io.Writer) {
	for _, k := range a.keys() {
		p := a.pools[k]
		fmt.Fprintf(w, "======= %s Gap Analysis of Device %d =======\n", a.env.PoolName(k.pool), k.device)
		fmt.Fprintf(w, "\t%-25s%-25s%-25s\n", "MinAlloc/MaxAlloc(%)", "MinAllocMem(MB)", "StepId")
		row(w, "MinGap", p.min)
		row(w, "MaxGap", p.max)
	}
}

func row(w io.Writer, name string, g gap) {
	fmt.Fprintf(w, "%s\t%-25.4f%-25.4f%-25d\n", name, g.ratio*100, float64(g.low)/(1<<20), g.step)
}
