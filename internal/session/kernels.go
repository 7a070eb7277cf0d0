package session

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"memscope/internal/event"
	"memscope/internal/wire"
)

// Rows of what a card does have the card's time, and come later than rows of the host: the driver hands them out in portions, and a
// thread of the target fetches them. So, while somebody listens to cards, rows wait until no older one can come.
const (
	cardLag   = int64(100 * time.Millisecond) // of a driver, behind its card
	holdMost  = int64(2 * time.Second)        // however late the target's thread is
	holdBytes = 64 << 20                      // of records that wait

	earlyMost = int64(time.Millisecond) // that a task may seem to begin before its launch: clocks differ a little

	mostKernelNames = 1 << 16
	mostLaunches    = 1 << 20 // that wait for their cards
	mostEarly       = 4096
)

// kernels finds out which launch a task on a card is, and when the card's counter showed a number. It belongs to one client.
type kernels struct {
	names    *kernelNames
	clocks   map[uint16]*cardClock
	runs     []cardRun // from first
	first    int
	jumbled  bool // runs are not in the order of their stamps: several cards
	launches map[task][]launch
	waiting  int // launches
	early    map[task]early

	open   bool  // somebody listens to cards
	taken  int64 // rows up to this stamp are out
	late   uint64
	paused bool // since STOP_TRACE
	ev     event.Event
}

// kernelNames are the names of kernels by their ids. An id follows from the name alone, so all processes of a session share them: a
// forked child goes on with ids that its parent was given.
type kernelNames struct {
	mu    sync.Mutex
	names map[uint64]string
}

func newKernelNames() *kernelNames { return &kernelNames{names: map[uint64]string{}} }

func (n *kernelNames) add(id uint64, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.names[id]; known || len(n.names) < mostKernelNames {
		n.names[id] = name
	}
}

func (n *kernelNames) of(id uint64) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name, ok := n.names[id]; ok {
		return name
	}
	return "N/A"
}

// cardClock is the newest reading of a card's counter, and how fast it counts: as the driver says, and once there are readings that are
// baseline apart, as measured between the first and the newest. The crystals of card and host differ by some millionths.
type cardClock struct {
	first, newest reading
	tick          float64 // ns of one count
}

type reading struct {
	count uint64
	when  int64 // CLOCK_MONOTONIC ns
}

const (
	baseline     = int64(200 * time.Millisecond)
	mostDeviance = 0.01 // of the measured from what the driver says; more is damage
)

// read takes a new reading; kHz is what the driver says.
func (c *cardClock) read(r reading, kHz uint64) {
	said := 1e6 / float64(kHz)
	if c.tick == 0 {
		c.first, c.tick = r, said
	}
	c.newest = r
	if span := r.when - c.first.when; span >= baseline {
		if tick := float64(span) / float64(int64(r.count-c.first.count)); math.Abs(tick/said-1) <= mostDeviance {
			c.tick = tick
		}
	}
}

// task is how a card names what runs; launches of several streams share one where the card does not name the stream.
type task struct {
	device uint16
	id     uint16
}

// launch is a kernel that has been handed to a card and is not done.
type launch struct {
	name    string
	value   uint64 // event.Task
	began   int64  // CLOCK_MONOTONIC ns, valid once it runs
	running bool
}

// cardRun is a task that begins or ends on a card.
type cardRun struct {
	stamp  int64 // CLOCK_MONOTONIC ns
	task   task
	stream uint32
	end    bool
}

// early is a task without a launch: mostly none of a kernel. end is 0 while it runs.
type early struct {
	stream     uint32
	begin, end int64
}

func newKernels(names *kernelNames) *kernels {
	return &kernels{
		names: names, clocks: map[uint16]*cardClock{}, launches: map[task][]launch{}, early: map[task]early{},
		taken: -1,
	}
}

// arrive takes a record out of the ring if it is one that has not to wait for its turn.
func (k *kernels) arrive(rec wire.Record) bool {
	switch rec.Type() {
	case wire.TypeKernelName:
		k.names.add(rec.Text().Value, string(rec.TextBytes()))
	case wire.TypeKernelClosed:
		k.open = false
	case wire.TypeKernelClock:
		k.open = true
		c := *rec.KernelClock() // a copy, which the target cannot change
		const mostFrequency = 1 << 30
		if c.Frequency > 0 && c.Frequency < mostFrequency && c.When >= 0 && c.When < math.MaxInt64/4 {
			if k.clocks[c.H.Device] == nil {
				k.clocks[c.H.Device] = &cardClock{}
			}
			k.clocks[c.H.Device].read(reading{c.Count, c.When}, c.Frequency)
		}
	case wire.TypeKernelRun:
		r := *rec.KernelRun()
		clock, known := k.clocks[r.H.Device]
		if !known {
			return true
		}
		// What is read has happened.
		k.insert(cardRun{min(clock.at(r.Count), r.H.Stamp), task{r.H.Device, uint16(r.Task)}, r.Stream, r.End != 0})
	default:
		return false
	}
	return true
}

// steer takes notice of a record's type: what runs while paused has no row.
func (k *kernels) steer(typ uint16) {
	switch typ {
	case wire.TypeStartTrace:
		k.paused = false
	case wire.TypeStopTrace:
		k.paused = true
	}
}

// at is when the counter showed count.
func (c *cardClock) at(count uint64) int64 {
	const most = 1 << 61 // damage does not overflow
	return c.newest.when + int64(max(-most, min(float64(int64(count-c.newest.count))*c.tick, most)))
}

func (k *kernels) insert(r cardRun) {
	if r.stamp < k.taken {
		k.late++
	}
	if n := len(k.runs); n > k.first && k.runs[n-1].stamp > r.stamp {
		k.jumbled = true
	}
	k.runs = append(k.runs, r)
}

// until passes on the rows of what happened on cards up to a stamp.
func (k *kernels) until(stamp int64, row func(*event.Event)) {
	if k.jumbled {
		slices.SortStableFunc(k.runs[k.first:], func(a, b cardRun) int { return cmp.Compare(a.stamp, b.stamp) })
		k.jumbled = false
	}
	for ; k.first < len(k.runs) && k.runs[k.first].stamp <= stamp; k.first++ {
		k.ran(k.runs[k.first], row)
	}
	if k.first > len(k.runs)/2 {
		k.runs = slices.Delete(k.runs, 0, k.first)
		k.first = 0
	}
	k.taken = max(k.taken, stamp)
}

// launched completes the row of a launch, and passes it on, with those of a task that seems to have begun before it.
func (k *kernels) launched(rec wire.Record, ev *event.Event, row func(*event.Event)) {
	r := rec.KernelLaunch()
	id := task{r.H.Device, uint16(r.Task)}
	l := launch{name: k.names.of(r.Name), value: event.Task(r.Stream, uint32(id.id))}
	ev.Kind, ev.Sub, ev.Name, ev.Value = event.KernelLaunch, event.Launched, l.name, l.value
	row(ev)
	if _, listening := k.clocks[id.device]; !listening || ev.Flags&event.Paused != 0 {
		return
	}
	if k.waiting >= mostLaunches { // their cards never tell
		clear(k.launches)
		k.waiting = 0
	}
	same := k.launches[id]
	if i := slices.IndexFunc(same, func(o launch) bool { return o.value == l.value }); i >= 0 {
		same = slices.Delete(same, i, i+1) // its end was not told; the id has come round
		k.waiting--
	}
	k.launches[id] = append(same, l)
	k.waiting++
	if e, ok := k.early[id]; ok && (e.stream == r.Stream || e.stream == wire.StreamNone) {
		delete(k.early, id)
		if r.H.Stamp-e.begin <= earlyMost {
			k.ran(cardRun{r.H.Stamp, id, e.stream, false}, row)
			if e.end != 0 {
				k.ran(cardRun{r.H.Stamp, id, e.stream, true}, row)
			}
		}
	}
}

// ran handles the begin or end of a task.
func (k *kernels) ran(r cardRun, row func(*event.Event)) {
	same := k.launches[r.task]
	i := slices.IndexFunc(same, func(l launch) bool {
		if r.stream == wire.StreamNone {
			return l.running == r.end
		}
		return uint32(l.value>>32) == r.stream
	})
	if i < 0 {
		k.strange(r)
		return
	}
	l := &same[i]
	if !r.end {
		if l.running {
			return
		}
		l.running, l.began = true, r.stamp
		k.row(l, r, event.ExecuteStart, r.stamp, row)
		return
	}
	k.row(l, r, event.ExecuteEnd, max(r.stamp, l.began), row)
	k.waiting--
	if same = slices.Delete(same, i, i+1); len(same) > 0 {
		k.launches[r.task] = same
	} else {
		delete(k.launches, r.task)
	}
}

// strange remembers a task without a launch for a moment.
func (k *kernels) strange(r cardRun) {
	if e, ok := k.early[r.task]; ok && r.end && e.stream == r.stream {
		e.end = r.stamp
		k.early[r.task] = e
		return
	}
	if r.end {
		return
	}
	if len(k.early) >= mostEarly {
		clear(k.early)
	}
	k.early[r.task] = early{stream: r.stream, begin: r.stamp}
}

// row passes on a row of a card, which belongs to no thread (contract 3.2).
func (k *kernels) row(l *launch, r cardRun, sub event.Sub, stamp int64, row func(*event.Event)) {
	if k.paused {
		return
	}
	k.ev = event.Event{
		Kind: event.KernelLaunch, Sub: sub, Device: int32(r.task.device), Stamp: stamp, PID: math.MaxUint64, TID: math.MaxUint64,
		Name: l.name, Value: l.value, Module: -1,
		Used: event.Unknown, Total: event.Unknown, ProcessUsed: event.Unknown, DeviceUsed: event.Unknown,
	}
	row(&k.ev)
}

// horizon is up to which stamp rows may go out, when no older record than safe can come any more and everything that cards had to say
// before settled is here. Waiting is bytes of records that wait.
func (k *kernels) horizon(safe, settled int64, waiting int) int64 {
	if !k.open || waiting > holdBytes {
		return safe
	}
	return min(safe, max(settled-cardLag, safe-holdMost))
}
