// Package inefficient finds tensors that are allocated too early, freed too late or left idle (contract 5.4). The judgement
// (judge.go) is also that of the offline question.
package inefficient

import (
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
	}
	if ev.Kind == event.Free {
		n.seen = false
	}
}

// Report implements analysis.Analyzer: all there is to say is in the rows.
func (a *analyzer) Report(io.Writer) {}
