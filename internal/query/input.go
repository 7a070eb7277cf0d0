package query

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"memscope/internal/dump/read"
)

// input is one dump file.
type input struct {
	path   string
	db     bool
	sort   bool         // the file is not in time order
	sorted *read.Sorted // its rows in time order; a database sorts them itself
	first  int64        // of sorted, ns
	last   int64
}

var dumpName = regexp.MustCompile(`^(memscope|leaks)_dump_\d+\.(csv|db)$`)

// inputs resolves the words of a command: files as they are, directories to the dumps below them.
func (e *env) inputs(args []string) ([]*input, error) {
	if len(args) == 0 {
		return nil, usagef("no file is named")
	}
	var out []*input
	for _, arg := range args {
		paths := []string{arg}
		if info, err := os.Stat(arg); err == nil && info.IsDir() {
			if paths, err = dumpsBelow(arg); err != nil {
				return nil, err
			}
			if len(paths) == 0 {
				return nil, fmt.Errorf("there is no memscope_dump_*.csv or *.db below %s", arg)
			}
		}
		for _, path := range paths {
			in, err := e.input(path)
			if err != nil {
				return nil, err
			}
			out = append(out, in)
		}
	}
	return out, nil
}

// one resolves the words of a command that takes a single dump.
func (e *env) one(args []string) (*input, error) {
	if len(args) != 1 {
		return nil, usagef("one file is expected, not %d", len(args))
	}
	return e.input(args[0])
}

func (e *env) input(path string) (*input, error) {
	if err := read.Check(path, e.foreign); err != nil {
		return nil, err
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".csv":
		return &input{path: path}, nil
	case ".db":
		return &input{path: path, db: true}, nil
	}
	return nil, fmt.Errorf("%s is neither a .csv nor a .db file", path)
}

// dumpsBelow finds the dumps of a directory, processes and devices in order. Of a CSV file and a database with the same
// name, which are one dump in two forms, the CSV file is taken.
func dumpsBelow(dir string) ([]string, error) {
	var paths []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && dumpName.MatchString(d.Name()) {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	return slices.DeleteFunc(paths, func(p string) bool {
		base, isDB := strings.CutSuffix(p, ".db")
		_, found := slices.BinarySearch(paths, base+".csv")
		return isDB && found
	}), nil
}

func (in *input) scan(opt read.Options, table string, visit visitor) (*read.Summary, error) {
	switch {
	case in.sorted != nil:
		return in.sorted.Scan(in.path, opt, visit)
	case in.db:
		opt.Sort = in.sort
		return read.DB(in.path, table, opt, visit)
	}
	return read.CSV(in.path, opt, visit)
}

// reorder arranges that the next scan of the input is in time order.
func (in *input) reorder() (err error) {
	in.sort = true
	if !in.db {
		in.sorted, in.first, in.last, err = read.SortCSV(in.path, "")
	}
	return err
}

// bounds gives the stamps of the first and the last row.
func (in *input) bounds(table string) (first, last int64, err error) {
	switch {
	case in.sorted != nil:
		return in.first, in.last, nil
	case in.db:
		return read.DBBounds(in.path, table)
	}
	return read.Bounds(in.path)
}

func (in *input) close() {
	if in.sorted != nil {
		in.sorted.Close()
	}
}

// where says where a fault is: the line of a CSV file, the row of a database.
func (in *input) where(f read.Fault) string {
	if in.db {
		return fmt.Sprintf("row %d: %s", f.Offset, f.Reason)
	}
	if line, err := read.Line(in.path, f.Offset); err == nil {
		return fmt.Sprintf("line %d: %s", line, f.Reason)
	}
	return f.Reason
}
