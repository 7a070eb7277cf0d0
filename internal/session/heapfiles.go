package session

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"memscope/internal/hostheap"
	"memscope/internal/hostheap/lsi"
	"memscope/internal/hostheap/report"
	"memscope/internal/output"
	"memscope/internal/symbol"
)

// write makes the files of a closed window and returns lines for the user. The caller has the lock.
func (h *heap) write(in report.Input) []string {
	var lines []string
	tell := func(line string) { lines = append(lines, line) }
	fail := func(err error) { tell(fmt.Sprintf("[msmemscope] Error: process %d (%s): %v.", h.pid, h.name, err)) }
	overview := report.Make(in)
	if h.project == nil {
		project, err := output.Create(h.cfg.OutputPath, h.pid, nil)
		if err != nil {
			fail(err)
			return lines
		}
		h.project = project
		if err := project.WriteConfig(&h.cfg); err != nil {
			fail(fmt.Errorf("config.json: %w", err))
		}
	}
	stage := overview.Stage
	place := filepath.Join(h.project.Path, output.HostLeakDir)
	file := func(name string, write func(w io.Writer) error) {
		f, path, err := h.project.CreateHostLeak(name)
		if err != nil {
			fail(err)
			return
		}
		err = write(f)
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			fail(fmt.Errorf("%s is cut off: %w", path, err))
		}
	}
	whole := func(name string, write func(w io.Writer) error) {
		file(name, func(w io.Writer) error {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				return err
			}
			_, err := w.Write(b.Bytes())
			return err
		})
	}
	whole(fmt.Sprintf("leak_overview_%d.txt", stage), overview.WriteText)
	whole(fmt.Sprintf("leak_overview_%d.json", stage), overview.WriteJSON)
	if overview.Unfreed.Blocks > 0 && overview.Health.Available {
		if in.Snapshot.Options.Detail && overview.Unfreed.Blocks > overview.Health.OverNow.Blocks {
			file(fmt.Sprintf("block_detail_%d.csv", stage), func(w io.Writer) error {
				_, err := report.WriteDetail(w, in, 0)
				return err
			})
		}
		whole(fmt.Sprintf("live_stacks_%d.folded", stage), func(w io.Writer) error { return report.WriteFolded(w, in) })
		whole(fmt.Sprintf("live_stacks_%d.pb.gz", stage), func(w io.Writer) error { return report.WritePprof(w, in) })
	}
	short := ""
	if overview.Health.Available && overview.Series.Ticks < lsi.LeastBeats {
		short = fmt.Sprintf(", in a window too short to suspect any (%d beats of %d)", overview.Series.Ticks, lsi.LeastBeats)
	}
	tell(fmt.Sprintf("[msmemscope] Info: host heap of process %d (%s), window %d: %d suspected leak(s), %d bytes unfreed in %d block(s)%s; %s.", h.pid,
		h.name, stage, overview.Suspected, overview.Unfreed.Bytes, overview.Unfreed.Blocks, short,
		filepath.Join(place, fmt.Sprintf("leak_overview_%d.txt", stage))))
	if hidden(overview) {
		tell(fmt.Sprintf("[msmemscope] Info: process %d (%s): Python frees what its modules hold when it ends, also what has leaked; "+
			"to see that, close the window before: msmemscope.stop() in the script, or msmemscope --pid=%d --command=stop beside it.", h.pid, h.name, h.pid))
	}
	return lines
}

// hidden says whether leaks of Python may be gone from the report, because the interpreter tidied up before the window was closed.
func hidden(o *report.Overview) bool {
	return o.Suspected == 0 && o.Series.Ticks >= lsi.LeastBeats && o.Health.How == report.ClosedExit && o.Health.Python != report.PythonNone
}

// heapSymbols asks the session's symbolizer about the libraries of one process.
type heapSymbols struct {
	all     *symbol.Symbolizer
	mu      sync.Mutex
	modules map[uint32]*symbol.Module // the symbolizer knows a library by its pointer
}

// Place implements report.Symbolizer.
func (x *heapSymbols) Place(l *hostheap.Library, number uint32, pc uint64) (function, file string, line int) {
	x.mu.Lock()
	m := x.modules[number]
	if m == nil {
		m = &symbol.Module{Path: l.Path, BuildID: l.BuildID, Start: l.Start, End: l.End, Bias: l.Bias}
		x.modules[number] = m
	}
	x.mu.Unlock()
	return x.all.Place(m, pc)
}
