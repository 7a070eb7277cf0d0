package session

import (
	"testing"

	"memscope/internal/event"
	"memscope/internal/wire"
	"memscope/internal/wire/wiretest"
)

func TestDecodeLabels(t *testing.T) {
	for name, c := range map[string]struct {
		typ   uint16
		value uint64
		text  string
		want  *event.Event // nil: nothing
	}{
		"push":         {wire.TypeLabelPush, 3, "a:b", &event.Event{Sub: event.LabelPush, Value: 3, Name: "a:b"}},
		"pop":          {wire.TypeLabelPop, 5, "a", &event.Event{Sub: event.LabelPop, Value: 5, Name: "a"}},
		"address":      {wire.TypeLabelAddress, 0x1234, "6:a:b", &event.Event{Sub: event.LabelAddress, Addr: 0x1234, Value: 6, Name: "a:b"}},
		"no level":     {wire.TypeLabelAddress, 0x1234, "a", nil},
		"a bad level":  {wire.TypeLabelAddress, 0x1234, "-1:a", nil},
		"a high level": {wire.TypeLabelAddress, 0x1234, "256:a", nil},
	} {
		ev, ok := decodeOne(t, func(p *wiretest.Producer) { p.Text(5, c.typ, wire.DeviceNone, c.value, c.text) })
		if ok != (c.want != nil) {
			t.Errorf("%s: %v, %+v", name, ok, ev)
		} else if ok {
			want := *c.want
			want.Kind, want.PID, want.TID = event.Label, 77, 5
			got := event.Event{Kind: ev.Kind, Sub: ev.Sub, PID: ev.PID, TID: ev.TID, Addr: ev.Addr, Value: ev.Value, Name: ev.Name}
			if got != want {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
	}
}
