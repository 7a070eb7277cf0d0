// Package cells gives the columns of a dump's row (contract 3.1 and 3.2) as text, the same for every format: csvfile quotes
// them, dbfile takes them as they are. Everything appends to a buffer of the caller's and allocates nothing else.
package cells

import (
	"math"

	"memscope/internal/event"
)

// Columns are the names of the columns, in order.
var Columns = [...]string{
	"ID", "Event", "Event Type", "Name", "Timestamp(ns)", "Process Id", "Thread Id", "Device Id", "Ptr", "Attr",
	"Call Stack(Python)", "Call Stack(C)",
}

// Stacks knows the call stacks of a process.
type Stacks interface {
	// Columns are the two columns of a row that has Event.Stack id, in double quotes, or empty. Quotes within are not doubled.
	Columns(id uint32) (python, c string)
}

// StackColumns are the columns of call stacks; s may be nil.
func StackColumns(s Stacks, ev *event.Event) (python, c string) {
	if s == nil || ev.Stack == 0 {
		return "", ""
	}
	return s.Columns(ev.Stack)
}

// NA is what a column says that has nothing to say.
const NA = "N/A"

var kinds = [...]string{
	event.System: "SYSTEM", event.Malloc: "MALLOC", event.Free: "FREE", event.Access: "ACCESS", event.OpLaunch: "OP_LAUNCH",
	event.KernelLaunch: "KERNEL_LAUNCH", event.Mstx: "MSTX", event.Snapshot: "SNAPSHOT", event.OOMDetail: "OOM_DETAIL",
}

var subs = [...]string{
	event.ACLInit: "ACL_INIT", event.ACLFini: "ACL_FINI", event.StartTrace: "START_TRACE", event.StopTrace: "STOP_TRACE",
	event.Step: "STEP", event.Mark: "Mark", event.RangeStart: "Range_start", event.RangeEnd: "Range_end",
	event.Read: "READ", event.Write: "WRITE", event.AccessUnknown: "UNKNOWN",
	event.AtenStart: "ATEN_START", event.AtenEnd: "ATEN_END", event.AtbStart: "ATB_START", event.AtbEnd: "ATB_END",
	event.Launched: "KERNEL_LAUNCH", event.KernelStart: "KERNEL_START", event.KernelEnd: "KERNEL_END",
	event.ExecuteStart: "KERNEL_EXECUTE_START", event.ExecuteEnd: "KERNEL_EXECUTE_END",
	event.OOMTrigger: "OOM_TRIGGER", event.OOMRecent: "OOM_RECENT_ALLOC", event.OOMTop: "OOM_TOP_ALLOC",
}

var pools = [...]string{
	event.Host: "HOST", event.HAL: "HAL", event.PTA: "PTA", event.PTAWorkspace: "PTA_WORKSPACE",
	event.MindSpore: "MINDSPORE", event.ATB: "ATB",
}

var pages = [...]string{event.PageNormal: "normal", event.PageHuge: "huge", event.PageGiant: "giant"}

var wastes = [...]string{"early_allocation", "late_deallocation", "temporary_idleness"}

// at is the i-th of names, N/A when there is none.
func at[T ~uint8](names []string, i T) string {
	if int(i) < len(names) && names[i] != "" {
		return names[i]
	}
	return NA
}

// Pool is the name of a pool; a named pool of the user's own is not among them.
func Pool(p event.Pool) string { return at(pools[:], p) }

// ParsePool is the inverse of Pool.
func ParsePool(name string) (event.Pool, bool) {
	for i, n := range pools {
		if n == name {
			return event.Pool(i), true
		}
	}
	return 0, false
}

// IsBlock says whether ev is the beginning or the end of a block.
func IsBlock(ev *event.Event) bool { return ev.Kind == event.Malloc || ev.Kind == event.Free }

func pinned(ev *event.Event) bool { return ev.Pool == event.HAL && ev.Device == event.DeviceCPU }

// Kind is the Event column.
func Kind(ev *event.Event) string { return at(kinds[:], ev.Kind) }

// Type is the Event Type column. The name of a named pool is in ev.Name; pinned host memory, of the HAL pool, says HOST.
func Type(ev *event.Event) string {
	switch {
	case !IsBlock(ev):
		if ev.Kind == event.Snapshot {
			return "SNAPSHOT"
		}
		return at(subs[:], ev.Sub)
	case ev.Pool >= event.Named && ev.Name != "":
		return ev.Name
	case pinned(ev):
		return pools[event.Host]
	}
	return Pool(ev.Pool)
}

// AppendName appends the Name column, which for a mark or range is without the quotes that stand around it.
func AppendName(b []byte, ev *event.Event) []byte {
	switch {
	case ev.Kind == event.System && ev.Sub == event.Step:
		return AppendUint(b, ev.Value)
	case ev.Kind == event.System || IsBlock(ev):
		return append(b, NA...)
	}
	return append(b, ev.Name...)
}

// AppendID appends a process or thread id.
func AppendID(b []byte, id uint64) []byte {
	if id == math.MaxUint64 {
		return append(b, NA...)
	}
	return AppendUint(b, id)
}

// AppendDevice appends the Device Id column.
func AppendDevice(b []byte, device int32) []byte {
	switch device {
	case event.DeviceNone:
		return append(b, NA...)
	case event.DeviceCPU:
		return append(b, "cpu"...)
	}
	return AppendInt(b, int64(device))
}

// AppendPtr appends the Ptr column.
func AppendPtr(b []byte, ev *event.Event) []byte {
	if IsBlock(ev) || ev.Kind == event.Access {
		return appendAddr(b, ev.Addr)
	}
	return append(b, NA...)
}

// AppendAttr appends the Attr column as "{key:value,key:value}", and nothing when there are no attributes.
func AppendAttr(b []byte, ev *event.Event) []byte {
	switch {
	case IsBlock(ev):
		return appendBlock(b, ev)
	case ev.Kind == event.Access:
		b = appendHead(b, ev)
		b = append(b, ",type:"...)
		b = append(b, Pool(ev.Pool)...)
		if ev.Attrs != "" {
			b = append(append(b, ','), ev.Attrs...)
		}
		return append(b, '}')
	case ev.Kind == event.KernelLaunch && ev.Attrs == "":
		b = append(b, "{streamId:"...)
		b = AppendUint(b, ev.Value>>32)
		b = append(b, ",taskId:"...)
		b = AppendUint(b, ev.Value&math.MaxUint32)
		return append(b, '}')
	case ev.Attrs != "":
		b = append(append(b, '{'), ev.Attrs...)
		return append(b, '}')
	}
	return b
}

func appendHead(b []byte, ev *event.Event) []byte {
	b = append(b, "{allocation_id:"...)
	b = AppendUint(b, ev.AllocID)
	b = append(b, ",addr:"...)
	b = appendAddr(b, ev.Addr)
	b = append(b, ",size:"...)
	return AppendInt(b, ev.Size)
}

func appendBlock(b []byte, ev *event.Event) []byte {
	b = appendHead(b, ev)
	if ev.Flags&event.Shadow != 0 {
		b = append(b, ",shadow:true"...)
	} else {
		b = appendUsage(b, ev)
	}
	if ev.Kind == event.Malloc {
		if ev.Owner != "" {
			b = append(b, ",owner:"...)
			b = append(b, ev.Owner...)
		}
		b = appendWaste(b, ev.Waste)
		if ev.Pool == event.HAL && !pinned(ev) {
			b = append(b, ",page_type:"...)
			b = append(b, at(pages[:], ev.Page)...)
			// A block that is known from outside of tracing says "create" (contract 3.2).
			if ev.Flags&(event.Created|event.Shadow) != 0 {
				b = append(b, ",alloc_type:create"...)
			} else {
				b = append(b, ",alloc_type:alloc"...)
			}
		}
	}
	return append(b, '}')
}

func appendWaste(b []byte, w event.Waste) []byte {
	separator := ",inefficient_type:"
	for i, name := range wastes {
		if w&(1<<i) != 0 {
			b = append(append(b, separator...), name...)
			separator = ","
		}
	}
	return b
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
	return AppendUint(b, uint64(size))
}
