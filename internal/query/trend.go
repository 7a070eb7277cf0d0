package query

import (
	"flag"
	"fmt"
	"math"

	"memscope/internal/dump/read"
	"memscope/internal/event"
)

var trendQuestion = &question{
	name: "trend", args: "FILE...", common: allCommon,
	summary: "whether memory use keeps rising: equal parts of the time and a verdict",
	help: `
The time is cut into equal parts. A part's floor is the lowest used within it: what every period goes back to. Where the dump
has 8 steps or more of a card (mstx ranges "step start", or STEP rows), the verdict takes the floor of each step instead.
It looks at the floors from the second quarter on (the first is warming up):
  rising    the floor of the last quarter is above that of the second by more than 1 MiB and 2 % of the highest use, a
            quarter or more of that since the third, and the floors climb in at least 3 of 4 of the steps that change
  steady    it is not
Rising floors in a framework pool are the strong sign of a leak (algorithm A). A rising total alone (what the pool has
reserved, algorithm B) is weak: pools keep what they once took.
Without --pool, HAL, the framework pools and those that the user named are shown side by side; HAL contains the others.`,
	setup: func(fs *flag.FlagSet) func(*env, []string) (result, error) {
		buckets := fs.Int("buckets", 20, "equal `parts` of the time")
		return func(e *env, args []string) (result, error) {
			if *buckets < 4 || *buckets > 100_000 {
				return nil, usagef("--buckets is a number from 4 to 100000")
			}
			if e.pools == nil {
				pools := everyPool()
				pools[event.Host], pools[event.PTAWorkspace], pools[read.NoPool] = false, false, false
				e.pools = &pools
			}
			var t *trend
			err := e.scanSpan(args, read.PID|read.TID|read.Device|read.Used|read.Total|read.Name, func(first, last int64) visitor {
				t = &trend{env: e, pools: e.selection(), bins: newBins(*buckets, first, last), steps: newStepFloors()}
				return t.visit
			})
			if err != nil {
				return nil, err
			}
			return t.result(true), nil
		}
	},
}

type trend struct {
	accounts
	env   *env
	pools poolSet
	bins  *binning
	steps *stepFloors
	used  [][]bin
	total [][]bin // nil: the pool has none
}

func (t *trend) visit(b *read.Batch) error {
	for i := range b.Rows {
		r := &b.Rows[i]
		t.steps.mark(b, r)
		if !isBlock(r) || r.Used < 0 || !t.pools[r.Pool] || !t.env.within(r) || !t.env.wanted(r) {
			continue
		}
		i := t.of(r)
		if i == len(t.used) {
			t.used = append(t.used, make([]bin, t.bins.n))
			t.total = append(t.total, nil)
		}
		t.steps.add(i, r)
		k := t.bins.of(r.Stamp)
		t.used[i][k].add(r.Used)
		if r.Total >= 0 {
			if t.total[i] == nil {
				t.total[i] = make([]bin, t.bins.n)
			}
			t.total[i][k].add(r.Total)
		}
	}
	return nil
}

type trendResult struct {
	Views []*trendView `json:"views"`
}

type trendView struct {
	Process    string        `json:"process"`
	Device     string        `json:"device"`
	Pool       string        `json:"pool"`
	Buckets    []trendBucket `json:"buckets"`
	Steps      int           `json:"steps"` // that the verdict goes by; 0: by parts of the time
	PerPart    int           `json:"steps_per_part"`
	Rising     bool          `json:"rising"`
	Growth     int64         `json:"floor_growth_bytes"` // second to last quarter
	PerBucket  int64         `json:"floor_growth_per_bucket_bytes"`
	Climbs     int           `json:"climbing_steps"`
	Changes    int           `json:"changing_steps"` // parts, where a part is of several
	TotalGrows bool          `json:"total_grows"`    // after the first quarter
}

type trendBucket struct {
	From  int64 `json:"from_ns"`
	Used  int64 `json:"used"` // the last figure in it
	Floor int64 `json:"floor"`
	Total int64 `json:"total"` // -1: the pool has none
}

// result gives the verdicts; with the parts that they were made of, if buckets is set.
func (t *trend) result(buckets bool) *trendResult {
	res := &trendResult{Views: []*trendView{}}
	for i, a := range t.all {
		carry(t.used[i])
		carry(t.total[i])
		v := &trendView{Process: pidName(a.PID), Device: deviceName(a.Device), Pool: t.env.names.Name(a.Pool)}
		if buckets {
			v.Buckets = t.buckets(i)
		}
		v.TotalGrows = grows(t.total[i])
		if parts, per, steps := t.steps.bins(i, a); parts != nil {
			v.Steps, v.PerPart = steps, per
			v.judge(parts)
			v.PerBucket /= int64(per)
			v.Rising = v.Rising && v.Climbs >= max(leastClimbs, len(parts)/10)
		} else {
			v.judge(withoutEnd(t.used[i]))
		}
		res.Views = append(res.Views, v)
	}
	if len(t.all) == 0 {
		t.env.note("no row tells used")
	}
	return res
}

func (t *trend) buckets(account int) []trendBucket {
	out := make([]trendBucket, t.bins.n)
	for k, b := range t.used[account] {
		out[k] = trendBucket{t.bins.first + int64(k)*t.bins.width, b.Last, b.Min, event.Unknown}
	}
	told := false
	for k, b := range t.total[account] {
		if told = told || b.Points > 0; told {
			out[k].Total = b.Last
		}
	}
	return out
}

const (
	leastClimbs = 3 // of steps, and a tenth of them: a pool that has grown once or twice has found its size
	risingBytes = 1 << 20
	risingShare = 0.02 // of the highest use
	climbShare  = 0.75 // of the steps that change
	lateShare   = 0.25 // of the growth, since the third quarter: what only fills up has stopped by then
)

// grows tells whether a total is higher at the end than after the first quarter.
func grows(total []bin) bool {
	n := len(total)
	return n > 0 && total[n-1].Last > total[n/4].Last
}

// judge reckons the verdict from the bins.
func (v *trendView) judge(used []bin) {
	n := len(used)
	if n < 4 {
		return
	}
	highest := int64(0)
	for _, b := range used {
		highest = max(highest, b.Max)
	}
	quarter := n / 4
	before, after := lowest(used[quarter:2*quarter]), lowest(used[n-quarter:])
	v.Growth = after - before
	v.PerBucket = v.Growth / int64(n-2*quarter)
	for i := quarter + 1; i < n; i++ {
		switch step := used[i].Min - used[i-1].Min; {
		case step > 0:
			v.Climbs++
			v.Changes++
		case step < 0:
			v.Changes++
		}
	}
	late := after - lowest(used[2*quarter:n-quarter])
	v.Rising = v.Growth > risingBytes && float64(v.Growth) > risingShare*float64(highest) &&
		float64(late) >= lateShare*float64(v.Growth) && float64(v.Climbs) >= climbShare*float64(v.Changes)
}

// withoutEnd leaves out the last part if the process cleaned up in it: the floor of a teardown says nothing.
func withoutEnd(bins []bin) []bin {
	if n := len(bins); n > 1 && bins[n-1].Last < bins[n-2].Min/2 {
		return bins[:n-1]
	}
	return bins
}

func lowest(bins []bin) int64 {
	low := int64(math.MaxInt64)
	for _, b := range bins {
		low = min(low, b.Min)
	}
	return low
}

func (t *trendResult) Text(w *report) {
	for _, v := range t.Views {
		w.line("process %s, device %s, %s", v.Process, v.Device, v.Pool)
		var rows [][]string
		for _, b := range v.Buckets {
			rows = append(rows, []string{count(b.From), size(b.Used), size(b.Floor), size(b.Total)})
		}
		w.table([]string{">from (ns)", ">used at its end", ">floor", ">total at its end"}, rows)
		verdict := "steady"
		if v.Rising {
			verdict = "rising, never back to its base"
		}
		if v.Steps > 0 {
			parts := ""
			if v.PerPart > 1 {
				parts = fmt.Sprintf(" parts of %d steps", v.PerPart)
			}
			w.line("  verdict by %d steps: %s; the floor went %s from the second quarter of them to the last (%s a step), climbing in %d of %d%s that changed it",
				v.Steps, verdict, signed(v.Growth), signed(v.PerBucket), v.Climbs, v.Changes, parts)
		} else {
			w.line("  verdict: %s; the floor went %s from the second quarter to the last (%s a part), climbing in %d of %d parts that changed it",
				verdict, signed(v.Growth), signed(v.PerBucket), v.Climbs, v.Changes)
		}
		if v.TotalGrows {
			w.line("  the pool reserved more as time went on")
		}
		w.line("")
	}
}

func signed(n int64) string {
	if n > 0 {
		return "+" + short(n)
	}
	return short(n)
}
