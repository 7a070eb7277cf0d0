package session

import (
	"testing"

	"memscope/internal/event"
	"memscope/internal/wire"
	"memscope/internal/wire/wiretest"
)

// decodeOne publishes records with publish and decodes the one that it leaves in a ring.
func decodeOne(t *testing.T, publish func(p *wiretest.Producer)) (event.Event, bool) {
	t.Helper()
	ring, err := wire.NewRing(wire.MinBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	publish(&wiretest.Producer{Ring: ring})
	rec, status := wire.NewReader(ring).Next()
	if status != wire.Ready {
		t.Fatal("no record")
	}
	var ev event.Event
	ok := newDecoder(1000, 77).decode(rec, &ev)
	if ok && ev.Stamp != rec.Head().Stamp+1000 {
		t.Errorf("stamp %d of a record of %d", ev.Stamp, rec.Head().Stamp)
	}
	ev.Stamp = 0
	return ev, ok
}

func TestDecodeAlloc(t *testing.T) {
	base := event.Event{
		Kind: event.Malloc, Pool: event.HAL, PID: 77, TID: 5, Addr: 0x1000, Size: 512, Module: 33, Used: event.Unknown,
		Total: event.Unknown, ProcessUsed: event.Unknown, DeviceUsed: event.Unknown,
	}
	with := func(change func(ev *event.Event)) event.Event {
		ev := base
		change(&ev)
		return ev
	}
	for name, c := range map[string]struct {
		pool, flags   uint8
		device        uint16
		detail, total uint64
		want          event.Event
	}{
		// the vector of abi.md 2.1
		"flag word": {wire.PoolHAL, 0, 6, 2377900603261207558, 0, with(func(ev *event.Event) {
			ev.Device, ev.Page = 6, event.PageHuge
		})},
		"giant": {wire.PoolHAL, 0, 1, 33<<56 | 1<<31 | 1<<17 | 1<<10 | 1, 0, with(func(ev *event.Event) {
			ev.Device, ev.Page = 1, event.PageGiant
		})},
		"host": {wire.PoolHAL, 0, wire.DeviceCPU, 33<<56 | 2<<10, 0, with(func(ev *event.Event) {
			ev.Device, ev.Flags = event.DeviceCPU, event.Pinned
		})},
		"paused":      {wire.PoolHAL, wire.FlagShadow, 0, 33<<56 | 1<<10, 0, with(func(ev *event.Event) { ev.Flags = event.Paused })},
		"last module": {wire.PoolHAL, 0, 0, 255<<56 | 1<<10, 0, with(func(ev *event.Event) { ev.Module = 255 })},
		"create": {wire.PoolHAL, wire.FlagCreate, 3, 1 | 33<<8 | 1<<40, 0, with(func(ev *event.Event) {
			ev.Device, ev.Flags, ev.Page = 3, event.Created, event.PageHuge
		})},
		"create on the host": {wire.PoolHAL, wire.FlagCreate, wire.DeviceCPU, 33 << 8, 0, with(func(ev *event.Event) {
			ev.Device, ev.Flags = event.DeviceCPU, event.Created|event.Pinned
		})},
		"create on a node of the host, odd page and module": {wire.PoolHAL, wire.FlagCreate, wire.DeviceCPU, 9 | 1<<39 | 2<<40, 0,
			with(func(ev *event.Event) {
				ev.Device, ev.Flags, ev.Page = event.DeviceCPU, event.Created|event.Pinned, event.PageGiant
				ev.Module = 0x7fff
			})},
		"pool": {wire.PoolPTA, 0, 2, 0, 4096, with(func(ev *event.Event) {
			ev.Pool, ev.Device, ev.Module, ev.Total = event.PTA, 2, -1, 4096
		})},
	} {
		got, ok := decodeOne(t, func(p *wiretest.Producer) {
			a := wire.Alloc{Addr: 0x1000, Size: 512, Detail: c.detail, Total: c.total}
			a.H.Pool, a.H.Flags, a.H.Device = c.pool, c.flags, c.device
			p.Alloc(5, a)
		})
		if !ok || got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, c.want)
		}
	}
}

func TestDecodeFree(t *testing.T) {
	for pool, total := range map[uint8]int64{wire.PoolHAL: event.Unknown, wire.PoolPTA: 4096} {
		got, ok := decodeOne(t, func(p *wiretest.Producer) {
			f := wire.Free{Addr: 0x1000, Total: 4096}
			f.H.Pool, f.H.Device = pool, wire.DeviceNone
			p.Free(5, wire.TypeFree, f)
		})
		want := event.Event{
			Kind: event.Free, Pool: event.Pool(pool), PID: 77, TID: 5, Addr: 0x1000, Device: event.DeviceNone, Module: -1,
			Used: event.Unknown, Total: total, ProcessUsed: event.Unknown, DeviceUsed: event.Unknown,
		}
		if !ok || got != want {
			t.Errorf("\n got %+v\nwant %+v", got, want)
		}
	}
}

func TestDecodeText(t *testing.T) {
	for _, c := range []struct {
		typ  uint16
		kind event.Kind
		sub  event.Sub
		name string
	}{
		{wire.TypeMark, event.Mstx, event.Mark, "text"},
		{wire.TypeRangeStart, event.Mstx, event.RangeStart, "text"},
		{wire.TypeRangeEnd, event.Mstx, event.RangeEnd, "Range end from id 9"},
		{wire.TypeACLInit, event.System, event.ACLInit, "text"},
		{wire.TypeACLFini, event.System, event.ACLFini, "text"},
		{wire.TypeStartTrace, event.System, event.StartTrace, "text"},
		{wire.TypeStopTrace, event.System, event.StopTrace, "text"},
		{wire.TypeStep, event.System, event.Step, "text"},
	} {
		got, ok := decodeOne(t, func(p *wiretest.Producer) { p.Text(5, c.typ, 4, 9, "text") })
		want := event.Event{
			Kind: c.kind, Sub: c.sub, PID: 77, TID: 5, Device: 4, Module: -1, Value: 9, Name: c.name,
			ProcessUsed: event.Unknown, DeviceUsed: event.Unknown,
		}
		if !ok || got != want {
			t.Errorf("type %d:\n got %+v\nwant %+v", c.typ, got, want)
		}
	}
}

// One string serves every event of a name, and the table of names is bounded.
func TestNames(t *testing.T) {
	d := newDecoder(0, 1)
	for i := range 3 * mostNames {
		text := []byte{byte(i), byte(i >> 8), byte(i >> 16)}
		if d.name(text) != string(text) {
			t.Fatal("a name has changed")
		}
	}
	if len(d.names) != mostNames {
		t.Errorf("%d names are kept", len(d.names))
	}
	text := []byte{0, 0, 0}
	if n := testing.AllocsPerRun(10, func() { d.name(text) }); n != 0 {
		t.Errorf("%v allocations for a known name", n)
	}
}
