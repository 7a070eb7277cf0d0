package session

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"memscope/internal/control"
	"memscope/internal/hostheap"
	"memscope/internal/wire"
)

// control answers a command of `msmemscope --pid`.
func (s *session) control(conn *net.UnixConn, text string) {
	who, command, _ := strings.Cut(text, "\n")
	if who == "" && command == control.ReleaseWord && s.alone {
		s.released.Store(true)
		_ = wire.Answer(conn, wire.Accepted, wire.Config{})
		return
	}
	var ids []int
	for _, word := range strings.Fields(who) {
		id, _ := strconv.Atoi(word)
		ids = append(ids, id)
	}
	h := s.heapByPID(ids)
	if h != nil {
		defer h.using.RUnlock()
	}
	c := s.clientByPID(ids)
	if h == nil && c == nil {
		_ = wire.Refuse(conn, wire.RefusedClosing)
		return
	}
	_ = wire.Answer(conn, wire.Accepted, wire.Config{})
	var out string
	var err error
	work := make(chan struct{})
	go func() {
		defer close(work)
		out, err = obey(h, c, strings.Split(command, "\x00"))
	}()
	s.waitFor(conn, work)
	if out != "" {
		_ = wire.Say(conn, wire.SayOut, out)
	}
	if err != nil {
		_ = wire.Say(conn, wire.SayError, fmt.Sprintf("[msmemscope] Error: %v.\n", err))
	}
}

// clientByPID is heapByPID for a process whose device memory is recorded.
func (s *session) clientByPID(ids []int) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		if len(ids) > 0 && int(c.pid) == ids[len(ids)-1] && !c.isDone() && !c.gone() {
			return c
		}
	}
	return nil
}

// Commands is what a control session can ask for, for its help and completion.
var Commands = []struct{ Words, Help string }{
	{"start", "open a window on the host heap; options: --host-leak-mode=, --block-size-threshold=, --sample-rate="},
	{"stop", "close it and write its report"},
	{"display host_leak summary", "what is in the open window; options: --top=N, --json"},
	{"display status", "what is recorded of the process"},
	{"flush", "bring everything recorded of device memory into the files"},
}

// noHeap is for commands of the host heap in a process without its hook.
const noHeap = "the host heap of this process is not recorded: it was not started with --analysis=host-leaks or from a shell with --load-api-env=host"

func obey(h *heap, c *client, words []string) (string, error) {
	plain, options := splitWords(words)
	switch plain {
	case "start", "stop", "display host_leak summary":
		if h == nil {
			return "", errors.New(noHeap)
		}
	}
	switch plain {
	case "start":
		text := ""
		if len(options) > 0 {
			own := []string{h.cfg.OutputPath, "analysis=host-leaks"}
			if h.session.fixed() == nil { // else the path stays by itself
				own = append(own, "output-path="+h.cfg.OutputPath)
			}
			text = strings.Join(append(own, options...), "\x00")
		}
		lines, err := h.start(text)
		if err != nil {
			return "", err
		}
		return joinLines(append(lines, fmt.Sprintf("[msmemscope] Info: window %d is open.", h.recorder.Stage()))), nil
	case "stop":
		lines, err := h.close(false)
		return joinLines(lines), err
	case "display host_leak summary":
		return h.summary(options)
	case "display status":
		return status(h, c), nil
	case "flush":
		if c == nil {
			return "", errors.New("nothing of device memory is recorded of this process; the host heap has nothing to flush: its reports are complete when `stop` is done")
		}
		written := c.flushed()
		if written == nil {
			return "", errors.New("the process has ended")
		}
		<-written
		return control.FlushNotice + "\n", nil
	}
	var known []string
	for _, k := range Commands {
		known = append(known, k.Words)
	}
	return "", fmt.Errorf("%q is not a command; accepted: %s, quit", strings.Join(words, " "), strings.Join(known, ", "))
}

// splitWords parts the words of a command from its options, which lose their dashes.
func splitWords(words []string) (plain string, options []string) {
	var rest []string
	for _, w := range words {
		if o, ok := strings.CutPrefix(w, "--"); ok {
			options = append(options, o)
		} else if w != "" {
			rest = append(rest, w)
		}
	}
	return strings.Join(rest, " "), options
}

func (h *heap) summary(options []string) (string, error) {
	top, asJSON := heapTop(), false
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		n, err := strconv.Atoi(value)
		switch {
		case o == "json":
			asJSON = true
		case name == "top" && err == nil && n >= 1 && n <= control.MostTop:
			top = n
		default:
			return "", fmt.Errorf("--%s is not accepted here; accepted: --json, --top=N with N from 1 to %d", o, control.MostTop)
		}
	}
	overview, err := h.interim(top)
	if err == hostheap.ErrClosed {
		return hostheap.ErrClosed.Error() + "\n", nil
	}
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	write := overview.WriteText
	if asJSON {
		write = overview.WriteJSON
	}
	err = write(&b)
	return b.String(), err
}

// status says what is recorded of a process.
func status(h *heap, c *client) string {
	var b strings.Builder
	if h != nil {
		fmt.Fprintf(&b, "process %d (%s): host heap, ", h.pid, h.name)
		if opened, stage := h.recorder.Since(); stage > 0 {
			fmt.Fprintf(&b, "window %d open for %.1f s\n", stage, time.Since(opened).Seconds())
		} else {
			b.WriteString(hostheap.ErrClosed.Error() + "\n")
		}
	}
	if c != nil {
		tracing := "off"
		done := c.between(func() {
			if c.ring.Header().Tracing != 0 {
				tracing = "on"
			}
			fmt.Fprintf(&b, "process %d (%s): device memory, tracing %s, %d events recorded\n", c.pid, c.name, tracing, c.events)
		})
		if !done {
			fmt.Fprintf(&b, "process %d (%s): has ended\n", c.pid, c.name)
		}
	}
	return b.String()
}

func joinLines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}
