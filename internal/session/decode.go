package session

import (
	"strconv"

	"memscope/internal/event"
	"memscope/internal/wire"
)

// Parts of the driver's allocation flags (abi.md 2.1) and of the detail word of MS_F_CREATE (wire.h).
const (
	flagDevice      = 0x3ff
	flagSpaceShift  = 10
	flagSpaceMask   = 0xf
	flagHuge        = 1 << 17
	flagGiant       = 1 << 31
	flagModuleShift = 56

	createPage        = 0xff
	createModuleShift = 8
	createSideShift   = 40
	createSideDevice  = 1 // 0 is the host, 2 a NUMA node of it

	spaceHost = 2
)

// mostNames bounds the table of names; a target that makes up a new name per step must not fill the memory.
const mostNames = 4096

// decoder turns the records of one client into events.
type decoder struct {
	offset int64 // from a stamp to wall-clock ns
	pid    uint64
	names  map[string]string
}

func newDecoder(offset int64, pid uint64) *decoder {
	return &decoder{offset: offset, pid: pid, names: map[string]string{}}
}

// head fills ev with what every record has.
func (d *decoder) head(rec wire.Record, ev *event.Event) {
	h := rec.Head()
	*ev = event.Event{
		Stamp: h.Stamp + d.offset, PID: d.pid, TID: uint64(rec.TID()), Pool: event.Pool(h.Pool), Device: int32(h.Device),
		Module: -1, Stack: h.Stack, Used: event.Unknown, Total: event.Unknown, ProcessUsed: event.Unknown, DeviceUsed: event.Unknown,
	}
	if h.Flags&wire.FlagShadow != 0 {
		ev.Flags = event.Paused
	}
}

// decode fills ev from any record that is not named elsewhere in the package. It returns false for a record that never becomes a row.
func (d *decoder) decode(rec wire.Record, ev *event.Event) bool {
	h := rec.Head()
	d.head(rec, ev)
	switch rec.Type() {
	case wire.TypeAlloc:
		d.alloc(rec.Alloc(), ev)
		return true
	case wire.TypeFree:
		f := rec.Free()
		ev.Kind, ev.Addr = event.Free, f.Addr
		if h.Pool >= wire.PoolPTA {
			ev.Total = int64(f.Total)
		}
		return true
	case wire.TypeSnapshot:
		d.snapshot(rec, ev)
		return true
	case wire.TypeAtenStart, wire.TypeAtenEnd:
		d.aten(rec, ev)
		return true
	case wire.TypeAtbStart, wire.TypeAtbEnd, wire.TypeAtbKernelStart, wire.TypeAtbKernelEnd:
		d.atb(rec, ev)
		return true
	case wire.TypeAtenAccess, wire.TypeAtbAccess:
		d.access(rec, ev)
		return true
	case wire.TypeLabelPush, wire.TypeLabelPop, wire.TypeLabelAddress:
		return d.label(rec, ev)
	}
	if rec.Type() == wire.TypeOOM {
		d.oom(rec.OOM(), ev)
		return true
	}
	return d.text(rec, ev)
}

func (d *decoder) alloc(a *wire.Alloc, ev *event.Event) {
	ev.Kind, ev.Addr, ev.Size = event.Malloc, a.Addr, int64(a.Size)
	switch {
	case a.H.Pool == wire.PoolHAL && a.H.Flags&wire.FlagCreate != 0:
		ev.Flags |= event.Created
		ev.Page = min(event.Page(a.Detail&createPage), event.PageGiant)
		ev.Module = int16(min(a.Detail>>createModuleShift&0xffffffff, 0x7fff))
		if a.Detail>>createSideShift&0xff != createSideDevice {
			d.pin(ev)
		}
	case a.H.Pool == wire.PoolHAL:
		switch {
		case a.Detail&flagGiant != 0:
			ev.Page = event.PageGiant
		case a.Detail&flagHuge != 0:
			ev.Page = event.PageHuge
		}
		ev.Module = int16(a.Detail >> flagModuleShift)
		ev.Device = int32(a.Detail & flagDevice)
		if a.Detail>>flagSpaceShift&flagSpaceMask == spaceHost {
			d.pin(ev)
		}
	case a.H.Pool >= wire.PoolPTA:
		ev.Total = int64(a.Total)
	}
}

// pin makes a block of the driver's one of host memory.
func (d *decoder) pin(ev *event.Event) {
	ev.Flags |= event.Pinned
	ev.Device = event.DeviceCPU
}

func (d *decoder) text(rec wire.Record, ev *event.Event) bool {
	ev.Kind, ev.Used, ev.Total = event.System, 0, 0
	switch rec.Type() {
	case wire.TypeMark:
		ev.Kind, ev.Sub = event.Mstx, event.Mark
	case wire.TypeRangeStart:
		ev.Kind, ev.Sub = event.Mstx, event.RangeStart
	case wire.TypeRangeEnd:
		ev.Kind, ev.Sub = event.Mstx, event.RangeEnd
	case wire.TypeACLInit:
		ev.Sub = event.ACLInit
	case wire.TypeACLFini:
		ev.Sub = event.ACLFini
	case wire.TypeStartTrace:
		ev.Sub = event.StartTrace
	case wire.TypeStopTrace:
		ev.Sub = event.StopTrace
	case wire.TypeStep:
		ev.Sub = event.Step
	default:
		return false
	}
	ev.Value = rec.Text().Value
	ev.Name = d.name(rec.TextBytes())
	if ev.Sub == event.RangeEnd {
		ev.Name = "Range end from id " + strconv.FormatUint(ev.Value, 10)
	}
	return true
}

// name is text as a string, the same one for the same text.
func (d *decoder) name(text []byte) string {
	if s, ok := d.names[string(text)]; ok {
		return s
	}
	s := string(text)
	if len(d.names) < mostNames {
		d.names[s] = s
	}
	return s
}
