package session

import (
	"strconv"
	"strings"

	"memscope/internal/event"
	"memscope/internal/wire"
)

// label fills ev from a label record; false for one that no agent writes.
func (d *decoder) label(rec wire.Record, ev *event.Event) bool {
	value := rec.Text().Value
	ev.Kind, ev.Value, ev.Name = event.Label, value, d.name(rec.TextBytes())
	switch rec.Type() {
	case wire.TypeLabelPush:
		ev.Sub = event.LabelPush
	case wire.TypeLabelPop:
		ev.Sub = event.LabelPop
	case wire.TypeLabelAddress:
		level, label, ok := strings.Cut(ev.Name, ":")
		n, err := strconv.ParseUint(level, 10, 8)
		if !ok || err != nil {
			return false
		}
		ev.Sub, ev.Addr, ev.Value, ev.Name = event.LabelAddress, value, n, label
	}
	return true
}
