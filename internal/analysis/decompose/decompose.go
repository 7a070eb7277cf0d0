// Package decompose says of each block what it is for: an owner, from the pool it is in, the labels of the thread that allocated
// it, those put on its address later, and whether an operator of PyTorch has used it (contract 5.5).
package decompose

import (
	"io"

	"memscope/internal/analysis"
	"memscope/internal/analysis/labels"
	"memscope/internal/config"
	"memscope/internal/event"
	"memscope/internal/ledger"
)

// Registration describes the analyzer.
func Registration() analysis.Registration {
	return analysis.Registration{
		Name:     "decompose",
		Priority: analysis.High,
		Kinds:    []event.Kind{event.Malloc, event.Free, event.Access, event.Label},
		Enabled:  func(c *config.Config) bool { return c.Analysis&config.Decompose != 0 },
		New:      func(env analysis.Env) analysis.Analyzer { return &analyzer{env: env} },
	}
}

type analyzer struct {
	env    analysis.Env
	owners ledger.Notes[*labels.Owner] // of the blocks of PyTorch's caching pool: no other's owner changes
}

// Event implements analysis.Analyzer.
func (a *analyzer) Event(ev *event.Event, b *ledger.Block) {
	switch {
	case ev.Kind == event.Malloc:
		a.malloc(ev, b)
	case b == nil || b.Pool != event.PTA:
	case ev.Kind == event.Free:
		if note := a.owners.Of(b); note != nil {
			*note = nil
		}
	case ev.Kind == event.Access:
		a.change(b, func(o *labels.Owner) *labels.Owner {
			if o.Has(labels.Detail2) {
				return o
			}
			return o.With(labels.Detail2, "ops")
		})
	case ev.Sub == event.LabelAddress && ev.Value <= labels.User3:
		a.change(b, func(o *labels.Owner) *labels.Owner { return o.With(int(ev.Value), labels.Escape(ev.Name)) })
	}
}

// malloc gives a block its first owner. One that is older than the tracing has none.
func (a *analyzer) malloc(ev *event.Event, b *ledger.Block) {
	var owner *labels.Owner
	if framework := a.frameworkOf(ev); framework != "" && ev.Flags&event.Shadow == 0 {
		owner = a.env.Labels.Of(ev.TID).With(labels.Framework, framework)
		ev.Owner = owner.String()
	}
	if b.Pool == event.PTA {
		*a.owners.Of(b) = owner
		b.Open = b.Open || owner != nil
	}
}

func (a *analyzer) change(b *ledger.Block, change func(*labels.Owner) *labels.Owner) {
	note := a.owners.Of(b)
	if note == nil || *note == nil {
		return
	}
	if owner := change(*note); owner != *note {
		*note = owner
		a.env.Late.SetOwner(b.AllocID, owner.String())
	}
}

// Report implements analysis.Analyzer: all there is to say is in the rows.
func (a *analyzer) Report(io.Writer) {}

// frameworkOf says whose memory an allocation is, "" for host memory that no driver knows.
func (a *analyzer) frameworkOf(ev *event.Event) string {
	switch ev.Pool {
	case event.Host:
		return ""
	case event.HAL:
		return cann(ev.Module)
	case event.PTA:
		return "PTA"
	case event.PTAWorkspace:
		return "PTA_WORKSPACE"
	case event.MindSpore:
		return "MINDSPORE"
	case event.ATB:
		return "ATB"
	}
	return a.env.Config.PoolName(ev.Pool)
}
