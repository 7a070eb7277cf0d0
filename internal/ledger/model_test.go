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
	freed   map[place]int64 // stamp of the last FREE row by place
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
	return &model{used: map[accountKey]int64{}, freed: map[place]int64{}, undo: map[uint64]modelFree{}}
}

type accountKey struct {
	pool   event.Pool
	device int32
}

func account(p event.Pool, device int32) accountKey { return accountKey{p, device} }

func placeOf(b *Block) place { return place{b.Pool, b.Addr} }

func (m *model) row(kind event.Kind, b *Block, stamp int64, tid uint64, shadow bool) {
	ev := event.Event{Kind: kind, Pool: b.Pool, Device: b.Device, Addr: b.Addr, Size: b.Size, AllocID: b.AllocID, Stamp: stamp, TID: tid}
	if shadow {
		ev.Flags |= event.Shadow
		ev.Used = event.Unknown
	} else {
		ev.Used = max(m.used[account(b.Pool, b.Device)], 0)
	}
	b.last = stamp
	if kind == event.Free {
		m.freed[placeOf(b)] = max(m.freed[placeOf(b)], stamp)
	}
	m.rows = append(m.rows, ev)
}

func (m *model) after(b *Block, stamp int64) int64 {
	if f, ok := m.freed[placeOf(b)]; ok {
		return max(stamp, f+1)
	}
	return stamp
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
		m.row(event.Free, &b.Block, max(stamp, b.last+1), b.freedBy, true)
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
	if !paused || m.tracing {
		m.settle()
	}
	if old := m.find(pool, device, addr, false); old != nil {
		if old.State != ShadowCreated {
			at := stamp
			if paused && m.stopped != 0 {
				at = m.stopped + 1
			}
			m.row(event.Free, &old.Block, max(at, old.last+1), tid, true)
		}
		m.used[account(pool, device)] -= old.Size
		m.forget(old)
	}
	m.allocs++
	b := &modelBlock{Block: Block{Pool: pool, Device: device, Addr: addr, Size: size, AllocID: m.allocs, TID: tid}}
	stamp = m.after(&b.Block, stamp)
	b.last = stamp
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
	b := m.find(pool, device, addr, device == event.DeviceNone)
	if b == nil && !m.drop[pool] {
		b = m.containing(pool, device, addr)
	}
	if b == nil {
		delete(m.undo, tid)
		if !paused && !m.drop[pool] {
			m.allocs++
			ghost := Block{Pool: pool, Device: device, Addr: addr, AllocID: m.allocs}
			before := m.freed[placeOf(&ghost)]
			m.row(event.Free, &ghost, stamp, tid, false)
			m.freed[placeOf(&ghost)] = before // a ghost is not a block that was here
		}
		return
	}
	if !paused && b.State == ShadowCreated {
		m.settle()
		m.promote(b, m.after(&b.Block, stamp))
	}
	if pool == event.HAL {
		m.undo[tid] = modelFree{addr: addr, before: b.Block}
	}
	m.used[account(b.Pool, b.Device)] = m.used[account(b.Pool, b.Device)] - b.Size
	if pool == event.PTAWorkspace {
		m.used[account(b.Pool, b.Device)] = max(m.used[account(b.Pool, b.Device)], 0)
	}
	stamp = max(stamp, b.last+1)
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
		before := m.freed[placeOf(&named)]
		m.row(event.Free, &named, stamp, tid, paused)
		m.freed[placeOf(&named)] = before
		m.freed[placeOf(&b.Block)] = max(m.freed[placeOf(&b.Block)], stamp)
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
		return
	}
	if hadRow {
		m.allocs++
		b.AllocID = m.allocs
		if m.stopped != 0 {
			b.State = ShadowCreated
		}
	}
	m.blocks = append(m.blocks, b)
	switch {
	case b.State == ShadowCreated && m.tracing:
		m.settle()
		m.promote(b, m.after(&b.Block, stamp))
	case hadRow && m.stopped == 0:
		m.settle()
		m.row(event.Malloc, &b.Block, m.after(&b.Block, stamp), tid, false)
	}
}

func (m *model) start(stamp int64) {
	for _, b := range m.waiting() {
		b.freedAt = max(stamp, b.last+1)
	}
	reused := map[place]int64{}
	for _, b := range m.waiting() {
		reused[placeOf(&b.Block)] = max(reused[placeOf(&b.Block)], b.freedAt)
	}
	m.tracing, m.stopped = true, 0
	m.settle()
	last := stamp
	live := slices.Clone(m.blocks)
	slices.SortFunc(live, func(a, b *modelBlock) int { return cmp.Compare(a.AllocID, b.AllocID) })
	for _, b := range live {
		if b.State == ShadowCreated {
			at := stamp
			if f, ok := reused[placeOf(&b.Block)]; ok {
				at = f + 1
			}
			m.promote(b, at)
			last = max(last, at)
		}
	}
	m.rows = append(m.rows, event.Event{Kind: event.System, Sub: event.StartTrace, Stamp: last})
}

func (m *model) stop(stamp int64) {
	m.rows = append(m.rows, event.Event{Kind: event.System, Sub: event.StopTrace, Stamp: stamp})
	m.tracing = false
	if m.stopped == 0 {
		m.stopped = stamp
	}
}

func (m *model) exit(stamp int64) {
	if m.stopped != 0 {
		stamp = m.stopped + 1
	}
	type due struct {
		b     *modelBlock
		stamp int64
		tid   uint64
	}
	var rows []due
	for _, b := range m.waiting() {
		at := b.freedAt
		if m.stopped != 0 {
			at = stamp
		}
		rows = append(rows, due{b, max(at, b.last+1), b.freedBy})
	}
	live := slices.DeleteFunc(slices.Clone(m.blocks), func(b *modelBlock) bool { return b.waits || b.State == ShadowCreated })
	slices.SortFunc(live, func(a, b *modelBlock) int { return cmp.Compare(a.AllocID, b.AllocID) })
	for _, b := range live {
		rows = append(rows, due{b, max(stamp, b.last+1), b.TID})
	}
	slices.SortStableFunc(rows, func(a, b due) int { return cmp.Compare(a.stamp, b.stamp) })
	for _, r := range rows {
		m.row(event.Free, &r.b.Block, r.stamp, r.tid, true)
	}
	m.blocks = nil
}

// source gives the choices of a random history.
type source interface{ next(n int) int }

type random struct{ *rand.Rand }

func (r random) next(n int) int { return r.IntN(n) }

// addresses are bases for blocks, 64 bytes apart, whose places in freedStamps differ, so that the ledger forgets none of
// them.
func addresses(n int) []uint64 {
	taken := map[uint32]bool{}
	var out []uint64
	for a := uint64(0x1000); len(out) < n; a += 64 {
		free := true
		for p := range event.Pools {
			free = free && !taken[hash(p, a)%recentSlots]
		}
		if free {
			for p := range event.Pools {
				taken[hash(p, a)%recentSlots] = true
			}
			out = append(out, a)
		}
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
	first := checked
	compare("exit")
	verify(t, got, first)
}

func tail(rows []event.Event, from int) []event.Event { return rows[min(from, len(rows)):] }

// verify checks what holds for the rows of any history: each allocation_id has one MALLOC and one FREE of the same size, in
// this order of time, ghosts aside; at one place no row has the stamp of the one before; the rows of the exit ascend.
func verify(t *testing.T, rows []event.Event, exit int) {
	t.Helper()
	type life struct{ mallocs, frees, size, stamp int64 }
	lives := map[uint64]*life{}
	for i, ev := range rows {
		if ev.AllocID == 0 {
			continue
		}
		b := lives[ev.AllocID]
		if b == nil {
			b = &life{}
			lives[ev.AllocID] = b
		}
		switch ev.Kind {
		case event.Malloc:
			b.mallocs++
			b.size, b.stamp = ev.Size, ev.Stamp
			if b.frees != 0 {
				t.Fatalf("allocation %d: FREE before MALLOC", ev.AllocID)
			}
		case event.Free:
			b.frees++
			if b.mallocs == 0 && ev.Size == 0 && ev.Flags&event.Shadow == 0 { // a ghost
				b.mallocs = 1
			} else if ev.Size != b.size || ev.Stamp <= b.stamp {
				t.Fatalf("allocation %d: MALLOC %d bytes @%d, FREE %d bytes @%d", ev.AllocID, b.size, b.stamp, ev.Size, ev.Stamp)
			}
		}
		if i > exit && rows[i-1].Stamp > ev.Stamp {
			t.Fatalf("exit: @%d follows @%d", ev.Stamp, rows[i-1].Stamp)
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
