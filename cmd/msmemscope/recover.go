package main

import (
	"fmt"
	"io"

	"memscope/internal/dump/recover"
)

// recoverDump completes the dumps in dir and tells on w what became of each.
func recoverDump(dir string, w io.Writer) error {
	projects, err := recover.Recover(dir, recover.Options{Notice: func(line string) { fmt.Fprintln(w, line) }})
	for _, p := range projects {
		if p.Err != nil {
			continue // part of err
		}
		rows := int64(0)
		for _, n := range p.Files {
			rows += n
		}
		state := "is complete"
		if p.Torn > 0 || len(p.Missing) > 0 {
			state = "is as complete as its spool allows"
		}
		fmt.Fprintf(w, "[msmemscope] Info: %s %s: %d row(s) written, %d of them for blocks that were alive at the end.\n",
			p.Path, state, rows, p.Closed)
		if p.Torn > 0 {
			fmt.Fprintf(w, "[msmemscope] Warn: %s: %d byte(s) of the spool are cut off or damaged; the events in and behind them are missing.\n", p.Path, p.Torn)
		}
		for name, n := range p.Missing {
			fmt.Fprintf(w, "[msmemscope] Warn: %s/%s: %d byte(s) that had been written are missing.\n", p.Path, name, n)
		}
	}
	if len(projects) == 0 && err == nil {
		fmt.Fprintf(w, "[msmemscope] Info: nothing to do, every dump in %s is complete.\n", dir)
	}
	return err
}
