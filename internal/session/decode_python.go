package session

import (
	"bytes"
	"fmt"

	"memscope/internal/event"
	"memscope/internal/wire"
)

// snapshot makes a SNAPSHOT row (contract 3.4): bytes, and two rates as fractions.
func (d *decoder) snapshot(rec wire.Record, ev *event.Event) {
	s := rec.Snapshot()
	ev.Kind, ev.Name = event.Snapshot, d.name(rec.TextBytes())
	ev.Attrs = fmt.Sprintf("total_mem:%d,free_mem:%d,reserved:%d,peak_reserved:%d,allocated:%d,peak_allocated:%d,"+
		"device_utilization:%.6f,pt_utilization:%.6f", s.Total, s.Free, s.Reserved, s.Peak_reserved, s.Allocated, s.Peak_allocated,
		rate(s.Total-min(s.Free, s.Total), s.Total), rate(s.Allocated, s.Reserved))
}

func rate(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// aten makes a row of an operator that begins or ends.
func (d *decoder) aten(rec wire.Record, ev *event.Event) {
	ev.Kind, ev.Sub, ev.Name = event.OpLaunch, event.AtenStart, d.name(rec.TextBytes())
	if rec.Type() == wire.TypeAtenEnd {
		ev.Sub = event.AtenEnd
	}
}

// access makes a row of a tensor that an operator or a kernel of ATB touches.
func (d *decoder) access(rec wire.Record, ev *event.Event) {
	a := rec.Access()
	ev.Kind, ev.Sub, ev.Addr, ev.Size = event.Access, event.AccessUnknown, a.Addr, int64(a.Size)
	switch a.Kind {
	case wire.AccessRead:
		ev.Sub = event.Read
	case wire.AccessWrite:
		ev.Sub = event.Write
	}
	name, attrs, _ := bytes.Cut(rec.TextBytes(), []byte("\n"))
	ev.Name, ev.Attrs = d.name(name), d.name(attrs)
}
