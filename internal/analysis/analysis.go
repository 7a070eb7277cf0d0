// Package analysis is how events reach those who ask questions about them.
//
// An analyzer is a folder with a Registration: what it is called, which events it wants, when it is on, how it is made.
// It asks the ledger about live blocks and the step tracker about steps, and keeps no table of blocks of its own.
package analysis

import (
	"io"
	"slices"

	"memscope/internal/analysis/labels"
	"memscope/internal/analysis/steps"
	"memscope/internal/config"
	"memscope/internal/event"
	"memscope/internal/ledger"
)

// Priorities (contract 5.0): a higher one gets an event earlier.
const (
	Lowest = 0
	High   = 100
)

// Analyzer gets the events of one process, in causal order.
type Analyzer interface {
	// Event takes one row; b and both arguments' lifetime are as in ledger.Sink.
	Event(ev *event.Event, b *ledger.Block)
	// Report writes what belongs on the terminal. It is called once, after ledger.Exit. An error of w is the caller's
	// to notice.
	Report(w io.Writer)
}

// StepWatcher is an Analyzer that also wants to know when steps begin and end. It learns that before the event that says
// so.
type StepWatcher interface {
	Step(c steps.Change)
}

// Logger takes lines for the log.
type Logger interface {
	Logf(level config.LogLevel, format string, args ...any)
}

// Late takes what is learned of a block with Block.Open after its MALLOC row was passed on.
type Late interface {
	SetOwner(allocID uint64, owner string)
	SetWaste(allocID uint64, waste event.Waste)
}

// Env is what an analyzer may ask.
type Env struct {
	Ledger *ledger.Ledger
	Log    Logger
	Config *config.Config
	Late   Late
	Steps  *steps.Tracker  // made by NewSet
	Labels *labels.Tracker // made by NewSet when it is nil
	// Emit adds a row of the analyzer's own, behind the one that it is just told of. ev is not kept.
	Emit func(ev *event.Event)
}

// Registration describes an analyzer.
type Registration struct {
	Name     string
	Priority int
	Kinds    []event.Kind
	Enabled  func(*config.Config) bool
	New      func(Env) Analyzer
}

// OnSteps reports whether the analyses that follow steps are on: leaks or OOM is asked for, both allocations and
// frees are collected, and no single steps are picked (contract 5.1, and 9 row 25).
func OnSteps(c *config.Config) bool {
	return c.Analysis&(config.Leaks|config.OOM) != 0 && len(c.Steps) == 0 &&
		c.Events&config.Alloc != 0 && c.Events&config.Free != 0
}

// OfSteps says whether the step analyses look at a pool: those of frameworks (contract 5.1), and the user's own.
func OfSteps(p event.Pool) bool {
	return p == event.PTA || p == event.ATB || p == event.MindSpore || p >= event.Named
}

// PoolName is how reports call such a pool.
func (e Env) PoolName(p event.Pool) string {
	switch p {
	case event.PTA:
		return "Pytorch Caching memory pool"
	case event.ATB:
		return "ATB memory pool"
	case event.MindSpore:
		return "Mindspore memory pool"
	}
	return e.Config.PoolName(p) + " memory pool"
}

// Handle names a subscription.
type Handle uint64

type subscriber struct {
	handle   Handle
	priority int
	kinds    []event.Kind
	analyzer Analyzer
	steps    StepWatcher // nil when the analyzer is none
}

// Set is the analyzers of one process.
type Set struct {
	env    Env
	last   Handle
	subs   []*subscriber // in order of dispatch; never changed in place
	byKind [event.Kinds][]*subscriber
}

// NewSet subscribes those of regs that the configuration enables, in the order given.
func NewSet(env Env, regs ...Registration) *Set {
	env.Steps = steps.New(func(device int32, ignored string) {
		env.Log.Logf(config.Error, "device %d: steps come from two sources; those of %s are ignored", device, ignored)
	})
	if env.Labels == nil {
		env.Labels = labels.New()
	}
	s := &Set{env: env}
	for _, r := range regs {
		if r.Enabled(env.Config) {
			s.Subscribe(r)
		}
	}
	return s
}

// Subscribe adds an analyzer. Those with a higher priority come first, among equals the newest.
func (s *Set) Subscribe(r Registration) Handle {
	s.last++
	sub := &subscriber{handle: s.last, priority: r.Priority, kinds: r.Kinds, analyzer: r.New(s.env)}
	sub.steps, _ = sub.analyzer.(StepWatcher)
	i := slices.IndexFunc(s.subs, func(o *subscriber) bool { return o.priority <= r.Priority })
	if i < 0 {
		i = len(s.subs)
	}
	s.set(slices.Insert(slices.Clone(s.subs), i, sub))
	return sub.handle
}

// Unsubscribe removes an analyzer, without a report. An unknown handle is ignored.
func (s *Set) Unsubscribe(h Handle) {
	s.set(slices.DeleteFunc(slices.Clone(s.subs), func(o *subscriber) bool { return o.handle == h }))
}

func (s *Set) set(subs []*subscriber) {
	s.subs = subs
	for k := range s.byKind {
		s.byKind[k] = nil
		for _, sub := range subs {
			if slices.Contains(sub.kinds, event.Kind(k)) {
				s.byKind[k] = append(s.byKind[k], sub)
			}
		}
	}
}

// Dispatch passes a row on to those who want its kind. It fits a ledger.Sink.
func (s *Set) Dispatch(ev *event.Event, b *ledger.Block) {
	if ev.Kind == event.Mstx || ev.Kind == event.System {
		for _, c := range s.env.Steps.Apply(ev) {
			for _, sub := range s.subs {
				if sub.steps != nil {
					sub.steps.Step(c)
				}
			}
		}
	}
	if ev.Kind == event.Label && ev.Sub != event.LabelAddress {
		s.env.Labels.Apply(ev)
	}
	for _, sub := range s.byKind[ev.Kind] {
		sub.analyzer.Event(ev, b)
	}
}

// Report lets every analyzer write its report, in the order of dispatch.
func (s *Set) Report(w io.Writer) {
	for _, sub := range s.subs {
		sub.analyzer.Report(w)
	}
}
