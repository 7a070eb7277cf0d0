package query

import (
	"flag"
	"math"
	"strings"

	"memscope/internal/dump/read"
	"memscope/internal/event"
)

const (
	defaultPoints = 1000
	asciiBins     = 80
	asciiHeight   = 12
)

var curveQuestion = &question{
	name: "curve", args: "FILE...", common: allCommon,
	summary: "memory use over time, as points, bins or a drawing",
	help: `
Between two points the figure stays what it was at the first: points are events, not samples. Without --bins the points
are thinned out to --limit of them, the lowest and the highest always among them; --limit 0 gives all.`,
	setup: func(fs *flag.FlagSet) func(*env, []string) (result, error) {
		var key meter
		key.flag(fs)
		ascii := fs.Bool("ascii", false, "draw it")
		bins := fs.Int("bins", 0, "divide the time into this `number` of equal parts; 80 for --ascii")
		limit := fs.Int("limit", defaultPoints, "at most this `number` of points")
		return func(e *env, args []string) (result, error) {
			switch {
			case *bins < 0 || *bins > 1_000_000:
				return nil, usagef("--bins is a number from 1 to 1000000")
			case *limit < 0 || *limit > 0 && *limit < 4:
				return nil, usagef("--limit is 0 or at least 4")
			case *ascii && *bins == 0:
				*bins = asciiBins
			}
			var c *curve
			err := e.scanSpan(args, read.PID|read.Device|meterWants, func(first, last int64) visitor {
				c = &curve{env: e, key: key, pools: e.selection(), limit: *limit}
				if *bins > 0 {
					c.bins = newBins(*bins, first, last)
				}
				return c.visit
			})
			if err != nil {
				return nil, err
			}
			return c.result(*ascii), nil
		}
	},
}

type curve struct {
	accounts
	env   *env
	key   meter
	pools poolSet
	limit int
	bins  *binning
	lines []line
}

// line is the curve of one account, by points or by bins.
type line struct {
	thinner thinner
	bins    []bin
}

func (c *curve) visit(b *read.Batch) error {
	for i := range b.Rows {
		r := &b.Rows[i]
		if !isBlock(r) || !c.pools[r.Pool] || !c.env.within(r) || !c.env.wanted(r) {
			continue
		}
		v := c.key.of(r)
		if v < 0 {
			continue
		}
		i := c.of(r)
		if i == len(c.lines) {
			c.lines = append(c.lines, line{thinner: thinner{limit: c.limit, per: 1}})
			if c.bins != nil {
				c.lines[i].bins = make([]bin, c.bins.n)
			}
		}
		if c.bins != nil {
			c.lines[i].bins[c.bins.of(r.Stamp)].add(v)
		} else {
			c.lines[i].thinner.add(point{r.Stamp, v, r.Used, r.DeviceUsed, r.ProcessUsed, r.Total})
		}
	}
	return nil
}

// binning divides a span of time into n equal parts.
type binning struct {
	n            int
	first, width int64 // ns
}

func newBins(n int, first, last int64) *binning {
	return &binning{n, first, max((last-first)/int64(n)+1, 1)}
}

func (b *binning) of(stamp int64) int { return int(min(max(stamp-b.first, 0)/b.width, int64(b.n-1))) }

// bin is what happened to a figure in a part of the time, bytes.
type bin struct {
	First, Last, Min, Max, Points int64
}

func (b *bin) add(v int64) {
	if b.Points == 0 {
		b.First, b.Min, b.Max = v, v, v
	}
	b.Last, b.Min, b.Max = v, min(b.Min, v), max(b.Max, v)
	b.Points++
}

// carry fills bins in which nothing happened with the figure that held on.
func carry(bins []bin) {
	held := int64(math.MinInt64)
	for i := range bins {
		if b := &bins[i]; b.Points > 0 {
			held = b.Last
		} else if held != math.MinInt64 {
			b.First, b.Last, b.Min, b.Max = held, held, held, held
		}
	}
}

// point is a point of the curve, bytes.
type point struct {
	stamp, value                         int64
	used, deviceUsed, processUsed, total int64
}

// thinner keeps about limit points of a stream: of each group of per neighbours the first, the lowest, the highest and the
// last. When there are too many groups, neighbours are joined.
type thinner struct {
	limit  int
	per    int64
	groups []pointGroup
}

type pointGroup struct {
	n                      int64
	first, low, high, last point
}

func (t *thinner) add(p point) {
	if n := len(t.groups); n > 0 && t.groups[n-1].n < t.per {
		t.groups[n-1].join(pointGroup{1, p, p, p, p})
		return
	}
	if n := len(t.groups); t.limit > 0 && (n == t.limit || t.per > 1 && n >= t.limit/4) {
		half := t.groups[:0]
		for i := 0; i < len(t.groups); i += 2 {
			g := t.groups[i]
			if i+1 < len(t.groups) {
				g.join(t.groups[i+1])
			}
			half = append(half, g)
		}
		t.groups = half
		t.per *= 2
		t.add(p)
		return
	}
	t.groups = append(t.groups, pointGroup{1, p, p, p, p})
}

func (g *pointGroup) join(o pointGroup) {
	g.n += o.n
	if o.low.value < g.low.value {
		g.low = o.low
	}
	if o.high.value > g.high.value {
		g.high = o.high
	}
	g.last = o.last
}

// points gives what was kept, in order, each point once.
func (t *thinner) points() (out []point) {
	for _, g := range t.groups {
		a, b := g.low, g.high
		if a.stamp > b.stamp {
			a, b = b, a
		}
		for i, p := range []point{g.first, a, b, g.last} {
			if i == 0 || p != out[len(out)-1] {
				out = append(out, p)
			}
		}
	}
	return out
}

type curveResult struct {
	Curves []oneCurve `json:"curves"`
	ascii  bool
}

type oneCurve struct {
	Process string       `json:"process"`
	Device  string       `json:"device"`
	Pool    string       `json:"pool"`
	Key     meter        `json:"key"`
	Points  []curvePoint `json:"points,omitempty"`
	Bins    []curveBin   `json:"bins,omitempty"`
}

type curvePoint struct {
	At          int64 `json:"at_ns"`
	Used        int64 `json:"used"`
	DeviceUsed  int64 `json:"device_used"` // -1: not told
	ProcessUsed int64 `json:"process_used"`
	Total       int64 `json:"total"`
}

type curveBin struct {
	From   int64 `json:"from_ns"`
	Until  int64 `json:"until_ns"` // exclusive
	First  int64 `json:"first"`
	Last   int64 `json:"last"`
	Min    int64 `json:"min"`
	Max    int64 `json:"max"`
	Points int64 `json:"points"`
}

func (c *curve) result(ascii bool) *curveResult {
	res := &curveResult{Curves: []oneCurve{}, ascii: ascii}
	for _, i := range c.env.shown(c.all) {
		a := c.all[i]
		one := oneCurve{Process: pidName(a.PID), Device: deviceName(a.Device), Pool: c.env.names.Name(a.Pool), Key: c.key}
		if c.bins == nil {
			for _, p := range c.lines[i].thinner.points() {
				one.Points = append(one.Points, curvePoint{p.stamp, p.used, p.deviceUsed, p.processUsed, p.total})
			}
		} else {
			bins := c.lines[i].bins
			carry(bins)
			for k, b := range bins {
				from := c.bins.first + int64(k)*c.bins.width
				one.Bins = append(one.Bins, curveBin{from, from + c.bins.width, b.First, b.Last, b.Min, b.Max, b.Points})
			}
		}
		res.Curves = append(res.Curves, one)
	}
	if len(res.Curves) == 0 {
		c.env.note("no row tells %s", c.key)
	}
	return res
}

func (c *curveResult) Text(w *report) {
	for _, one := range c.Curves {
		w.line("process %s, device %s, %s: %s", one.Process, one.Device, one.Pool, one.Key)
		switch {
		case c.ascii:
			one.draw(w)
		case one.Bins != nil:
			var rows [][]string
			for _, b := range one.Bins {
				rows = append(rows, []string{count(b.From), count(b.First), count(b.Last), count(b.Min), count(b.Max), count(b.Points)})
			}
			w.table([]string{">from (ns)", ">first", ">last", ">min", ">max", ">points"}, rows)
		default:
			w.line("timestamp(ns),used,device_used,process_used,total")
			for _, p := range one.Points {
				w.line("%d,%s,%s,%s,%s", p.At, figure(p.Used), figure(p.DeviceUsed), figure(p.ProcessUsed), figure(p.Total))
			}
		}
	}
}

// figure prints a figure, nothing for one that was not told.
func figure(v int64) string {
	if v == event.Unknown {
		return ""
	}
	return count(v)
}

// draw draws the bins: # up to the lowest figure of a bin, : from there to its highest.
func (one *oneCurve) draw(w *report) {
	top := int64(1)
	for _, b := range one.Bins {
		top = max(top, b.Max)
	}
	for row := asciiHeight; row > 0; row-- {
		var line strings.Builder
		for _, b := range one.Bins {
			switch level := top / asciiHeight * int64(row-1); {
			case b.Min > level:
				line.WriteByte('#')
			case b.Max > level:
				line.WriteByte(':')
			default:
				line.WriteByte(' ')
			}
		}
		w.line("%12s |%s", short(top/asciiHeight*int64(row)), strings.TrimRight(line.String(), " "))
	}
	w.line("%12s +%s", "0", strings.Repeat("-", len(one.Bins)))
	if n := len(one.Bins); n > 0 {
		w.line("%12s  from %d to %d ns, %s a column", "", one.Bins[0].From, one.Bins[n-1].Until, since(0, one.Bins[0].Until-one.Bins[0].From))
	}
}
