package leaks

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"memscope/internal/analysis"
	"memscope/internal/config"
	"memscope/internal/event"
	"memscope/internal/ledger"
)

const (
	maxLines   = 1000 // log lines about leaked driver memory; the rest is a number
	halModules = 76   // module ids 0 to 75 have a name (contract, appendix A)
)

// hal is the check of driver memory: what was allocated while tracing and lives at the end is a leak. The log names each
// block; the report has a line for each card, so that a user looks there.
type hal struct {
	pid     uint64
	seen    bool
	leaked  int
	devices map[int32]*remains
	modules map[int16]bool // unknown modules that have been said
}

// remains is what lives on a device at the end.
type remains struct {
	blocks int
	bytes  int64
}

func (h *hal) event(log analysis.Logger, ev *event.Event, b *ledger.Block) {
	if !h.seen {
		h.seen, h.pid = true, ev.PID
		log.Logf(config.Info, "process %d: first device memory event", ev.PID)
	}
	switch {
	case ev.Kind == event.Malloc && (ev.Module < 0 || ev.Module >= halModules) && !h.modules[ev.Module]:
		if h.modules == nil {
			h.modules = map[int16]bool{}
		}
		h.modules[ev.Module] = true
		log.Logf(config.Info, "process %d, device %d: device memory of module %d, which has no name",
			ev.PID, ev.Device, ev.Module)
	case ev.Kind == event.Free && ev.Flags&event.Shadow != 0 && b.State == ledger.Normal:
		if h.leaked++; h.leaked <= maxLines {
			what := fmt.Sprintf("device %d: device", ev.Device)
			if ev.Device == event.DeviceCPU {
				what = "pinned host"
			}
			log.Logf(config.Warning, "process %d, %s memory at 0x%x (%d bytes) was never freed", ev.PID, what, ev.Addr, ev.Size)
		}
		if h.devices == nil {
			h.devices = map[int32]*remains{}
		}
		r := h.devices[ev.Device]
		if r == nil {
			r = new(remains)
			h.devices[ev.Device] = r
		}
		r.blocks++
		r.bytes += ev.Size
	}
}

func (h *hal) report(w io.Writer, log analysis.Logger) {
	for _, d := range slices.Sorted(maps.Keys(h.devices)) {
		what := fmt.Sprintf("device %d: %d block(s) of device", d, h.devices[d].blocks)
		if d == event.DeviceCPU {
			what = fmt.Sprintf("%d block(s) of pinned host", h.devices[d].blocks)
		}
		fmt.Fprintf(w, "[msmemscope] Info: %s memory, %d bytes, were not freed when process %d ended; its log names each.\n",
			what, h.devices[d].bytes, h.pid)
	}
	switch {
	case !h.seen:
		log.Logf(config.Info, "no process used device memory")
	case h.leaked == 0:
		log.Logf(config.Info, "process %d: all device memory was freed", h.pid)
	case h.leaked > maxLines:
		log.Logf(config.Warning, "process %d: %d more blocks of device memory were never freed", h.pid, h.leaked-maxLines)
	}
}
