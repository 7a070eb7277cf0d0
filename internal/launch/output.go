package launch

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"memscope/internal/control"
	"memscope/internal/leakcheck"
)

// printer keeps what the collector says until the target has ended, so that no line of ours lands inside one of the target's.
type printer struct {
	lines      []string
	report     string
	done       control.Done
	stopped    []string          // what a collector wrote to standard error before it died
	incomplete bool              // the collector did not finish
	found      *leakcheck.Report // of a leak check: gets what there is to report; nil otherwise
}

// notComplete is what it means that the collector did not finish.
func (p *printer) notComplete() string {
	if p.found != nil {
		return "the leaks of the program are not known"
	}
	return "the dump is not complete"
}

// mostLines bounds what is kept: a job of days may open many files.
const mostLines = 10000

func (p *printer) keep(m control.Message) {
	if m.Line != "" && len(p.lines) < mostLines {
		p.lines = append(p.lines, m.Line)
	}
	p.report += m.Report
	if m.Done != nil {
		p.done = *m.Done
	}
	if m.Leaks != nil && p.found != nil {
		p.found.Add(m.Leaks)
	}
}

// tool is the name that our lines begin with.
func (p *printer) tool() string {
	if p.found != nil {
		return "mssanitizer"
	}
	return "msmemscope"
}

func (p *printer) collectorSaid(lines []string) { p.stopped = lines }

// print writes everything. Of an incomplete run the files are not announced, as they are not what they should be.
func (p *printer) print() {
	survivePipes()
	for _, line := range p.stopped {
		fmt.Fprintf(os.Stderr, "[%s] collector: %s\n", p.tool(), line)
	}
	if p.found != nil {
		p.printCheck()
		return
	}
	lines := p.lines
	if p.done.Collected > 0 {
		lines = append(visibleCards(), lines...)
	}
	for _, line := range lines {
		switch {
		case !strings.HasPrefix(line, "[msmemscope] Info:"):
			fmt.Fprintln(os.Stderr, line)
		case !p.incomplete:
			fmt.Fprintln(os.Stdout, line)
		}
	}
	fmt.Fprint(os.Stdout, p.report)
	fmt.Fprint(os.Stdout, p.done.Lines())
}

// printCheck writes what a leak check has to say beside its report: complaints.
func (p *printer) printCheck() {
	for _, line := range p.lines {
		if !strings.HasPrefix(line, "[msmemscope] Info:") { // the collector does not know what it collects for
			fmt.Fprintln(os.Stderr, strings.Replace(line, "[msmemscope]", "["+p.tool()+"]", 1))
		}
	}
	if p.found.Living = p.done.Living; p.done.Living > 0 {
		fmt.Fprintf(os.Stderr, "[%s] Warn: %d process(es) of the program live on; what they leak is not reported.\n", p.tool(), p.done.Living)
	}
}

// progress is a line on the terminal, for a rest that takes longer than a moment. It is ours because the usual library brings
// an HTTP client along, which costs every start of the program more than this file.
type progress struct {
	begin time.Time
	shown bool
}

// patience is the time before the line appears.
const patience = 500 * time.Millisecond

func (p *progress) show(now *control.Progress) {
	if now.Total == 0 || !p.shown && (time.Since(p.begin) < patience || !term.IsTerminal(int(os.Stderr.Fd()))) {
		return
	}
	p.shown = true
	const width = 40
	done := 0
	if now.Total > 0 {
		done = int(now.Done * width / now.Total)
	}
	fmt.Fprintf(os.Stderr, "\r[msmemscope] writing the dump [%s%s] %d of %d MB ", strings.Repeat("#", done),
		strings.Repeat(" ", width-done), now.Done>>20, now.Total>>20)
}

// close takes the line off the screen.
func (p *progress) close() {
	if p.shown {
		fmt.Fprint(os.Stderr, "\r\033[K")
	}
}
