package analysis_test

import (
	"fmt"
	"io"
	"slices"
	"testing"

	"memscope/internal/analysis"
	"memscope/internal/analysis/analysistest"
	"memscope/internal/analysis/steps"
	"memscope/internal/config"
	"memscope/internal/event"
	"memscope/internal/ledger"
)

// witness writes down what reaches it.
type witness struct {
	name string
	seen *[]string
}

func (w witness) Event(ev *event.Event, b *ledger.Block) {
	*w.seen = append(*w.seen, fmt.Sprint(w.name, " ", ev.Kind, " ", b != nil))
}

func (w witness) Report(io.Writer) { *w.seen = append(*w.seen, w.name+" report") }

// stepWitness hears of steps too.
type stepWitness struct{ witness }

func (w stepWitness) Step(c steps.Change) {
	*w.seen = append(*w.seen, fmt.Sprint(w.name, " step ", c.Step, " ", c.End))
}

func registration(name string, priority int, seen *[]string, kinds ...event.Kind) analysis.Registration {
	return analysis.Registration{
		Name: name, Priority: priority, Kinds: kinds,
		Enabled: func(*config.Config) bool { return true },
		New:     func(analysis.Env) analysis.Analyzer { return witness{name, seen} },
	}
}

func TestOrder(t *testing.T) {
	var seen []string
	off := registration("off", analysis.High, &seen, event.Malloc)
	off.Enabled = func(*config.Config) bool { return false }
	// As contract 5.0 has it: decompose, inefficient, health, leaks are subscribed in this order.
	p := analysistest.New(config.Default(),
		registration("dump", analysis.Lowest, &seen, event.Malloc, event.Free),
		registration("decompose", analysis.High, &seen, event.Malloc),
		registration("inefficient", analysis.High, &seen, event.Malloc, event.Free),
		off,
		registration("health", analysis.High, &seen, event.Free),
	)
	leaks := p.Set.Subscribe(registration("leaks", analysis.High, &seen, event.Malloc))
	p.Malloc(event.PTA, 0, 0x1000, 1, 1)
	p.Free(event.PTA, 0x1000, 2)
	p.Apply(event.Event{Kind: event.Malloc, Flags: event.Paused, Addr: 0x2000, Stamp: 3})
	p.Set.Unsubscribe(leaks)
	p.Set.Unsubscribe(99)
	p.Malloc(event.PTA, 0, 0x1000, 1, 4)
	p.Exit(5)
	want := []string{
		"leaks 2 true", "inefficient 2 true", "decompose 2 true", "dump 2 true",
		"health 3 true", "inefficient 3 true", "dump 3 true",
		"inefficient 2 true", "decompose 2 true", "dump 2 true",
		"health 3 true", "inefficient 3 true", "dump 3 true",
		"health report", "inefficient report", "decompose report", "dump report",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("seen\n%q\nwant\n%q", seen, want)
	}
}

func TestSteps(t *testing.T) {
	var seen []string
	r := registration("w", analysis.High, &seen, event.Mstx)
	r.New = func(env analysis.Env) analysis.Analyzer {
		if env.Steps == nil || env.Ledger == nil {
			t.Error("an Env without steps or ledger")
		}
		return stepWitness{witness{"w", &seen}}
	}
	p := analysistest.New(config.Default(), r)
	p.Begin(0, 7, 1)
	p.End(0, 7, 2)
	p.Step(0, 1, 3)
	want := []string{"w step 1 false", "w 7 false", "w step 1 true", "w 7 false"}
	if !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
	if e := p.Level("ERROR"); !slices.Equal(e, []string{"device 0: steps come from two sources; those of msmemscope.step() are ignored"}) {
		t.Errorf("errors %q", e)
	}
}
