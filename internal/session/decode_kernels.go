package session

import (
	"memscope/internal/config"
	"memscope/internal/dump/stacks"
	"memscope/internal/event"
	"memscope/internal/wire"
)

// kernel handles a record of kernels, when its turn has come.
func (c *client) kernel(rec wire.Record) {
	switch rec.Type() {
	case wire.TypeKernelLaunch:
		c.decoder.head(rec, &c.ev)
		if c.ev.Stack == 0 && onlyEmptyPython(&c.cfg) {
			c.ev.Stack = stacks.OnlyEmptyPython
		}
		c.kernels.launched(rec, &c.ev, c.launch)
	case wire.TypeKernelNotice:
		text := string(rec.TextBytes())
		c.log.line(config.Warning, "target", text)
		c.session.talk.process("Warn", c.pid, "%s", text)
	}
}

// launch passes on a row about a kernel, with its stamp in CLOCK_MONOTONIC ns or, of a launch, already in that of the epoch.
func (c *client) launch(ev *event.Event) {
	if ev.Sub != event.Launched {
		ev.Stamp += c.session.offset
	}
	c.take(ev)
}
