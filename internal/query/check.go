package query

import (
	"flag"
	"fmt"

	"memscope/internal/dump/read"
	"memscope/internal/event"
)

var checkQuestion = &question{
	name: "check", args: "FILE...",
	summary: "whether a dump is whole: header, columns, last row, time order, pairing",
	help: `
Damaged rows and a cut-off last row make the command fail (status 1). Rows that are out of order do not: every question
sorts such a file for itself, and ` + "`dump sort --overwrite`" + ` does it once and for all.`,
	setup: func(*flag.FlagSet) func(*env, []string) (result, error) {
		return func(e *env, args []string) (result, error) {
			inputs, err := e.inputs(args)
			if err != nil {
				return nil, err
			}
			defer closeInputs(inputs)
			res := &checkResult{Files: []fileCheck{}}
			for _, in := range inputs {
				c, err := checkFile(e, in)
				if err != nil {
					return nil, err
				}
				res.Files = append(res.Files, *c)
				e.files = append(e.files, in.path)
			}
			return res, nil
		}
	},
}

type checkResult struct {
	Files []fileCheck `json:"files"`
}

type fileCheck struct {
	Path      string   `json:"path"`
	Rows      int64    `json:"rows"`
	Bad       int64    `json:"damaged_rows"`
	Faults    []string `json:"first_damaged"` // where and why
	Truncated bool     `json:"truncated"`
	Sorted    bool     `json:"sorted"`
	Disorder  string   `json:"first_disorder"`
	Unknown   int64    `json:"unknown_event_rows"`
	Mallocs   int64    `json:"malloc_rows"`
	Frees     int64    `json:"free_rows"`
	Unpaired  int64    `json:"unpaired_allocation_ids"`
}

func checkFile(e *env, in *input) (*fileCheck, error) {
	c := &fileCheck{Path: in.path, Faults: []string{}}
	// Pairing: an id that has as many MALLOC as FREE rows leaves the map, so that it holds the live blocks only.
	type allocation struct{ pid, id uint64 }
	open := make(map[allocation]int)
	prev := int64(0)
	sum, err := in.scan(read.Options{Want: read.ID | read.PID | read.AllocID}, e.table, func(b *read.Batch) error {
		for i := range b.Rows {
			r := &b.Rows[i]
			if r.Stamp < prev && c.Disorder == "" {
				c.Disorder = in.where(read.Fault{Offset: b.Offset(r), Reason: fmt.Sprintf("%d ns before the row above", prev-r.Stamp)})
			}
			prev = r.Stamp
			delta := 0
			switch r.Kind {
			case 0:
				c.Unknown++
			case event.Malloc:
				c.Mallocs++
				delta = 1
			case event.Free:
				c.Frees++
				delta = -1
			}
			if delta != 0 && r.AllocID != 0 {
				k := allocation{r.PID, r.AllocID}
				if n := open[k] + delta; n == 0 {
					delete(open, k)
				} else {
					open[k] = n
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.Rows, c.Bad, c.Truncated, c.Sorted, c.Unpaired = sum.Rows, sum.Bad, sum.Truncated, sum.Sorted, int64(len(open))
	for _, f := range sum.Faults {
		c.Faults = append(c.Faults, in.where(f))
	}
	return c, nil
}

func (c *checkResult) Failed() bool {
	for _, f := range c.Files {
		if f.Bad > 0 {
			return true
		}
	}
	return false
}

func (c *checkResult) Text(w *report) {
	for _, f := range c.Files {
		w.line("%s", f.Path)
		w.line("  header        ok")
		w.line("  rows          %d", f.Rows)
		if f.Bad == 0 {
			w.line("  columns       ok")
		} else {
			w.line("  columns       %d rows are damaged", f.Bad)
			for _, fault := range f.Faults {
				w.line("                %s", fault)
			}
		}
		if f.Truncated {
			w.line("  last row      cut off")
		} else {
			w.line("  last row      ok")
		}
		if f.Sorted {
			w.line("  time order    ok")
		} else {
			w.line("  time order    no, first at %s", f.Disorder)
		}
		if f.Unknown > 0 {
			w.line("  events        %d rows have an unknown event", f.Unknown)
		}
		w.line("  pairing       %d MALLOC, %d FREE, %d allocation ids without a partner", f.Mallocs, f.Frees, f.Unpaired)
	}
}
