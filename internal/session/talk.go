package session

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"memscope/internal/control"
	"memscope/internal/leakcheck"
)

// talk sends messages to the launcher without ever waiting for it: a stopped launcher must not stop the collection. Without a launcher
// lines are kept until somebody takes them.
type talk struct {
	mu    sync.Mutex
	ready *sync.Cond
	queue []control.Message
	done  bool
	kept  bool          // nobody sends
	idle  chan struct{} // closed when everything is sent, after close
}

// mostKept bounds the lines that wait for somebody to take them.
const mostKept = 10000

func newTalk(w io.Writer) *talk {
	t := &talk{idle: make(chan struct{}), kept: w == nil}
	t.ready = sync.NewCond(&t.mu)
	if t.kept {
		return t
	}
	go t.send(json.NewEncoder(w))
	return t
}

// say queues a message. After close it does nothing.
func (t *talk) say(m control.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.done && !(t.kept && len(t.queue) >= mostKept) {
		t.queue = append(t.queue, m)
		t.ready.Signal()
	}
}

// take returns the lines that are kept, and forgets them.
func (t *talk) take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	if t.kept {
		for _, m := range t.queue {
			lines = append(lines, m.Line)
		}
		t.queue = nil
	}
	return lines
}

// line says a line for the user.
func (t *talk) line(text string) { t.say(control.Message{Line: text}) }

// process says a line about one process. level is Info, Warn or Error.
func (t *talk) process(level string, pid uint64, format string, args ...any) {
	t.line(fmt.Sprintf("[msmemscope] %s: process %d: %s.", level, pid, fmt.Sprintf(format, args...)))
}

// sayLeaks says what a process has leaked, in messages of a bounded size.
func (t *talk) sayLeaks(p *leakcheck.Process) {
	const most = 1000
	part := *p
	for rest := p.Leaks; ; {
		part.Leaks = rest[:min(most, len(rest))]
		rest = rest[len(part.Leaks):]
		send := part
		t.say(control.Message{Leaks: &send})
		if len(rest) == 0 {
			return
		}
		part.Origins, part.Suppressed = nil, leakcheck.Sum{} // said once
	}
}

// close ends the talk; what is queued still goes out.
func (t *talk) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = true
	t.ready.Signal()
}

// over says whether nobody hears any more what is said: the launcher has what it wanted, or is gone.
func (t *talk) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done
}

func (t *talk) send(encode *json.Encoder) {
	defer close(t.idle)
	for {
		t.mu.Lock()
		for len(t.queue) == 0 && !t.done {
			t.ready.Wait()
		}
		batch := t.queue
		t.queue = nil
		t.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, m := range batch {
			if encode.Encode(m) != nil { // the launcher is gone
				t.close()
				return
			}
		}
	}
}
