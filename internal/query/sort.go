package query

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"memscope/internal/dump/read"
)

var sortQuestion = &question{
	name: "sort", args: "FILE.csv|DIR",
	summary: "write a dump in time order",
	help: `
Rows with the same time are ordered by ID. The result goes to FILE_sorted.csv, to the file that --output names, or with
--overwrite in place of FILE. A file that is in order already is left alone. Damaged rows are never dropped silently: a
file that has any is refused, save for a last row that is cut off.`,
	setup: func(fs *flag.FlagSet) func(*env, []string) (result, error) {
		overwrite := fs.Bool("overwrite", false, "replace the file")
		output := fs.String("output", "", "write to this `file`")
		return func(e *env, args []string) (result, error) {
			in, err := e.one(args)
			switch {
			case err != nil:
				return nil, err
			case in.db:
				return nil, fmt.Errorf("%s is a database, which needs no sorting", in.path)
			case *overwrite && *output != "":
				return nil, usagef("--overwrite and --output exclude each other")
			}
			e.files = []string{in.path}
			target := *output
			switch {
			case *overwrite:
				target = in.path
			case target == "":
				target = strings.TrimSuffix(in.path, filepath.Ext(in.path)) + "_sorted" + filepath.Ext(in.path)
			}
			return sortFile(e, in, target)
		}
	},
}

type sortResult struct {
	Rows    int64  `json:"rows"`
	Already bool   `json:"already_sorted"`
	Output  string `json:"output,omitempty"`
}

func (s *sortResult) Text(w *report) {
	if s.Already {
		w.line("already in time order, nothing written: %d rows", s.Rows)
		return
	}
	w.line("sorted %d rows into %s", s.Rows, s.Output)
}

func sortFile(e *env, in *input, target string) (result, error) {
	sum, err := in.scan(read.Options{Want: read.ID}, e.table, func(*read.Batch) error { return nil })
	if err != nil {
		return nil, err
	}
	cut := int64(0)
	if sum.Truncated {
		cut = 1
		e.note("the last row is cut off and is left out")
	}
	switch {
	case sum.Bad > cut:
		return nil, fmt.Errorf("%s has %d damaged rows, the first %s; nothing was written", in.path, sum.Bad-cut, in.where(sum.Faults[0]))
	case sum.Sorted && cut == 0:
		return &sortResult{Rows: sum.Rows, Already: true}, nil
	}
	sorted, _, _, err := read.SortCSV(in.path, filepath.Dir(target))
	if err != nil {
		return nil, err
	}
	defer sorted.Close()
	if err := replace(target, in.path, func(w *bufio.Writer) error { _, err := sorted.WriteTo(w); return err }); err != nil {
		return nil, err
	}
	return &sortResult{Rows: sum.Rows, Output: target}, nil
}

// replace writes a file whole or not at all, with the mode of the file like.
func replace(target, like string, write func(*bufio.Writer) error) error {
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	f, err := beside(target)
	if err != nil {
		return err
	}
	defer read.RemoveTemp(f.Name())
	w := bufio.NewWriterSize(f, 1<<20)
	err = write(w)
	err = errors.Join(err, w.Flush(), f.Chmod(info.Mode().Perm()), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), target)
	}
	return err
}

// beside makes a temporary file that can take the place of target: of a regular file, or of none. As /dev/stdout it would take the place of a device.
func beside(target string) (*os.File, error) {
	if info, err := os.Lstat(target); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file, and so not replaced", target)
	}
	return read.CreateTemp(filepath.Dir(target), filepath.Base(target)+".*.tmp")
}
