package query

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"memscope/internal/dump/read"
)

var checkLeaksQuestion = &question{
	name: "check-leaks", args: "FILE.csv|DIR", common: noFilter,
	summary: "HAL memory allocated between marks A and B and not freed by mark C",
	help: `
A, B and C are three consecutive mstx marks with the text --mstx-info, from the one with number --start-index on (contract
of msmemscope.check_leaks). Rows are ordered by ID. DIR is a directory with one dump.`,
	setup: func(fs *flag.FlagSet) func(*env, []string) (result, error) {
		mark := fs.String("mstx-info", "", "`text` of the marks")
		start := fs.Int("start-index", 0, "`number` of the mark to take for A, from 0")
		ignore := fs.Bool("ignore-shadow", false, "a synthetic FREE (shadow:true) does not count as one")
		return func(e *env, args []string) (result, error) {
			switch {
			case strings.TrimSpace(*mark) == "":
				return nil, usagef("mstx_info must not be empty or blank")
			case *start < 0:
				return nil, usagef("start_index must be a non-negative integer")
			}
			path, err := onePath(args)
			if err != nil {
				return nil, err
			}
			if ext := filepath.Ext(path); ext != ".csv" {
				return nil, fmt.Errorf("Unsupported file type: %s. Only files ending with .csv are supported.", ext)
			}
			if err := read.Check(path, e.foreign); err != nil {
				return nil, err
			}
			if info, err := os.Stat(path); err == nil && info.Size() > read.MaxBytes {
				return nil, errors.New("Max allowed size is 8.00GB")
			}
			e.files = []string{path}
			c := &leakCheck{mark: *mark, start: *start, ignoreShadow: *ignore, res: &leakCheckResult{Leaks: []markedLeak{}}}
			if err := c.read(path); err != nil {
				return nil, err
			}
			return c.res, c.analyze()
		}
	},
}

type leakCheck struct {
	mark         string
	start        int
	ignoreShadow bool
	devices      []*leakDevice // as they are first seen
	res          *leakCheckResult
}

type leakDevice struct {
	name  string
	marks []int64 // IDs
	hal   []halRow
}

type halRow struct {
	id     int64
	free   bool
	ptr    string
	size   int64 // of a MALLOC; -1: the row does not tell
	shadow bool
}

type leakCheckResult struct {
	Leaks []markedLeak `json:"leaks"`
	lines []string     // what the Python function prints
}

type markedLeak struct {
	Device string `json:"device"`
	ID     int64  `json:"row_id"`
	Ptr    string `json:"ptr"`
	Size   int64  `json:"size"`
}

func (c *leakCheck) say(format string, args ...any) {
	c.res.lines = append(c.res.lines, fmt.Sprintf(format, args...))
}

func (c *leakCheck) device(name []byte) *leakDevice {
	for _, d := range c.devices {
		if d.name == string(name) {
			return d
		}
	}
	d := &leakDevice{name: string(name)}
	c.devices = append(c.devices, d)
	return d
}

var sizeDigits = regexp.MustCompile(`size:(\d+)`)

func (c *leakCheck) read(path string) error {
	line := 1
	_, err := read.CSVCells(path, func(cells *read.Cells) error {
		line++
		name := cells[read.ColDevice].Text
		if string(name) == "N/A" {
			return nil
		}
		d := c.device(name)
		id, err := strconv.ParseInt(string(bytes.TrimSpace(cells[read.ColID].Text)), 10, 64)
		if err != nil {
			c.say("WARNING: Cannot convert '%s' to int (line %d, device %s), this record will be skipped", cells[read.ColID].Text, line, name)
			return nil
		}
		kind, typ := string(cells[read.ColEvent].Text), string(cells[read.ColType].Text)
		switch {
		case kind == "MSTX" && typ == "Mark" && string(cells[read.ColName].Text) == c.mark:
			d.marks = append(d.marks, id)
		case typ == "HAL" && (kind == "MALLOC" || kind == "FREE"):
			attr := cells[read.ColAttr].Text
			row := halRow{id: id, free: kind == "FREE", ptr: string(cells[read.ColPtr].Text), size: -1, shadow: bytes.Contains(attr, []byte("shadow:true"))}
			if m := sizeDigits.FindSubmatch(attr); m != nil {
				if v, ok := whole(m[1]); ok {
					row.size = v
				}
			}
			d.hal = append(d.hal, row)
		}
		return nil
	})
	return err
}

func (c *leakCheck) analyze() error {
	var results []string
	for _, d := range c.devices {
		c.say("INFO: Starting to analyze data for device %s...", d.name)
		slices.Sort(d.marks)
		slices.SortStableFunc(d.hal, func(a, b halRow) int { return cmp.Compare(a.id, b.id) })
		switch {
		case len(d.marks) < 3:
			c.say("ERROR: Device %s has fewer than 3 data points. Please re-collect the data points.", d.name)
			continue
		case c.start+2 >= len(d.marks):
			c.say("INFO: Start index %d is out of bounds. Device %s has a total of %d MSTX events.", c.start, d.name, len(d.marks))
			continue
		}
		leaks, err := c.between(d, d.marks[c.start], d.marks[c.start+1], d.marks[c.start+2])
		if err != nil {
			return err
		}
		if len(leaks) == 0 {
			results = append(results, fmt.Sprintf("No hal memory leaks detected on device %s.", d.name))
			continue
		}
		results = append(results, fmt.Sprintf("====== ERROR: Detected memory leaks on device %s ======", d.name))
		for _, l := range leaks {
			results = append(results, fmt.Sprintf("Direct Hal memory leak of %s Mb(s) at %s in Index %d.", pythonFloat(float64(l.size)/(1<<20)), l.ptr, l.id))
			c.res.Leaks = append(c.res.Leaks, markedLeak{d.name, l.id, l.ptr, l.size})
		}
	}
	if results != nil {
		c.say("")
		c.say("Leak Analysis Results for the Custom Range:")
		c.res.lines = append(c.res.lines, results...)
	}
	return nil
}

// between gives the rows of blocks allocated from A to B and not freed from A to C, by ID.
func (c *leakCheck) between(d *leakDevice, markA, markB, markC int64) (open []halRow, err error) {
	byPtr := make(map[string][]halRow)
	for _, row := range d.hal {
		switch {
		case row.id > markC || row.id < markA:
		case row.free:
			if !row.shadow || !c.ignoreShadow {
				delete(byPtr, row.ptr)
			}
		case row.id <= markB:
			if row.size < 0 {
				return nil, errors.New("input data may broken")
			}
			byPtr[row.ptr] = append(byPtr[row.ptr], row)
		}
	}
	for _, rows := range byPtr {
		open = append(open, rows...)
	}
	slices.SortFunc(open, func(a, b halRow) int { return cmp.Compare(a.id, b.id) })
	return open, nil
}

// pythonFloat prints a number as Python does.
func pythonFloat(v float64) string {
	if v != 0 && (math.Abs(v) < 1e-4 || math.Abs(v) >= 1e16) {
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func (c *leakCheckResult) Text(w *report) {
	for _, line := range c.lines {
		w.line("%s", line)
	}
}
