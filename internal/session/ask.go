package session

import (
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"memscope/internal/config"
	"memscope/internal/control"
	"memscope/internal/wire"
)

// Options understands the options that a program gives itself. cli.API is one; see there.
type Options func(text string, old *config.Config, fixed bool) (cfg config.Config, notices []string, err error)

// inherited is the configuration of a new client: that of the run, or what the process that forked it has set.
func (s *session) inherited(text string) (*config.Config, error) {
	if text == "" || s.cfg.Checks() {
		return s.cfg, nil
	}
	cfg, _, err := s.options(text, s.fixed(), s.fixed() != nil)
	return &cfg, err
}

// fixed has the options that no process can change: those of the command line.
func (s *session) fixed() *config.Config {
	if s.alone {
		return nil
	}
	return s.cfg
}

// answer does what a client asks for and tells it how that went.
func (s *session) answer(conn *net.UnixConn, pid int, ask uint8, text string) {
	if ask == wire.HeapStart || ask == wire.HeapStop || ask == wire.HeapCheck {
		s.answerHeap(conn, pid, ask, text)
		return
	}
	s.mu.Lock()
	c := s.live[pid]
	s.mu.Unlock()
	if c == nil {
		_ = wire.Refuse(conn, wire.RefusedClosing)
		return
	}
	switch ask {
	case wire.Configure:
		s.reconfigure(conn, c, text)
	case wire.Flush:
		s.flush(conn, c)
	case wire.Finish:
		c.replaced.Store(true)
		_ = wire.Answer(conn, wire.Accepted, wire.Config{})
		s.waitFor(conn, c.done)
		s.results(conn, c)
	}
}

// reconfigure changes the options of one client. Under a leak check they stay what they are, without a word: the program is not to
// be disturbed.
func (s *session) reconfigure(conn *net.UnixConn, c *client, text string) {
	if s.cfg.Checks() {
		_ = wire.Answer(conn, wire.Accepted, s.wireConfig(s.cfg))
		return
	}
	var notices []string
	var cfg config.Config
	var err error
	done := c.between(func() {
		old := s.fixed()
		if old == nil && c.configured {
			old = &c.cfg
		}
		if cfg, notices, err = s.options(text, old, old != nil); err != nil {
			return
		}
		c.configured = true
		c.configure(&cfg)
		c.dump.reconfigured()
	})
	switch {
	case !done:
		_ = wire.Refuse(conn, wire.RefusedClosing)
	case err != nil:
		_ = wire.Answer(conn, wire.RefusedOptions, wire.Config{})
		_ = wire.Say(conn, wire.SayError, err.Error())
	default:
		_ = wire.Answer(conn, wire.Accepted, s.wireConfig(&cfg))
		say(conn, notices)
	}
}

// flush brings everything that the client has recorded into its files.
func (s *session) flush(conn *net.UnixConn, c *client) {
	written := c.flushed()
	if written == nil {
		_ = wire.Refuse(conn, wire.RefusedClosing)
		return
	}
	_ = wire.Answer(conn, wire.Accepted, wire.Config{})
	s.waitFor(conn, written)
	lines := s.talk.take()
	if c.dump.renderer.Load() != nil {
		lines = append(lines, control.FlushNotice)
	}
	say(conn, lines)
}

// flushed is closed when everything that was recorded until now is in the files; nil: the client has ended.
func (c *client) flushed() <-chan struct{} {
	written := make(chan struct{})
	done := c.between(func() {
		c.dump.hold.lift()
		c.dump.flush(false)
		r, end := c.dump.renderer.Load(), c.dump.end
		go func() {
			if r != nil {
				r.Sync(end)
			}
			close(written)
		}()
	})
	if !done {
		return nil
	}
	return written
}

// results tells a client that ends, and has no launcher to do so, how it went: with itself and with what it has started.
func (s *session) results(conn *net.UnixConn, last *client) {
	if !s.alone {
		return
	}
	ended, living := s.partition()
	for _, c := range ended {
		s.waitFor(conn, c.done)
	}
	say(conn, s.talk.take())
	report, done := summary(ended, len(living))
	_ = wire.Say(conn, wire.SayOut, report+done.Lines())
	s.mu.Lock()
	for _, c := range ended {
		c.collected = false // its report is fetched
	}
	s.clients = slices.DeleteFunc(s.clients, func(c *client) bool { return slices.Contains(ended, c) })
	s.mu.Unlock()
}

// between runs work in the client's goroutine when everything that was recorded until now is handled. It returns false when the
// client has ended.
func (c *client) between(work func()) bool {
	ran := make(chan struct{})
	ordered := func() {
		defer close(ran)
		for tail, now := atomic.LoadUint64(&c.ring.Header().Tail), monotonic(); ; {
			status, _ := c.turn()
			if status != wire.Ready || atomic.LoadUint64(&c.ring.Header().Head) >= tail {
				if c.kernels.taken >= now || !c.kernels.open {
					break
				}
				time.Sleep(idleLeast) // for what cards have to say
			}
		}
		work()
	}
	select {
	case c.asks <- ordered:
		<-ran
		return true
	case <-c.done:
		return false
	}
}

// waitFor waits and lets the client know that it is not forgotten.
func (s *session) waitFor(conn *net.UnixConn, done <-chan struct{}) {
	tick := time.NewTicker(progressPause)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			_ = wire.Say(conn, wire.SayWait, "")
		}
	}
}

// say sends whole lines, notices to standard output and all else to standard error.
func say(conn *net.UnixConn, lines []string) {
	for _, line := range lines {
		how := byte(wire.SayError)
		if strings.HasPrefix(line, "[msmemscope] Info:") {
			how = wire.SayOut
		}
		_ = wire.Say(conn, how, line+"\n")
	}
}
