package session

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"memscope/internal/config"
	"memscope/internal/control"
	"memscope/internal/hostheap"
	"memscope/internal/hostheap/report"
	"memscope/internal/output"
	"memscope/internal/symbol"
	"memscope/internal/wire"
)

// heap is one process whose host heap is recorded. design.md, "The host heap".
type heap struct {
	session  *session
	cfg      config.Config
	proc     *process
	pid      int // as the process sees itself
	name     string
	tables   *hostheap.Tables
	recorder *hostheap.Recorder
	program  string // path
	symbols  *heapSymbols
	direct   bool // the launcher's own child
	pymalloc bool

	replaced atomic.Bool // the process has executed another program

	using   sync.RWMutex // read-locked by who was given this by heapOf or heapByPID: the tables stay
	mu      sync.Mutex   // one report at a time
	rss     report.Memory
	project *output.Project // nil before the first report
}

// watchPause lies between two looks whether a process lives.
const watchPause = 20 * time.Millisecond

// joinHeap makes the tables of a process and opens its window, if the command line asked for that.
func (s *session) joinHeap(conn *net.UnixConn, pid, self int) error {
	proc, err := watch(pid)
	if err != nil {
		_ = wire.Refuse(conn, wire.RefusedClosing)
		return err
	}
	tables, err := hostheap.NewTables(hostheap.Limits{})
	if err != nil {
		proc.close()
		_ = wire.Refuse(conn, wire.RefusedMemory)
		return fmt.Errorf("process %d: the tables of the host heap: %w", self, err)
	}
	cfg := *s.cfg
	if s.alone { // a relative path is the program's own
		cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		if own, _, err := s.options(cwd+"\x00analysis=host-leaks", nil, false); err == nil {
			cfg = own
		}
	}
	h := &heap{
		session: s, cfg: cfg, proc: proc, pid: self, name: proc.title(), tables: tables, recorder: hostheap.NewRecorder(tables, heapBeat()),
	}
	h.symbols = &heapSymbols{all: s.symbols, modules: map[uint32]*symbol.Module{}}
	if stat, err := readStat(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		h.direct = stat.parent == s.launcher
	}
	h.program, _ = os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	h.pymalloc = !strings.HasPrefix(processVariable(pid, "PYTHONMALLOC"), "malloc")
	if !s.admitHeap(h) {
		proc.close()
		_ = wire.Refuse(conn, wire.RefusedClosing)
		return tables.Close()
	}
	s.pace.hurry() // a census is for all processors
	if h.cfg.Analysis&config.HostLeaks != 0 && h.cfg.Mode == config.Immediate {
		_ = h.open(&h.cfg)
	}
	// A process that does not read the welcome has died; run sees that.
	_ = wire.WelcomeHeap(conn, tables.File(), tables.Size())
	go h.run()
	return nil
}

// heapBeat is the length of a beat.
func heapBeat() time.Duration {
	return time.Duration(setting(control.EnvBeat, control.LeastBeatMs, control.MostBeatMs, hostheap.Beat.Milliseconds())) * time.Millisecond
}

// heapTop is how many leak sites a report lists that is not asked for a number.
func heapTop() int { return int(setting(control.EnvTop, 1, control.MostTop, report.TopDefault)) }

// processVariable is a variable of the environment that a process began with.
func processVariable(pid int, name string) string {
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for _, kv := range strings.Split(string(environ), "\x00") {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// admitHeap enters a process. It may have been another program until now.
func (s *session) admitHeap(h *heap) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	for _, old := range s.heaps {
		if old.proc.pid == h.proc.pid {
			old.replaced.Store(true)
		}
	}
	s.heaps = append(s.heaps, h)
	return true
}

// heapOf finds a process, by its id as this process sees it, and locks its `using`.
func (s *session) heapOf(pid int) *heap {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.heaps {
		if h.proc.pid == pid && !h.replaced.Load() {
			h.using.RLock()
			return h
		}
	}
	return nil
}

// run waits for the end of the process and reports on the window that is still open then.
func (h *heap) run() {
	defer h.leave()
	for n := 0; !h.ended(); n++ {
		if n%50 == 0 { // about once a second
			h.readMemory()
		}
		time.Sleep(watchPause)
	}
	opened, stage := h.recorder.Since()
	switch {
	case stage == 0:
	case stage == 1 && time.Since(opened) < leastLife && (!h.direct || h.replaced.Load()) && h.cfg.Mode == config.Immediate:
		h.session.tooBrief(h.name) // what a script starts by the dozen
	default:
		lines, _ := h.close(true)
		for _, line := range lines {
			h.session.talk.line(line)
		}
	}
}

// leastLife is how long a program has to run for a report of its own, unless it is the one that the launcher was told to run.
const leastLife = time.Second

// leave takes the process off the books, also when a report has failed in an unforeseen way.
func (h *heap) leave() {
	if failure := recover(); failure != nil {
		h.say("Error", "the report on the host heap has failed inside the tool (%v); %s", failure, firstLines(debug.Stack()))
	}
	s := h.session
	defer s.pace.rest()
	s.mu.Lock()
	s.heaps = slices.DeleteFunc(s.heaps, func(o *heap) bool { return o == h })
	h.proc.close() // here, because finishHeaps asks it under the lock
	s.mu.Unlock()
	h.using.Lock()
	_, _ = h.recorder.Close(true) // one that was opened in the very last moment
	if h.project != nil {
		_ = h.project.Close()
	}
	_ = h.tables.Close()
	s.poke()
}

func firstLines(stack []byte) string {
	const most = 600
	return strings.ReplaceAll(string(stack[:min(len(stack), most)]), "\n", " | ")
}

func (h *heap) ended() bool { return h.replaced.Load() || h.proc.ended() }

func (h *heap) say(level, format string, args ...any) {
	h.session.talk.line(fmt.Sprintf("[msmemscope] %s: process %d (%s): %s.", level, h.pid, h.name, fmt.Sprintf(format, args...)))
}

// readMemory notes the resident memory of the process while it can be read.
func (h *heap) readMemory() {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", h.proc.pid))
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || pages == 0 {
		return
	}
	h.mu.Lock()
	h.rss.Ended = pages * int64(os.Getpagesize())
	if h.rss.Opened == 0 {
		h.rss.Opened = h.rss.Ended
	}
	h.mu.Unlock()
}

// open opens a window with the options of cfg.
func (h *heap) open(cfg *config.Config) error {
	_, err := h.recorder.Open(hostheap.Options{Detail: cfg.HostLeakDetail, Threshold: cfg.BlockThreshold, Sample: cfg.SampleRate})
	if err == nil {
		h.mu.Lock()
		h.rss = report.Memory{}
		h.mu.Unlock()
		h.readMemory()
	}
	return err
}

// close closes the window, writes its files, and returns lines for the user. dead: the process is gone.
func (h *heap) close(dead bool) ([]string, error) {
	if !dead {
		h.readMemory()
	}
	snapshot, err := h.recorder.Close(dead)
	if err != nil {
		return nil, err
	}
	snapshot.Replaced = h.replaced.Load()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.write(h.input(snapshot, heapTop())), nil
}

// interim says what is in the open window.
func (h *heap) interim(top int) (*report.Overview, error) {
	h.readMemory()
	snapshot, err := h.recorder.Interim()
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return report.Make(h.input(snapshot, top)), nil
}

func (h *heap) input(snapshot *hostheap.Snapshot, top int) report.Input {
	return report.Input{
		Snapshot: snapshot, Tables: h.tables, Texts: report.NewTexts(h.tables, h.program, h.symbols, time.Now().Add(report.Deadline)),
		Top: top, RSS: h.rss, Pymalloc: h.pymalloc,
	}
}

// heapByPID says which of the processes a control session means: ids in its namespaces from the outermost on. The last one is what the
// process takes itself for, and one of them is how it looks from here. The `using` of the one that is found is locked.
func (s *session) heapByPID(ids []int) *heap {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.heaps {
		if len(ids) > 0 && h.pid == ids[len(ids)-1] && slices.Contains(ids, h.proc.pid) && !h.replaced.Load() {
			h.using.RLock()
			return h
		}
	}
	return nil
}

// answerHeap opens or closes a window for the process itself, or says whether it would.
func (s *session) answerHeap(conn *net.UnixConn, pid int, ask uint8, text string) {
	h := s.heapOf(pid)
	if h == nil {
		_ = wire.Refuse(conn, wire.RefusedClosing)
		return
	}
	defer h.using.RUnlock()
	var lines []string
	var err error
	switch ask {
	case wire.HeapStart:
		lines, err = h.start(text)
	case wire.HeapCheck: // what is worth a word is said when the window is opened
		_, _, err = h.options(text)
	default:
		lines, err = h.close(false)
	}
	if err != nil {
		_ = wire.Answer(conn, wire.RefusedOptions, wire.Config{})
		_ = wire.Say(conn, wire.SayError, err.Error())
		return
	}
	_ = wire.Answer(conn, wire.Accepted, wire.Config{})
	say(conn, lines)
}

// start opens a window; text has options, or nothing for those of the run.
func (h *heap) start(text string) ([]string, error) {
	if h.recorder.Stage() > 0 {
		return nil, errors.New("a window is open; stop it before another one is started")
	}
	cfg := h.cfg
	var notices []string
	if text != "" {
		var err error
		if cfg, notices, err = h.options(text); err != nil {
			return nil, err
		}
		h.cfg = cfg
	}
	return notices, h.open(&cfg)
}

// options understands those that the process gives for its windows.
func (h *heap) options(text string) (config.Config, []string, error) {
	return h.session.options(text, h.session.fixed(), h.session.fixed() != nil)
}

// finishHeaps waits for the reports of processes that have ended with the target, and counts those that live on.
func (s *session) finishHeaps(tick <-chan time.Time) (living int) {
	defer func() {
		if line := s.tellBrief(); line != "" {
			s.talk.line(line)
		}
	}()
	deadline := time.Now().Add(lastMoment)
	for {
		s.mu.Lock()
		heaps := slices.Clone(s.heaps)
		ended := slices.ContainsFunc(heaps, (*heap).ended)
		s.mu.Unlock()
		if len(heaps) == 0 || !ended && time.Now().After(deadline) {
			return len(heaps)
		}
		select {
		case <-tick:
			s.talk.say(control.Message{Progress: &control.Progress{}})
		case <-time.After(watchPause):
		}
	}
}
