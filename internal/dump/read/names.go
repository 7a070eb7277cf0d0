package read

import "memscope/internal/event"

// kindOf reads the Event column; 0: none that we know.
func kindOf(b []byte) event.Kind {
	switch string(b) {
	case "MALLOC":
		return event.Malloc
	case "FREE":
		return event.Free
	case "ACCESS":
		return event.Access
	case "OP_LAUNCH":
		return event.OpLaunch
	case "KERNEL_LAUNCH":
		return event.KernelLaunch
	case "MSTX":
		return event.Mstx
	case "SYSTEM":
		return event.System
	case "SNAPSHOT":
		return event.Snapshot
	case "OOM_DETAIL":
		return event.OOMDetail
	}
	return 0
}

// poolOf reads the Event Type column of MALLOC and FREE, in all the spellings of contract 9.
func poolOf(b []byte) (event.Pool, event.Flags) {
	switch string(b) {
	case "HAL":
		return event.HAL, 0
	case "PTA", "PTA_CACHING":
		return event.PTA, 0
	case "PTA_WORKSPACE":
		return event.PTAWorkspace, 0
	case "ATB":
		return event.ATB, 0
	case "MINDSPORE", "MindSpore":
		return event.MindSpore, 0
	case "HOST":
		return event.Host, 0
	case "HOST_PINNED":
		return event.Host, event.Pinned
	}
	return NoPool, 0
}

// PoolName is the name of a pool in the Event Type column.
func PoolName(p event.Pool) string {
	switch p {
	case event.HAL:
		return "HAL"
	case event.PTA:
		return "PTA"
	case event.PTAWorkspace:
		return "PTA_WORKSPACE"
	case event.ATB:
		return "ATB"
	case event.MindSpore:
		return "MINDSPORE"
	case event.Host:
		return "HOST"
	}
	return "N/A"
}

// subOf reads the Event Type column of the other events.
func subOf(b []byte) event.Sub {
	switch string(b) {
	case "ATEN_START":
		return event.AtenStart
	case "ATEN_END":
		return event.AtenEnd
	case "ATB_START":
		return event.AtbStart
	case "ATB_END":
		return event.AtbEnd
	case "KERNEL_LAUNCH":
		return event.Launched
	case "KERNEL_START":
		return event.KernelStart
	case "KERNEL_END":
		return event.KernelEnd
	case "KERNEL_EXECUTE_START":
		return event.ExecuteStart
	case "KERNEL_EXECUTE_END":
		return event.ExecuteEnd
	case "READ":
		return event.Read
	case "WRITE":
		return event.Write
	case "UNKNOWN":
		return event.AccessUnknown
	case "Mark":
		return event.Mark
	case "Range_start":
		return event.RangeStart
	case "Range_end":
		return event.RangeEnd
	case "ACL_INIT":
		return event.ACLInit
	case "ACL_FINI":
		return event.ACLFini
	case "START_TRACE":
		return event.StartTrace
	case "STOP_TRACE":
		return event.StopTrace
	case "STEP":
		return event.Step
	case "OOM_TRIGGER":
		return event.OOMTrigger
	case "OOM_RECENT_ALLOC":
		return event.OOMRecent
	case "OOM_TOP_ALLOC":
		return event.OOMTop
	}
	return event.SubNone
}
