package query

import (
	"flag"

	"memscope/internal/dump/read"
)

var atQuestion = &question{
	name: "at", args: "TIMESTAMP FILE...", common: byDevice | byPool,
	summary: "who held memory at a moment: by component, then as a tree of owners",
	help: `
TIMESTAMP is a time in ns, or +10s: ten seconds after the first row. Counted are the blocks that were allocated at or before
it and not freed by then. HAL is everything that the process took from the driver, what the framework pools reserve included
(owner CANN@APP); the blocks of a pool such as PTA lie within those segments, so the two must never be added.`,
	setup: func(*flag.FlagSet) func(*env, []string) (result, error) {
		return func(e *env, args []string) (result, error) {
			if len(args) < 2 {
				return nil, usagef("a timestamp and a file are expected")
			}
			at, err := parseInstant(args[0])
			if err != nil {
				return nil, usagef("%v", err)
			}
			var m *moment
			err = e.scanSpan(args[1:], trackerWants|read.Used, func(first, last int64) visitor {
				m = &moment{tracker: newTracker(e), at: at.at(first, last)}
				return m.visit
			})
			if err != nil {
				return nil, err
			}
			return m.result(), nil
		}
	},
}

type moment struct {
	*tracker
	at   int64
	used []int64 // by account: the latest figure
}

func (m *moment) visit(b *read.Batch) error {
	for i := range b.Rows {
		r := &b.Rows[i]
		if r.Stamp > m.at {
			return errEnough
		}
		if c, ok := m.apply(b, r); ok {
			for len(m.used) <= c.account {
				m.used = append(m.used, -1)
			}
			if r.Used >= 0 {
				m.used[c.account] = r.Used
			}
		}
	}
	return nil
}

type atResult struct {
	At    int64     `json:"at_ns"`
	Views []*holder `json:"views"`
}

// holder is what one account held at a moment.
type holder struct {
	Process    string  `json:"process"`
	Device     string  `json:"device"`
	Pool       string  `json:"pool"`
	Bytes      int64   `json:"bytes"`
	Blocks     int64   `json:"blocks"`
	Used       int64   `json:"used"` // as the rows told it last; -1: not told
	Components []share `json:"components"`
	Tree       *node   `json:"tree"`
}

func (m *moment) result() *atResult {
	res := &atResult{At: m.at, Views: m.holders()}
	for _, v := range res.Views {
		if v.Used >= 0 && v.Used != v.Bytes {
			m.env.note("process %s, device %s, %s: the live blocks add up to %d bytes, the rows say used %d: the rest was allocated before the dump began, or rows are missing",
				v.Process, v.Device, v.Pool, v.Bytes, v.Used)
		}
	}
	m.tell()
	return res
}

// holders breaks the live blocks of every account down.
func (m *moment) holders() []*holder {
	all := make([]*holder, len(m.all))
	parts := make([]tally, len(m.all))
	for i, a := range m.all {
		all[i] = &holder{Process: pidName(a.PID), Device: deviceName(a.Device), Pool: m.env.names.Name(a.Pool), Used: -1, Tree: &node{Name: m.env.names.Name(a.Pool)}}
		parts[i] = make(tally)
		if i < len(m.used) {
			all[i].Used = m.used[i]
		}
	}
	for key, blk := range m.live {
		h, owner := all[key.account], m.owners.all[blk.owner]
		h.Bytes += blk.size
		h.Blocks++
		h.Tree.add(owner, blk.size, 1)
		parts[key.account].add(component(owner), blk.size, 1)
	}
	views := []*holder{}
	for _, i := range m.env.shown(m.all) {
		all[i].Components = parts[i].list()
		all[i].Tree.finish(all[i].Bytes)
		views = append(views, all[i])
	}
	return views
}

func (a *atResult) Text(w *report) {
	w.line("at %d ns", a.At)
	for _, v := range a.Views {
		w.line("")
		w.line("process %s, device %s, %s: %s in %d blocks", v.Process, v.Device, v.Pool, size(v.Bytes), v.Blocks)
		if v.Blocks == 0 {
			continue
		}
		listed(w, "component", v.Components, 0)
		w.line("")
		w.table(treeHeader(), v.Tree.rows(0))
	}
	if len(a.Views) == 0 {
		w.line("nothing was held")
	}
}
