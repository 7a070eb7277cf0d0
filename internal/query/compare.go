package query

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"memscope/internal/compare"
	"memscope/internal/dump/read"
	"memscope/internal/event"
)

// compareLimit bounds each phase of the alignment (contract 5.6).
const compareLimit = 60 * time.Second

var compareQuestion = &question{
	name: "compare", args: "BASE COMPARE", common: noFilter,
	summary: "align the launches of two dumps and tell how their memory differs",
	help: `
BASE and COMPARE are dumps, or directories with one dump for each card (of several for a card, the newest counts). The
launches of both are aligned by name with the fewest differences; each line of the result says by how many bytes the
framework's pool grew across the launch on either side. The lines go to OUTPUT-PATH/compare/memory_compare_<time>.csv.`,
	setup: func(fs *flag.FlagSet) func(*env, []string) (result, error) {
		level := fs.String("level", "op", "op, kernel, or both with a comma")
		output := fs.String("output-path", "memscopeDumpResults", "`directory` for the result")
		top := fs.Int("top", 10, "names to list that account for the difference")
		return func(e *env, args []string) (result, error) {
			if len(args) == 1 { // the form of --input-path
				args = tokens(args[0])
			}
			if len(args) != 2 {
				return nil, usagef("two dumps are expected, not %d", len(args))
			}
			levels, err := parseLevel(*level)
			if err != nil {
				return nil, err
			}
			return runCompare(e, args[0], args[1], levels, *output, *top)
		}
	},
}

func parseLevel(s string) (levels compare.Level, err error) {
	for _, t := range tokens(s) {
		switch t {
		case "op", "0": // 0 and 1 are the older words
			levels |= compare.Op
		case "kernel", "1":
			levels |= compare.Kernel
		default:
			return 0, usagef("--level is op or kernel, not %q", t)
		}
	}
	if levels == 0 {
		return 0, usagef("--level is empty")
	}
	return levels, nil
}

type compareResult struct {
	Output      string            `json:"output"`
	Rows        int64             `json:"rows"`
	Matched     int64             `json:"matched"`
	BaseOnly    int64             `json:"base_only"`
	CompareOnly int64             `json:"compare_only"`
	Diff        int64             `json:"diff_bytes"`
	Culprits    []compare.Culprit `json:"culprits"`
}

func runCompare(e *env, base, other string, levels compare.Level, output string, top int) (result, error) {
	names, pool := &compare.Names{}, read.NoPool
	sides := make([]*compare.Side, 2)
	for i, path := range []string{base, other} {
		inputs, err := e.compareInputs(path)
		if err != nil {
			return nil, err
		}
		if sides[i], err = readSide(e, inputs, levels, names, &pool); err != nil {
			return nil, err
		}
	}
	if pool == event.MindSpore && levels&compare.Op != 0 {
		return nil, compare.ErrMindSporeOps
	}
	bar := newBar(e.stderr, "comparing")
	defer bar.done()
	c, err := compare.Compare(sides[0], sides[1], names, compare.Limits{Time: compareLimit, Progress: bar.set},
		func(line string) { e.note("%s", line) })
	if err != nil {
		return nil, err
	}
	res := &compareResult{Culprits: c.Culprits()}
	c.Rows(func(r compare.Row) error {
		res.Rows++
		res.Diff += r.Diff()
		switch {
		case r.Compare == nil:
			res.BaseOnly++
		case r.Base == nil:
			res.CompareOnly++
		default:
			res.Matched++
		}
		return nil
	})
	res.Culprits = slices.DeleteFunc(res.Culprits, func(c compare.Culprit) bool { return c.Diff == 0 && c.BaseOnly+c.CompareOnly == 0 })
	res.Culprits = res.Culprits[:min(len(res.Culprits), max(top, 0))]
	res.Output, err = writeCompare(output, c.WriteCSV)
	return res, err
}

// compareInputs resolves one side: a file, or a directory with the newest dump of each card.
func (e *env) compareInputs(path string) ([]*input, error) {
	var paths []string
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if paths, err = dumpsBelow(path); err != nil {
			return nil, err
		}
		if paths = newest(paths); len(paths) == 0 {
			return nil, errNoDump(path)
		}
	} else {
		paths = []string{path}
	}
	var inputs []*input
	for _, p := range paths {
		if err := read.Check(p, e.foreign); err != nil {
			return nil, err
		}
		if info, err := os.Stat(p); err == nil && info.Size() > read.MaxBytes {
			return nil, fmt.Errorf("File %s exceeds maximum size (%d bytes).", p, int64(read.MaxBytes))
		}
		in, err := e.input(p)
		if err != nil {
			return nil, fmt.Errorf("The file %s is an unsupported format.", p)
		}
		inputs = append(inputs, in)
	}
	return inputs, nil
}

var deviceDir = regexp.MustCompile(`[/\\](device_[^/\\]+)[/\\]`)

// newest keeps of the dumps of each card the one with the latest time in its name.
func newest(paths []string) []string {
	latest := make(map[string]string)
	for _, p := range paths {
		card := filepath.Dir(p)
		if m := deviceDir.FindAllStringSubmatch(p, -1); m != nil {
			card = m[len(m)-1][1]
		}
		if old, ok := latest[card]; !ok || filepath.Base(p) > filepath.Base(old) {
			latest[card] = p
		}
	}
	return slices.DeleteFunc(paths, func(p string) bool {
		for _, keep := range latest {
			if keep == p {
				return false
			}
		}
		return true
	})
}

func readSide(e *env, inputs []*input, levels compare.Level, names *compare.Names, pool *event.Pool) (*compare.Side, error) {
	var rd *compare.Reader
	err := e.scanInputs(inputs, compare.Wants, func(_, _ int64) visitor {
		rd = compare.NewReader(levels, names, *pool)
		return func(b *read.Batch) error { return rd.Visit(e.current.path, b) }
	})
	if err != nil {
		return nil, err
	}
	*pool = rd.Pool()
	return rd.Side()
}

// writeCompare makes compare/memory_compare_<time>.csv below dir.
func writeCompare(dir string, write func(io.Writer) error) (string, error) {
	dir = filepath.Join(dir, "compare")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	for at := time.Now(); ; at = at.Add(time.Second) {
		path := filepath.Join(dir, "memory_compare_"+at.Format("20060102150405")+".csv")
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		err = errors.Join(write(f), f.Chmod(0o400), f.Close())
		if err != nil {
			os.Remove(path)
		}
		return path, err
	}
}

func (c *compareResult) Text(w *report) {
	w.line("%d rows: %d matched, %d only in the base, %d only in the other", c.Rows, c.Matched, c.BaseOnly, c.CompareOnly)
	w.line("memory difference %s", size(c.Diff))
	if len(c.Culprits) > 0 {
		var rows [][]string
		for _, p := range c.Culprits {
			rows = append(rows, []string{p.Name, size(p.Diff), fmt.Sprint(p.Matched), fmt.Sprint(p.BaseOnly), fmt.Sprint(p.CompareOnly)})
		}
		w.table([]string{"what accounts for it", ">difference", ">matched", ">base only", ">other only"}, rows)
	}
	w.line("[msmemscope] Info: create file %s.", c.Output) // contract 7
}
