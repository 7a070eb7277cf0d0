package query

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"memscope/internal/analysis/inefficient"
	"memscope/internal/dump/read"
	"memscope/internal/event"
)

// inefficientTypes are the names of event.Waste, in the order of its bits.
var inefficientTypes = []string{"early_allocation", "late_deallocation", "temporary_idleness"}

var inefficientQuestion = &question{
	name: "check-inefficient", args: "FILE|DIR", common: noFilter,
	summary: "mark tensors that are allocated too early, freed too late or left idle",
	help: `
Early: between the operator that allocates a tensor and the first that accesses it, another operator frees something. Late:
between the last access and the operator that frees it, another one allocates. Idle: two accesses are more than
--idle-threshold operators apart. The flags are written into the MALLOC rows of FILE itself, key inefficient_type; a CSV
file is rewritten with CRLF line ends and no more quotes than it needs. Needs rows of ACCESS and OP_LAUNCH. DIR is a
directory with one dump.`,
	setup: func(fs *flag.FlagSet) func(*env, []string) (result, error) {
		memSize := fs.Int64("mem-size", 0, "only tensors of this `size` in bytes or more")
		types := fs.String("inefficient-type", strings.Join(inefficientTypes, ","), "`kinds` to look for, with commas")
		threshold := fs.Int("idle-threshold", inefficient.IdleThreshold, "`operators` between two accesses")
		return func(e *env, args []string) (result, error) {
			if *memSize < 0 {
				return nil, usagef("Memory size must be a non-negative integer")
			}
			if *threshold <= 0 || *threshold > math.MaxUint32 {
				return nil, usagef("Idle threshold must be a positive integer")
			}
			wanted, err := parseInefficient(*types)
			if err != nil {
				return nil, err
			}
			path, err := onePath(args)
			if err != nil {
				return nil, err
			}
			if ext := filepath.Ext(path); ext != ".csv" && ext != ".db" {
				return nil, fmt.Errorf("Unsupported file type: %s.Only files ending with .csv or .db are supported.", ext)
			}
			in, err := e.input(path)
			if err != nil {
				return nil, err
			}
			f, err := os.OpenFile(in.path, os.O_RDWR, 0)
			if err != nil {
				return nil, fmt.Errorf("Write permission denied: %s", in.path)
			}
			f.Close()
			e.files = []string{path}
			return checkInefficient(e, in, *memSize, wanted, *threshold)
		}
	},
}

func parseInefficient(s string) (wanted event.Waste, err error) {
	for _, t := range tokens(s) {
		i := slices.Index(inefficientTypes, t)
		if i < 0 {
			return 0, usagef("Invalid inefficient type: %s, valid values are ['%s']", t, strings.Join(inefficientTypes, "', '"))
		}
		wanted |= 1 << i
	}
	if wanted == 0 {
		return 0, usagef("Inefficient type must be a non-empty list or a single valid string")
	}
	return wanted, nil
}

type inefficientResult struct {
	Blocks []inefficientBlock `json:"blocks"`
	lines  []string
}

type inefficientBlock struct {
	ID    int64    `json:"row_id"` // of the MALLOC
	PID   uint64   `json:"process"`
	Alloc uint64   `json:"allocation_id"`
	Size  int64    `json:"size"`
	Types []string `json:"inefficient_type"`
}

func (i *inefficientResult) Text(w *report) {
	for _, line := range i.lines {
		w.line("%s", line)
	}
}

// rowKey finds a MALLOC row again.
type rowKey struct {
	id  int64
	pid uint64
}

func checkInefficient(e *env, in *input, memSize int64, wanted event.Waste, threshold int) (result, error) {
	flagged, err := judgeFile(e, in, threshold)
	if err != nil {
		return nil, err
	}
	res := &inefficientResult{Blocks: []inefficientBlock{}}
	marks := make(map[rowKey]string)
	for _, b := range flagged {
		flags := b.Waste & wanted
		if flags == 0 || b.size < memSize {
			continue
		}
		var types []string
		for i, name := range inefficientTypes {
			if flags&(1<<i) != 0 {
				types = append(types, name)
			}
		}
		res.Blocks = append(res.Blocks, inefficientBlock{b.id, b.pid, b.alloc, b.size, types})
		marks[rowKey{b.id, b.pid}] = strings.Join(types, ",")
	}
	say := func(format string, args ...any) { res.lines = append(res.lines, fmt.Sprintf(format, args...)) }
	if !in.db {
		say("INFO: Connected to CSV file")
		say("INFO: CSV file read successfully")
		say("INFO: Connecting to csv %s to write results", in.path)
		if err := markCSV(in, marks); err != nil {
			return nil, err
		}
		say("INFO: All results have been successfully written to csv %s", in.path)
		return res, nil
	}
	table, err := markDB(in, e.table, marks)
	if err != nil {
		return nil, err
	}
	say("INFO: Connected to %s (table: %s)", in.path, table)
	say("INFO: DB file read successfully")
	say("INFO: Connecting to database %s to write results", in.path)
	say("INFO: All results have been successfully written to database %s", in.path)
	return res, nil
}

// tensorEvent is a row that the analysis looks at.
type tensorEvent struct {
	id     int64
	pid    uint64
	device int32
	alloc  uint64
	size   int64
	kind   event.Kind
	start  bool // of an OpLaunch; else its end
	atb    bool // of the ATB framework; else of PTA
}

func tensorEventOf(r *read.Row) (ev tensorEvent, ok bool) {
	ev = tensorEvent{id: r.ID, pid: r.PID, device: r.Device, alloc: r.AllocID, size: r.Size, kind: r.Kind}
	ev.start = r.Sub == event.AtenStart || r.Sub == event.AtbStart
	ev.atb, ok = inefficient.FrameworkOf(r.Kind, r.Sub, r.Pool, r.Flags)
	return ev, ok
}

// tensor is a block with what was done to it.
type tensor struct {
	rowKey
	alloc uint64
	size  int64
	inefficient.Tensor
}

// judgeFile gives the tensors of a file that are flagged, in the order of their MALLOC. Events are taken in the order of their IDs. That
// is mostly the order of the rows; only where it is not, all have to be kept and sorted first.
func judgeFile(e *env, in *input, threshold int) ([]*tensor, error) {
	scan := func(take func(tensorEvent) error) error {
		_, err := in.scan(read.Options{Want: read.ID | read.PID | read.Device | read.AllocID | read.Size | read.Shadow | read.Access}, e.table, func(b *read.Batch) error {
			for i := range b.Rows {
				if ev, ok := tensorEventOf(&b.Rows[i]); ok {
					if err := take(ev); err != nil {
						return err
					}
				}
			}
			return nil
		})
		return err
	}
	j := newJudge(threshold)
	last, accesses := int64(math.MinInt64), false
	err := scan(func(ev tensorEvent) error {
		accesses = accesses || ev.kind == event.Access
		if ev.id < last {
			return errOutOfOrder
		}
		last = ev.id
		j.take(&ev)
		return nil
	})
	if errors.Is(err, errOutOfOrder) {
		var events []tensorEvent
		err = scan(func(ev tensorEvent) error {
			events = append(events, ev)
			return nil
		})
		slices.SortStableFunc(events, func(a, b tensorEvent) int { return cmp.Compare(a.id, b.id) })
		j = newJudge(threshold)
		for i := range events {
			j.take(&events[i])
		}
	}
	if !accesses {
		e.note("there is no ACCESS row of a tensor, and so nothing to judge by; --events=alloc,free,launch,access records them, of PyTorch and ATB")
	}
	slices.SortFunc(j.flagged, func(a, b *tensor) int { return cmp.Compare(a.id, b.id) })
	return j.flagged, err
}

var errOutOfOrder = errors.New("rows are not in the order of their IDs")

type frameKey struct {
	pid    uint64
	device int32
	atb    bool
}

type tensorKey struct{ pid, alloc uint64 }

// judge takes the events of tensors in order.
type judge struct {
	threshold uint32
	frames    map[frameKey]*inefficient.Frame
	tensors   map[tensorKey]*tensor // live
	flagged   []*tensor
}

func newJudge(threshold int) *judge {
	return &judge{threshold: uint32(threshold), frames: make(map[frameKey]*inefficient.Frame), tensors: make(map[tensorKey]*tensor)}
}

func (j *judge) take(ev *tensorEvent) {
	frame := frameKey{ev.pid, ev.device, ev.atb}
	f := j.frames[frame]
	if f == nil {
		f = &inefficient.Frame{}
		j.frames[frame] = f
	}
	if ev.kind == event.OpLaunch {
		f.Op(ev.start)
		return
	}
	key := tensorKey{ev.pid, ev.alloc}
	t := j.tensors[key]
	if ev.kind == event.Malloc {
		t = &tensor{rowKey: rowKey{ev.id, ev.pid}, alloc: ev.alloc, size: ev.size}
		j.tensors[key] = t
	}
	if t == nil {
		f.Touch(ev.kind, nil, j.threshold)
		return
	}
	before := t.Waste
	f.Touch(ev.kind, &t.Tensor, j.threshold)
	if before == 0 && t.Waste != 0 {
		j.flagged = append(j.flagged, t)
	}
	if ev.kind == event.Free {
		delete(j.tensors, key)
	}
}
