package query

import (
	"cmp"
	"flag"
	"slices"

	"memscope/internal/dump/read"
	"memscope/internal/event"
)

var fragmentationQuestion = &question{
	name: "fragmentation", args: "FILE...", common: allCommon,
	summary: "how much of what a pool reserves it does not use, and when it grew",
	help: `
The rate is 1 - used/total of a pool: below 5 % is normal, to 15 % elevated, above severe. Its mean is weighted by time.
Growth is each moment at which total rose, with the segment that the pool took from the driver just before (a HAL
allocation on the same card since the pool's last row). That a pool keeps segments is its way of caching, not a leak.`,
	setup: func(fs *flag.FlagSet) func(*env, []string) (result, error) {
		detail := fs.Int("detail", 20, "growths to list; 0: none")
		return func(e *env, args []string) (result, error) {
			if *detail < 0 {
				return nil, usagef("--detail is not negative")
			}
			var f *fragmentation
			err := e.scan(args, read.PID|read.Device|read.Size|read.Used|read.Total|read.AttrText|read.Name, func() visitor {
				f = &fragmentation{env: e, pools: e.selection(), segment: make(map[device]int64)}
				return f.visit
			})
			if err != nil {
				return nil, err
			}
			return f.result(*detail), nil
		}
	},
}

type fragmentation struct {
	accounts
	env       *env
	pools     poolSet
	segment   map[device]int64 // bytes of HAL allocations since the last row of a pool
	states    []poolState
	snapshots []snapshotRate
}

type poolState struct {
	points           int64
	at, used, total  int64 // the latest row
	begun            int64
	weighted         float64 // rate × ns
	peakUsed, atPeak int64
	ratePeak         float64
	worst            float64
	worstAt          int64
	growth           []growth
	grown            int64
}

type growth struct {
	At      int64   `json:"at_ns"`
	Before  int64   `json:"total_before"`
	After   int64   `json:"total_after"`
	Step    int64   `json:"increment"`
	Used    int64   `json:"used_before"`
	Use     float64 `json:"used_share_before"` // of total; the effective use
	Segment int64   `json:"hal_segment"`       // bytes, 0: none seen
}

type snapshotRate struct {
	At     int64   `json:"at_ns"`
	Device string  `json:"device"`
	Name   string  `json:"name"`
	Rate   float64 `json:"fragmentation"` // 1 − pt_utilization
}

func (f *fragmentation) visit(b *read.Batch) error {
	for i := range b.Rows {
		r := &b.Rows[i]
		switch {
		case r.Kind == event.Snapshot && f.env.wanted(r) && f.env.within(r):
			f.snapshot(b, r)
		case !isBlock(r) || !f.env.wanted(r):
		case r.Pool == event.HAL:
			if r.Kind == event.Malloc && r.Size > 0 {
				f.segment[device{r.PID, r.Device}] += r.Size
			}
		case r.Total > 0 && r.Used >= 0 && f.pools[r.Pool] && f.env.within(r):
			f.point(r)
		}
	}
	return nil
}

func (f *fragmentation) snapshot(b *read.Batch, r *read.Row) {
	attr := b.Text(r.AttrText)
	rate, ok := decimal(read.Attr(attr, "pt_utilization"))
	if percent, old := decimal(read.Attr(attr, "reserved_rate")); !ok && old { // older dumps, in percent
		rate, ok = percent/100, true
	}
	if ok && rate > 0 {
		f.snapshots = append(f.snapshots, snapshotRate{r.Stamp, deviceName(r.Device), string(b.Text(r.Name)), 1 - rate})
	}
}

func (f *fragmentation) point(r *read.Row) {
	i := f.of(r)
	if i == len(f.states) {
		f.states = append(f.states, poolState{begun: r.Stamp, total: -1})
	}
	s := &f.states[i]
	d := device{r.PID, r.Device}
	if s.points > 0 {
		s.weighted += unusedShare(s.used, s.total) * float64(r.Stamp-s.at)
	}
	if s.total >= 0 && r.Total > s.total {
		s.growth = append(s.growth, growth{r.Stamp, s.total, r.Total, r.Total - s.total, s.used, ratio(s.used, s.total), f.segment[d]})
		s.grown += r.Total - s.total
	}
	f.segment[d] = 0
	s.points++
	s.at, s.used, s.total = r.Stamp, r.Used, r.Total
	rate := unusedShare(r.Used, r.Total)
	if r.Used > s.peakUsed {
		s.peakUsed, s.atPeak, s.ratePeak = r.Used, r.Stamp, rate
	}
	if rate > s.worst {
		s.worst, s.worstAt = rate, r.Stamp
	}
}

func unusedShare(used, total int64) float64 { return 1 - ratio(used, total) }

type fragmentationResult struct {
	Views     []*fragmentationView `json:"views"`
	Snapshots []snapshotRate       `json:"snapshots"`
}

type fragmentationView struct {
	Process   string   `json:"process"`
	Device    string   `json:"device"`
	Pool      string   `json:"pool"`
	Now       float64  `json:"at_end"`
	Mean      float64  `json:"mean"` // by time
	Peak      float64  `json:"at_peak_use"`
	PeakAt    int64    `json:"peak_use_ns"`
	PeakUsed  int64    `json:"peak_used"`
	Worst     float64  `json:"worst"`
	WorstAt   int64    `json:"worst_ns"`
	Grade     string   `json:"grade"` // of the mean
	Growths   int      `json:"growths"`
	Grown     int64    `json:"grown_bytes"`
	Growth    []growth `json:"growth"`
	LowestUse []growth `json:"lowest_use_before_growth"`
}

// grade names a rate as contract 10-113 does.
func grade(rate float64) string {
	switch {
	case rate < 0.05:
		return "normal"
	case rate <= 0.15:
		return "elevated"
	}
	return "severe"
}

func (f *fragmentation) result(detail int) *fragmentationResult {
	res := &fragmentationResult{Views: []*fragmentationView{}, Snapshots: nonNil(f.snapshots)}
	for i, a := range f.all {
		s := &f.states[i]
		v := &fragmentationView{Process: pidName(a.PID), Device: deviceName(a.Device), Pool: f.env.names.Name(a.Pool), Now: unusedShare(s.used, s.total),
			Peak: s.ratePeak, PeakAt: s.atPeak, PeakUsed: s.peakUsed, Worst: s.worst, WorstAt: s.worstAt,
			Growths: len(s.growth), Grown: s.grown}
		v.Mean = v.Now
		if s.at > s.begun {
			v.Mean = s.weighted / float64(s.at-s.begun)
		}
		v.Grade = grade(v.Mean)
		v.Growth = nonNil(s.growth[:min(len(s.growth), detail)])
		low := slices.Clone(s.growth)
		slices.SortStableFunc(low, func(a, b growth) int { return cmp.Compare(a.Use, b.Use) })
		v.LowestUse = nonNil(low[:min(len(low), 5)])
		res.Views = append(res.Views, v)
	}
	if len(f.all) == 0 {
		f.env.note("no row tells used and total of a pool")
	}
	return res
}

func (f *fragmentationResult) Text(w *report) {
	for _, v := range f.Views {
		w.line("process %s, device %s, %s: %s, %s unused on average", v.Process, v.Device, v.Pool, v.Grade, percentage(v.Mean))
		w.table([]string{"when", ">unused", ">time (ns)"}, [][]string{
			{"at the end", percentage(v.Now), ""},
			{"at the peak of use, " + size(v.PeakUsed), percentage(v.Peak), count(v.PeakAt)},
			{"at the worst moment", percentage(v.Worst), count(v.WorstAt)},
		})
		w.line("  the pool grew %d times, by %s in all", v.Growths, size(v.Grown))
		growths(w, v.Growth)
		if v.Growths > len(v.Growth) && len(v.Growth) > 0 {
			w.line("  and %d more", v.Growths-len(v.Growth))
		}
		if len(v.LowestUse) > 0 {
			w.line("  growth with the lowest use before it:")
			growths(w, v.LowestUse)
		}
		w.line("")
	}
	if len(f.Snapshots) > 0 {
		var rows [][]string
		for _, s := range f.Snapshots {
			rows = append(rows, []string{count(s.At), s.Device, s.Name, percentage(s.Rate)})
		}
		w.table([]string{">snapshot (ns)", "device", "name", ">unused"}, rows)
	}
}

func growths(w *report, list []growth) {
	var rows [][]string
	for _, g := range list {
		segment := "-"
		if g.Segment > 0 {
			segment = short(g.Segment)
		}
		rows = append(rows, []string{count(g.At), short(g.Before), short(g.After), signed(g.Step), short(g.Used), percentage(g.Use), segment})
	}
	if rows != nil {
		w.table([]string{">at (ns)", ">total before", ">after", ">growth", ">used before", ">share", ">HAL segment"}, rows)
	}
}
