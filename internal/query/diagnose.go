package query

import (
	"cmp"
	"flag"
	"slices"

	"memscope/internal/dump/read"
	"memscope/internal/event"
)

var diagnoseQuestion = &question{
	name: "diagnose", args: "FILE|DIR...", common: byDevice | byTime,
	summary: "a report: what is wrong, how one can tell, what to do",
	help: `
The report is made by rules over the same questions that one can ask by hand: stats, peak, trend, leak-candidates,
fragmentation, hal-segments, oom. Conclusions come in the order of their weight, each with its numbers. Where the dump does
not tell enough, the report says what to collect, and how.`,
	setup: func(fs *flag.FlagSet) func(*env, []string) (result, error) {
		lang := fs.String("lang", "en", "`language` of the report: en or zh")
		return func(e *env, args []string) (result, error) {
			if *lang != "en" && *lang != "zh" {
				return nil, usagef("--lang is en or zh, not %q", *lang)
			}
			every := everyPool()
			e.pools = &every
			var d *diagnosis
			want := trackerWants | meterWants | read.ID | read.TID | read.Name | read.Stacks | read.AttrText | read.AllocID | read.Shadow | read.Page
			err := e.scanSpan(args, want, func(first, last int64) visitor {
				d = newDiagnosis(e, first, last)
				return d.visit
			})
			if err != nil {
				return nil, err
			}
			return d.result(*lang == "zh"), nil
		}
	},
}

// diagnosis asks several questions in one pass.
type diagnosis struct {
	env    *env
	stats  *stats
	peak   *peak
	trend  *trend
	leaks  *leaks
	frag   *fragmentation
	oom    *oom
	owners *grouping
	idle   tally // bytes by owner that are marked as inefficient
	idleOf [3]int64
}

const trendParts = 20

func newDiagnosis(e *env, first, last int64) *diagnosis {
	pools := e.selection()
	blocks := newTracker(e) // of leaks and owners
	return &diagnosis{
		env:    e,
		stats:  &stats{env: e, pools: pools, devices: make(map[int32]int64), processes: make(map[uint64]int64), threads: make(map[uint64]bool)},
		peak:   &peak{env: e, key: "used", pools: pools, launch: make(map[device]launchAt)},
		trend:  &trend{env: e, pools: pools, bins: newBins(trendParts, first, last), steps: newStepFloors()},
		leaks:  &leaks{tracker: blocks, first: first, last: last, lastReal: make(map[uint64]int64)},
		frag:   &fragmentation{env: e, pools: pools, segment: make(map[device]int64)},
		oom:    &oom{env: e, cards: make(map[device]cardState), open: make(map[device]int), detail: 10},
		owners: &grouping{tracker: blocks, by: "owner", level: 1, index: make(map[groupKey]int32), byLabel: make(map[groupKey]int32)},
		idle:   make(tally),
	}
}

func (d *diagnosis) visit(b *read.Batch) error {
	for _, visit := range []visitor{d.stats.visit, d.peak.visit, d.trend.visit, d.blocks, d.frag.visit, d.oom.visit, d.inefficient} {
		if err := visit(b); err != nil {
			return err
		}
	}
	return nil
}

// blocks is the visit of leaks and owners, for which each block is kept once.
func (d *diagnosis) blocks(b *read.Batch) error {
	for i := range b.Rows {
		r := &b.Rows[i]
		c, ok := d.leaks.apply(b, r)
		d.leaks.row(r, c, ok)
		if ok {
			d.owners.row(r, c)
		}
	}
	return nil
}

// inefficient adds up the blocks that an analysis marked.
func (d *diagnosis) inefficient(b *read.Batch) error {
	for i := range b.Rows {
		r := &b.Rows[i]
		if r.Kind != event.Malloc || !d.env.wanted(r) || !d.env.within(r) || r.Size < 0 || !hasKey(b.Text(r.AttrText), 'f', "inefficient") {
			continue
		}
		kinds := read.Attr(b.Text(r.AttrText), inefficientKey)
		if kinds == nil {
			kinds = read.Attr(b.Text(r.AttrText), "inefficient") // contract 9-10
		}
		owner := string(b.Text(r.Owner))
		if owner == "" {
			owner = unowned
		}
		for _, kind := range tokens(string(kinds)) {
			if at := slices.Index(inefficientTypes, kind); at >= 0 {
				d.idleOf[at] += r.Size
				if inefficientTypes[at] == "temporary_idleness" {
					d.idle.add(owner, r.Size, 1)
				}
			}
		}
	}
	return nil
}

// finding is one conclusion.
type finding struct {
	weight   int
	Cause    string   `json:"cause"`
	Severity string   `json:"severity"` // high, medium, low, none
	Text     string   `json:"text"`
	Evidence []string `json:"evidence"`
	Advice   []string `json:"advice"`
}

type diagnoseResult struct {
	zh       bool
	Overview []string  `json:"overview"`
	Evidence []string  `json:"evidence"`
	Findings []finding `json:"conclusions"`
	Missing  []string  `json:"missing"`
	Paths    []string  `json:"paths"`
}

// thinRows is the number of MALLOC and FREE rows below which nothing is concluded.
const thinRows = 20

func (d *diagnosis) result(zh bool) *diagnoseResult {
	f := &findings{d: d, say: language(zh), stats: d.stats.result(), trend: d.trend.result(false), frag: d.frag.result(0), leaks: d.leaks.result(3),
		oom: d.oom.result(), owners: d.owners.result("peak", 0), peak: d.peak.result()}
	d.env.notes = nil // those of the single questions; what is missing is told below
	res := &diagnoseResult{zh: zh, Overview: f.overview(), Evidence: f.evidence(), Missing: f.missing(), Paths: nonNil(d.env.files)}
	f.outOfMemory()
	f.leak()
	f.fragmented()
	f.communication()
	f.idle()
	switch {
	case len(f.list) > 0:
	case f.blockRows() < thinRows || len(f.peak.Peaks) == 0:
		f.add(1, "thin data", "none", f.say("thin", f.blockRows()), nil, f.say("advice collect"))
	default:
		f.filled()
		if len(f.list) == 0 {
			f.healthy()
		}
	}
	slices.SortStableFunc(f.list, func(a, b finding) int { return cmp.Compare(b.weight, a.weight) })
	res.Findings = f.list
	return res
}

func (d *diagnoseResult) Text(w *report) {
	say := language(d.zh)
	section := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		w.line("%s", say(title))
		for _, l := range lines {
			w.line("  %s", l)
		}
		w.line("")
	}
	section("1 overview", d.Overview)
	section("2 evidence", d.Evidence)
	w.line("%s", say("3 conclusions"))
	for i, f := range d.Findings {
		w.line("  %d. [%s] %s", i+1, say("severity "+f.Severity), f.Text)
		for _, e := range f.Evidence {
			w.line("       - %s", e)
		}
	}
	w.line("")
	var advice []string
	for _, f := range d.Findings {
		for _, a := range f.Advice {
			if !slices.Contains(advice, a) {
				advice = append(advice, a)
			}
		}
	}
	section("4 advice", append(advice, d.Missing...))
	section("5 paths", d.Paths)
}
