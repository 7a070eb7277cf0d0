package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"

	"memscope/internal/event"
)

// sample makes events that look like those of a training process, with some that do not.
func sample(n int, seed uint64) []event.Event {
	rng := rand.New(rand.NewPCG(seed, 1))
	out := make([]event.Event, n)
	stamp, used := int64(1_790_000_000_000_000_000), int64(0)
	for i := range out {
		stamp += rng.Int64N(3000) - 200
		ev := event.Event{
			Kind: event.Malloc, Pool: event.PTA, Device: int32(rng.IntN(2)), Stamp: stamp, Seq: uint64(i + 1), PID: 4711,
			TID: 4711 + rng.Uint64N(3), Addr: 0x12c041200000 + rng.Uint64N(1<<20)*512, Size: 512 * (1 + rng.Int64N(4000)),
			Total: 1 << 31, AllocID: uint64(i/2 + 1), ProcessUsed: event.Unknown, DeviceUsed: event.Unknown, Module: -1,
		}
		switch i % 8 {
		case 3, 5, 7:
			ev.Kind = event.Free
			used -= ev.Size
		case 6:
			ev = event.Event{Kind: event.Mstx, Sub: event.RangeStart, Device: 1, Stamp: stamp, Seq: uint64(i + 1), PID: 4711, TID: 4712, Name: "step start", Value: uint64(i)}
		default:
			used += ev.Size
		}
		if ev.Kind != event.Mstx {
			ev.Used = used
		}
		out[i] = ev
	}
	// Values at the edges, which no prediction helps.
	edge := event.Event{
		Kind: event.OOMDetail, Sub: 255, Pool: event.Pools - 1, Flags: 255, Page: 255, Module: math.MinInt16, Device: math.MaxUint16, Stamp: math.MinInt64,
		Seq: math.MaxUint64, PID: math.MaxUint64, TID: math.MaxUint64, Addr: math.MaxUint64, Size: math.MinInt64, Used: math.MinInt64,
		Total: math.MaxInt64, AllocID: math.MaxUint64, ProcessUsed: math.MinInt64, DeviceUsed: math.MaxInt64, Value: math.MaxUint64,
		Name: strings.Repeat("ü\"\n\x00", 1000), Owner: strings.Repeat("o@", 2000), Attrs: strings.Repeat("a:1,", 2000),
		Stack: math.MaxUint32, Waste: 255,
	}
	return append(out, edge, event.Event{Kind: event.System}, edge)
}

func newRoot(t testing.TB) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func write(t testing.TB, w *Writer, evs []event.Event, every int) Pos {
	t.Helper()
	for i := range evs {
		if err := w.Append(&evs[i]); err != nil {
			t.Fatal(err)
		}
		if every > 0 && i%every == 0 {
			must(w.Flush())(t)
		}
	}
	return must(w.Flush())(t)
}

// read answers every event from at on.
func read(t testing.TB, r *Reader, at, limit Pos) []event.Event {
	t.Helper()
	var out []event.Event
	for {
		b, err := r.Load(at, limit)
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		at = b.End
		first := len(out)
		for {
			var ev event.Event
			err := r.Next(&ev)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, ev)
		}
		if len(out) == first {
			t.Fatalf("block at %d is empty", b.Pos)
		}
	}
}

func same(t testing.TB, got, want []event.Event) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("event %d:\n got %+v\nwant %+v", i, got[i], want[i])
		}
	}
}

func TestRoundTrip(t *testing.T) {
	for _, every := range []int{0, 1, 7} {
		root := newRoot(t)
		w := must(Create(root, Dir, Meta{PID: 4711, Start: 5, Paired: true, SegmentBytes: 30 << 10}))(t)
		evs := sample(5_000, 1)
		end := write(t, w, evs, every)
		r := must(Open(root, Dir))(t)
		same(t, read(t, r, 0, end), evs)
		same(t, read(t, r, 0, End), evs) // from the beginning again
		if m := r.Meta(); m != (Meta{PID: 4711, Start: 5, Paired: true}) {
			t.Errorf("meta %+v", m)
		}
		if r.Dropped() != 0 {
			t.Errorf("%d bytes dropped", r.Dropped())
		}
		r.Close()
		if err := w.Remove(); err != nil {
			t.Fatal(err)
		}
		if _, err := root.Stat(Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the spool is still there: %v", err)
		}
	}
}

func TestFollow(t *testing.T) {
	root := newRoot(t)
	w := must(Create(root, Dir, Meta{SegmentBytes: 8 << 10}))(t)
	r := must(Open(root, Dir))(t)
	defer r.Close()
	evs := sample(5000, 2)
	var got []event.Event
	var at Pos
	for i := 0; i < len(evs); i += 100 {
		end := write(t, w, evs[i:min(i+100, len(evs))], 0)
		got = append(got, read(t, r, at, end)...)
		at = end
		if err := r.DropBefore(at); err != nil {
			t.Fatal(err)
		}
	}
	same(t, got, evs)
	if left := must(segments(w.root))(t); len(left) > 1 {
		t.Errorf("segments left: %v", left)
	}
}

func TestEncodedSize(t *testing.T) {
	root := newRoot(t)
	w := must(Create(root, Dir, Meta{}))(t)
	evs := sample(100_000, 3)
	evs = evs[:100_000]
	end := write(t, w, evs, 0)
	per := float64(end) / float64(len(evs))
	t.Logf("%.1f bytes per event", per)
	if per > 32 {
		t.Errorf("%.1f bytes per event, want at most 32", per)
	}
}

// TestTorn cuts a spool at every byte, and garbles every byte: what comes out is whole blocks up to there.
func TestTorn(t *testing.T) {
	root := newRoot(t)
	w := must(Create(root, Dir, Meta{PID: 1}))(t)
	evs := sample(20, 4)[:20]
	var ends []Pos
	for i := range evs {
		if err := w.Append(&evs[i]); err != nil {
			t.Fatal(err)
		}
		if i%5 == 4 {
			ends = append(ends, must(w.Flush())(t))
		}
	}
	w.Close()
	name := Dir + "/" + segmentName(0)
	whole := must(root.ReadFile(name))(t)
	if Pos(len(whole)) != ends[len(ends)-1] {
		t.Fatalf("%d bytes, the writer said %d", len(whole), ends[len(ends)-1])
	}
	check := func(data []byte, from int, what string) {
		t.Helper()
		if err := root.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r := must(Open(root, Dir))(t)
		defer r.Close()
		good := 0
		for good < len(ends) && int(ends[good]) <= from {
			good++
		}
		same(t, read(t, r, 0, End), evs[:good*5])
		kept := int64(0)
		if good > 0 {
			kept = int64(ends[good-1])
		} else if len(data) >= segmentHeader {
			kept = segmentHeader
		}
		if want := int64(len(data)) - kept; r.Dropped() != want && good > 0 {
			t.Fatalf("%s: %d bytes dropped, want %d", what, r.Dropped(), want)
		}
	}
	for n := range whole {
		check(whole[:n], n, "cut")
	}
	for n := range whole {
		bad := append([]byte(nil), whole...)
		bad[n] ^= 0x41
		if n >= 8 && n < 12 { // the version: refused, not repaired
			continue
		}
		check(bad, n, "garbled")
		zero := append([]byte(nil), whole...)
		clear(zero[n:])
		from := n
		for from < len(whole) && whole[from] == 0 { // the first byte that is not what it was
			from++
		}
		if n > 16 && n%8 == 0 {
			check(zero, from, "zeroed")
		}
	}
}

// TestDamageInTheMiddle: a bad block hides the rest of its segment and no more.
func TestDamageInTheMiddle(t *testing.T) {
	root := newRoot(t)
	w := must(Create(root, Dir, Meta{SegmentBytes: 4 << 10}))(t)
	evs := sample(2000, 5)[:2000]
	write(t, w, evs, 20)
	starts := must(segments(w.root))(t)
	w.Close()
	if len(starts) < 4 {
		t.Fatalf("only %d segments", len(starts))
	}
	name := Dir + "/" + segmentName(starts[1])
	data := must(root.ReadFile(name))(t)
	data[segmentHeader+blockHeader+3] ^= 1 // its first block
	if err := root.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	r := must(Open(root, Dir))(t)
	defer r.Close()
	got := read(t, r, 0, End)
	if want := int64(len(data) - segmentHeader); r.Dropped() != want {
		t.Errorf("%d bytes dropped, want %d", r.Dropped(), want)
	}
	first := read(t, r, 0, starts[1])
	rest := read(t, r, starts[2], End)
	same(t, got, append(first, rest...))
	same(t, rest, evs[len(evs)-len(rest):])
	same(t, first, evs[:len(first)])
}

func TestResume(t *testing.T) {
	root := newRoot(t)
	m := Meta{SegmentBytes: 4 << 10}
	evs := sample(1000, 6)
	w := must(Create(root, Dir, m))(t)
	cut := write(t, w, evs[:500], 20)
	write(t, w, evs[:500], 20) // to be cut off
	w.Close()
	w = must(Resume(root, Dir, m, cut))(t)
	end := write(t, w, evs[500:], 20)
	r := must(Open(root, Dir))(t)
	defer r.Close()
	same(t, read(t, r, 0, end), evs)
}

func TestLock(t *testing.T) {
	root := newRoot(t)
	w := must(Create(root, Dir, Meta{}))(t)
	_, err := TakeLock(root, Dir)
	var busy *InUseError
	if !errors.As(err, &busy) || busy.PID != os.Getpid() || busy.Path != root.Name() {
		t.Fatalf("%v, want in use by %d", err, os.Getpid())
	}
	w.Close()
	l := must(TakeLock(root, Dir))(t)
	l.Release()
}

func TestSaved(t *testing.T) {
	root := newRoot(t)
	w := must(Create(root, Dir, Meta{}))(t)
	defer w.Close()
	r := must(Open(root, Dir))(t)
	defer r.Close()
	if b := must(r.Saved())(t); b != nil {
		t.Fatalf("%q", b)
	}
	for _, text := range []string{"one", "", "three\nlines\n"} {
		if err := r.Save([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if b := must(r.Saved())(t); b == nil || string(b) != text {
			t.Errorf("%q, want %q", b, text)
		}
	}
	root.WriteFile(Dir+"/"+stateName, []byte("00000000\nhello"), 0o600)
	if _, err := r.Saved(); err == nil {
		t.Error("a damaged checkpoint was taken")
	}
}

// TestFull fills a small file system.
func TestFull(t *testing.T) {
	root := tmpfs(t, "256k")
	w := must(Create(root, Dir, Meta{SegmentBytes: 64 << 10}))(t)
	defer w.Close()
	evs := sample(30_000, 7)[:30_000]
	var end Pos
	var stopped *StoppedError
	failed := 0
	for i := range evs {
		err := w.Append(&evs[i])
		if err == nil && i%50 == 0 {
			end, err = w.Flush()
		}
		if err != nil {
			failed++
			if !errors.As(err, &stopped) || !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("event %d: %v", i, err)
			}
		}
	}
	if failed == 0 {
		t.Fatal("256 KiB took everything")
	}
	if e, err := w.Flush(); err == nil || e < end {
		t.Fatalf("flush on a full disk: %d (was %d), %v", e, end, err)
	}
	r := must(Open(root, Dir))(t)
	defer r.Close()
	got := read(t, r, 0, End)
	same(t, got, evs[:len(got)])
	if w.Lost() != uint64(len(evs)-len(got)) {
		t.Errorf("lost %d, but %d of %d are there", w.Lost(), len(got), len(evs))
	}
	if r.Dropped() != 0 {
		t.Errorf("%d bytes behind the last whole block", r.Dropped())
	}
}

// tmpfs mounts a small file system of its own, which takes root.
func tmpfs(t *testing.T, size string) *os.Root {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small tmpfs takes root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("cannot mount a tmpfs here: %v", err)
	}
	root := must(os.OpenRoot(dir))(t)
	t.Cleanup(func() {
		root.Close()
		syscall.Unmount(dir, syscall.MNT_DETACH)
	})
	return root
}

func TestAppendDoesNotAllocate(t *testing.T) {
	w := must(Create(newRoot(t), Dir, Meta{}))(t)
	defer w.Close()
	evs := sample(1000, 8)
	i := 0
	if n := testing.AllocsPerRun(5000, func() {
		if err := w.Append(&evs[i%1000]); err != nil {
			t.Fatal(err)
		}
		i++
	}); n != 0 {
		t.Errorf("%v allocations per event", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	w := must(Create(newRoot(b), Dir, Meta{}))(b)
	defer w.Close()
	evs := sample(1<<16, 9)[:1<<16]
	b.ReportAllocs()
	var n int
	for b.Loop() {
		if err := w.Append(&evs[n&(1<<16-1)]); err != nil {
			b.Fatal(err)
		}
		n++
	}
	end, _ := w.Flush()
	b.ReportMetric(float64(end)/float64(n), "B/event")
}

func BenchmarkRead(b *testing.B) {
	root := newRoot(b)
	w := must(Create(root, Dir, Meta{}))(b)
	evs := sample(1<<20, 9)[:1<<20]
	end := write(b, w, evs, 0)
	r := must(Open(root, Dir))(b)
	defer r.Close()
	b.ReportAllocs()
	var at Pos
	var ev event.Event
	for b.Loop() {
		for r.Next(&ev) == io.EOF {
			if at >= end {
				at = 0
			}
			blk, err := r.Load(at, end)
			if err != nil {
				b.Fatal(err)
			}
			at = blk.End
		}
	}
}

// FuzzReader: no file makes the reader fail in any other way than by stopping.
func FuzzReader(f *testing.F) {
	root := newRoot(f)
	w := must(Create(root, Dir, Meta{PID: 7}))(f)
	write(f, w, sample(30, 10), 10)
	w.Close()
	f.Add(must(root.ReadFile(Dir + "/" + segmentName(0)))(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		root := newRoot(t)
		root.Mkdir(Dir, 0o700)
		if err := root.WriteFile(Dir+"/"+segmentName(0), data, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Open(root, Dir)
		if err != nil {
			return // an unknown version
		}
		defer r.Close()
		var at Pos
		var ev event.Event
		for {
			b, err := r.Load(at, End)
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			at = b.End
			for r.Next(&ev) == nil {
			}
		}
	})
}

func encode(events []event.Event) (b []byte) {
	var s state
	for i := range events {
		b = s.encode(b, &events[i])
	}
	return b
}

func decode(b []byte) (out []event.Event, err error) {
	var s state
	var names interner
	for len(b) > 0 && err == nil {
		var ev event.Event
		b, err = s.decode(b, &ev, &names)
		out = append(out, ev)
	}
	return out, err
}

// TestVarints: numbers of every length come back, wherever in a block they lie, and what binary.Uvarint refuses is refused.
func TestVarints(t *testing.T) {
	for n := range 65 {
		for _, v := range []uint64{1<<n - 1, 1 << n, 0xaaaaaaaa_aaaaaaaa & (1<<n - 1)} {
			number := binary.AppendUvarint(nil, v)
			for rest := range 10 { // bytes behind it
				b := append(append([]byte{0xff}, number...), bytes.Repeat([]byte{0xff}, rest)...)
				if got, at := uvarint(b, 1); got != v || at != uint(1+len(number)) {
					t.Errorf("%d, %d bytes before the end: %d, and the next at %d", v, rest, got, at)
				}
			}
			for cut := range len(number) {
				if _, at := uvarint(number[:cut], 0); at <= uint(cut) {
					t.Errorf("%d, cut to %d bytes, was accepted", v, cut)
				}
			}
		}
	}
	endless := bytes.Repeat([]byte{0x80}, 20)
	if _, at := uvarint(endless, 0); at <= 20 {
		t.Error("a number without an end was accepted")
	}
	if _, at := uvarint(endless, 21); at <= 20 {
		t.Error("what begins behind the end was accepted")
	}
}

// FuzzDecode feeds the event decoder directly, behind the checksum; what it accepts survives a round trip.
func FuzzDecode(f *testing.F) {
	f.Add(encode(sample(10, 11)))
	f.Fuzz(func(t *testing.T, data []byte) {
		evs, err := decode(data)
		if err != nil {
			return
		}
		again, err := decode(encode(evs))
		if err != nil {
			t.Fatal(err)
		}
		for i := range evs {
			if max(len(evs[i].Name), len(evs[i].Owner), len(evs[i].Attrs)) > MaxName {
				return
			}
		}
		same(t, again, evs)
	})
}
