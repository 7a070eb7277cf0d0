// Package analysistest drives analyzers in tests: events go through a real ledger, as in a run.
package analysistest

import (
	"fmt"
	"strings"

	"memscope/internal/analysis"
	"memscope/internal/config"
	"memscope/internal/event"
	"memscope/internal/ledger"
)

// Process is a process under collection.
type Process struct {
	Set    *analysis.Set
	Ledger *ledger.Ledger
	Lines  []string // the log, "LEVEL text"

	// What the MALLOC rows say in the end, by allocation id.
	Owners map[uint64]string
	Wastes map[uint64]event.Waste
}

// New makes a process whose rows go to the analyzers that c enables.
func New(c config.Config, regs ...analysis.Registration) *Process {
	p := &Process{Owners: map[uint64]string{}, Wastes: map[uint64]event.Waste{}}
	p.Ledger = ledger.New(func(ev *event.Event, b *ledger.Block) {
		p.Set.Dispatch(ev, b)
		if ev.Kind == event.Malloc {
			p.Owners[ev.AllocID] = ev.Owner
		}
	})
	p.Set = analysis.NewSet(analysis.Env{Ledger: p.Ledger, Log: p, Config: &c, Late: p}, regs...)
	return p
}

// SetOwner implements analysis.Late.
func (p *Process) SetOwner(id uint64, owner string) { p.Owners[id] = owner }

// SetWaste implements analysis.Late.
func (p *Process) SetWaste(id uint64, waste event.Waste) { p.Wastes[id] = waste }

// Logf implements analysis.Logger.
func (p *Process) Logf(level config.LogLevel, format string, args ...any) {
	p.Lines = append(p.Lines, [...]string{"DEBUG", "INFO", "WARN", "ERROR"}[level]+" "+fmt.Sprintf(format, args...))
}

// Level returns the log lines of one level.
func (p *Process) Level(level string) (lines []string) {
	for _, l := range p.Lines {
		if text, ok := strings.CutPrefix(l, level+" "); ok {
			lines = append(lines, text)
		}
	}
	return lines
}

// Apply takes any event of process 123.
func (p *Process) Apply(ev event.Event) {
	ev.PID, ev.TID = 123, 1
	p.Ledger.Apply(&ev)
}

// Malloc allocates.
func (p *Process) Malloc(pool event.Pool, device int32, addr uint64, size, stamp int64) {
	p.Apply(event.Event{Kind: event.Malloc, Pool: pool, Device: device, Addr: addr, Size: size, Stamp: stamp, Module: 3})
}

// Free frees, without naming a device.
func (p *Process) Free(pool event.Pool, addr uint64, stamp int64) {
	p.Apply(event.Event{Kind: event.Free, Pool: pool, Device: event.DeviceNone, Addr: addr, Stamp: stamp})
}

// Begin starts an mstx range "step start".
func (p *Process) Begin(device int32, id uint64, stamp int64) {
	p.Apply(event.Event{Kind: event.Mstx, Sub: event.RangeStart, Name: "step start", Device: device, Value: id, Stamp: stamp})
}

// End ends an mstx range.
func (p *Process) End(device int32, id uint64, stamp int64) {
	p.Apply(event.Event{Kind: event.Mstx, Sub: event.RangeEnd, Device: device, Value: id, Stamp: stamp})
}

// Step is a call of msmemscope.step() that got the number n.
func (p *Process) Step(device int32, n uint64, stamp int64) {
	p.Apply(event.Event{Kind: event.System, Sub: event.Step, Device: device, Value: n, Stamp: stamp})
}

// Label is a label of thread 1 that comes or goes.
func (p *Process) Label(sub event.Sub, level uint64, label string) {
	p.Set.Dispatch(&event.Event{Kind: event.Label, Sub: sub, Value: level, Name: label, TID: 1}, nil)
}

// LabelAddress puts a label on the block that holds addr.
func (p *Process) LabelAddress(addr, level uint64, label string) {
	p.Set.Dispatch(&event.Event{Kind: event.Label, Sub: event.LabelAddress, Value: level, Name: label}, p.Ledger.Holding(event.PTA, addr))
}

// Access is an operator's access to a tensor.
func (p *Process) Access(pool event.Pool, device int32, addr uint64, size, stamp int64) {
	p.Apply(event.Event{Kind: event.Access, Sub: event.Read, Pool: pool, Device: device, Addr: addr, Size: size, Stamp: stamp})
}

// Exit ends the process and returns the report.
func (p *Process) Exit(stamp int64) string {
	p.Ledger.Exit(stamp)
	var report strings.Builder
	p.Set.Report(&report)
	return report.String()
}
