package render

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"memscope/internal/dump/spool"
	"memscope/internal/event"
)

// memory is a Format that keeps what it gets.
type memory struct {
	device int32
	rows   []numbered
}

type numbered struct {
	event.Event
	id uint64
}

func (m *memory) Row(ev *event.Event, id uint64) error {
	m.rows = append(m.rows, numbered{*ev, id})
	return nil
}
func (m *memory) Flush() error  { return nil }
func (m *memory) Size() int64   { return int64(len(m.rows)) }
func (m *memory) Name() string  { return fmt.Sprint("device ", m.device) }
func (m *memory) Finish() error { return nil }
func (m *memory) Close() error  { return nil }

// shelf opens memories.
type shelf struct {
	files map[int32]*memory
	order []int32
	fail  error // of the next open

	failed atomic.Bool
}

func (s *shelf) open(device int32, name string, size int64) (Format, error) {
	if s.fail != nil {
		err := s.fail
		s.fail = nil
		s.failed.Store(true)
		return nil, err
	}
	if s.files == nil {
		s.files = make(map[int32]*memory)
	}
	s.files[device] = &memory{device: device}
	s.order = append(s.order, device)
	return s.files[device], nil
}

type setup struct {
	shelf shelf
	w     *spool.Writer
	r     *Renderer
	end   spool.Pos
}

func newSetup(t *testing.T, opt Options) *setup {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := new(setup)
	if s.w, err = spool.Create(root, spool.Dir, spool.Meta{SegmentBytes: 256 << 10}); err != nil {
		t.Fatal(err)
	}
	r, err := spool.Open(root, spool.Dir)
	if err != nil {
		t.Fatal(err)
	}
	s.r = New(r, s.shelf.open, opt)
	t.Cleanup(func() {
		s.w.Close()
		root.Close()
	})
	return s
}

// put appends events, flushes, and lets their rows go out.
func (s *setup) put(t *testing.T, evs ...event.Event) {
	t.Helper()
	s.store(t, evs...)
	s.r.Advance(s.end)
}

// store appends events and flushes.
func (s *setup) store(t *testing.T, evs ...event.Event) {
	t.Helper()
	for i := range evs {
		if err := s.w.Append(&evs[i]); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if s.end, err = s.w.Flush(); err != nil {
		t.Fatal(err)
	}
}

func (s *setup) finish(t *testing.T) {
	t.Helper()
	if err := s.r.Finish(s.end); err != nil {
		t.Fatal(err)
	}
}

func ev(seq uint64, stamp int64, device int32) event.Event {
	return event.Event{Kind: event.Mstx, Seq: seq, Stamp: stamp, Device: device}
}

func (s *setup) expect(t *testing.T, device int32, want ...string) {
	t.Helper()
	var got []string
	if f := s.shelf.files[device]; f != nil {
		for _, r := range f.rows {
			seq := fmt.Sprint(r.Seq)
			if r.Device == event.DeviceNone {
				seq = "-" // not kept
			}
			got = append(got, fmt.Sprintf("%d:%s@%d", r.id, seq, r.Stamp))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("device %d: rows %v, want %v", device, got, want)
	}
}

func TestOrder(t *testing.T) {
	s := newSetup(t, Options{})
	s.put(t, ev(1, 10, 0), ev(2, 20, 0), ev(3, 25, 0))
	s.put(t, ev(4, 30, 1), ev(5, 30, 0), ev(6, 30, 1))
	s.finish(t)
	s.expect(t, 0, "0:1@10", "1:2@20", "2:3@25", "4:5@30")
	s.expect(t, 1, "3:4@30", "5:6@30")
	if got := s.r.Stats(); got.Rows != 6 || got.Homeless != 0 || got.Files["device 0"] != 4 {
		t.Errorf("%+v", got)
	}
}

// TestShared: events without a device are in each file, in time order, also in those that are opened later; the files
// get no N/A file of their own.
func TestShared(t *testing.T) {
	s := newSetup(t, Options{})
	s.put(t, ev(1, 1, event.DeviceNone), ev(2, 2, event.DeviceNone), ev(3, 3, 0), ev(4, 4, event.DeviceNone), ev(5, 5, 1), ev(6, 6, 0), ev(7, 7, event.DeviceNone))
	s.put(t, ev(8, 150, event.DeviceCPU))
	s.finish(t)
	s.expect(t, 0, "0:-@1", "1:-@2", "2:3@3", "3:-@4", "5:6@6", "6:-@7")
	s.expect(t, 1, "0:-@1", "1:-@2", "3:-@4", "4:5@5", "6:-@7")
	s.expect(t, event.DeviceCPU, "0:-@1", "1:-@2", "3:-@4", "6:-@7", "7:8@150")
	if len(s.shelf.order) != 3 {
		t.Errorf("files of %v", s.shelf.order)
	}
}

func TestHomeless(t *testing.T) {
	s := newSetup(t, Options{})
	s.put(t, ev(1, 1, event.DeviceNone), ev(2, 2, event.DeviceNone))
	s.finish(t)
	if got := s.r.Stats(); got.Rows != 2 || got.Homeless != 2 || len(s.shelf.order) != 0 {
		t.Errorf("%+v, files of %v", got, s.shelf.order)
	}
}

// TestLive: rows go out while the run goes on, as far as Advance allows and no further.
func TestLive(t *testing.T) {
	var rows atomic.Int64
	s := newSetup(t, Options{})
	s.r.open = func(device int32, name string, size int64) (Format, error) {
		f, err := s.shelf.open(device, name, size)
		return &counting{f, &rows}, err
	}
	s.store(t, ev(1, 10, 0))
	first := s.end
	s.store(t, ev(2, 20, 0))
	s.r.Advance(first)
	wait(t, func() bool { return rows.Load() == 1 })
	time.Sleep(3 * pause)
	if done, total := s.r.Progress(); rows.Load() != 1 || done != total || total != int64(first) {
		t.Errorf("%d rows, progress %d of %d, the first ends at %d", rows.Load(), done, total, first)
	}
	s.r.Advance(s.end)
	wait(t, func() bool { return rows.Load() == 2 })
	s.finish(t)
}

type counting struct {
	Format
	rows *atomic.Int64
}

func (c *counting) Row(ev *event.Event, id uint64) error {
	c.rows.Add(1)
	return c.Format.Row(ev, id)
}

// TestMany: many events, in batches of all sizes, become rows in the order of the spool.
func TestMany(t *testing.T) {
	s := newSetup(t, Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 400_000
	evs := make([]event.Event, n)
	for i := range evs {
		evs[i] = ev(uint64(i+1), int64(i/2), int32(rng.IntN(4)))
	}
	for at := 0; at < n; {
		next := min(at+1+rng.IntN(100), n)
		if rng.IntN(50) == 0 {
			next = min(at+150_000, n)
		}
		s.put(t, evs[at:next]...)
		at = next
	}
	s.finish(t)
	if got := s.r.Stats(); got.Rows != n {
		t.Errorf("%+v", got)
	}
	at := make(map[int32]int)
	for id, w := range evs {
		f := s.shelf.files[w.Device]
		got := f.rows[at[w.Device]]
		at[w.Device]++
		if got.Event != w || got.id != uint64(id) {
			t.Fatalf("row %d of device %d is %+v, want %+v", at[w.Device], w.Device, got, w)
		}
	}
}

// TestOpenFails: a file that cannot be made stops the rows; Finish tries again and misses none.
func TestOpenFails(t *testing.T) {
	s := newSetup(t, Options{})
	s.shelf.fail = errors.New("too many open files")
	s.put(t, ev(1, 1, event.DeviceNone), ev(2, 2, 0), ev(3, 3, 0))
	wait(t, s.shelf.failed.Load)
	s.finish(t)
	s.expect(t, 0, "0:-@1", "1:2@2", "2:3@3")
}

// TestClosing: events that are made at the very end become rows, and a rendering that is over is not repeated.
func TestClosing(t *testing.T) {
	var last int64
	s := newSetup(t, Options{Closing: func(files []string, at int64, emit func(*event.Event) error) error {
		last = at
		e := ev(9, at+1, 0)
		return emit(&e)
	}})
	s.store(t, ev(1, 7, 0)) // nothing before Finish
	s.finish(t)
	s.expect(t, 0, "0:1@7", "1:9@8")
	if last != 7 {
		t.Errorf("last stamp %d", last)
	}
	root, err := os.OpenRoot(s.w.Parent().Name())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	r, err := spool.Open(root, spool.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := Load(r); err != nil || !c.Over || len(c.Files) != 1 || c.Files[0].Name != "device 0" {
		t.Errorf("checkpoint: %+v, %v", c, err)
	}
	var none shelf
	if err := New(r, none.open, Options{}).Finish(spool.End); err != nil || len(none.order) != 0 {
		t.Errorf("rendered again: files of %v, %v", none.order, err)
	}
}

func TestLostCheckpoint(t *testing.T) {
	s := newSetup(t, Options{})
	evs := make([]event.Event, 50_000)
	for i := range evs {
		evs[i] = ev(uint64(i+1), int64(i), 0)
		evs[i].Name = fmt.Sprint(i)
	}
	s.put(t, evs...)
	s.finish(t)
	root := s.w.Parent()
	if err := root.Remove(spool.Dir + "/checkpoint"); err != nil {
		t.Fatal(err)
	}
	r, err := spool.Open(root, spool.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var unfinished *UnfinishedError
	if err := New(r, s.shelf.open, Options{}).Finish(spool.End); !errors.As(err, &unfinished) {
		t.Errorf("rendered from the middle on: %v", err)
	}
}

func wait(t *testing.T, until func() bool) {
	t.Helper()
	for range 500 {
		if until() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it never happened")
}
