package session

import (
	"fmt"

	"memscope/internal/event"
	"memscope/internal/wire"
)

// oom makes the OOM_TRIGGER row (contract 3.4).
func (d *decoder) oom(o *wire.OOM, ev *event.Event) {
	function := "halMemAlloc"
	if o.Create != 0 {
		function = "halMemCreate"
	}
	ev.Kind, ev.Sub, ev.Name = event.OOMDetail, event.OOMTrigger, "OOM_Trigger"
	ev.Attrs = fmt.Sprintf("func:%s,req_size:%d,flag:%d,ret:%d", function, o.Size, o.Flag, o.Result)
}
