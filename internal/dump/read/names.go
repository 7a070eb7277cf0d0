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

// subNames are the values of the Event Type column of the events that are no MALLOC or FREE.
var subNames = [...]string{
	event.AtenStart:     "ATEN_START",
	event.AtenEnd:       "ATEN_END",
	event.AtbStart:      "ATB_START",
	event.AtbEnd:        "ATB_END",
	event.Launched:      "KERNEL_LAUNCH",
	event.KernelStart:   "KERNEL_START",
	event.KernelEnd:     "KERNEL_END",
	event.ExecuteStart:  "KERNEL_EXECUTE_START",
	event.ExecuteEnd:    "KERNEL_EXECUTE_END",
	event.Read:          "READ",
	event.Write:         "WRITE",
	event.AccessUnknown: "UNKNOWN",
	event.Mark:          "Mark",
	event.RangeStart:    "Range_start",
	event.RangeEnd:      "Range_end",
	event.ACLInit:       "ACL_INIT",
	event.ACLFini:       "ACL_FINI",
	event.StartTrace:    "START_TRACE",
	event.StopTrace:     "STOP_TRACE",
	event.Step:          "STEP",
	event.OOMTrigger:    "OOM_TRIGGER",
	event.OOMRecent:     "OOM_RECENT_ALLOC",
	event.OOMTop:        "OOM_TOP_ALLOC",
}

// SubName is the Event Type column of a sub; N/A for none. SNAPSHOT rows have no sub, since there is only one.
func SubName(s event.Sub) string {
	if int(s) < len(subNames) && subNames[s] != "" {
		return subNames[s]
	}
	return "N/A"
}

// subOf reads the Event Type column of the events that are no MALLOC or FREE.
func subOf(b []byte) event.Sub {
	switch string(b) { // most rows
	case "ATEN_START":
		return event.AtenStart
	case "ATEN_END":
		return event.AtenEnd
	case "KERNEL_LAUNCH":
		return event.Launched
	}
	return subIndex[string(b)]
}

var subIndex = func() map[string]event.Sub {
	m := make(map[string]event.Sub)
	for s, name := range subNames {
		if name != "" {
			m[name] = event.Sub(s)
		}
	}
	return m
}()

// KindName is the Event column of a kind.
func KindName(k event.Kind) string {
	switch k {
	case event.Malloc:
		return "MALLOC"
	case event.Free:
		return "FREE"
	case event.Access:
		return "ACCESS"
	case event.OpLaunch:
		return "OP_LAUNCH"
	case event.KernelLaunch:
		return "KERNEL_LAUNCH"
	case event.Mstx:
		return "MSTX"
	case event.System:
		return "SYSTEM"
	case event.Snapshot:
		return "SNAPSHOT"
	case event.OOMDetail:
		return "OOM_DETAIL"
	}
	return "N/A"
}
