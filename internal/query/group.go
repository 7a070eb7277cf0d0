package query

import (
	"cmp"
	"flag"
	"slices"
	"strings"

	"memscope/internal/dump/read"
)

var groupQuestion = &question{
	name: "group", args: "FILE...", common: allCommon,
	summary: "memory by owner, event type or call stack: peak of each group, or total allocated",
	help: `
--metric peak is the most that a group held at any moment (each group at its own); total is the sum of its allocations.
--by owner adds up whole owners; --level N cuts them to N segments behind the first. --since and --until bound the
moments at which a peak counts and the allocations that a total counts.`,
	setup: func(fs *flag.FlagSet) func(*env, []string) (result, error) {
		by := fs.String("by", "owner", "owner, event_type or stack")
		metric := fs.String("metric", "peak", "peak or total")
		level := fs.Int("level", 0, "`segments` of the owner behind the first; 0: all")
		top := fs.Int("top", 0, "groups to list; 0: all")
		return func(e *env, args []string) (result, error) {
			switch {
			case *by != "owner" && *by != "event_type" && *by != "stack":
				return nil, usagef("--by is owner, event_type or stack, not %q", *by)
			case *metric != "peak" && *metric != "total":
				return nil, usagef("--metric is peak or total, not %q", *metric)
			case *level < 0 || *top < 0:
				return nil, usagef("--level and --top are not negative")
			}
			if *by == "event_type" && e.pools == nil {
				every := everyPool()
				e.pools = &every
			}
			want := trackerWants
			if *by == "stack" {
				want |= read.Stacks
			}
			var g *grouping
			err := e.scan(args, want, func() visitor {
				g = &grouping{tracker: newTracker(e), by: *by, level: *level, index: make(map[groupKey]int32), byLabel: make(map[groupKey]int32)}
				return g.visit
			})
			if err != nil {
				return nil, err
			}
			return g.result(*metric, *top), nil
		}
	},
}

type grouping struct {
	*tracker
	by     string
	level  int
	labels interner
	index  map[groupKey]int32 // owner or stack number, with its account, to group
	groups []groupSum

	byLabel map[groupKey]int32 // label, with its account, to group
}

type groupKey struct{ account, what int32 }

type groupSum struct {
	account, label int32
	live, peak     int64
	peakAt         int64
	total          int64
	blocks         int64 // allocated
}

// group finds the group of a block.
func (g *grouping) group(account int, b block) *groupSum {
	what := b.owner
	switch g.by {
	case "stack":
		what = b.stack
	case "event_type":
		what = 0
	}
	key := groupKey{int32(account), what}
	i, ok := g.index[key]
	if !ok {
		i = g.place(key, g.label(account, b))
		g.index[key] = i
	}
	return &g.groups[i]
}

// place finds or makes the group of a label: two owners that are cut to the same label are one.
func (g *grouping) place(key groupKey, label string) int32 {
	n := g.labels.of([]byte(label))
	i, ok := g.byLabel[groupKey{key.account, n}]
	if !ok {
		i = int32(len(g.groups))
		g.groups = append(g.groups, groupSum{account: key.account, label: n})
		g.byLabel[groupKey{key.account, n}] = i
	}
	return i
}

func (g *grouping) label(account int, b block) string {
	switch g.by {
	case "stack":
		if s := strings.TrimRight(g.stackText(b.stack), "\n"); s != "" {
			return s
		}
		return "(no call stack)"
	case "event_type":
		return g.env.names.Name(g.all[account].Pool)
	}
	owner := g.owners.all[b.owner]
	if owner == "" {
		return unowned
	}
	if g.level > 0 {
		parts := strings.Split(owner, "@")
		owner = strings.Join(parts[:min(len(parts), g.level+1)], "@")
	}
	return owner
}

func (g *grouping) visit(b *read.Batch) error {
	for i := range b.Rows {
		r := &b.Rows[i]
		if c, ok := g.apply(b, r); ok {
			g.row(r, c)
		}
	}
	return nil
}

// row takes what a row did to the tracker.
func (g *grouping) row(r *read.Row, c change) {
	if c.lost.born != 0 {
		g.group(c.account, c.lost).live -= c.lost.size
	}
	s := g.group(c.account, c.block)
	if !c.came {
		s.live -= c.block.size
		return
	}
	s.live += c.block.size
	if g.env.within(r) {
		s.total += c.block.size
		s.blocks++
		if s.live > s.peak {
			s.peak, s.peakAt = s.live, r.Stamp
		}
	}
}

type groupResult struct {
	By     string      `json:"by"`
	Metric string      `json:"metric"`
	Views  []groupView `json:"views"`
}

type groupView struct {
	Process string      `json:"process"`
	Device  string      `json:"device"`
	Pool    string      `json:"pool"`
	Groups  []groupLine `json:"groups"`
	More    int         `json:"more"` // groups that --top left out
}

type groupLine struct {
	Label  string  `json:"label"`
	Bytes  int64   `json:"bytes"` // by the metric
	Share  float64 `json:"share"` // of the sum over all groups
	At     int64   `json:"peak_at_ns,omitempty"`
	Blocks int64   `json:"allocations"`
}

func (g *grouping) result(metric string, top int) *groupResult {
	res := &groupResult{By: g.by, Metric: metric, Views: []groupView{}}
	for _, a := range g.env.shown(g.all) {
		v := groupView{Process: pidName(g.all[a].PID), Device: deviceName(g.all[a].Device), Pool: g.env.names.Name(g.all[a].Pool), Groups: []groupLine{}}
		var sum int64
		for _, s := range g.groups {
			if int(s.account) != a || s.blocks == 0 {
				continue
			}
			l := groupLine{Label: g.labels.all[s.label], Bytes: s.peak, At: s.peakAt, Blocks: s.blocks}
			if metric == "total" {
				l.Bytes, l.At = s.total, 0
			}
			sum += l.Bytes
			v.Groups = append(v.Groups, l)
		}
		slices.SortFunc(v.Groups, func(a, b groupLine) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Label, b.Label)) })
		if top > 0 && len(v.Groups) > top {
			v.More = len(v.Groups) - top
			v.Groups = v.Groups[:top]
		}
		for i := range v.Groups {
			v.Groups[i].Share = ratio(v.Groups[i].Bytes, sum)
		}
		res.Views = append(res.Views, v)
	}
	if g.by == "owner" && len(g.owners.all) == 1 && g.owners.all[0] == "" {
		g.env.note("no row has an owner: collect with --analysis=decompose, or use --by event_type")
	}
	g.tell()
	return res
}

func (g *groupResult) Text(w *report) {
	for _, v := range g.Views {
		w.line("process %s, device %s, %s: %s by %s", v.Process, v.Device, v.Pool, g.Metric, g.By)
		header := []string{g.By, ">" + g.Metric, ">share", ">allocations"}
		if g.Metric == "peak" {
			header = append(header, ">at (ns)")
		}
		labels := make([]string, len(v.Groups))
		for i, l := range v.Groups {
			labels[i] = l.Label
		}
		if g.By == "stack" {
			labels = w.distinct(labels, 3)
		}
		var rows [][]string
		for i, l := range v.Groups {
			row := []string{labels[i], size(l.Bytes), percentage(l.Share), count(l.Blocks)}
			if g.Metric == "peak" {
				row = append(row, count(l.At))
			}
			rows = append(rows, row)
		}
		w.table(header, rows)
		if v.More > 0 {
			w.line("  and %d more", v.More)
		}
	}
	if g.By == "event_type" {
		w.line("HAL holds what the other pools reserve: do not add it to them")
	}
}
