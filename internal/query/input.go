package query

import (
	"cmp"
	"errors"
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
	data   string // the file to read, when it is not path
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
	named := make(map[string]bool) // by absolute path
	for _, arg := range args {
		paths := []string{arg}
		info, err := os.Stat(arg)
		if isDir := err == nil && info.IsDir(); isDir && isSpool(arg) {
			in, err := e.spool(arg)
			if err != nil {
				return nil, err
			}
			out = append(out, in)
			continue
		} else if isDir {
			if paths, err = dumpsBelow(arg); err != nil {
				return nil, err
			}
			if _, err := os.Stat(filepath.Join(arg, "spool")); err == nil {
				e.early = append(e.early, fmt.Sprintf("%s has a spool, with rows that may not be in its files: `msmemscope dump recover %s` completes them", arg, arg))
			}
			if len(paths) == 0 {
				return nil, errNoDump(arg)
			}
		}
		for _, path := range paths {
			if abs, err := filepath.Abs(path); err == nil {
				if named[abs] {
					e.early = append(e.early, fmt.Sprintf("%s is named twice and was read once", path))
					continue
				}
				named[abs] = true
			}
			in, err := e.input(path)
			if err != nil {
				return nil, err
			}
			out = append(out, in)
		}
	}
	return out, nil
}

// spool opens the spool of a process: the events that are not in its dump files yet.
func (e *env) spool(dir string) (*input, error) {
	segments, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil {
		return nil, err
	}
	for _, segment := range segments {
		if err := read.Check(segment, e.foreign); err != nil {
			return nil, err
		}
	}
	data, dropped, err := unspool(dir)
	if err != nil {
		return nil, err
	}
	if dropped > 0 {
		e.early = append(e.early, fmt.Sprintf("%s: %d bytes are no whole block and were passed over", dir, dropped))
	}
	return &input{path: dir, data: data}, nil
}

// one resolves the words of a command that takes a single dump.
func (e *env) one(args []string) (*input, error) {
	path, err := onePath(args)
	if err != nil {
		return nil, err
	}
	return e.input(path)
}

// onePath is the path of a single dump: the file that is named, or the only one below a directory.
func onePath(args []string) (string, error) {
	if len(args) != 1 {
		return "", usagef("one file is expected, not %d", len(args))
	}
	dir := args[0]
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return dir, nil
	}
	paths, err := dumpsBelow(dir)
	switch {
	case err != nil:
		return "", err
	case len(paths) == 0:
		return "", errNoDump(dir)
	case len(paths) > 1:
		return "", fmt.Errorf("one file is expected, and %s holds %d dumps; name one of them: %s", dir, len(paths), strings.Join(paths, ", "))
	}
	return paths[0], nil
}

func errNoDump(dir string) error {
	return fmt.Errorf("there is no memscope_dump_*.csv or *.db below %s", dir)
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
	top := dir + string(filepath.Separator) // it may be a link to a directory: the latest run of many
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
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
	sum, err := read.CSV(in.file(), opt, visit)
	if unsorted := new(read.UnsortedError); errors.As(err, &unsorted) {
		unsorted.Path = in.path
	}
	return sum, err
}

// reorder arranges that the next scan of the input is in time order.
func (in *input) reorder() (err error) {
	in.sort = true
	if !in.db {
		in.sorted, in.first, in.last, err = read.SortCSV(in.file(), "")
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
	return read.Bounds(in.file())
}

// file is the file to read.
func (in *input) file() string { return cmp.Or(in.data, in.path) }

func (in *input) close() {
	if in.data != "" {
		read.RemoveTemp(in.data)
	}
	if in.sorted != nil {
		in.sorted.Close()
	}
}

// where says where a fault is: the line of a CSV file, the row of a database.
func (in *input) where(f read.Fault) string {
	if in.db {
		return fmt.Sprintf("row %d: %s", f.Offset, f.Reason)
	}
	if line, err := read.Line(in.file(), f.Offset); err == nil {
		return fmt.Sprintf("line %d: %s", line, f.Reason)
	}
	return f.Reason
}
