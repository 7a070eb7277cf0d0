package query

import (
	"bytes"
	"cmp"
	"flag"
	"slices"
	"strings"

	"memscope/internal/dump/read"
	"memscope/internal/event"
)

var statsQuestion = &question{
	name: "stats", args: "FILE...", common: allCommon,
	summary: "what a dump holds: events, time, devices, and what it can be asked",
	setup: func(*flag.FlagSet) func(*env, []string) (result, error) {
		return func(e *env, args []string) (result, error) {
			s := &stats{env: e, pools: e.selection(), devices: make(map[int32]int64), processes: make(map[uint64]int64), threads: make(map[uint64]bool)}
			err := e.scanAsItIs(args, read.PID|read.TID|read.Device|read.Stacks|read.AttrText, s.visit)
			if err != nil {
				return nil, err
			}
			return s.result(), nil
		}
	},
}

type stats struct {
	env         *env
	pools       poolSet
	rows        int64
	first, last int64
	unsorted    bool
	prev        int64
	events      [256][256]int64 // by Kind and by Sub or Pool
	devices     map[int32]int64
	processes   map[uint64]int64
	threads     map[uint64]bool

	python, c, shadow int64
	device            int32 // of the row before, with the count that is not in the map yet
	pid, tid          uint64
	run               int64
	has               [len(statsKeys)]bool
}

// statsKeys are the Attr keys on which questions lean, as they stand between others, each with a letter that is rare in cells without it: looking for
// one letter is much faster than for a word.
var statsKeys = [...]struct {
	name   string
	letter byte
}{{",owner:", 'w'}, {",used:", 'u'}, {",total:", 't'}, {",process_used:", 'p'}, {",device_used:", 'v'}, {",inefficient_type:", 'y'}}

func hasKey(cell []byte, letter byte, key string) bool {
	return bytes.IndexByte(cell, letter) >= 0 && bytes.Contains(cell, []byte(key))
}

func (s *stats) visit(b *read.Batch) error {
	for i := range b.Rows {
		r := &b.Rows[i]
		if !s.env.wanted(r) || !s.env.within(r) {
			continue
		}
		block := r.Kind == event.Malloc || r.Kind == event.Free
		if block && !s.pools[r.Pool] {
			continue
		}
		if s.rows == 0 {
			s.first, s.last = r.Stamp, r.Stamp
		}
		s.rows++
		s.unsorted = s.unsorted || r.Stamp < s.prev
		s.prev = r.Stamp
		s.first, s.last = min(s.first, r.Stamp), max(s.last, r.Stamp)
		if r.Device != s.device || r.PID != s.pid || r.TID != s.tid {
			s.settle()
			s.device, s.pid, s.tid = r.Device, r.PID, r.TID
		}
		s.run++
		if r.Python.Len() > 0 {
			s.python++
		}
		if r.C.Len() > 0 {
			s.c++
		}
		if block {
			s.events[r.Kind][r.Pool]++
			s.attr(b.Text(r.AttrText), r.Kind)
		} else {
			s.events[r.Kind][r.Sub]++
		}
	}
	s.prev = 0 // the next batch may be that of another file
	if n := len(b.Rows); n > 0 {
		s.prev = b.Rows[n-1].Stamp
	}
	return nil
}

// settle brings the rows that had the same device, process and thread into the maps.
func (s *stats) settle() {
	if s.run == 0 {
		return
	}
	s.devices[s.device] += s.run
	s.processes[s.pid] += s.run
	s.threads[s.tid] = true
	s.run = 0
}

func (s *stats) attr(cell []byte, kind event.Kind) {
	if kind == event.Free {
		if hasKey(cell, 'w', ",shadow:true") {
			s.shadow++
		}
		return
	}
	for i, key := range statsKeys {
		if !s.has[i] {
			s.has[i] = hasKey(cell, key.letter, key.name)
		}
	}
}

type statsResult struct {
	Rows       int64           `json:"rows"`
	First      int64           `json:"first_ns"`
	Last       int64           `json:"last_ns"`
	Sorted     bool            `json:"sorted"`
	Events     []eventCount    `json:"events"`
	Devices    []labelCount    `json:"devices"`
	Processes  []labelCount    `json:"processes"`
	Threads    int             `json:"threads"`
	ShadowFree int64           `json:"shadow_free_rows"`
	Python     int64           `json:"python_stack_rows"`
	C          int64           `json:"c_stack_rows"`
	Keys       map[string]bool `json:"keys"`
}

type eventCount struct {
	Event string `json:"event"`
	Type  string `json:"event_type"`
	Rows  int64  `json:"rows"`
}

type labelCount struct {
	Label string `json:"label"`
	Rows  int64  `json:"rows"`
}

func (s *stats) result() *statsResult {
	s.settle()
	res := &statsResult{Rows: s.rows, First: s.first, Last: s.last, Sorted: !s.unsorted, Threads: len(s.threads), ShadowFree: s.shadow,
		Python: s.python, C: s.c, Keys: make(map[string]bool), Events: []eventCount{}}
	for kind := range s.events {
		var own []eventCount // of the user's pools, whose numbers have no order
		for sub, n := range s.events[kind] {
			if n > 0 {
				k := event.Kind(kind)
				typ := read.SubName(event.Sub(sub))
				if k == event.Malloc || k == event.Free {
					typ = s.env.names.Name(event.Pool(sub))
					if event.Pool(sub) > read.NoPool {
						own = append(own, eventCount{read.KindName(k), typ, n})
						continue
					}
				}
				res.Events = append(res.Events, eventCount{read.KindName(k), typ, n})
			}
		}
		slices.SortFunc(own, func(a, b eventCount) int { return cmp.Compare(a.Type, b.Type) })
		res.Events = append(res.Events, own...)
	}
	for i, key := range statsKeys {
		res.Keys[strings.Trim(key.name, ",:")] = s.has[i]
	}
	res.Devices = labels(s.devices, deviceName)
	res.Processes = labels(s.processes, pidName)
	return res
}

// labels lists counts in the order of their keys.
func labels[K cmp.Ordered](counts map[K]int64, name func(K) string) []labelCount {
	out := make([]labelCount, 0, len(counts))
	keys := make([]K, 0, len(counts))
	for k := range counts {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		out = append(out, labelCount{name(k), counts[k]})
	}
	return out
}

func (s *statsResult) Text(w *report) {
	w.line("%d rows", s.Rows)
	if s.Rows == 0 {
		return
	}
	order := "in time order"
	if !s.Sorted {
		order = "not in time order"
	}
	w.line("from %d to %d ns: %s, %s", s.First, s.Last, since(s.First, s.Last), order)
	w.line("")
	var rows [][]string
	for _, e := range s.Events {
		rows = append(rows, []string{e.Event, e.Type, count(e.Rows), percent(e.Rows, s.Rows)})
	}
	w.table([]string{"event", "type", ">rows", ">share"}, rows)
	w.line("")
	rows = nil
	for _, d := range s.Devices {
		rows = append(rows, []string{"device " + d.Label, count(d.Rows)})
	}
	for _, p := range s.Processes {
		rows = append(rows, []string{"process " + p.Label, count(p.Rows)})
	}
	w.table([]string{"", ">rows"}, rows)
	w.line("  %d threads", s.Threads)
	w.line("")
	has := func(what string, yes bool, otherwise string) {
		answer := "yes"
		if !yes {
			answer = "no: " + otherwise
		}
		w.line("  %-22s %s", what, answer)
	}
	snapshots, ooms := s.count("SNAPSHOT"), s.count("OOM_DETAIL")
	has("owners", s.Keys["owner"], "collect with --analysis=decompose to break memory down by module")
	has("usage (used)", s.Keys["used"], "curves and peaks need MALLOC and FREE rows with usage")
	has("whole card (device_used)", s.Keys["device_used"], "the card's own figure is not in the dump; used and process_used stand")
	has("call stacks", s.Python+s.C > 0, "collect with --call-stack=python,c to see where in the code")
	has("snapshots", snapshots > 0, "take_snapshot() or --analysis=oom writes them")
	has("out of memory", ooms > 0, "no OOM_DETAIL row; --analysis=oom writes them when it happens")
	w.line("  %-22s %d", "shadow FREE rows", s.ShadowFree)
}

func (s *statsResult) count(name string) (n int64) {
	for _, e := range s.Events {
		if e.Event == name {
			n += e.Rows
		}
	}
	return n
}
