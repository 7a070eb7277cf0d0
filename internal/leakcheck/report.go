package leakcheck

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"memscope/internal/event"
)

// Report is what a run has found.
type Report struct {
	Heap      string // "device" or "cann"
	Processes []Process
	Living    int // processes that have not ended and are not in Processes
}

// Add adds a process, or more of the leaks of the last one.
func (r *Report) Add(p *Process) {
	if n := len(r.Processes); n > 0 && r.Processes[n-1].PID == p.PID {
		r.Processes[n-1].Leaks = append(r.Processes[n-1].Leaks, p.Leaks...)
		return
	}
	r.Processes = append(r.Processes, *p)
}

// Leaked is what has leaked in all.
func (r *Report) Leaked() (s Sum) {
	for i := range r.Processes {
		p := r.Processes[i].leaked()
		s.Allocations += p.Allocations
		s.Bytes += p.Bytes
	}
	return s
}

func (p *Process) leaked() (s Sum) {
	for i := range p.Leaks {
		s.Add(p.Leaks[i].Bytes)
	}
	return s
}

// Text writes the report for people (contract 8): nothing about a process that has leaked nothing. With several processes a line names
// the one that is meant.
func (r *Report) Text(w io.Writer) error {
	out := bufio.NewWriter(w)
	for i := range r.Processes {
		p := &r.Processes[i]
		if len(p.Leaks) == 0 {
			continue
		}
		if len(r.Processes) > 1 {
			fmt.Fprintf(out, "====== Process %d (%s)\n", p.PID, plain(p.Name))
		}
		fmt.Fprint(out, "====== ERROR: LeakCheck: detected memory leaks\n\n")
		for j := range p.Leaks {
			l := &p.Leaks[j]
			fmt.Fprintf(out, "======    Direct leak of %d byte(s) \n", l.Bytes)
			fmt.Fprintf(out, "======      at 0x%x on %s allocated in %s (serialNo:0)\n\n", l.Address, l.Space, p.Origins[l.Origin].place())
		}
		s := p.leaked()
		fmt.Fprintf(out, "====== SUMMARY: %d byte(s) leaked in %d allocation(s)\n", s.Bytes, s.Allocations)
	}
	return out.Flush()
}

func (o *Origin) place() string {
	if o.File == "" {
		return "<unknown>:0"
	}
	return fmt.Sprintf("%s:%d", plain(o.File), o.Line)
}

// plain keeps a name from breaking the line or driving the terminal.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, name)
}

// JSON writes the report as one object, also when nothing has leaked. Sizes are bytes; what is not known is left out.
func (r *Report) JSON(w io.Writer) error {
	type leak struct {
		Bytes    int64    `json:"bytes"`
		Address  string   `json:"address"`
		Space    Space    `json:"space"`
		Device   *int32   `json:"device,omitempty"`
		Thread   uint64   `json:"thread"`
		File     string   `json:"file,omitempty"`
		Line     int      `json:"line,omitempty"`
		Function string   `json:"function,omitempty"`
		Stack    []string `json:"stack,omitempty"`
		Serial   int      `json:"serialNo"`
	}
	type process struct {
		PID        uint64 `json:"pid"`
		Name       string `json:"name"`
		Leaked     Sum    `json:"leaked"`
		Suppressed Sum    `json:"suppressed"`
		Leaks      []leak `json:"leaks"`
	}
	report := struct {
		Heap      string    `json:"heap"`
		Leaked    Sum       `json:"leaked"`
		Living    int       `json:"living"`
		Processes []process `json:"processes"`
	}{r.Heap, r.Leaked(), r.Living, []process{}}
	for i := range r.Processes {
		p := &r.Processes[i]
		out := process{PID: p.PID, Name: p.Name, Leaked: p.leaked(), Suppressed: p.Suppressed, Leaks: []leak{}}
		for j := range p.Leaks {
			l, o := &p.Leaks[j], &p.Origins[p.Leaks[j].Origin]
			one := leak{
				Bytes: l.Bytes, Address: fmt.Sprintf("0x%x", l.Address), Space: l.Space, Thread: l.Thread,
				File: o.File, Line: o.Line, Function: o.Function, Stack: o.Functions,
			}
			if l.Device < event.DeviceNone {
				one.Device = &l.Device
			}
			out.Leaks = append(out.Leaks, one)
		}
		report.Processes = append(report.Processes, out)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(report)
}
