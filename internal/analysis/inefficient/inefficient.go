// Package inefficient finds tensors that are allocated too early, freed too late or left idle (contract 5.4). The judgement
// (judge.go) is also that of the offline question.
package inefficient

import (
	"fmt"
	"io"

	"memscope/internal/analysis"
	"memscope/internal/config"
	"memscope/internal/event"
	"memscope/internal/ledger"
)

// Registration describes the analyzer.
func Registration() analysis.Registration {
	return analysis.Registration{
		Name:     "inefficient",
		Priority: analysis.High,
		Kinds:    []event.Kind{event.Malloc, event.Free, event.Access, event.OpLaunch},
		Enabled:  func(c *config.Config) bool { return c.Analysis&config.Inefficient != 0 },
		New:      func(env analysis.Env) analysis.Analyzer { return &analyzer{env: env, frames: map[frameKey]*Frame{}} },
	}
}

type analyzer struct {
	env    analysis.Env
	frames map[frameKey]*Frame
	notes  ledger.Notes[note]
	pid    uint64
	counts struct {
		accesses, blocks, bytes, early, late, idle int64
	}
}

// frameKey names a frame. Cards are judged each by itself, as their files are by the offline question.
type frameKey struct {
	device int32
	atb    bool
}

type note struct {
	Tensor
	seen bool // its MALLOC
}

// FrameworkOf says whether an event counts, and whether for ATB; else it counts for PyTorch. (Accesses name no other pool.) A synthetic row is nobody's doing.
func FrameworkOf(kind event.Kind, sub event.Sub, pool event.Pool, flags event.Flags) (atb, counts bool) {
	switch kind {
	case event.OpLaunch:
		atb = sub == event.AtbStart || sub == event.AtbEnd
		return atb, atb || sub == event.AtenStart || sub == event.AtenEnd
	case event.Access:
		return pool != event.PTA, true
	case event.Malloc, event.Free:
		return pool == event.ATB, (pool == event.ATB || pool == event.PTA) && flags&event.Shadow == 0
	}
	return false, false
}

// Event implements analysis.Analyzer.
func (a *analyzer) Event(ev *event.Event, b *ledger.Block) {
	if ev.Kind == event.Malloc && ev.Flags&event.Shadow != 0 {
		if n := a.notes.Of(b); n != nil { // of a block that was there before
			*n = note{}
		}
	}
	atb, counts := FrameworkOf(ev.Kind, ev.Sub, ev.Pool, ev.Flags)
	if !counts {
		return
	}
	a.pid = ev.PID
	if ev.Kind == event.Access {
		a.counts.accesses++
	}
	key := frameKey{ev.Device, atb}
	f := a.frames[key]
	if f == nil {
		f = new(Frame)
		a.frames[key] = f
	}
	if ev.Kind == event.OpLaunch {
		f.Op(ev.Sub == event.AtenStart || ev.Sub == event.AtbStart)
		return
	}
	n := a.notes.Of(b)
	if n != nil && ev.Kind == event.Malloc {
		n.seen, b.Open = true, true
	}
	if n == nil || !n.seen {
		f.Touch(ev.Kind, nil, IdleThreshold)
		return
	}
	before := n.Waste
	f.Touch(ev.Kind, &n.Tensor, IdleThreshold)
	if ev.Kind != event.Malloc && n.Waste != before {
		a.env.Late.SetWaste(b.AllocID, n.Waste)
		a.count(before, n.Waste, b.Size)
	}
	if ev.Kind == event.Free {
		n.seen = false
	}
}

// count adds what was found of a block of some bytes.
func (a *analyzer) count(before, now event.Waste, bytes int64) {
	c := &a.counts
	if before == 0 {
		c.blocks++
		c.bytes += bytes
	}
	for _, kind := range []struct {
		waste event.Waste
		n     *int64
	}{{event.EarlyAllocation, &c.early}, {event.LateDeallocation, &c.late}, {event.TemporaryIdleness, &c.idle}} {
		if now&^before&kind.waste != 0 {
			*kind.n++
		}
	}
}

// Report implements analysis.Analyzer. The blocks are in the rows; the terminal says how many there are, or that none could be judged.
func (a *analyzer) Report(w io.Writer) {
	c := &a.counts
	if c.accesses == 0 {
		fmt.Fprint(w, "[msmemscope] Info: --analysis=inefficient judged nothing: no operator of PyTorch or ATB was seen to access memory.\n")
		return
	}
	fmt.Fprintf(w, "[msmemscope] Info: process %d: %d inefficient block(s), %d bytes: %d allocated too early, %d freed too late, %d left idle; "+
		"their MALLOC rows have inefficient_type.\n", a.pid, c.blocks, c.bytes, c.early, c.late, c.idle)
}
