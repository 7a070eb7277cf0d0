package session

import (
	"bytes"
	"fmt"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"memscope/internal/analysis"
	"memscope/internal/analysis/all"
	"memscope/internal/analysis/labels"
	"memscope/internal/config"
	"memscope/internal/dump/stacks"
	"memscope/internal/event"
	"memscope/internal/leakcheck"
	"memscope/internal/ledger"
	"memscope/internal/wire"
)

const (
	batchBytes = 256 << 10 // of the ring, handled between two releases
	idleLeast  = time.Millisecond
	idleMost   = 10 * time.Millisecond
	rushShare  = 16 // of the ring; who fills more than this part of it during a pause gets the shortest one next

	threadPatience = 50 * time.Millisecond // with an unfinished record, before its thread is looked for
	poisonPatience = 30 * time.Second      // with an unfinished record of a living thread while others wait for space
)

// client is one process and its pipeline: ring → events → ledger → analyzers, spool, rendering. It belongs to the goroutine that
// runs it, apart from what is marked.
type client struct {
	session *session
	cfg     config.Config // of this process, which may change it: see configure
	proc    *process
	pid     uint64 // as the process sees itself
	name    string // of the process, for the user
	tasks   bool   // /proc/<pid>/task lists the thread ids that the records have

	ring    *wire.Ring
	reader  *wire.Reader
	pending pending
	decoder *decoder
	kernels *kernels
	ledger  *ledger.Ledger
	labels  *labels.Tracker
	set     *analysis.Set
	log     log
	dump    dump
	pyTrace *pyTrace
	watch   *watchDump
	check   *check // nil: no leak check
	ev      event.Event

	replaced atomic.Bool // from outside: the process has executed another program, or says that it ends
	asks     chan func() // from outside: work between two records, see ask.go

	stuckPos   uint64
	stuckTID   uint32
	stuckSince time.Time
	nextLook   time.Time
	shut       bool
	damaged    uint64 // records that the process has overwritten

	begun  time.Time
	events uint64 // rows, also those that the user does not want

	configured bool // by the process itself

	emitted       []event.Event // by analyzers, for the event in hand
	gauged        [mostGauged]gauged
	steps         *stepFilter // nil: all that is recorded
	toldGauge     bool
	sources       sources
	residentAt    time.Time // of residentBytes
	residentBytes int64
	collected     bool               // something was recorded
	report        bytes.Buffer       // valid after done
	leaks         *leakcheck.Process // as report; nil without a check
	done          chan struct{}      // closed when everything is written

	wake    *time.Timer
	hurried bool
}

func newClient(s *session, proc *process, pid uint64, ring *wire.Ring) *client {
	c := &client{
		session: s, proc: proc, pid: pid, name: proc.title(), tasks: pid == uint64(proc.pid), ring: ring,
		reader: wire.NewReader(ring), decoder: newDecoder(s.offset, pid), kernels: newKernels(s.kernels), begun: time.Now(), done: make(chan struct{}),
		asks: make(chan func()), wake: time.NewTimer(0),
	}
	c.dump = dump{session: s, cfg: &c.cfg, log: &c.log, pid: pid, start: monotonic() + s.offset, stacks: stacks.New(s.symbols)}
	c.pyTrace = newPyTrace(&c.dump, s.offset)
	c.dump.closing = c.pyTrace.close
	c.ledger, c.labels = ledger.New(c.row), labels.New()
	c.watch = newWatchDump(c)
	c.configure(s.cfg)
	if s.cfg.Checks() {
		c.check = newCheck(c)
	}
	return c
}

// configure makes cfg the options of this client. When that changes what is analysed, the analyses begin anew, after they have
// reported.
func (c *client) configure(cfg *config.Config) {
	again := c.set == nil || c.cfg.Analysis != cfg.Analysis || c.cfg.Events != cfg.Events || len(c.cfg.Steps) != len(cfg.Steps)
	c.cfg = *cfg
	for pool := range c.ledger.DropUnmatched { // a free does not say of which card it is; the filter let it pass
		c.ledger.DropUnmatched[pool] = event.Pool(pool) == event.HAL || !cfg.AllNPU
	}
	if cfg.Level&config.LevelKernel == 0 {
		c.kernels.open = false
	}
	switch {
	case len(cfg.Steps) == 0:
		c.steps = nil
	case c.steps == nil:
		c.steps = &stepFilter{open: map[uint64]bool{}, paused: cfg.Mode == config.Deferred}
	}
	if c.steps != nil {
		c.steps.wanted = cfg.Steps
	}
	if !again {
		return
	}
	if c.set != nil && c.collected {
		c.set.Report(&c.report)
	}
	c.dump.hold.lift() // the new ones know nothing of the blocks that live
	c.set = analysis.NewSet(analysis.Env{
		Ledger: c.ledger, Log: &c.log, Config: &c.cfg, Emit: c.emit, Late: &c.dump, Labels: c.labels,
	}, all.Registrations()...)
}

// run takes what the process records, until it is gone, and finishes its files. A failure of ours ends this client only.
func (c *client) run() {
	defer close(c.done)
	defer c.hurry(false)
	defer c.rescue()
	for idle := idleLeast; ; {
		status, taken := c.turn()
		switch {
		case status == wire.Ready || taken > 0 && c.reader.Waiters() > 0:
			c.hurry(true)
			idle = idleLeast
			select {
			case work := <-c.asks:
				work()
			default:
			}
			continue // there is more, or somebody is in need of it
		case taken > c.ring.Size()/rushShare:
			c.hurry(true)
			idle = idleLeast
		case taken > 0: // let some events gather: a turn for each would cost the target's cores more than the events do
		case c.gone():
			c.hurry(true)
			c.drain()
			c.finish()
			return
		case status == wire.Stuck:
			c.unstick(time.Now())
		case status == wire.Broken:
			c.overwritten()
		}
		c.wait(idle)
		if idle = min(2*idle, idleMost); idle == idleMost {
			c.hurry(false)
		}
	}
}

// hurry says whether this client has more to do than one processor may be able to.
func (c *client) hurry(now bool) {
	switch {
	case now == c.hurried:
		return
	case now:
		c.session.pace.hurry()
	default:
		c.session.pace.rest()
	}
	c.hurried = now
}

// wait lets a while pass, or does what is asked for.
func (c *client) wait(while time.Duration) {
	c.wake.Reset(while)
	select {
	case <-c.wake.C:
	case work := <-c.asks:
		work()
	}
}

// drain takes what a program that is no more has left in the ring.
func (c *client) drain() {
	for {
		if status, _ := c.turn(); status != wire.Ready && !c.reader.Resync() {
			c.apply(math.MaxInt64 - c.session.offset)
			return
		}
	}
}

// turn takes one batch of so many bytes. status is that of the last look into the ring.
func (c *client) turn() (status wire.Status, taken uint64) {
	limit := min(batchBytes, c.ring.Size()/4)
	for c.reader.Pending() < limit {
		var rec wire.Record
		if rec, status = c.reader.Next(); status != wire.Ready {
			break
		}
		if !c.kernels.arrive(rec) && !c.watch.arrive(rec) && !c.pending.add(rec) {
			c.damaged++
			c.overwritten()
		}
	}
	safe := c.kernels.horizon(c.reader.Safe(monotonic), c.reader.Settled(), len(c.pending.bytes))
	taken = c.reader.Pending()
	c.reader.Release()
	c.ring.Beat()
	c.apply(safe)
	return status, taken
}

// apply handles the records up to a stamp, in the order of time.
func (c *client) apply(safe int64) {
	c.pending.take(safe, func(rec wire.Record) {
		c.kernels.until(rec.Head().Stamp, c.launch)
		c.use(rec)
	})
	c.kernels.until(safe, c.launch)
	hurry := c.reader.Backlog() > c.ring.Size()/8 || c.reader.Waiters() > 0
	c.dump.flush(hurry || time.Since(c.dump.advanced) < renderPause)
	if !hurry {
		c.pyTrace.flush(false)
	}
}

// use handles one record.
func (c *client) use(rec wire.Record) {
	if c.check != nil {
		c.check.use(rec)
		return
	}
	c.sources.see(rec)
	switch rec.Type() {
	case wire.TypeUndo:
		c.ledger.Undo(rec.Free().Addr, uint64(rec.TID()), rec.Head().Stamp+c.session.offset)
	case wire.TypeKernelLaunch, wire.TypeKernelNotice:
		c.kernel(rec)
	case wire.TypeLog:
		level := min(config.LogLevel(rec.Text().Value), config.Error)
		c.log.line(level, "target", string(rec.TextBytes()))
	case wire.TypeStack, wire.TypeCode, wire.TypeModule:
		define(c.dump.stacks, &c.cfg, rec)
	case wire.TypeOOM:
		if c.cfg.Analysis&config.OOM == 0 {
			return
		}
		fallthrough
	default:
		if c.pyTrace.use(rec) || !c.decoder.decode(rec, &c.ev) {
			return
		}
		if c.ev.Kind == event.Label {
			c.label()
			return
		}
		if c.ev.Stack == 0 && onlyEmptyPython(&c.cfg) {
			c.ev.Stack = stacks.OnlyEmptyPython
		}
		c.kernels.steer(rec.Type())
		c.take(&c.ev)
		for i := 0; i < len(c.emitted); i++ {
			c.ledger.Apply(&c.emitted[i])
		}
		c.emitted = c.emitted[:0]
	}
}

// take passes an event on to the ledger.
func (c *client) take(ev *event.Event) {
	if c.steps != nil {
		c.steps.pass(ev, c.ledger.Apply)
	} else {
		c.ledger.Apply(ev)
	}
}

// emit keeps a row of an analyzer until the ledger has passed on the one that it is for.
func (c *client) emit(ev *event.Event) { c.emitted = append(c.emitted, *ev) }

// label passes a label on to the analyses, with the block that it is for.
func (c *client) label() {
	var b *ledger.Block
	if c.ev.Sub == event.LabelAddress {
		b = c.ledger.Holding(event.PTA, c.ev.Addr)
	}
	c.set.Dispatch(&c.ev, b)
}

// row is the ledger's sink.
func (c *client) row(ev *event.Event, b *ledger.Block) {
	if c.check != nil {
		return
	}
	if !c.collected {
		c.collected = true
		c.dump.open()
	}
	c.events++
	if ev.Pool >= event.Named {
		ev.Name = c.cfg.PoolName(ev.Pool)
	}
	c.pyTrace.seen(ev.Device)
	c.usage(ev, b)
	c.set.Dispatch(ev, b)
	if wanted(c.cfg.DumpEvents, ev.Kind) {
		c.dump.append(ev)
		c.dump.hold.row(ev, b)
	}
}

// wanted says whether the user wants rows of a kind (contract 1.6).
func wanted(events config.Events, kind event.Kind) bool {
	switch kind {
	case event.Malloc:
		return events&config.Alloc != 0
	case event.Free:
		return events&config.Free != 0
	case event.OpLaunch, event.KernelLaunch:
		return events&config.Launch != 0
	case event.Access:
		return events&config.Access != 0
	}
	return true
}

// gone says whether the program that this client recorded is no more, so that nobody writes to its ring.
func (c *client) gone() bool { return c.replaced.Load() || c.proc.ended() }

// isDone may be asked by any goroutine.
func (c *client) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// unstick deals with a record that somebody has begun and not finished.
func (c *client) unstick(now time.Time) {
	pos, tid := c.reader.StuckAt()
	if pos != c.stuckPos || tid != c.stuckTID || c.stuckSince.IsZero() {
		c.stuckPos, c.stuckTID, c.stuckSince, c.nextLook = pos, tid, now, now.Add(threadPatience)
		return
	}
	if c.tasks && tid != 0 && now.After(c.nextLook) {
		c.nextLook = now.Add(threadPatience)
		if c.proc.threadGone(tid) {
			c.reader.SkipBusy(tid)
			return
		}
	}
	if c.shut || now.Sub(c.stuckSince) < poisonPatience || c.reader.Waiters() == 0 {
		return
	}
	if c.proc.stopped() { // by Ctrl-Z or a debugger: nobody is late
		c.stuckSince = now
		return
	}
	c.shutRing(fmt.Sprintf("a thread has not finished a record for %v while others wait", poisonPatience))
}

// overwritten deals with debris in the ring.
func (c *client) overwritten() {
	if !c.shut {
		c.shutRing("the process has overwritten its record buffer")
	}
}

// shutRing ends the recording of a process that lives on.
func (c *client) shutRing(why string) {
	c.shut = true
	c.ring.Shut()
	c.log.Logf(config.Error, "%s; the process runs on without being recorded", why)
	c.session.talk.process("Error", c.pid, "%s; it runs on without being recorded", why)
}

// finish writes what the end of the process implies and closes everything.
func (c *client) finish() {
	if c.check != nil {
		c.leaks = c.check.leaks()
	}
	c.ledger.Exit(monotonic() + c.session.offset)
	h := c.ring.Header()
	c.log.Logf(config.Info, "process %d has ended: %d events in %v; its threads waited %d times for space, %v together", c.pid,
		c.events, time.Since(c.begun), h.Count, time.Duration(h.Ns))
	c.tellLosses()
	if c.kernels.late > 0 {
		c.log.Logf(config.Info, "%d event(s) of cards came later than %v; their rows stand later than they should", c.kernels.late,
			time.Duration(holdMost))
	}
	if c.collected {
		c.set.Report(&c.report)
	} else if !c.session.alone && c.check == nil {
		c.session.talk.line(fmt.Sprintf("[msmemscope] Warn: process %d called CANN, but nothing was recorded: %s.", c.pid, c.whyNothing()))
	}
	c.ledger, c.set, c.decoder, c.kernels = nil, nil, nil, nil // what lives may be much, and the rendering may take long
	if err := c.session.budget.give(c.ring); err != nil {
		c.log.Logf(config.Error, "unmap the ring: %v", err)
	}
	if c.collected {
		c.watch.sayIdle()
		c.sources.sayAbsent(&c.cfg, &c.log)
		c.session.gauge.settle()
		c.sayGauge()
	}
	c.watch.close()
	c.ring, c.reader = nil, nil
	c.pyTrace.flush(true)
	c.dump.finish(&c.report)
}

// rescue ends the client after a panic in its pipeline, as far as that can be done: the ring is shut, and the spool stays.
func (c *client) rescue() {
	failure := recover()
	if failure == nil {
		return
	}
	c.report.Reset()
	c.log.Logf(config.Error, "panic: %v; %s", failure, debug.Stack())
	c.session.talk.line(fmt.Sprintf("[msmemscope] Error: process %d (%s): its recording has failed inside the tool (%v); what was recorded "+
		"until then stays for `msmemscope dump recover`, and other processes are still recorded.", c.pid, c.name, failure))
	c.ledger, c.set, c.decoder = nil, nil, nil
	if c.ring != nil {
		c.ring.Shut()
		_ = c.session.budget.give(c.ring)
		c.ring, c.reader = nil, nil
	}
	defer func() { // what has failed may be the writing itself
		if failure := recover(); failure != nil {
			c.log.Logf(config.Error, "panic in the writing of the dump: %v", failure)
		}
	}()
	c.dump.abandon()
}

// whyNothing guesses from the options why no event became a row.
func (c *client) whyNothing() string {
	if c.cfg.Mode == config.Deferred {
		return "--collect-mode=deferred waits for a start, which never came"
	}
	if c.steps != nil {
		return fmt.Sprintf("--steps records mstx ranges \"step start\" by their number, and the process has begun %d of them; calls of "+
			"msmemscope.step() do not count", c.steps.started)
	}
	return "none of its events is of the kinds and cards that the options select"
}

// tellLosses says what of the process's events is not recorded.
func (c *client) tellLosses() {
	lost, skipped := c.reader.Lost(), c.ring.Header().Skipped
	for _, loss := range []struct {
		n    uint64
		what string
	}{
		{c.damaged, "event(s) were overwritten by the process itself"},
		{lost.Busy, "event(s) were cut off by the death of their thread"},
		{lost.Unmarked, "gap(s) of one or more events were left by the death of their threads"},
		{skipped, "event(s) were not recorded because the buffer was closed"},
	} {
		if loss.n > 0 {
			c.log.Logf(config.Warning, "%d %s", loss.n, loss.what)
			c.session.talk.process("Warn", c.pid, "%d %s", loss.n, loss.what)
		}
	}
}
