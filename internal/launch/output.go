package launch

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"memscope/internal/session"
)

// printer keeps what the collector says until the target has ended, so that no line of ours lands inside one of the target's.
type printer struct {
	lines   []string
	report  string
	done    session.Done
	stopped []string // what a collector wrote to standard error before it died
}

// mostLines bounds what is kept: a job of days may open many files.
const mostLines = 10000

func (p *printer) keep(m session.Message) {
	if m.Line != "" && len(p.lines) < mostLines {
		p.lines = append(p.lines, m.Line)
	}
	p.report += m.Report
	if m.Done != nil {
		p.done = *m.Done
	}
}

func (p *printer) collectorSaid(lines []string) { p.stopped = lines }

func (p *printer) print() {
	for _, line := range p.stopped {
		fmt.Fprintln(os.Stderr, "[msmemscope] collector: "+line)
	}
	for _, line := range p.lines {
		if strings.HasPrefix(line, "[msmemscope] Info:") {
			fmt.Fprintln(os.Stdout, line)
		} else {
			fmt.Fprintln(os.Stderr, line)
		}
	}
	fmt.Fprint(os.Stdout, p.report)
	if p.done.Collected > 0 {
		fmt.Fprintln(os.Stdout, "[msmemscope] Info: Fflush temporary cache events to file!")
	}
	if n := p.done.Living; n > 0 {
		fmt.Fprintf(os.Stdout, "[msmemscope] Info: %d process(es) of the program live on; their recording goes on in the background.\n", n)
	}
}

// progress is a bar on the terminal, for a rest that takes longer than a moment.
type progress struct {
	begin time.Time
	bar   *progressbar.ProgressBar
}

// patience is the time before a bar appears.
const patience = 500 * time.Millisecond

func (p *progress) show(now *session.Progress) {
	if p.bar == nil {
		if time.Since(p.begin) < patience || !term.IsTerminal(int(os.Stderr.Fd())) {
			return
		}
		p.bar = progressbar.NewOptions64(now.Total, progressbar.OptionSetWriter(os.Stderr),
			progressbar.OptionSetDescription("[msmemscope] writing the dump"), progressbar.OptionShowBytes(true),
			progressbar.OptionClearOnFinish())
	}
	p.bar.ChangeMax64(max(now.Total, 1))
	_ = p.bar.Set64(now.Done)
}

// close takes the bar off the screen.
func (p *progress) close() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
