package query

import (
	"fmt"
	"io"
	"os"
	"time"
)

// bar is a progress bar for what takes long. It shows on a terminal only, and not within the first second.
type bar struct {
	w     io.Writer // nil: silent
	what  string
	begun time.Time
	last  time.Time
	shown bool
}

func newBar(w io.Writer, what string) *bar {
	b := &bar{what: what, begun: time.Now()}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			b.w = w
		}
	}
	return b
}

func (b *bar) set(done, total int64) {
	now := time.Now()
	if b.w == nil || total == 0 || now.Sub(b.begun) < time.Second || now.Sub(b.last) < 200*time.Millisecond {
		return
	}
	b.last, b.shown = now, true
	const width = 40
	full := int(min(done, total) * width / total)
	fmt.Fprintf(b.w, "\r%s [%-*s] %3d%%", b.what, width, bars[:full], 100*done/total)
}

// done wipes the bar away.
func (b *bar) done() {
	if b.shown {
		fmt.Fprintf(b.w, "\r%*s\r", len(b.what)+60, "")
	}
}

const bars = "########################################"
