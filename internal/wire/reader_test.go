package wire_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"memscope/internal/wire"
	"memscope/internal/wire/wiretest"
)

const (
	allocSize = uint64(unsafe.Sizeof(wire.Alloc{}))
	freeSize  = uint64(unsafe.Sizeof(wire.Free{}))
)

func newRing(t testing.TB, size uint64) (*wire.Reader, *wiretest.Producer) {
	t.Helper()
	ring, err := wire.NewRing(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ring.Close(); err != nil {
			t.Error(err)
		}
	})
	return wire.NewReader(ring), &wiretest.Producer{Ring: ring}
}

func want(t *testing.T, r *wire.Reader, status wire.Status) wire.Record {
	t.Helper()
	rec, got := r.Next()
	if got != status {
		t.Fatalf("Next: status %d, want %d", got, status)
	}
	return rec
}

func TestRingSizes(t *testing.T) {
	for _, size := range []uint64{0, wire.MinBytes / 2, wire.MinBytes + 8, 3 * wire.MinBytes} {
		if _, err := wire.NewRing(size); err == nil {
			t.Errorf("a ring of %d bytes was made", size)
		}
	}
}

func TestRecords(t *testing.T) {
	r, p := newRing(t, wire.MinBytes)
	want(t, r, wire.Empty)
	a := wire.Alloc{Addr: 0x1000, Size: 4096, Detail: 7, Total: 9}
	a.H.Device, a.H.Pool, a.H.Flags = 3, wire.PoolPTA, wire.FlagShadow
	p.Alloc(11, a)
	p.Free(12, wire.TypeUndo, wire.Free{Addr: 0x2000, Total: 5})
	p.Text(13, wire.TypeMark, 1, 42, "hello, ring")

	rec := want(t, r, wire.Ready)
	got := *rec.Alloc()
	if rec.Type() != wire.TypeAlloc || rec.TID() != 11 || rec.Size() != allocSize || got.H.Stamp == 0 {
		t.Errorf("type %d, tid %d, %d bytes, stamp %d", rec.Type(), rec.TID(), rec.Size(), got.H.Stamp)
	}
	a.H.Mark, a.H.Pos, a.H.Stamp = got.H.Mark, 0, got.H.Stamp
	if got != a {
		t.Errorf("got %+v, want %+v", got, a)
	}
	rec = want(t, r, wire.Ready)
	if f := rec.Free(); rec.Type() != wire.TypeUndo || f.Addr != 0x2000 || f.Total != 5 {
		t.Errorf("type %d, %+v", rec.Type(), *f)
	}
	rec = want(t, r, wire.Ready)
	if rec.Type() != wire.TypeMark || rec.Text().Value != 42 || string(rec.TextBytes()) != "hello, ring" {
		t.Errorf("type %d, %+v, %q", rec.Type(), *rec.Text(), rec.TextBytes())
	}
	if n := r.Pending(); n != allocSize+freeSize+rec.Size() {
		t.Errorf("%d bytes pending", n)
	}
	r.Release()
	want(t, r, wire.Empty)
	if h := p.Ring.Header(); h.Head != h.Tail || r.Pending() != 0 {
		t.Errorf("head %d, tail %d, pending %d", h.Head, h.Tail, r.Pending())
	}
}

// A text that claims to be longer than its record, or than any text may be, is cut.
func TestTextBounds(t *testing.T) {
	r, p := newRing(t, wire.MinBytes)
	p.Text(1, wire.TypeMark, 0, 0, "12345678")
	wiretest.Payload[wire.Text](p, 0).Length = 1 << 30
	if got := string(want(t, r, wire.Ready).TextBytes()); got != "12345678" {
		t.Errorf("got %q", got)
	}
}

// Every byte that was handed out and released is zero again, over several laps and across the seam.
func TestReleaseClears(t *testing.T) {
	r, p := newRing(t, wire.MinBytes)
	text := string(make([]byte, 1000))
	var seen uint64
	for seen < 5*wire.MinBytes {
		for range 100 {
			p.Text(1, wire.TypeMark, 0, seen, text+"x")
		}
		for range 100 {
			rec := want(t, r, wire.Ready)
			if b := rec.TextBytes(); b[1000] != 'x' {
				t.Fatalf("at %d: %q", seen, b[990:])
			}
			seen += rec.Size()
		}
		r.Release()
	}
	data := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(p.Ring.Header()), wire.HeaderBytes)), 2*wire.MinBytes)
	for i, b := range data {
		if b != 0 {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
}

// A reader that has handed out the whole ring must not take the first record for the next lap's.
func TestWholeRingHandedOut(t *testing.T) {
	r, p := newRing(t, wire.MinBytes)
	for range wire.MinBytes / 64 {
		pos, _ := p.Reserve(64)
		p.Busy(pos, 64, wire.TypeAlloc, 1)
		p.Publish(pos)
	}
	for range wire.MinBytes / 64 {
		want(t, r, wire.Ready)
	}
	want(t, r, wire.Empty)
	r.Release()
	want(t, r, wire.Empty)
}

func TestDeaths(t *testing.T) {
	// Each letter is a record: R published, B busy, U reserved only, P reserved with its position stored.
	for _, c := range []struct {
		script         string
		busy, unmarked uint64
	}{
		{"", 0, 0}, {"R", 0, 0}, {"B", 1, 0}, {"U", 0, 1}, {"P", 0, 1}, {"RBR", 1, 0}, {"RUR", 0, 1}, {"RUUR", 0, 1},
		{"UBU", 1, 2}, {"BBRUPBR", 3, 1}, {"RRU", 0, 1}, {"URURUR", 0, 3}, {"PBPRU", 1, 3},
	} {
		t.Run(c.script, func(t *testing.T) {
			r, p := newRing(t, wire.MinBytes)
			// begin near the seam, so that the script crosses it
			for p.Ring.Header().Tail < wire.MinBytes-2*allocSize {
				p.Free(1, wire.TypeFree, wire.Free{Addr: 1})
				want(t, r, wire.Ready)
				r.Release()
			}
			published := 0
			for i, step := range c.script {
				size := allocSize
				pos, _ := p.Reserve(size)
				if step == 'P' {
					wiretest.Payload[wire.Head](p, pos).Pos = pos
				}
				if step == 'B' || step == 'R' {
					p.Busy(pos, size, wire.TypeAlloc, 5)
				}
				if step == 'R' {
					wiretest.Payload[wire.Alloc](p, pos).Addr = uint64(i)
					p.Publish(pos)
					published++
				}
			}
			got := 0
			for {
				rec, status := r.Next()
				if status == wire.Ready {
					if c.script[rec.Alloc().Addr] != 'R' {
						t.Errorf("record %d was not published", rec.Alloc().Addr)
					}
					got++
				} else if !r.Resync() {
					break
				}
			}
			if lost := r.Lost(); got != published || lost.Busy != c.busy || lost.Unmarked != c.unmarked {
				t.Errorf("%d of %d published, lost %+v", got, published, lost)
			}
			r.Release()
			if h := p.Ring.Header(); h.Head != h.Tail {
				t.Errorf("head %d, tail %d", h.Head, h.Tail)
			}
		})
	}
}

func TestStuckAndSkipBusy(t *testing.T) {
	r, p := newRing(t, wire.MinBytes)
	pos, _ := p.Reserve(allocSize)
	want(t, r, wire.Stuck)
	if at, tid := r.StuckAt(); at != pos || tid != 0 {
		t.Errorf("stuck at %d, thread %d", at, tid)
	}
	p.Busy(pos, allocSize, wire.TypeAlloc, 99)
	p.Alloc(1, wire.Alloc{Addr: 7})
	want(t, r, wire.Stuck)
	if at, tid := r.StuckAt(); at != pos || tid != 99 {
		t.Errorf("stuck at %d, thread %d", at, tid)
	}
	r.SkipBusy(98) // another thread's death is none of this record's business
	want(t, r, wire.Stuck)
	r.SkipBusy(99)
	if rec := want(t, r, wire.Ready); rec.Alloc().Addr != 7 {
		t.Errorf("got %+v", *rec.Alloc())
	}
	if r.Lost() != (wire.Lost{Busy: 1}) {
		t.Errorf("lost %+v", r.Lost())
	}

	// published between the look at the thread and the skip: nothing is lost
	pos, _ = p.Reserve(allocSize)
	p.Busy(pos, allocSize, wire.TypeAlloc, 99)
	p.Publish(pos)
	r.SkipBusy(99)
	want(t, r, wire.Ready)
}

// Damage by the target must neither crash the reader nor be taken for records.
func TestDamage(t *testing.T) {
	damage := map[string]func(p *wiretest.Producer, h *wire.Head){
		"type":     func(_ *wiretest.Producer, h *wire.Head) { h.Mark |= 0xffff << wire.MarkTypeShift },
		"length 0": func(_ *wiretest.Producer, h *wire.Head) { h.Mark &^= 0x3fff << wire.MarkWordsShift },
		"short": func(_ *wiretest.Producer, h *wire.Head) {
			h.Mark = h.Mark&^(0x3fff<<wire.MarkWordsShift) | 2<<wire.MarkWordsShift
		},
		"position": func(_ *wiretest.Producer, h *wire.Head) { h.Pos += 8 },
		"state":    func(_ *wiretest.Producer, h *wire.Head) { h.Mark |= 3 << wire.MarkStateShift },
		"tail":     func(p *wiretest.Producer, h *wire.Head) { h.Mark = 0; p.Ring.Header().Tail += 3 * wire.MinBytes },
	}
	for name, spoil := range damage {
		t.Run(name, func(t *testing.T) {
			r, p := newRing(t, wire.MinBytes)
			p.Alloc(1, wire.Alloc{Addr: 1})
			p.Alloc(1, wire.Alloc{Addr: 2})
			p.Alloc(1, wire.Alloc{Addr: 3})
			spoil(p, wiretest.Payload[wire.Head](p, allocSize))
			if rec := want(t, r, wire.Ready); rec.Alloc().Addr != 1 {
				t.Errorf("got %+v", *rec.Alloc())
			}
			want(t, r, wire.Broken)
			if !r.Resync() {
				t.Fatal("the record behind the damage was not found")
			}
			if rec := want(t, r, wire.Ready); rec.Alloc().Addr != 3 {
				t.Errorf("got %+v", *rec.Alloc())
			}
		})
	}
}

func TestSafe(t *testing.T) {
	r, p := newRing(t, wire.MinBytes)
	clock := int64(100)
	now := func() int64 { clock++; return clock }
	safe := func(want int64) {
		t.Helper()
		if got := r.Safe(now); got != want {
			t.Errorf("at %d: safe %d, want %d", clock, got, want)
		}
	}
	safe(101) // nothing is reserved, so what comes is later
	safe(102)
	p.Alloc(1, wire.Alloc{})
	safe(102) // 103, and the tail behind the first record
	p.Alloc(2, wire.Alloc{})
	safe(102)
	want(t, r, wire.Ready)
	safe(103) // passed; 104, behind the second
	want(t, r, wire.Ready)
	safe(105) // everything is passed: now
}

// While a record in the making is in the way, the second record of a thread says that what follows is later than its first.
func TestSafeByThread(t *testing.T) {
	r, p := newRing(t, wire.MinBytes)
	records := []struct {
		tid         uint32
		stamp, safe int64 // safe: behind it
	}{{1, 10, -1}, {2, 30, -1}, {1, 20, 9}, {3, 25, 9}, {2, 31, 29}, {1, 40, 29}, {1 + 256, 50, 29}, {1, 60, 29}, {1, 70, 59}}
	for _, rec := range records {
		pos := p.Ring.Header().Tail
		p.Alloc(rec.tid, wire.Alloc{})
		wiretest.Payload[wire.Head](p, pos).Stamp = rec.stamp
	}
	p.Reserve(allocSize)
	early := func() int64 { return -1 }
	r.Safe(early)
	for i, rec := range records {
		want(t, r, wire.Ready)
		if safe := r.Safe(early); safe != rec.safe {
			t.Errorf("behind record %d: safe %d, want %d", i, safe, rec.safe)
		}
	}
}

// Many producers on a small ring: nothing is lost or doubled, each thread's records come in order, and no record handed out
// later has a stamp at or below what Safe had promised.
func TestStorm(t *testing.T) {
	const threads, each = 8, 20000
	r, p := newRing(t, wire.MinBytes)
	var wg sync.WaitGroup
	for id := range threads {
		wg.Go(func() {
			for i := range each {
				p.Alloc(uint32(id), wire.Alloc{Addr: uint64(i)})
			}
		})
	}
	var next [threads]uint64
	safe := int64(-1)
	deadline := time.Now().Add(30 * time.Second)
	for got := 0; got < threads*each; {
		rec, status := r.Next()
		switch status {
		case wire.Ready:
			a := rec.Alloc()
			if a.Addr != next[rec.TID()] {
				t.Fatalf("thread %d: record %d, want %d", rec.TID(), a.Addr, next[rec.TID()])
			}
			if a.H.Stamp <= safe {
				t.Fatalf("stamp %d after %d was called safe", a.H.Stamp, safe)
			}
			safe = r.Safe(wiretest.Now)
			next[rec.TID()]++
			got++
			if r.Pending() > 1<<18 {
				r.Release()
			}
		case wire.Broken:
			pos, _ := r.StuckAt()
			t.Fatalf("broken at %d", pos)
		default:
			safe = r.Safe(wiretest.Now)
			r.Release()
			if time.Now().After(deadline) {
				t.Fatal("no end")
			}
		}
	}
	wg.Wait()
	r.Release()
	if h := p.Ring.Header(); h.Waiters != 0 || h.Head != h.Tail {
		t.Errorf("waiters %d, head %d, tail %d", h.Waiters, h.Head, h.Tail)
	}
}

func TestShutReleasesWaiters(t *testing.T) {
	_, p := newRing(t, wire.MinBytes)
	for range wire.MinBytes / allocSize {
		p.Alloc(1, wire.Alloc{})
	}
	done := make(chan bool)
	go func() { done <- p.Alloc(1, wire.Alloc{}) }()
	for atomic.LoadUint32(&p.Ring.Header().Waiters) == 0 {
		time.Sleep(time.Millisecond)
	}
	p.Ring.Shut()
	if <-done {
		t.Error("a closed ring took a record")
	}
}

// A copy is the record, also behind other copies, and whatever becomes of the ring.
func TestCopy(t *testing.T) {
	r, p := newRing(t, wire.MinBytes)
	p.Alloc(7, wire.Alloc{Addr: 0x1000, Size: 5})
	p.Text(8, wire.TypeMark, 3, 9, "some text")
	var b []byte
	var at [2]int
	for i := range at {
		rec, _ := r.Next()
		at[i] = len(b)
		b = rec.AppendTo(b)
	}
	r.Release()
	a, text := wire.RecordAt(b), wire.RecordAt(b[at[1]:])
	if a.Type() != wire.TypeAlloc || a.TID() != 7 || a.Alloc().Addr != 0x1000 || a.Alloc().Size != 5 || a.Size() != allocSize {
		t.Errorf("%+v", *a.Alloc())
	}
	if text.Type() != wire.TypeMark || text.TID() != 8 || text.Text().Value != 9 || string(text.TextBytes()) != "some text" {
		t.Errorf("%+v %q", *text.Text(), text.TextBytes())
	}
}

func TestReadDoesNotAllocate(t *testing.T) {
	r, p := newRing(t, wire.MinBytes)
	var sum uint64
	if n := testing.AllocsPerRun(100, func() {
		p.Text(1, wire.TypeMark, 0, 0, "some text")
		rec, _ := r.Next()
		sum += uint64(len(rec.TextBytes()))
		r.Safe(wiretest.Now)
		r.Release()
	}); n != 0 {
		t.Errorf("%v allocations per record (%d)", n, sum)
	}
}

func BenchmarkRead(b *testing.B) {
	r, p := newRing(b, 8<<20)
	for b.Loop() {
		p.Alloc(1, wire.Alloc{Addr: 1})
		if _, status := r.Next(); status != wire.Ready {
			b.Fatal(status)
		}
		if r.Pending() > 1<<18 {
			r.Release()
		}
	}
}
