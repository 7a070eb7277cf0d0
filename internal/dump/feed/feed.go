// Package feed lets programs of the user's own analyse a run (--analysis=exec:PROGRAM): it follows a spool as the rendering does
// and writes its events to the program's standard input, one JSON object a line (line.go). What the program prints joins the
// report. It may be slow without slowing anybody: events wait in the spool.
package feed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"memscope/internal/dump/spool"
	"memscope/internal/event"
)

// Bounds of a program. A test shortens the times.
var (
	patience = 30 * time.Second // without taking anything; and for its last words, when it has everything
	overtime = 60 * time.Second // for what it has not taken when the target ends
)

const (
	mostOutput = 1 << 20 // bytes that join the report
	mostErrors = 4 << 10 // bytes at the end of standard error that are looked at
	chunk      = 64 << 10
	pollPause  = 20 * time.Millisecond
)

// Feed is one program at work on one spool.
type Feed struct {
	program string
	spool   *spool.Reader
	cmd     *exec.Cmd
	stdin   *os.File
	stdout  limited
	stderr  lastWords

	end     atomic.Int64 // a spool.Pos: events below may go out
	done    atomic.Int64 // a spool.Pos: events below have
	closing atomic.Bool
	wake    chan struct{}
	fed     chan error
}

// Start starts program, an absolute path, in the root directory. The feed owns r from now on, also after an error.
func Start(r *spool.Reader, program string) (*Feed, error) {
	f := &Feed{program: program, spool: r, cmd: exec.Command(program), wake: make(chan struct{}, 1), fed: make(chan error, 1)}
	in, stdin, err := os.Pipe()
	if err != nil {
		r.Close()
		return nil, f.failure(err)
	}
	defer in.Close()
	f.stdin = stdin
	f.cmd.Dir, f.cmd.Stdin, f.cmd.Stdout, f.cmd.Stderr = "/", in, &f.stdout, &f.stderr
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it ends with all that it has started
	f.cmd.WaitDelay = time.Second
	if err := f.cmd.Start(); err != nil {
		stdin.Close()
		r.Close()
		return nil, f.failure(err)
	}
	go func() { f.fed <- taken(f.follow()) }()
	return f, nil
}

// failure names the program.
func (f *Feed) failure(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("--analysis=exec:%s: %w", f.program, err)
}

// Advance says that the events below end may go out. It does not wait.
func (f *Feed) Advance(end spool.Pos) {
	f.end.Store(int64(end))
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Needed is where the part of the spool begins that has not gone out. Any goroutine may ask.
func (f *Feed) Needed() spool.Pos { return spool.Pos(f.done.Load()) }

// Finish hands over the events below end and waits for the program, for a bounded time. The text is what it has printed; the
// error, in one line, says what went wrong with it.
func (f *Feed) Finish(end spool.Pos) (text string, err error) {
	f.end.Store(int64(end))
	f.closing.Store(true)
	f.Advance(end)
	select {
	case err = <-f.fed:
	case <-time.After(overtime):
		err = fmt.Errorf("it was ended, because %v after the last event it had read only %d %% of them", overtime, 100*f.done.Load()/max(1, int64(end)))
		f.kill()
		<-f.fed
	}
	if err != nil {
		f.kill()
	}
	late := time.AfterFunc(patience, func() {
		f.stderr.Write(fmt.Appendf(nil, "\nit was ended %v after the last event\n", patience))
		f.kill()
	})
	wait := f.cmd.Wait()
	late.Stop()
	if err == nil && wait != nil {
		err = wait
		if last := f.stderr.last(); last != "" {
			err = fmt.Errorf("%w: %s", wait, last)
		}
	}
	text = f.stdout.text()
	if err != nil {
		err = f.failure(err)
	}
	return text, err
}

// Abandon ends the program.
func (f *Feed) Abandon() {
	f.kill()
	f.closing.Store(true)
	f.Advance(0)
	<-f.fed
	_ = f.cmd.Wait()
}

func (f *Feed) kill() { _ = syscall.Kill(-f.cmd.Process.Pid, syscall.SIGKILL) }

// follow writes events until all of them are out, or the program takes no more, which is its own business.
func (f *Feed) follow() error {
	defer f.spool.Close()
	defer f.stdin.Close()
	defer f.done.Store(int64(spool.End)) // nothing is needed any more
	var at spool.Pos
	var ev event.Event
	var b []byte
	for id := uint64(0); ; {
		closing := f.closing.Load() // before end is read, which Finish has set by then
		block, err := f.spool.Load(at, spool.Pos(f.end.Load()))
		switch {
		case err == io.EOF && closing:
			return f.write(b)
		case err == io.EOF:
			if err := f.write(b); err != nil {
				return err
			}
			b = b[:0]
			f.pause()
			continue
		case err != nil:
			return err
		}
		for err = f.spool.Next(&ev); err == nil; err = f.spool.Next(&ev) {
			b = appendLine(b, &ev, id)
			id++
			if len(b) >= chunk {
				if err := f.write(b); err != nil {
					return err
				}
				b = b[:0]
			}
		}
		if err != io.EOF {
			return err
		}
		at = block.End
		f.done.Store(int64(at))
	}
}

// pause waits for more events, and lets some gather.
func (f *Feed) pause() {
	<-f.wake
	if !f.closing.Load() {
		time.Sleep(pollPause)
	}
}

// write writes to the program, which has to take something every now and then.
func (f *Feed) write(b []byte) error {
	for len(b) > 0 {
		f.stdin.SetWriteDeadline(time.Now().Add(patience))
		n, err := f.stdin.Write(b)
		if b = b[n:]; err != nil && n == 0 {
			return err
		}
	}
	return nil
}

// taken says what a failed write means.
func taken(err error) error {
	switch {
	case errors.Is(err, syscall.EPIPE):
		return nil // it has seen enough
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("it was ended, because it has taken no event for %v", patience)
	}
	return err
}

// limited keeps the beginning of what is written.
type limited struct {
	mu  sync.Mutex
	buf bytes.Buffer
	cut bool
}

func (l *limited) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := mostOutput - l.buf.Len()
	l.cut = l.cut || len(b) > room
	l.buf.Write(b[:min(len(b), room)])
	return len(b), nil
}

func (l *limited) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.buf.String()
	if l.cut {
		text = text[:strings.LastIndexByte(text, '\n')+1] + fmt.Sprintf("... (more than %d bytes)", mostOutput)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// lastWords keeps the end of what is written.
type lastWords struct {
	mu  sync.Mutex
	buf []byte
}

func (l *lastWords) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, b...)
	l.buf = l.buf[max(0, len(l.buf)-mostErrors):]
	return len(b), nil
}

// last is the last line, printable.
func (l *lastWords) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.Split(strings.TrimRight(string(l.buf), "\n \t\r"), "\n")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '�' {
			return '?'
		}
		return r
	}, lines[len(lines)-1])
}
