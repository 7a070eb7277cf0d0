package hostheap

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Options are those of one window.
type Options struct {
	Detail    bool   // --host-leak-mode=event
	Threshold uint64 // bytes; smaller blocks are counted only
	Sample    uint32 // one block in so many is tracked, a power of two
}

// Beat is the pause between two looks at the counters; control.EnvBeat changes it for tests. A tick is a tenth of it.
const (
	Beat         = time.Second
	ticksPerBeat = 10
)

// Reasons why a window cannot be opened or closed.
var (
	ErrOpen   = errors.New("a window is open already")
	ErrClosed = errors.New("no active window")
)

// Recorder steers the windows of one process and keeps what goes beyond its tables: the numbers at the beginning of the window, and the series.
type Recorder struct {
	tables *Tables
	beat   time.Duration

	mu     sync.Mutex // of everything below
	stage  int
	window *window

	looking sync.Mutex // one walk at a time: a close waits for a look, not the beats
}

// window is an open window.
type window struct {
	number  uint32 // in the tables
	stage   int
	options Options
	opened  time.Time
	base    []Counts
	tally   Tally

	series   *series
	now      []Counts
	previous []Counts // of the beat before
	recycled int
	folded   Counts // of recycled stacks
	stop     chan struct{}
	stopped  chan struct{}
}

// NewRecorder steers the process of the tables. beat is Beat, or what a test wants.
func NewRecorder(t *Tables, beat time.Duration) *Recorder { return &Recorder{tables: t, beat: beat} }

// Open opens a window and says its stage, from 1.
func (r *Recorder) Open(o Options) (stage int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.window != nil {
		return 0, ErrOpen
	}
	h := r.tables.Header()
	o.Sample = max(o.Sample, 1)
	atomic.StoreUint32(&h.Tick, 0)
	atomic.StoreUint64(&h.Threshold, o.Threshold)
	atomic.StoreUint32(&h.Sample_mask, o.Sample-1)
	atomic.StoreInt64(&h.Blocks, 0)
	atomic.StoreInt64(&h.Overflow, 0)
	atomic.StoreUint32(&h.Truncated, 0)
	atomic.StoreUint64(&h.Opened, uint64(monotonic()))
	r.stage++
	w := &window{
		number: uint32(r.stage), stage: r.stage, options: o, opened: time.Now(), base: r.tables.Counters(nil), tally: r.tables.Tally(),
		series: newSeries(), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	r.window = w
	atomic.StoreUint32(&h.Window, w.number)
	go r.run(w)
	return w.stage, nil
}

// Stage is the number of the open window, 0 when none is.
func (r *Recorder) Stage() int {
	_, stage := r.Since()
	return stage
}

// Since says when the open window was opened; stage 0: none is open.
func (r *Recorder) Since() (opened time.Time, stage int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.window == nil {
		return time.Time{}, 0
	}
	return r.window.opened, r.window.stage
}

// run keeps the clock of a window and takes its beats.
func (r *Recorder) run(w *window) {
	defer close(w.stopped)
	tick := time.NewTicker(r.beat / ticksPerBeat)
	defer tick.Stop()
	for beats := 0; ; {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		passed := time.Since(w.opened)
		atomic.StoreUint32(&r.tables.Header().Tick, uint32(passed/(r.beat/ticksPerBeat)))
		if n := int(passed / r.beat); n > beats {
			beats = n
			r.mu.Lock()
			r.takeBeat(w)
			r.mu.Unlock()
		}
	}
}

// takeBeat looks at the counters and recycles dead stacks when the table is full.
func (r *Recorder) takeBeat(w *window) {
	w.previous, w.now = w.now, r.counts(w, w.previous)
	w.series.beat(w.now)
	if r.tables.stackCount() >= r.tables.h.Stacks {
		r.recycle(w)
	}
}

// counts is the window's numbers of each stack.
func (r *Recorder) counts(w *window, into []Counts) []Counts {
	into = r.tables.Counters(into)
	for i := range min(len(into), len(w.base)) {
		into[i] = into[i].Sub(w.base[i])
	}
	return into
}

// shut closes the window in the tables. With dead the process is gone and nothing moves any more. It says how many threads did not
// leave the hook in time.
func (r *Recorder) shut(dead bool) (late int) {
	h := r.tables.Header()
	atomic.StoreUint32(&h.Window, 0)
	if dead {
		return r.tables.busySlots()
	}
	return r.settle()
}

// settlePatience is how long threads may take to leave the hook; only one that is stopped takes longer than microseconds.
const settlePatience = time.Second

// settle waits until every call that may not have seen our last store has ended.
func (r *Recorder) settle() (late int) {
	const global = 1 // MEMBARRIER_CMD_GLOBAL
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); errno != 0 {
		time.Sleep(10 * time.Millisecond) // Linux before 4.3, a filter: stores reach the other processors in nanoseconds
	}
	slots := r.tables.slots()
	deadline := time.Now().Add(settlePatience)
	for i := range slots {
		turn := atomic.LoadUint32(&slots[i].Turn)
		for tries := 0; inside(i, turn) && (i == 0 || atomic.LoadUint32(&slots[i].Turn) == turn); tries++ {
			turn = atomic.LoadUint32(&slots[i].Turn)
			if time.Now().After(deadline) {
				late++
				break
			}
			if tries < 100 {
				runtime.Gosched()
			} else {
				time.Sleep(100 * time.Microsecond)
			}
		}
	}
	return late
}

// inside says by the turn of a slot that a thread is inside the hook. Slot 0 counts its threads.
func inside(slot int, turn uint32) bool { return turn%2 == 1 || slot == 0 && turn != 0 }

// Close closes the window and says what was in it. dead: the process is gone.
func (r *Recorder) Close(dead bool) (*Snapshot, error) {
	r.mu.Lock()
	w := r.window
	r.window = nil
	r.mu.Unlock()
	if w == nil {
		return nil, ErrClosed
	}
	close(w.stop)
	<-w.stopped
	r.looking.Lock()
	defer r.looking.Unlock()
	ended := time.Now()
	late := r.shut(dead)
	now := r.counts(w, nil)
	s := r.snapshot(w, w.series, now, ended)
	s.Late, s.Dead = late, dead
	s.look(r.tables, dead)
	return s, nil
}

// Interim says what is in the open window, which goes on meanwhile.
func (r *Recorder) Interim() (*Snapshot, error) {
	r.looking.Lock()
	defer r.looking.Unlock()
	r.mu.Lock()
	w := r.window
	if w == nil {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	ended := time.Now()
	now := r.counts(w, nil)
	s := r.snapshot(w, w.series.clone(), now, ended)
	r.mu.Unlock()
	s.Interim = true
	s.look(r.tables, false)
	r.mu.Lock()
	after := total(r.counts(w, nil), w.folded)
	r.mu.Unlock()
	s.Frozen = Size{after.Allocs - min(s.Total.Allocs, after.Allocs), after.AllocBytes - min(s.Total.AllocBytes, after.AllocBytes)}
	return s, nil
}

// total is the sum over all stacks, also those that were recycled.
func total(counts []Counts, folded Counts) Counts {
	for i := range counts {
		folded.Add(counts[i])
	}
	return folded
}

func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // the clock and the pointer are good
	}
	return t.Nano()
}
