package session

import (
	"bytes"

	"memscope/internal/event"
	"memscope/internal/wire"
)

// atb makes a row of an operator or a kernel of ATB that begins or ends.
func (d *decoder) atb(rec wire.Record, ev *event.Event) {
	switch rec.Type() {
	case wire.TypeAtbStart:
		ev.Kind, ev.Sub = event.OpLaunch, event.AtbStart
	case wire.TypeAtbEnd:
		ev.Kind, ev.Sub = event.OpLaunch, event.AtbEnd
	case wire.TypeAtbKernelStart:
		ev.Kind, ev.Sub = event.KernelLaunch, event.KernelStart
	case wire.TypeAtbKernelEnd:
		ev.Kind, ev.Sub = event.KernelLaunch, event.KernelEnd
	}
	name, attrs, _ := bytes.Cut(rec.TextBytes(), []byte("\n"))
	ev.Name, ev.Attrs = d.name(name), d.name(attrs)
}
