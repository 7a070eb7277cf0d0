package query

import (
	"cmp"
	"flag"
	"slices"

	"memscope/internal/dump/read"
)

var windowQuestion = &question{
	name: "window", args: "START END FILE...", common: byDevice | byPool,
	summary: "what came and went between two moments, and who grew",
	help: `
START and END are times in ns, both inclusive, or +10s: ten seconds after the first row. Live at START are the blocks allocated before it and not freed before it;
net is what was allocated within the window less what was freed within it.`,
	setup: func(fs *flag.FlagSet) func(*env, []string) (result, error) {
		top := fs.Int("top", 10, "components to list")
		return func(e *env, args []string) (result, error) {
			if len(args) < 3 {
				return nil, usagef("two timestamps and a file are expected")
			}
			start, err := parseInstant(args[0])
			if err != nil {
				return nil, usagef("%v", err)
			}
			end, err := parseInstant(args[1])
			if err != nil {
				return nil, usagef("%v", err)
			}
			var q *window
			err = e.scanSpan(args[2:], trackerWants, func(first, last int64) visitor {
				q = &window{tracker: newTracker(e), start: start.at(first, last), end: end.at(first, last)}
				return q.visit
			})
			switch {
			case err != nil:
				return nil, err
			case q.end < q.start:
				return nil, usagef("END lies before START")
			}
			return q.result(*top), nil
		}
	},
}

type window struct {
	*tracker
	start, end int64
	flows      []*windowView
}

type windowView struct {
	Process    string `json:"process"`
	Device     string `json:"device"`
	Pool       string `json:"pool"`
	LiveStart  amount `json:"live_at_start"`
	LiveEnd    amount `json:"live_at_end"`
	Allocated  amount `json:"allocated"`
	Freed      amount `json:"freed"`
	Net        int64  `json:"net_bytes"`
	Remaining  amount `json:"allocated_and_still_live"` // within the window
	Components []flow `json:"components"`
	byOwner    map[string]*flow
}

type amount struct {
	Bytes  int64 `json:"bytes"`
	Blocks int64 `json:"blocks"`
}

func (a *amount) add(bytes int64) {
	a.Bytes += bytes
	a.Blocks++
}

// flow is what came and went of one component.
type flow struct {
	Label     string `json:"label"`
	Allocated int64  `json:"allocated_bytes"`
	Freed     int64  `json:"freed_bytes"`
	Net       int64  `json:"net_bytes"`
}

func (q *window) visit(b *read.Batch) error {
	for i := range b.Rows {
		r := &b.Rows[i]
		if r.Stamp > q.end {
			return errEnough
		}
		c, ok := q.apply(b, r)
		if !ok {
			continue
		}
		v := q.view(c.account)
		inside := r.Stamp >= q.start
		if c.lost.born != 0 {
			v.gone(c.lost, q.owners.all[c.lost.owner], inside, q.start)
		}
		if c.came {
			v.LiveEnd.add(c.block.size)
			if inside {
				v.Allocated.add(c.block.size)
				v.Remaining.add(c.block.size)
				f := v.flow(component(q.owners.all[c.block.owner]))
				f.Allocated += c.block.size
			} else {
				v.LiveStart.add(c.block.size)
			}
		} else {
			v.gone(c.block, q.owners.all[c.block.owner], inside, q.start)
		}
	}
	return nil
}

// gone takes a block out; inside: within the window.
func (v *windowView) gone(b block, owner string, inside bool, start int64) {
	v.LiveEnd.Bytes -= b.size
	v.LiveEnd.Blocks--
	if !inside {
		v.LiveStart.Bytes -= b.size
		v.LiveStart.Blocks--
		return
	}
	v.Freed.add(b.size)
	v.flow(component(owner)).Freed += b.size
	if b.born >= start {
		v.Remaining.Bytes -= b.size
		v.Remaining.Blocks--
	}
}

func (v *windowView) flow(label string) *flow {
	f := v.byOwner[label]
	if f == nil {
		f = &flow{Label: label}
		v.byOwner[label] = f
	}
	return f
}

func (q *window) view(i int) *windowView {
	for len(q.flows) <= i {
		a := q.all[len(q.flows)]
		q.flows = append(q.flows, &windowView{Process: pidName(a.PID), Device: deviceName(a.Device), Pool: q.env.names.Name(a.Pool), byOwner: make(map[string]*flow)})
	}
	return q.flows[i]
}

type windowResult struct {
	Start int64         `json:"start_ns"`
	End   int64         `json:"end_ns"`
	Views []*windowView `json:"views"`
}

func (q *window) result(top int) *windowResult {
	res := &windowResult{Start: q.start, End: q.end, Views: []*windowView{}}
	for _, i := range q.env.shown(q.all) {
		v := q.view(i)
		v.Net = v.Allocated.Bytes - v.Freed.Bytes
		v.Components = topFlows(v.byOwner, top)
		res.Views = append(res.Views, v)
	}
	q.tell()
	return res
}

// topFlows gives the flows that changed most, growth first.
func topFlows(by map[string]*flow, top int) []flow {
	out := make([]flow, 0, len(by))
	for _, f := range by {
		f.Net = f.Allocated - f.Freed
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b flow) int {
		return cmp.Or(cmp.Compare(b.Net, a.Net), cmp.Compare(b.Allocated, a.Allocated), cmp.Compare(a.Label, b.Label))
	})
	return out[:min(len(out), max(top, 0))]
}

func (q *windowResult) Text(w *report) {
	w.line("from %d to %d ns (%s)", q.Start, q.End, since(q.Start, q.End))
	for _, v := range q.Views {
		w.line("")
		w.line("process %s, device %s, %s", v.Process, v.Device, v.Pool)
		var rows [][]string
		for _, l := range []struct {
			name string
			a    amount
		}{{"live at the start", v.LiveStart}, {"allocated", v.Allocated}, {"freed", v.Freed}, {"live at the end", v.LiveEnd}, {"allocated here and still live", v.Remaining}} {
			rows = append(rows, []string{l.name, size(l.a.Bytes), count(l.a.Blocks)})
		}
		rows = append(rows, []string{"net", size(v.Net), ""})
		w.table([]string{"", ">bytes", ">blocks"}, rows)
		rows = nil
		for _, f := range v.Components {
			rows = append(rows, []string{f.Label, size(f.Net), size(f.Allocated), size(f.Freed)})
		}
		if rows != nil {
			w.line("")
			w.table([]string{"component", ">net", ">allocated", ">freed"}, rows)
		}
	}
	if len(q.Views) == 0 {
		w.line("nothing happened before the end of the window")
	}
}
