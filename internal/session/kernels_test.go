package session

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"memscope/internal/event"
	"memscope/internal/wire"
	"memscope/internal/wire/wiretest"
)

// kernelBench is a client's kernels with a ring to say things through.
type kernelBench struct {
	t    *testing.T
	p    *wiretest.Producer
	r    *wire.Reader
	k    *kernels
	rows []string
}

func newKernelBench(t *testing.T) *kernelBench {
	ring, err := wire.NewRing(wire.MinBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ring.Close() })
	return &kernelBench{t: t, p: &wiretest.Producer{Ring: ring}, r: wire.NewReader(ring), k: newKernels(newKernelNames())}
}

// put publishes a record with a stamp, and returns it as the client sees it.
func put[T any](b *kernelBench, typ uint16, stamp int64, fill func(*T)) wire.Record {
	b.t.Helper()
	b.r.Release()
	var zero T
	size := uint64(unsafe.Sizeof(zero))
	pos, _ := b.p.Reserve(size)
	b.p.Busy(pos, size, typ, 7)
	fill(wiretest.Payload[T](b.p, pos))
	wiretest.Payload[wire.Head](b.p, pos).Stamp = stamp
	b.p.Publish(pos)
	rec, status := b.r.Next()
	if status != wire.Ready {
		b.t.Fatal("no record")
	}
	return rec
}

func (b *kernelBench) clock(device uint16, count uint64, when int64, kHz uint64) {
	b.k.arrive(put(b, wire.TypeKernelClock, when, func(c *wire.KernelClock) {
		c.H.Device, c.Count, c.When, c.Frequency = device, count, when, kHz
	}))
}

// run says that at count a task began or ended; it is read at once, at the stamp read.
func (b *kernelBench) run(device uint16, stream, task uint32, end uint32, count uint64, read int64) {
	b.k.arrive(put(b, wire.TypeKernelRun, read, func(r *wire.KernelRun) {
		r.H.Device, r.Stream, r.Task, r.End, r.Count = device, stream, task, end, count
	}))
}

func (b *kernelBench) name(id uint64, text string) {
	b.r.Release()
	b.p.Text(7, wire.TypeKernelName, wire.DeviceNone, id, text)
	rec, _ := b.r.Next()
	b.k.arrive(rec)
}

// launch is a launch whose turn it is.
func (b *kernelBench) launch(device uint16, stream, task uint32, name uint64, stamp int64) {
	rec := put(b, wire.TypeKernelLaunch, stamp, func(l *wire.KernelLaunch) {
		l.H.Device, l.Stream, l.Task, l.Name = device, stream, task, name
	})
	b.k.until(stamp, b.row)
	var ev event.Event
	newDecoder(0, 77).head(rec, &ev)
	b.k.launched(rec, &ev, b.row)
}

func (b *kernelBench) row(ev *event.Event) {
	what := map[event.Sub]string{event.Launched: "launch", event.ExecuteStart: "start", event.ExecuteEnd: "end"}[ev.Sub]
	who := "-"
	if ev.PID != math.MaxUint64 || ev.TID != math.MaxUint64 {
		who = fmt.Sprintf("%d/%d", ev.PID, ev.TID)
	}
	b.rows = append(b.rows, fmt.Sprintf("%s %s %s d%d s%d t%d @%d", what, ev.Name, who, ev.Device, ev.Value>>32, ev.Value&0xffffffff, ev.Stamp))
}

func (b *kernelBench) expect(want ...string) {
	b.t.Helper()
	b.k.until(math.MaxInt64, b.row)
	if !slices.Equal(b.rows, want) {
		b.t.Errorf("rows\n%s\nwant\n%s", strings.Join(b.rows, "\n"), strings.Join(want, "\n"))
	}
}

const noStream = wire.StreamNone

func TestKernelPairing(t *testing.T) {
	b := newKernelBench(t)
	b.clock(0, 500, 1000, 1_000_000) // a count is a ns
	b.name(11, "MatMul")
	b.name(12, "Add")
	b.launch(0, 3, 0x30005, 11, 2000)
	b.launch(0, 4, 0x00005, 12, 2100)
	b.run(0, 4, 5, 0, 1700, 9000)
	b.run(0, 3, 5, 0, 1650, 9000)
	b.run(0, 3, 5, 1, 1900, 9000)
	b.run(0, 9, 5, 0, 1950, 9000) // a copy
	b.run(0, 9, 5, 1, 1960, 9000)
	b.run(0, 4, 5, 1, 2000, 9000)
	b.launch(0, 3, 6, 99, 3000)
	b.run(0, 3, 5, 0, 3000, 9000) // once more
	b.run(0, 3, 6, 1, 3200, 9000) // its beginning was not told
	b.run(0, 3, 6, 1, 3300, 9000)
	b.expect("launch MatMul 77/7 d0 s3 t5 @2000", "launch Add 77/7 d0 s4 t5 @2100", "start MatMul - d0 s3 t5 @2150", "start Add - d0 s4 t5 @2200",
		"end MatMul - d0 s3 t5 @2400", "end Add - d0 s4 t5 @2500", "launch N/A 77/7 d0 s3 t6 @3000", "end N/A - d0 s3 t6 @3700")
	if len(b.k.launches) != 0 || b.k.waiting != 0 {
		t.Errorf("%v wait, %d", b.k.launches, b.k.waiting)
	}
}

// An id that comes round means the newest launch, whatever has become of the one before.
func TestKernelWrap(t *testing.T) {
	b := newKernelBench(t)
	b.clock(0, 0, 0, 1_000_000)
	b.name(1, "old")
	b.name(2, "new")
	b.launch(0, 3, 5, 1, 100)
	b.run(0, 3, 5, 0, 110, 900)
	b.launch(0, 3, 0x10005, 2, 200)
	b.run(0, 3, 5, 0, 210, 900)
	b.run(0, 3, 5, 1, 220, 900)
	b.expect("launch old 77/7 d0 s3 t5 @100", "start old - d0 s3 t5 @110", "launch new 77/7 d0 s3 t5 @200",
		"start new - d0 s3 t5 @210", "end new - d0 s3 t5 @220")
	if b.k.waiting != 0 {
		t.Errorf("%d wait", b.k.waiting)
	}
}

// Cards that do not name the stream: the launches of an id run in their order.
func TestKernelNoStream(t *testing.T) {
	b := newKernelBench(t)
	b.clock(1, 0, 0, 1_000_000)
	b.name(1, "a")
	b.name(2, "b")
	b.launch(1, 3, 5, 1, 100)
	b.launch(1, 4, 5, 2, 101)
	b.run(1, noStream, 5, 0, 110, 900)
	b.run(1, noStream, 0x10005, 0, 120, 900)
	b.run(1, noStream, 5, 1, 130, 900)
	b.run(1, noStream, 5, 1, 140, 900)
	b.run(2, noStream, 5, 1, 140, 900) // a card whose clock is not known
	b.expect("launch a 77/7 d1 s3 t5 @100", "launch b 77/7 d1 s4 t5 @101", "start a - d1 s3 t5 @110", "start b - d1 s4 t5 @120",
		"end a - d1 s3 t5 @130", "end b - d1 s4 t5 @140")
}

// Clocks differ a little: a task that seems to have begun before its launch is its all the same, one of long before is not.
func TestKernelEarly(t *testing.T) {
	for name, stream := range map[string]uint32{"stream": 3, "no stream": noStream} {
		t.Run(name, func(t *testing.T) {
			b := newKernelBench(t)
			b.clock(0, 0, 0, 1_000_000)
			b.name(1, "a")
			b.run(0, stream, 5, 0, 1_000_000, 9e6)
			b.run(0, stream, 5, 1, 1_000_010, 9e6)
			b.run(0, stream, 6, 0, 1_999_000, 9e6)
			b.launch(0, 3, 5, 1, 2_000_001) // the ids' tasks of more than 1 ms ago are others'
			b.run(0, stream, 6, 1, 2_000_500, 9e6)
			b.launch(0, 3, 6, 1, 2_000_002)
			b.run(0, stream, 7, 0, 2_999_000, 9e6)
			b.run(0, stream, 7, 1, 2_999_500, 9e6)
			b.launch(0, 3, 7, 1, 3_000_000)
			b.expect("launch a 77/7 d0 s3 t5 @2000001",
				"launch a 77/7 d0 s3 t6 @2000002", "start a - d0 s3 t6 @2000002", "end a - d0 s3 t6 @2000500",
				"launch a 77/7 d0 s3 t7 @3000000", "start a - d0 s3 t7 @3000000", "end a - d0 s3 t7 @3000000")
		})
	}
}

// Launches of a card to which nobody listens, and what runs while paused.
func TestKernelSilence(t *testing.T) {
	b := newKernelBench(t)
	b.launch(0, 3, 5, 1, 100)
	if b.k.waiting != 0 {
		t.Error("a launch waits for nothing")
	}
	b.clock(0, 0, 0, 1_000_000)
	b.launch(0, 3, 6, 1, 200)
	b.launch(0, 3, 7, 1, 201)
	b.k.paused = true
	b.run(0, 3, 6, 0, 300, 900)
	b.run(0, 3, 6, 1, 310, 900)
	b.run(0, 3, 7, 0, 320, 900)
	b.k.until(400, b.row)
	b.k.paused = false
	b.run(0, 3, 7, 1, 500, 900)
	b.expect("launch N/A 77/7 d0 s3 t5 @100", "launch N/A 77/7 d0 s3 t6 @200", "launch N/A 77/7 d0 s3 t7 @201", "end N/A - d0 s3 t7 @500")
}

func TestCardClock(t *testing.T) {
	for _, c := range []struct {
		at    reading
		kHz   uint64
		count uint64
		want  int64
	}{
		{reading{1000, 5000}, 50_000, 1001, 5020}, // 50 MHz
		{reading{1000, 5000}, 50_000, 999, 4980},
		{reading{1000, 5000}, 48_000, 1000 + 48_000_000, 5000 + 1e9},
		{reading{1000, 5000}, 48_000, 1000 + 7, 5000 + 145},
		{reading{1 << 40, 5000}, 1_000_000, 1<<40 + 86_400_000_000_000, 5000 + 86_400_000_000_000}, // a day
		{reading{math.MaxUint64, 5000}, 1_000_000, 9, 5010},                                        // the counter comes round
	} {
		var clock cardClock
		clock.read(c.at, c.kHz)
		if got := clock.at(c.count); got != c.want {
			t.Errorf("%+v, %d kHz at %d: %d, want %d", c.at, c.kHz, c.count, got, c.want)
		}
	}
}

// A counter that runs fast is measured; a reading that cannot be right changes no more than where the count begins.
func TestCardClockDrift(t *testing.T) {
	var clock cardClock
	count := func(ns int64) uint64 { return 7_000 + uint64(ns/20+ns/20/10_000) } // 50 MHz, 100 millionths fast
	for ns := int64(0); ns <= 3e9; ns += 1e8 {
		clock.read(reading{count(ns), ns}, 50_000)
		if ahead := clock.at(count(ns+1e8)) - (ns + 1e8); ns >= baseline && max(ahead, -ahead) > 50 {
			t.Fatalf("%d ns wrong 100 ms after %d", ahead, ns)
		}
	}
	tick := clock.tick
	clock.read(reading{count(3e9) / 2, 4e9}, 50_000)
	clock.read(reading{7_000, 4e9}, 50_000)
	if clock.tick != tick {
		t.Errorf("a tick of %v became %v", tick, clock.tick)
	}
}

// Damaged records overflow nothing, and no row is later than what it was read from.
func TestKernelDamage(t *testing.T) {
	b := newKernelBench(t)
	b.clock(0, 0, 1000, 0)
	b.clock(0, 0, 1000, 1<<40)
	b.clock(0, 0, -5, 1000)
	b.clock(0, 0, math.MaxInt64, 1000)
	if len(b.k.clocks) != 0 {
		t.Errorf("clocks %v", b.k.clocks)
	}
	b.name(1, "a")
	b.clock(0, 0, 1000, 1)
	b.launch(0, 3, 5, 1, 2000)
	b.run(0, 3, 5, 0, math.MaxInt64, 9000)
	b.run(0, 3, 5, 1, math.MaxUint64/2+2, 9000)
	b.expect("launch a 77/7 d0 s3 t5 @2000", "end a - d0 s3 t5 @0") // the end comes before the beginning
}

// Launches whose cards never tell do not fill the memory, nor do tasks of nobody or made-up names.
func TestKernelBounds(t *testing.T) {
	k := newKernels(newKernelNames())
	k.clocks[0] = &cardClock{tick: 1}
	b := newKernelBench(t)
	b.k = k
	var ev event.Event
	drop := func(*event.Event) {}
	for i := range uint32(mostLaunches + 10) {
		rec := put(b, wire.TypeKernelLaunch, int64(i), func(l *wire.KernelLaunch) { l.Stream, l.Task = i>>16, i })
		k.launched(rec, &ev, drop)
	}
	if k.waiting > mostLaunches {
		t.Errorf("%d launches wait", k.waiting)
	}
	for i := range uint32(2 * mostEarly) {
		k.strange(cardRun{task: task{9, uint16(i)}})
	}
	if len(k.early) > mostEarly {
		t.Errorf("%d early tasks", len(k.early))
	}
	for i := range uint64(mostKernelNames + 10) {
		b.name(i, "x")
	}
	if len(k.names.names) > mostKernelNames {
		t.Errorf("%d names", len(k.names.names))
	}
}

// Rows of two cards that are read in turns come out in the order of time.
func TestKernelOrder(t *testing.T) {
	b := newKernelBench(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for device := range uint16(2) {
		b.clock(device, 0, 0, 1_000_000)
		for i := range uint32(50) {
			b.launch(device, 1, i, 1, int64(i))
		}
		for i := range uint32(50) {
			at := uint64(100 + 100*i + rng.Uint32N(90))
			b.run(device, 1, i, 0, at, 1e9)
			b.run(device, 1, i, 1, at+9, 1e9)
		}
	}
	b.rows = nil
	last, n := int64(0), 0
	b.k.until(math.MaxInt64, func(ev *event.Event) {
		if n++; ev.Stamp < last {
			t.Errorf("stamp %d after %d", ev.Stamp, last)
		}
		last = ev.Stamp
	})
	if n != 200 {
		t.Errorf("%d rows", n)
	}
}

func TestKernelHorizon(t *testing.T) {
	const s = int64(1e9)
	k := newKernels(newKernelNames())
	if got := k.horizon(9*s, 0, 0); got != 9*s {
		t.Errorf("closed: %d", got)
	}
	k.open = true
	for _, c := range []struct {
		safe, settled int64
		waiting       int
		want          int64
	}{
		{9 * s, 9 * s, 0, 9*s - cardLag},
		{9*s - cardLag - 1, 9 * s, 0, 9*s - cardLag - 1},
		{9 * s, 8 * s, 0, 8*s - cardLag},
		{9 * s, 0, 0, 9*s - holdMost},
		{9 * s, 8 * s, holdBytes + 1, 9 * s},
		{-1, 0, 0, -cardLag},
	} {
		if got := k.horizon(c.safe, c.settled, c.waiting); got != c.want {
			t.Errorf("horizon(%d, %d, %d) is %d, want %d", c.safe, c.settled, c.waiting, got, c.want)
		}
	}
	late := cardRun{stamp: 5}
	k.until(6, func(*event.Event) {})
	k.insert(late)
	if k.late != 1 {
		t.Errorf("late %d", k.late)
	}
}
