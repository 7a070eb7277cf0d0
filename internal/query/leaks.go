package query

import (
	"cmp"
	"flag"
	"slices"

	"memscope/internal/dump/read"
	"memscope/internal/event"
)

var leakQuestion = &question{
	name: "leak-candidates", args: "FILE...", common: allCommon,
	summary: "blocks that were never really freed",
	help: `
A dump pairs every MALLOC with a FREE: blocks that live when the process ends get one with shadow:true. So a candidate is a
block whose FREE is a shadow, or that has none. How it ended tells more:
  at exit   nothing of the process happened after it: the block lived until the end (or the last stop)
  unseen    the process went on: it was freed while nothing was collected, or its address was given out again
  none      there is no FREE row at all: the dump was cut off, or comes from another tool
Blocks allocated early and kept are often resident (weights, caches); blocks that keep coming are what leaks look like:
the table of quarters, of the time from the first row to the last thing that the process did, shows when the candidates were
allocated. --since and --until bound that time.`,
	setup: func(fs *flag.FlagSet) func(*env, []string) (result, error) {
		detail := fs.Int("detail", 10, "candidates to list, the largest first; 0: none")
		return func(e *env, args []string) (result, error) {
			if *detail < 0 {
				return nil, usagef("--detail is not negative")
			}
			var l *leaks
			err := e.scanSpan(args, trackerWants|read.AllocID|read.Shadow|read.Stacks, func(first, last int64) visitor {
				l = &leaks{tracker: newTracker(e), first: first, last: last, lastReal: make(map[uint64]int64)}
				return l.visit
			})
			if err != nil {
				return nil, err
			}
			return l.result(*detail), nil
		}
	},
}

type leaks struct {
	*tracker
	first, last int64            // of the rows, ns
	allocated   []amount         // by account
	shadowed    []ended          // blocks with a shadow FREE
	lastReal    map[uint64]int64 // by process: the time of the last thing that really happened
}

// quarters divides the time from the first row to the last thing that a process did; what the collector writes at its end comes later.
func (l *leaks) quarters(pid uint64) *binning {
	if end := l.lastReal[pid]; end > l.first && end < l.last {
		return newBins(4, l.first, end)
	}
	return newBins(4, l.first, l.last)
}

// ended is a block with its end.
type ended struct {
	block
	account int32
	addr    uint64
	freed   int64 // ns; 0: no FREE row
}

func (l *leaks) visit(b *read.Batch) error {
	for i := range b.Rows {
		r := &b.Rows[i]
		c, ok := l.apply(b, r)
		l.row(r, c, ok)
	}
	return nil
}

// row takes a row and, if ok, what it did to the tracker.
func (l *leaks) row(r *read.Row, c change, ok bool) {
	if happened(r) {
		l.lastReal[r.PID] = max(l.lastReal[r.PID], r.Stamp)
	}
	if !ok {
		return
	}
	for len(l.allocated) < len(l.all) {
		l.allocated = append(l.allocated, amount{})
	}
	switch {
	case c.came && l.env.within(r):
		l.allocated[c.account].add(c.block.size)
	case !c.came && r.Flags&event.Shadow != 0:
		l.shadowed = append(l.shadowed, ended{c.block, int32(c.account), c.addr, r.Stamp})
	}
}

// happened tells whether the row is something that the process did, or the start of a collection, at which the collector
// writes down what it missed.
func happened(r *read.Row) bool {
	switch r.Kind {
	case event.Malloc, event.Free:
		return r.Flags&event.Shadow == 0
	case event.OpLaunch, event.KernelLaunch, event.Access:
		return true
	case event.System:
		return r.Sub == event.StartTrace
	}
	return false
}

type leakResult struct {
	Views []*leakView `json:"views"`
}

type leakView struct {
	Process    string       `json:"process"`
	Device     string       `json:"device"`
	Pool       string       `json:"pool"`
	Allocated  amount       `json:"allocated"` // everything
	Candidates amount       `json:"candidates"`
	Share      float64      `json:"share_of_allocated_bytes"`
	AtExit     amount       `json:"ended_at_exit"`
	Unseen     amount       `json:"ended_unseen"`
	NoFree     amount       `json:"no_free_row"`
	Quarters   [4]amount    `json:"allocated_in_quarters"`
	Components []share      `json:"components"`
	Owners     []share      `json:"owners"`
	Stacks     []share      `json:"first_frames"`
	Details    []leakDetail `json:"details"`
}

type leakDetail struct {
	Addr   string `json:"ptr"`
	Size   int64  `json:"size"`
	ID     uint64 `json:"allocation_id"`
	Born   int64  `json:"allocated_ns"`
	Freed  int64  `json:"free_row_ns,omitempty"`
	How    string `json:"ended"`
	Owner  string `json:"owner"`
	Python string `json:"call_stack"`
}

func (l *leaks) result(detail int) *leakResult {
	byAccount := make([][]ended, len(l.all))
	for _, c := range l.candidates() {
		byAccount[c.account] = append(byAccount[c.account], c)
	}
	res := &leakResult{Views: []*leakView{}}
	for _, i := range l.env.shown(l.all) {
		a := l.all[i]
		v := &leakView{Process: pidName(a.PID), Device: deviceName(a.Device), Pool: l.env.names.Name(a.Pool), Details: []leakDetail{}}
		if i < len(l.allocated) {
			v.Allocated = l.allocated[i]
		}
		l.view(v, byAccount[i], l.quarters(a.PID), detail)
		res.Views = append(res.Views, v)
	}
	l.tell()
	return res
}

// candidates are the blocks with a shadow FREE and those without any.
func (l *leaks) candidates() []ended {
	all := l.shadowed
	for key, b := range l.live {
		all = append(all, ended{b, key.account, key.addr, 0})
	}
	all = slices.DeleteFunc(all, func(c ended) bool { return c.born < l.env.since || c.born > l.env.until })
	slices.SortFunc(all, func(a, b ended) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.born, b.born), cmp.Compare(a.addr, b.addr))
	})
	return all
}

// how says how a candidate ended.
func (l *leaks) how(c ended) string {
	switch {
	case c.freed == 0:
		return "none"
	case l.lastReal[l.all[c.account].PID] >= c.freed:
		return "unseen"
	}
	return "at exit"
}

func (l *leaks) view(v *leakView, candidates []ended, quarters *binning, detail int) {
	components, owners, frames := make(tally), make(tally), make(tally)
	for n, c := range candidates {
		v.Candidates.add(c.size)
		how := l.how(c)
		switch how {
		case "none":
			v.NoFree.add(c.size)
		case "unseen":
			v.Unseen.add(c.size)
		default:
			v.AtExit.add(c.size)
		}
		v.Quarters[quarters.of(c.born)].add(c.size)
		owner, stack := l.owners.all[c.owner], l.stackText(c.stack)
		components.add(component(owner), c.size, 1)
		if owner == "" {
			owner = unowned
		}
		owners.add(owner, c.size, 1)
		if stack != "" {
			frames.add(firstFrames(stack, 1), c.size, 1)
		}
		if n < detail {
			v.Details = append(v.Details, leakDetail{hex(c.addr), c.size, c.id, c.born, c.freed, how, owner, stack})
		}
	}
	v.Share = ratio(v.Candidates.Bytes, v.Allocated.Bytes)
	v.Components, v.Owners, v.Stacks = components.list(), owners.list(), frames.list()
}

func (l *leakResult) Text(w *report) {
	for _, v := range l.Views {
		w.line("process %s, device %s, %s: %d candidates, %s, %s of all allocated", v.Process, v.Device, v.Pool,
			v.Candidates.Blocks, size(v.Candidates.Bytes), percentage(v.Share))
		if v.Candidates.Blocks == 0 {
			continue
		}
		var rows [][]string
		for _, line := range []struct {
			what string
			a    amount
		}{{"ended at exit (shadow FREE)", v.AtExit}, {"ended unseen (shadow FREE)", v.Unseen}, {"no FREE row", v.NoFree},
			{"allocated in the 1st quarter of the time", v.Quarters[0]}, {"2nd quarter", v.Quarters[1]}, {"3rd quarter", v.Quarters[2]}, {"4th quarter", v.Quarters[3]}} {
			rows = append(rows, []string{line.what, size(line.a.Bytes), count(line.a.Blocks)})
		}
		w.table([]string{"", ">bytes", ">blocks"}, rows)
		w.line("")
		listed(w, "component", v.Components, 10)
		w.line("")
		listed(w, "owner", v.Owners, 10)
		w.line("")
		if len(v.Stacks) == 0 {
			w.line("  no call stacks: collect with --call-stack=python,c to see where in the code")
		} else {
			listed(w, "first frame", v.Stacks, 10)
		}
		if len(v.Details) > 0 {
			w.line("")
			rows = nil
			for _, d := range v.Details {
				rows = append(rows, []string{d.Addr, size(d.Size), count(d.Born), d.How, d.Owner, w.frames(d.Python, 2)})
			}
			w.table([]string{"block", ">size", ">allocated (ns)", "ended", "owner", "call stack"}, rows)
		}
	}
}
