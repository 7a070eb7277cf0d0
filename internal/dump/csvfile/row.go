package csvfile

import (
	"math"
	"strconv"
	"strings"

	"memscope/internal/event"
)

// Header is the first line of a dump, without its line end (contract 3.1).
const Header = "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)"

const na = "N/A"

var kindNames = [...]string{
	event.System: "SYSTEM", event.Malloc: "MALLOC", event.Free: "FREE", event.Access: "ACCESS", event.OpLaunch: "OP_LAUNCH",
	event.KernelLaunch: "KERNEL_LAUNCH", event.Mstx: "MSTX", event.Snapshot: "SNAPSHOT", event.OOMDetail: "OOM_DETAIL",
}

var subNames = [...]string{
	event.ACLInit: "ACL_INIT", event.ACLFini: "ACL_FINI", event.StartTrace: "START_TRACE", event.StopTrace: "STOP_TRACE",
	event.Step: "STEP", event.Mark: "Mark", event.RangeStart: "Range_start", event.RangeEnd: "Range_end",
}

// poolNames are the Event Type of MALLOC and FREE rows; pinned host memory, of the HAL pool, says HOST too.
var poolNames = [...]string{
	event.Host: "HOST", event.HAL: "HAL", event.PTA: "PTA", event.PTAWorkspace: "PTA_WORKSPACE",
	event.MindSpore: "MINDSPORE", event.ATB: "ATB",
}

var pageNames = [...]string{event.PageNormal: "normal", event.PageHuge: "huge", event.PageGiant: "giant"}

// name is the i-th of names, N/A when there is none.
func name[T ~uint8](names []string, i T) string {
	if int(i) < len(names) && names[i] != "" {
		return names[i]
	}
	return na
}

// block says whether ev is about a block, and so has a Ptr and an allocation id.
func block(ev *event.Event) bool { return ev.Kind == event.Malloc || ev.Kind == event.Free }

func pinned(ev *event.Event) bool { return ev.Pool == event.HAL && ev.Device == event.DeviceCPU }

// AppendRow appends the row of ev, with its line end, to b. It allocates nothing but what b needs to grow.
func AppendRow(b []byte, ev *event.Event, id uint64) []byte {
	b = strconv.AppendUint(b, id, 10)
	b = append(b, ',')
	b = append(b, name(kindNames[:], ev.Kind)...)
	b = append(b, ',')
	switch {
	case !block(ev):
		b = append(b, name(subNames[:], ev.Sub)...)
	case pinned(ev):
		b = append(b, poolNames[event.Host]...)
	default:
		b = append(b, name(poolNames[:], ev.Pool)...)
	}
	b = append(b, ',')
	b = appendName(b, ev)
	b = append(b, ',')
	b = strconv.AppendInt(b, ev.Stamp, 10)
	b = append(b, ',')
	b = appendID(b, ev.PID)
	b = append(b, ',')
	b = appendID(b, ev.TID)
	b = append(b, ',')
	switch ev.Device {
	case event.DeviceNone:
		b = append(b, na...)
	case event.DeviceCPU:
		b = append(b, "cpu"...)
	default:
		b = strconv.AppendInt(b, int64(ev.Device), 10)
	}
	b = append(b, ',')
	if block(ev) {
		b = appendAddr(b, ev.Addr)
		b = append(b, ',')
		b = appendBlockAttr(b, ev)
	} else {
		b = append(b, na...)
		b = append(b, ',') // SYSTEM and MSTX rows have no attributes
	}
	return append(b, ",,\n"...) // no call stacks
}

// appendName appends the Name column.
func appendName(b []byte, ev *event.Event) []byte {
	switch {
	case ev.Kind == event.Mstx:
		return appendQuoted(b, ev.Name)
	case ev.Kind == event.System && ev.Sub == event.Step:
		return strconv.AppendUint(b, ev.Value, 10)
	case ev.Kind == event.System || block(ev):
		return append(b, na...)
	case strings.ContainsAny(ev.Name, "\",\r\n"): // names of operators and kernels
		return appendQuoted(b, ev.Name)
	}
	return append(b, ev.Name...)
}

// appendQuoted appends s in one pair of double quotes; those inside are doubled.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for {
		i := strings.IndexByte(s, '"')
		if i < 0 {
			break
		}
		b = append(b, s[:i+1]...)
		b = append(b, '"')
		s = s[i+1:]
	}
	b = append(b, s...)
	return append(b, '"')
}

// appendBlockAttr appends the Attr column of a MALLOC or FREE row (contract 3.2).
func appendBlockAttr(b []byte, ev *event.Event) []byte {
	b = append(b, `"{allocation_id:`...)
	b = strconv.AppendUint(b, ev.AllocID, 10)
	b = append(b, ",addr:"...)
	b = appendAddr(b, ev.Addr)
	b = append(b, ",size:"...)
	b = strconv.AppendInt(b, ev.Size, 10)
	if ev.Flags&event.Shadow != 0 {
		b = append(b, ",shadow:true"...)
	} else {
		b = appendUsage(b, ev)
	}
	if ev.Kind == event.Malloc && ev.Pool == event.HAL && !pinned(ev) {
		b = append(b, ",page_type:"...)
		b = append(b, name(pageNames[:], ev.Page)...)
		// A block that is known from outside of tracing says "create" (contract 3.2).
		if ev.Flags&(event.Created|event.Shadow) != 0 {
			b = append(b, ",alloc_type:create"...)
		} else {
			b = append(b, ",alloc_type:alloc"...)
		}
	}
	return append(b, `}"`...)
}

// appendUsage appends the usage numbers; those that nobody could tell are left out.
func appendUsage(b []byte, ev *event.Event) []byte {
	switch {
	case pinned(ev):
		b = append(b, ",pinned:true"...)
		b = appendSize(b, ",used:", ev.Used)
		return appendSize(b, ",process_used:", ev.ProcessUsed)
	case ev.Pool == event.Host:
		return appendSize(b, ",total:", ev.Total)
	}
	b = appendSize(b, ",used:", ev.Used)
	if ev.Pool != event.HAL {
		b = appendSize(b, ",total:", ev.Total)
	}
	b = appendSize(b, ",process_used:", ev.ProcessUsed)
	return appendSize(b, ",device_used:", ev.DeviceUsed)
}

func appendSize(b []byte, key string, size int64) []byte {
	if size < 0 {
		return b
	}
	b = append(b, key...)
	return strconv.AppendInt(b, size, 10)
}

// appendID appends a process or thread id.
func appendID(b []byte, id uint64) []byte {
	if id == math.MaxUint64 {
		return append(b, na...)
	}
	return strconv.AppendUint(b, id, 10)
}

// appendAddr appends an address as 0x and 16 lower-case hex digits.
func appendAddr(b []byte, addr uint64) []byte {
	const digits = "0123456789abcdef"
	var a [18]byte
	a[0], a[1] = '0', 'x'
	for i := len(a) - 1; i > 1; i-- {
		a[i] = digits[addr&15]
		addr >>= 4
	}
	return append(b, a[:]...)
}
