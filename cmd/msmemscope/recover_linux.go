package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"memscope/internal/dump/recover"
)

// recoverDump completes the dumps in dir and tells on w what became of each. The error says which of them are not complete.
func recoverDump(dir string, force bool, w io.Writer) error {
	notice := func(line string) { fmt.Fprintln(w, line) }
	projects, err := recover.Recover(dir, recover.Options{Notice: notice, Force: force})
	errs := []error{err}
	for _, p := range projects {
		if p.Err != nil {
			continue // part of err
		}
		rows := int64(0)
		for _, n := range p.Files {
			rows += n
		}
		state := "is complete"
		if !p.Complete() {
			state = "is not complete, but has all that its spool held"
		}
		fmt.Fprintf(w, "[msmemscope] Info: %s %s: %d row(s) written, %d of them for blocks that were alive at the end.\n",
			p.Path, state, rows, p.Closed)
		missing := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("the dump in %s is not complete: %w", p.Path, fmt.Errorf(format, args...)))
		}
		if p.Forced != nil {
			missing("%w", p.Forced)
		}
		switch {
		case p.Torn > 0 && p.Complete():
			fmt.Fprintf(w, "[msmemscope] Warn: %s: the collector was killed while it wrote the last %d byte(s) of the spool; their events are missing.\n", p.Path, p.Torn)
		case p.Torn > 0:
			missing("%d byte(s) at the end of the spool are cut off or damaged; their events are missing", p.Torn)
		}
		for _, name := range slices.Sorted(maps.Keys(p.Missing)) {
			missing("%s: %d byte(s) that had been written are missing", name, p.Missing[name])
		}
	}
	err = errors.Join(errs...)
	if len(projects) == 0 && err == nil {
		fmt.Fprintf(w, "[msmemscope] Info: nothing to do, every dump in %s is complete.\n", dir)
	}
	return err
}
