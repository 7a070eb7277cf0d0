package session

import (
	"cmp"
	"slices"

	"memscope/internal/config"
	"memscope/internal/event"
	"memscope/internal/leakcheck"
	"memscope/internal/ledger"
	"memscope/internal/wire"
)

// check is a client of mssanitizer: no rows, but at the end the blocks that live. There is one layer of memory in it, the driver's or
// AscendCL's, which is the pool HAL of the ledger.
type check struct {
	c        *client
	files    map[string]uint32
	names    []string // of the files, by number
	places   map[place]uint32
	list     []place              // by id - firstPlace
	physical map[uint64]*physical // by handle
	mapped   map[uint64]*physical // by address
}

// place is where a call stands, as the program says, and the stack beside it.
type place struct {
	file, line, stack uint32
}

// firstPlace is the first event.Event.Stack that means a place; those below are stacks of the process.
const firstPlace = 1 << 31

// physical is physical memory that is or was mapped. It lives until it is released and nowhere mapped any more.
type physical struct {
	maps     int
	released int // releases that have not failed, as far as is known
	free     event.Event
}

func newCheck(c *client) *check {
	return &check{
		c: c, files: map[string]uint32{}, places: map[place]uint32{}, physical: map[uint64]*physical{},
		mapped: map[uint64]*physical{},
	}
}

// use handles one record. What the program records while it says that it pauses counts, too.
func (k *check) use(rec wire.Record) {
	c, ev := k.c, &k.c.ev
	switch rec.Type() {
	case wire.TypeStack, wire.TypeCode, wire.TypeModule:
		define(c.dump.stacks, &c.cfg, rec)
	case wire.TypeAlloc, wire.TypeFree, wire.TypeACLAlloc:
		if rec.Head().Pool != wire.PoolHAL {
			return
		}
		c.collected = true
		c.decoder.decode(rec, ev)
		ev.Flags &^= event.Paused
		switch rec.Type() {
		case wire.TypeACLAlloc:
			k.acl(rec, ev)
			fallthrough
		case wire.TypeAlloc:
			delete(k.physical, ev.Addr) // of somebody who had the same handle before
		case wire.TypeFree:
			if p := k.physical[ev.Addr]; p != nil && p.maps > 0 {
				p.released++
				if p.released == 1 {
					p.free = *ev
				}
				return
			}
		}
		c.ledger.Apply(ev)
	case wire.TypeUndo:
		f := rec.Free()
		if p := k.physical[f.Addr]; p != nil && p.released > 0 {
			p.released--
			return
		}
		c.ledger.Undo(f.Addr, uint64(rec.TID()), rec.Head().Stamp+c.session.offset)
	case wire.TypeMap:
		m := rec.Map()
		k.unmap(m.Addr, rec.Head().Stamp) // in a way that we have not seen
		p := k.physical[m.Handle]
		if p == nil {
			p = &physical{}
			k.physical[m.Handle] = p
		}
		p.maps++
		k.mapped[m.Addr] = p
	case wire.TypeUnmap:
		k.unmap(rec.Map().Addr, rec.Head().Stamp)
	}
}

func (k *check) unmap(addr uint64, stamp int64) {
	p := k.mapped[addr]
	if p == nil {
		return
	}
	delete(k.mapped, addr)
	p.maps--
	if p.maps > 0 || p.released == 0 || k.physical[p.free.Addr] != p {
		return
	}
	delete(k.physical, p.free.Addr)
	p.free.Stamp = stamp + k.c.session.offset
	k.c.ledger.Apply(&p.free)
}

// acl completes the event of a block of AscendCL's.
func (k *check) acl(rec wire.Record, ev *event.Event) {
	a := rec.ACLAlloc()
	ev.Kind, ev.Addr, ev.Size = event.Malloc, a.Addr, int64(a.Size)
	if ev.Device == event.DeviceCPU {
		ev.Flags |= event.Pinned
	}
	name := rec.TextBytes()
	if len(name) == 0 {
		return
	}
	file, ok := k.files[string(name)]
	if !ok {
		file = uint32(len(k.names))
		k.names = append(k.names, string(name))
		k.files[k.names[file]] = file
	}
	at := place{file, a.Line, ev.Stack}
	id, ok := k.places[at]
	if !ok {
		id = firstPlace + uint32(len(k.list))
		k.list = append(k.list, at)
		k.places[at] = id
	}
	ev.Stack = id
}

// leaks are the blocks that live, in the order of their allocation.
func (k *check) leaks() *leakcheck.Process {
	p := &leakcheck.Process{PID: k.c.pid, Name: k.c.name}
	rules, err := leakcheck.Parse(k.c.cfg.Suppressions)
	if err != nil { // the launcher has accepted them
		k.c.log.Logf(config.Error, "suppressions: %v", err)
	}
	var blocks []*ledger.Block
	k.c.ledger.Live(func(b *ledger.Block) bool {
		blocks = append(blocks, b)
		return true
	})
	slices.SortFunc(blocks, func(a, b *ledger.Block) int {
		return cmp.Or(cmp.Compare(a.Born, b.Born), cmp.Compare(a.AllocID, b.AllocID))
	})
	type known struct {
		number     int
		suppressed bool
	}
	origins := map[uint32]known{}
	for _, b := range blocks {
		origin, ok := origins[b.Stack]
		if !ok {
			o := k.origin(b.Stack)
			if origin.suppressed = rules.Match(&o); !origin.suppressed {
				origin.number = len(p.Origins)
				p.Origins = append(p.Origins, o)
			}
			origins[b.Stack] = origin
		}
		if origin.suppressed {
			p.Suppressed.Add(b.Size)
			continue
		}
		l := leakcheck.Leak{
			Bytes: b.Size, Address: b.Addr, Space: leakcheck.GM, Device: b.Device, Thread: b.TID, Origin: origin.number,
		}
		if b.Flags&event.Pinned != 0 {
			l.Space = leakcheck.Host
		}
		p.Leaks = append(p.Leaks, l)
	}
	return p
}

func (k *check) origin(id uint32) leakcheck.Origin {
	if id < firstPlace {
		return originOf(k.c.dump.stacks.Places(id))
	}
	at := k.list[id-firstPlace]
	o := originOf(k.c.dump.stacks.Places(at.stack))
	o.File, o.Line = k.names[at.file], int(at.line)
	return o
}
