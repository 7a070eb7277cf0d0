// Package session is the collector: one run of the tool. It owns the session socket, makes every process that knocks a client
// with a pipeline of its own, and tells the launcher what there is to say. It lives until the last client is gone and the launcher
// has gone, too, or needs it no more.
package session

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"memscope/internal/config"
	"memscope/internal/control"
	"memscope/internal/symbol"
	"memscope/internal/wire"
)

const (
	helloTimeout = 5 * time.Second
	// lastMoment is granted to processes that end together with the target.
	lastMoment = 100 * time.Millisecond
	// progressPause lies between two progress messages, which also tell the launcher that we are alive.
	progressPause = 200 * time.Millisecond
	// mostStrangers bounds the lines about processes of other users, who could make any number of them.
	mostStrangers = 20
)

// session is one run.
type session struct {
	cfg      *config.Config
	listener *net.UnixListener
	offset   int64 // from CLOCK_MONOTONIC to ns since the epoch
	budget   *budget
	kernels  *kernelNames
	symbols  *symbol.Symbolizer
	talk     *talk
	gauge    *gauge
	pace     pace
	launcher int  // process id; of the program itself when alone
	alone    bool // no launcher: the program has started this collector and asks for what there is to say
	options  Options

	strangers atomic.Int32 // processes of other users that were turned away
	released  atomic.Bool  // a shell wants its programs recorded no more

	mu      sync.Mutex
	live    map[int]*client // by process id, as this process sees it
	clients []*client       // in order of arrival, until their report is fetched
	heaps   []*heap         // processes whose host heap is recorded, until their reports are written
	brief   map[string]int  // programs that ran too briefly for a report on their host heap, by name
	greeted int             // connections that are being answered
	closing bool            // no more clients
	changed chan struct{}   // gets a token when a client or a connection has ended
}

// newSession makes a run that talks to its launcher, a process, through control.
// Without control it is alone.
func newSession(cfg *config.Config, options Options, listener *net.UnixListener, control io.Writer, launcher int) *session {
	return &session{
		cfg: cfg, options: options, listener: listener, offset: wallOffset(), budget: newBudget(), kernels: newKernelNames(), symbols: symbol.New(), gauge: newGauge(), talk: newTalk(control), launcher: launcher,
		alone: control == nil, live: map[int]*client{}, brief: map[string]int{}, changed: make(chan struct{}, 1),
	}
}

// run serves until nobody needs the session any more. finish gets a value when the target has ended, and is closed when
// the launcher is gone.
func (s *session) run(finish <-chan struct{}) {
	go s.accept()
	if _, ok := <-finish; ok {
		s.conclude()
	}
	s.talk.close()
	s.linger()
	<-s.talk.idle
}

// linger serves what lives on until nobody is left who has joined, or still may.
func (s *session) linger() {
	name := strings.TrimPrefix(s.listener.Addr().String(), "@")
	for {
		if carriers := control.Carriers(name, 0, s.launcher); len(carriers) > 0 {
			outlast(carriers[0], func() bool { return control.Carries(name, carriers[0]) })
			continue // it may have started others
		}
		if s.close() {
			return
		}
		<-s.changed
	}
}

// outlast waits until a process has ended, or is no longer waited for.
func outlast(pid int, waited func() bool) {
	p, err := watch(pid)
	if err != nil {
		return
	}
	defer p.close()
	for !p.ended() && waited() {
		time.Sleep(outlastPause)
	}
}

// outlastPause lies between two looks whether a process lives.
const outlastPause = 200 * time.Millisecond

// runAlone serves a program that has started this collector itself, until that and what it has forked have ended.
func (s *session) runAlone() {
	go s.accept()
	select {
	case <-s.changed: // the first connection is answered
	case <-time.After(helloTimeout):
	}
	for !s.close() {
		<-s.changed
	}
}

// runShell serves what is started from a shell, until the shell has ended, or has said that nothing more comes, and the last program has.
func (s *session) runShell() {
	go s.accept()
	outlast(s.launcher, func() bool { return !s.released.Load() })
	s.linger()
}

// accept takes connections until the listener is closed.
func (s *session) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of descriptors or memory
			time.Sleep(idleMost)
			continue
		}
		s.mu.Lock()
		s.greeted++
		s.mu.Unlock()
		go func() {
			defer conn.Close()
			if err := s.greet(conn); err != nil && !errors.Is(err, unix.ESRCH) { // who has ended meanwhile has nothing to record
				s.talk.line(fmt.Sprintf("[msmemscope] Error: a process is not recorded: %v.", err))
			}
			s.mu.Lock()
			s.greeted--
			s.mu.Unlock()
			s.poke()
		}()
	}
}

// greet answers one connection.
func (s *session) greet(conn *net.UnixConn) error {
	cred, err := peer(conn)
	if err != nil {
		return err
	}
	stranger, timeout := !s.mayJoin(cred), helloTimeout
	if stranger {
		timeout = lastMoment
	}
	hello, text, err := wire.ReadHello(conn, timeout)
	switch {
	case errors.Is(err, wire.ErrNoHello), stranger && err != nil:
		return nil
	case errors.Is(err, wire.ErrVersion):
		_ = wire.Refuse(conn, wire.RefusedVersion)
		return fmt.Errorf("process %d: %w: its libraries belong to another version of the tool", cred.Pid, err)
	case err != nil:
		return fmt.Errorf("process %d: %w", cred.Pid, err)
	case stranger:
		if s.strangers.Add(1) <= mostStrangers { // while it waits for its answer it lives, and so does what it belongs to
			s.talk.line(fmt.Sprintf("[msmemscope] Warn: process %d (%s) runs as another user (%d) and is not recorded.", cred.Pid,
				(&process{pid: int(cred.Pid)}).name(), cred.Uid))
		}
		_ = wire.Refuse(conn, wire.RefusedClosing)
		return nil
	}
	switch hello.Ask {
	case wire.Join:
	case wire.HeapJoin:
		return s.joinHeap(conn, int(cred.Pid), int(hello.Pid))
	case wire.Control:
		if int(cred.Uid) != unix.Geteuid() && cred.Uid != 0 {
			_ = wire.Refuse(conn, wire.RefusedClosing)
			return nil
		}
		s.control(conn, text)
		return nil
	default:
		s.answer(conn, int(cred.Pid), hello.Ask, text)
		return nil
	}
	cfg, err := s.inherited(text)
	if err != nil {
		_ = wire.Refuse(conn, wire.RefusedOptions)
		return fmt.Errorf("process %d: %w", hello.Pid, err)
	}
	proc, err := watch(int(cred.Pid))
	if err != nil {
		_ = wire.Refuse(conn, wire.RefusedClosing)
		return err
	}
	ring, err := s.budget.ring()
	if err != nil {
		proc.close()
		_ = wire.Refuse(conn, wire.RefusedMemory)
		return fmt.Errorf("process %d: %w", hello.Pid, err)
	}
	if hello.Tracing == wire.TracingOn || hello.Tracing == wire.TracingDefault && cfg.Mode == config.Immediate {
		ring.Header().Tracing = 1
	}
	ring.Beat()
	c := newClient(s, proc, uint64(uint32(hello.Pid)), ring)
	c.configure(cfg)
	if !s.admit(c) {
		proc.close()
		_ = wire.Refuse(conn, wire.RefusedClosing)
		return s.budget.give(ring)
	}
	// A client that does not read the welcome has died; its pipeline sees that.
	_ = ring.Welcome(conn, s.wireConfig(cfg))
	ring.CloseFile()
	go c.run()
	go func() {
		<-c.done
		s.depart(c)
	}()
	return nil
}

// mayJoin says whether a process is one of this run's: an abstract socket has no permissions of its own. A target that has given
// up the rights of root still descends from the launcher.
func (s *session) mayJoin(cred *unix.Ucred) bool {
	user := unix.Geteuid()
	return int(cred.Uid) == user || cred.Uid == 0 || user == 0 && descends(int(cred.Pid), s.launcher)
}

// admit enters a client. Its process may have been another program until now.
func (s *session) admit(c *client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	if old := s.live[c.proc.pid]; old != nil {
		old.replaced.Store(true)
	}
	s.live[c.proc.pid] = c
	s.clients = append(s.clients, c)
	return true
}

// depart takes a client that is done off the books; only one with results is kept, for the launcher.
func (s *session) depart(c *client) {
	s.mu.Lock()
	if s.live[c.proc.pid] == c {
		delete(s.live, c.proc.pid)
	}
	if !c.collected {
		s.clients = slices.DeleteFunc(s.clients, func(o *client) bool { return o == c })
	}
	c.proc.close() // here, because partition asks it under the lock
	s.mu.Unlock()
	s.poke()
}

func (s *session) poke() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// close ends the session if nobody is left in it.
func (s *session) close() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.greeted > 0 || len(s.heaps) > 0 || slices.ContainsFunc(s.clients, func(c *client) bool { return !c.isDone() }) {
		return false
	}
	s.closing = true
	s.listener.Close()
	return true
}

// conclude finishes the clients that have ended with the target and tells the launcher the results.
func (s *session) conclude() {
	ended, living := s.partition()
	for deadline := time.Now().Add(lastMoment); (len(living) > 0 || s.greets()) && time.Now().Before(deadline); {
		time.Sleep(idleLeast)
		ended, living = s.partition()
	}
	tick := time.NewTicker(progressPause)
	defer tick.Stop()
	for _, c := range ended {
		look := c.asks // in place of a pause
		for waiting := true; waiting; {
			select {
			case <-c.done:
				waiting = false
			case look <- func() {}:
				look = nil
			case <-tick.C:
				s.talk.say(control.Message{Progress: progress(ended)})
			}
		}
	}
	report, done := summary(ended, len(living)+s.finishHeaps(tick.C))
	if report != "" {
		s.talk.say(control.Message{Report: report})
	}
	for _, c := range ended {
		if c.collected && c.leaks != nil {
			s.talk.sayLeaks(c.leaks)
		}
	}
	s.talk.say(control.Message{Done: &done})
}

// greets says whether somebody is being answered, of whom there may be a word to say.
func (s *session) greets() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.greeted > 0
}

// summary is what there is to say of clients that are done.
func summary(ended []*client, living int) (report string, done control.Done) {
	done.Living = living
	for _, c := range ended {
		if c.collected {
			done.Collected++
			if c.dump.stored() {
				done.Stored++
			}
		}
	}
	for _, c := range ended {
		if c.report.Len() == 0 {
			continue
		}
		if done.Collected > 1 {
			report += fmt.Sprintf("====== Process %d (%s) ======\n", c.pid, c.name)
		}
		report += c.report.String()
	}
	return report, done
}

// partition splits the clients into those whose program has ended and those that live.
func (s *session) partition() (ended, living []*client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		if c.isDone() || c.gone() {
			ended = append(ended, c)
		} else {
			living = append(living, c)
		}
	}
	return ended, living
}

func progress(clients []*client) *control.Progress {
	var sum control.Progress
	for _, c := range clients {
		done, total := c.dump.progress()
		sum.Done += done
		sum.Total += total
	}
	return &sum
}

// wireConfig is what a target has to know of its options.
func (s *session) wireConfig(cfg *config.Config) wire.Config {
	bit := func(b bool) uint8 {
		if b {
			return 1
		}
		return 0
	}
	w := wire.Config{
		Events: uint32(cfg.Events), Level: uint32(cfg.Level), Npu_slots: cfg.NPUSlots, All_npu: bit(cfg.AllNPU),
		Cpu: bit(cfg.CPU), Log_level: uint8(cfg.LogLevel), Launched: bit(!s.alone), Analysis: uint32(cfg.Analysis),
	}
	if cfg.CStack {
		w.C_stack_depth = uint32(cfg.CStackDepth)
	}
	if cfg.PyStack {
		w.Py_stack_depth = uint32(cfg.PyStackDepth)
	}
	w.Watch_output = cfg.Watch.Output
	copy(w.Watch_start[:config.MostWatchName], cfg.Watch.Start)
	copy(w.Watch_end[:config.MostWatchName], cfg.Watch.End)
	return w
}

// peer says who has connected.
func peer(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var failure error
	err = raw.Control(func(fd uintptr) { cred, failure = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err == nil {
		err = failure
	}
	return cred, err
}
