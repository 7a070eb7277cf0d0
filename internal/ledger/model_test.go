package ledger

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"memscope/internal/event"
)

// model is the ledger again, as plain as can be: every block in one slice, every question a walk over it.
type model struct {
	drop    [event.Pools]bool
	rows    []event.Event
	blocks  []*modelBlock // live, or waiting for the FREE row
	used    map[accountKey]int64
	last    int64 // stamp of the last row
	ended   int64 // stamp of the last row that ended a block
	undo    map[uint64]modelFree
	tracing bool
	stopped int64
	allocs  uint64
}

type modelBlock struct {
	Block
	waits   bool // freed, FREE row to come
	freedAt int64
	freedBy uint64
}

type modelFree struct {
	addr   uint64
	before Block
	waits  *modelBlock // set while the FREE row is not out
}

func newModel() *model {
	return &model{used: map[accountKey]int64{}, undo: map[uint64]modelFree{}}
}

type accountKey struct {
	pool   event.Pool
	device int32
}

func account(p event.Pool, device int32) accountKey { return accountKey{p, device} }

type place struct {
	pool event.Pool
	addr uint64
}

func placeOf(b *Block) place { return place{b.Pool, b.Addr} }

func (m *model) row(kind event.Kind, b *Block, stamp int64, tid uint64, shadow bool) {
	stamp = max(stamp, m.last, b.last+1)
	m.last = stamp
	ev := event.Event{Kind: kind, Pool: b.Pool, Device: b.Device, Addr: b.Addr, Size: b.Size, AllocID: b.AllocID, Stamp: stamp, TID: tid}
	if shadow {
		ev.Flags |= event.Shadow
		ev.Used = event.Unknown
	} else {
		ev.Used = max(m.used[account(b.Pool, b.Device)], 0)
	}
	b.last = stamp
	if kind == event.Free {
		m.ended = stamp
	}
	m.rows = append(m.rows, ev)
}

func (m *model) birth(stamp int64) int64 {
	stamp = max(stamp, m.last)
	if stamp == m.ended {
		stamp++
	}
	return stamp
}

func (m *model) system(sub event.Sub, stamp int64) {
	m.last = max(m.last, stamp)
	m.rows = append(m.rows, event.Event{Kind: event.System, Sub: sub, Stamp: m.last})
}

func (m *model) find(pool event.Pool, device int32, addr uint64, anyDevice bool) (found *modelBlock) {
	for _, b := range m.blocks {
		if !b.waits && b.Pool == pool && b.Addr == addr && (anyDevice || b.Device == device) &&
			(found == nil || b.AllocID > found.AllocID) {
			found = b
		}
	}
	return found
}

func (m *model) containing(pool event.Pool, device int32, addr uint64) (found *modelBlock) {
	for _, b := range m.blocks {
		if !b.waits && b.Pool == pool && b.Addr <= addr && addr < b.Addr+uint64(b.Size) &&
			(device == event.DeviceNone || b.Device == device) && (found == nil || b.Addr > found.Addr || b.Addr == found.Addr && b.AllocID > found.AllocID) {
			found = b
		}
	}
	return found
}

func (m *model) forget(b *modelBlock) {
	m.blocks = slices.DeleteFunc(m.blocks, func(o *modelBlock) bool { return o == b })
}

func (m *model) settle() {
	for _, b := range slices.Clone(m.waiting()) {
		stamp := b.freedAt
		if m.stopped != 0 {
			stamp = m.stopped + 1
		}
		m.row(event.Free, &b.Block, stamp, b.freedBy, true)
		m.forget(b)
	}
}

func (m *model) waiting() (w []*modelBlock) {
	for _, b := range m.blocks {
		if b.waits {
			w = append(w, b)
		}
	}
	slices.SortStableFunc(w, func(a, b *modelBlock) int { return cmp.Compare(a.order(), b.order()) })
	return w
}

func (b *modelBlock) order() uint64 { return b.BornSeq } // set to the order of the frees when a block begins to wait

func (m *model) promote(b *modelBlock, stamp int64) {
	b.State = Promoted
	m.row(event.Malloc, &b.Block, stamp, b.TID, true)
}

func (m *model) malloc(pool event.Pool, device int32, addr uint64, size, stamp int64, tid uint64, paused bool) {
	if !paused {
		m.settle()
	}
	if old := m.find(pool, device, addr, false); old != nil {
		if old.State != ShadowCreated {
			at := stamp
			if paused && m.stopped != 0 {
				at = m.stopped + 1
			}
			m.row(event.Free, &old.Block, at, tid, true)
		}
		m.used[account(pool, device)] -= old.Size
		m.forget(old)
	}
	m.allocs++
	b := &modelBlock{Block: Block{Pool: pool, Device: device, Addr: addr, Size: size, AllocID: m.allocs, TID: tid}}
	stamp = m.birth(stamp)
	b.Born = stamp
	m.blocks = append(m.blocks, b)
	m.used[account(pool, device)] += size
	if pool == event.PTAWorkspace {
		m.used[account(pool, device)] = size
	}
	switch {
	case !paused:
		m.row(event.Malloc, &b.Block, stamp, tid, false)
	case m.tracing:
		m.promote(b, stamp)
	default:
		b.State = ShadowCreated
	}
}

func (m *model) free(pool event.Pool, device int32, addr uint64, stamp int64, tid uint64, paused bool, order uint64) {
	if !paused {
		m.settle()
	}
	b := m.find(pool, device, addr, device == event.DeviceNone)
	if b == nil && !m.drop[pool] {
		b = m.containing(pool, device, addr)
	}
	if b == nil {
		delete(m.undo, tid)
		if !paused && !m.drop[pool] {
			m.allocs++
			ghost := Block{Pool: pool, Device: device, Addr: addr, AllocID: m.allocs}
			m.row(event.Free, &ghost, m.birth(stamp), tid, false)
		}
		return
	}
	if !paused && b.State == ShadowCreated {
		m.promote(b, m.birth(stamp))
	}
	if pool == event.HAL {
		m.undo[tid] = modelFree{addr: addr, before: b.Block}
	}
	m.used[account(b.Pool, b.Device)] = m.used[account(b.Pool, b.Device)] - b.Size
	if pool == event.PTAWorkspace {
		m.used[account(b.Pool, b.Device)] = max(m.used[account(b.Pool, b.Device)], 0)
	}
	if paused && b.State != ShadowCreated && !m.tracing {
		b.waits, b.freedAt, b.freedBy, b.BornSeq = true, stamp, tid, order
		if pool == event.HAL {
			m.undo[tid] = modelFree{addr: addr, before: m.undo[tid].before, waits: b}
		}
		return
	}
	if !paused || b.State != ShadowCreated {
		named := b.Block
		if !paused {
			named.Addr = addr // the row keeps the address that the free named
		}
		m.row(event.Free, &named, stamp, tid, paused)
	}
	m.forget(b)
}

func (m *model) undoFree(addr uint64, tid uint64, stamp int64) {
	u, ok := m.undo[tid]
	if !ok || u.addr != addr {
		return
	}
	delete(m.undo, tid)
	if m.find(u.before.Pool, u.before.Device, u.before.Addr, false) != nil {
		return
	}
	b := &modelBlock{Block: u.before}
	m.used[account(b.Pool, b.Device)] += b.Size
	hadRow := b.State != ShadowCreated
	if hadRow && u.waits != nil && slices.Contains(m.blocks, u.waits) {
		m.forget(u.waits)
		m.blocks = append(m.blocks, b)
		if m.stopped == 0 {
			m.settle()
		}
		return
	}
	if hadRow {
		m.allocs++
		b.AllocID = m.allocs
		if m.stopped != 0 {
			b.State = ShadowCreated
		}
	}
	if m.stopped == 0 {
		m.settle()
	}
	m.blocks = append(m.blocks, b)
	switch {
	case b.State == ShadowCreated && m.tracing:
		m.promote(b, m.birth(stamp))
	case hadRow && m.stopped == 0:
		m.row(event.Malloc, &b.Block, m.birth(stamp), tid, false)
	}
}

func (m *model) start(stamp int64) {
	reused := map[place]bool{}
	for _, b := range m.waiting() {
		b.freedAt = stamp
		reused[placeOf(&b.Block)] = true
	}
	m.tracing, m.stopped = true, 0
	m.settle()
	live := slices.Clone(m.blocks)
	slices.SortFunc(live, func(a, b *modelBlock) int { return cmp.Compare(a.AllocID, b.AllocID) })
	for _, again := range []bool{false, true} {
		for _, b := range live {
			if b.State != ShadowCreated || reused[placeOf(&b.Block)] != again {
				continue
			}
			at := max(stamp, b.Born)
			if again {
				at = m.birth(stamp)
			}
			m.promote(b, at)
		}
	}
	m.system(event.StartTrace, stamp)
}

func (m *model) stop(stamp int64) {
	m.settle()
	m.system(event.StopTrace, stamp)
	m.tracing, m.stopped = false, m.last
}

func (m *model) exit(stamp int64) {
	m.settle()
	if m.stopped != 0 {
		stamp = m.stopped + 1
	}
	live := slices.DeleteFunc(slices.Clone(m.blocks), func(b *modelBlock) bool { return b.State == ShadowCreated })
	slices.SortFunc(live, func(a, b *modelBlock) int { return cmp.Compare(a.AllocID, b.AllocID) })
	for _, b := range live {
		m.row(event.Free, &b.Block, stamp, b.TID, true)
	}
	m.blocks = nil
}

// source gives the choices of a random history.
type source interface{ next(n int) int }

type random struct{ *rand.Rand }

func (r random) next(n int) int { return r.IntN(n) }

// addresses are bases for blocks, 64 bytes apart.
func addresses(n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = 0x1000 + 64*uint64(i)
	}
	return out
}

// history drives a ledger and the model with the same events and compares every row.
func history(t *testing.T, src source, events int, addrs []uint64) {
	var got []event.Event
	l := New(func(ev *event.Event, _ *Block) { got = append(got, *ev) })
	m := newModel()
	for p := range event.Pools {
		l.DropUnmatched[p] = src.next(2) == 0
		m.drop[p] = l.DropUnmatched[p]
	}
	devices := []int32{0, 1, event.DeviceCPU, 300}
	stamp := int64(1000)
	paused := src.next(2) == 0
	checked := 0
	compare := func(what string) {
		t.Helper()
		if len(got) != len(m.rows) {
			t.Fatalf("%s: %d rows, model %d\n got %+v\nwant %+v", what, len(got), len(m.rows), tail(got, checked), tail(m.rows, checked))
		}
		for ; checked < len(got); checked++ {
			g, w := got[checked], m.rows[checked]
			if g.Seq != uint64(checked)+1 {
				t.Fatalf("%s: row %d has seq %d", what, checked, g.Seq)
			}
			g.Seq, g.Total, g.ProcessUsed, g.DeviceUsed, g.Flags = 0, 0, 0, 0, g.Flags&event.Shadow
			if g != w {
				t.Fatalf("%s: row %d\n got %+v\nwant %+v", what, checked, g, w)
			}
		}
	}
	for i := range events {
		stamp += int64(src.next(4))
		at := stamp - int64(src.next(3))
		pool := event.Pool(src.next(int(event.Pools)))
		device := devices[src.next(len(devices))]
		addr := addrs[src.next(len(addrs))]
		tid := uint64(1 + src.next(4))
		flags := event.Flags(0)
		if late := src.next(50) == 0; paused != late {
			flags = event.Paused
		}
		switch what := src.next(40); {
		case what == 0:
			ev := event.Event{Kind: event.System, Sub: event.StartTrace, Stamp: stamp}
			l.Apply(&ev)
			m.start(stamp)
			paused = false
		case what == 1:
			ev := event.Event{Kind: event.System, Sub: event.StopTrace, Stamp: stamp}
			l.Apply(&ev)
			m.stop(stamp)
			paused = true
		case what < 4:
			l.Undo(addr, tid, at)
			m.undoFree(addr, tid, at)
		case what < 22:
			size := int64(src.next(200))
			ev := event.Event{Kind: event.Malloc, Pool: pool, Device: device, Addr: addr, Size: size, Stamp: at, TID: tid, Flags: flags}
			l.Apply(&ev)
			m.malloc(pool, device, addr, size, at, tid, flags != 0)
		default:
			if src.next(4) != 0 {
				device = event.DeviceNone
			}
			if src.next(20) == 0 {
				addr += uint64(src.next(64))
			}
			ev := event.Event{Kind: event.Free, Pool: pool, Device: device, Addr: addr, Stamp: at, TID: tid, Flags: flags}
			l.Apply(&ev)
			m.free(pool, device, addr, at, tid, flags != 0, uint64(i))
			if src.next(10) == 0 {
				l.Undo(addr, tid, at)
				m.undoFree(addr, tid, at)
			}
		}
		compare(fmt.Sprintf("event %d", i))
	}
	l.Exit(stamp)
	m.exit(stamp)
	compare("exit")
	verify(t, got)
}

func tail(rows []event.Event, from int) []event.Event { return rows[min(from, len(rows)):] }

// verify checks what holds for the rows of any history: their stamps ascend, at one place on one device strictly; each
// allocation_id has one MALLOC and one FREE of the same size, in this order, ghosts aside.
func verify(t *testing.T, rows []event.Event) {
	t.Helper()
	type life struct {
		mallocs, frees, size int64
		addr                 uint64
	}
	type site struct {
		place
		device int32
	}
	lives := map[uint64]*life{}
	newest := map[site]int64{}
	last := int64(0)
	for _, ev := range rows {
		if ev.Stamp < last {
			t.Fatalf("@%d follows @%d", ev.Stamp, last)
		}
		last = ev.Stamp
		if ev.AllocID == 0 {
			continue
		}
		b := lives[ev.AllocID]
		if b == nil {
			b = &life{addr: ev.Addr}
			lives[ev.AllocID] = b
		}
		at := site{place{ev.Pool, b.addr}, ev.Device}
		if ev.Stamp <= newest[at] {
			t.Fatalf("allocation %d: @%d, but the row before it at 0x%x is @%d", ev.AllocID, ev.Stamp, b.addr, newest[at])
		}
		newest[at] = ev.Stamp
		switch ev.Kind {
		case event.Malloc:
			b.mallocs++
			b.size = ev.Size
			if b.frees != 0 {
				t.Fatalf("allocation %d: FREE before MALLOC", ev.AllocID)
			}
		case event.Free:
			b.frees++
			if b.mallocs == 0 && ev.Size == 0 && ev.Flags&event.Shadow == 0 { // a ghost
				b.mallocs = 1
			} else if ev.Size != b.size {
				t.Fatalf("allocation %d: MALLOC %d bytes, FREE %d bytes", ev.AllocID, b.size, ev.Size)
			}
		}
	}
	for id, b := range lives {
		if b.mallocs != 1 || b.frees != 1 {
			t.Fatalf("allocation %d: %d MALLOC, %d FREE", id, b.mallocs, b.frees)
		}
	}
}

func TestModel(t *testing.T) {
	addrs := addresses(40)
	total := 1_000_000
	if testing.Short() {
		total = 100_000
	}
	for seed := uint64(0); total > 0; seed++ {
		rng := rand.New(rand.NewPCG(seed, 7))
		n := 20 + rng.IntN(4000)
		total -= n
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { history(t, random{rng}, n, addrs[:1+rng.IntN(len(addrs))]) })
		if t.Failed() {
			return
		}
	}
}
