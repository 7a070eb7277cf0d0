// Package recover completes the dump of a process whose collector died, or whose disk was full, from the spool that it left
// behind (`msmemscope dump recover DIR`).
package recover

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"memscope/internal/dump/csvfile"
	"memscope/internal/dump/dbfile"
	"memscope/internal/dump/render"
	"memscope/internal/dump/spool"
	"memscope/internal/dump/stacks"
	"memscope/internal/event"
	"memscope/internal/output"
	"memscope/internal/symbol"
)

// Options of Recover.
type Options struct {
	Log    render.Logger     // may be nil
	Notice func(line string) // lines for the user, as for output.Create; may be nil
	Force  bool              // go on where the spool cannot replace what is cut off
}

// Project is what was done in one project directory.
type Project struct {
	Path    string
	Files   map[string]int64 // rows written from the spool, by file name relative to Path
	Closed  int              // of these, shadow FREE rows for blocks that were alive at the end
	Torn    int64            // bytes of the spool that were no whole block and could not be read
	Missing map[string]int64 // bytes that a file had when its rows were noted as written and has no longer, as after a loss of power
	Forced  error            // what Force went on over
	Err     error            // why nothing was done or not all of it could be
}

// Complete says whether every event that was stored has its row. The block that a collector was writing when it was killed was
// not stored: such a torn end is not held against it.
func (p *Project) Complete() bool {
	return p.Err == nil && p.Forced == nil && p.Torn < 2*spool.BlockBytes && len(p.Missing) == 0
}

// Recover completes the dump in dir, a project directory, or in all project directories in dir, an output directory. Directories
// without a spool are complete already and are not in the result. Each file is cut back to the last checkpoint and the
// rows from there on are written again, so that every event that reached the spool has exactly one row; blocks that are
// alive at the end get a shadow FREE. Before anything is cut it is certain that the spool holds all that is cut off (verify.go); where
// it does not, all stays as it is, unless Force is set. The spool is deleted when all of that is done. Recover can be killed at any moment
// and run again. The error joins those of the projects, one line each; a directory that a living collector works on is left
// alone and gives a *spool.InUseError.
func Recover(dir string, opt Options) ([]Project, error) {
	paths, err := find(dir)
	if err != nil {
		return nil, err
	}
	var out []Project
	var errs []error
	for _, p := range paths {
		done := Project{Path: p, Missing: make(map[string]int64)}
		done.Err = one(&done, opt)
		out = append(out, done)
		errs = append(errs, done.Err)
	}
	return out, errors.Join(errs...)
}

// find lists the project directories with a spool at or in dir.
func find(dir string) ([]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("cannot recover %s: %w", dir, err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("cannot recover %s: a project directory or an output directory is expected", dir)
	}
	if found, err := hasSpool(dir); err != nil {
		return nil, err
	} else if found {
		return []string{dir}, nil
	}
	const pattern = "msmemscope_*_ascend"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot recover %s: %w", dir, err)
	}
	known, _ := filepath.Match(pattern, filepath.Base(dir))
	var paths []string
	for _, e := range entries {
		if ok, _ := filepath.Match(pattern, e.Name()); !ok || !e.IsDir() {
			continue
		}
		known = true
		p := filepath.Join(dir, e.Name())
		if found, err := hasSpool(p); found || err != nil { // what it is instead comes out when it is opened
			paths = append(paths, p)
		}
	}
	if !known {
		return nil, fmt.Errorf("cannot recover %s: it is no project directory (%s) and holds none", dir, pattern)
	}
	return paths, nil
}

// hasSpool: an error says that something else is in the place of the spool.
func hasSpool(project string) (bool, error) {
	path := filepath.Join(project, spool.Dir)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case info.Mode()&fs.ModeSymlink != 0:
		return false, fmt.Errorf("the dump in %s is not complete: %s is a symbolic link; a directory is expected", project, path)
	case !info.IsDir():
		return false, fmt.Errorf("the dump in %s is not complete: %s is no directory", project, path)
	}
	return true, nil
}

// one completes one project directory.
func one(done *Project, opt Options) error {
	if _, err := hasSpool(done.Path); err != nil {
		return err
	}
	project, err := output.Open(done.Path, opt.Notice)
	if err != nil {
		return err
	}
	defer project.Close()
	lock, err := spool.TakeLock(project.Root, spool.Dir)
	if err != nil {
		return err
	}
	defer lock.Release()
	if empty, err := spool.Empty(project.Root, spool.Dir); err != nil {
		return err
	} else if empty { // its removal was cut off at the very end
		return spool.Remove(project.Root, spool.Dir)
	}
	r, err := spool.Open(project.Root, spool.Dir)
	if err != nil {
		return fmt.Errorf("the dump in %s is not complete: %w", done.Path, err)
	}
	existing, err := verify(done, project.Root, r, opt.Force)
	if err != nil {
		r.Close()
		return fmt.Errorf("the dump in %s is not complete: %w", done.Path, err)
	}
	closing := func(files []string, last int64, emit func(*event.Event) error) error {
		if !r.Meta().Paired { // rows of one of the two kinds were not wanted: nobody can tell what lives
			return nil
		}
		var alive []event.Event
		var err error
		if r.Meta().DB {
			alive, err = livingIn(project.Root)
		} else {
			alive, err = living(project.Root, files)
		}
		if err != nil {
			return err
		}
		for i := range alive {
			ev := &alive[i]
			ev.Kind, ev.Flags, ev.Stamp = event.Free, event.Shadow, last+1
			if err := emit(ev); err != nil {
				return err
			}
		}
		done.Closed = len(alive)
		return nil
	}
	table, err := stacks.Open(r.Root(), symbol.New())
	if err != nil {
		r.Close()
		return fmt.Errorf("the dump in %s is not complete: %w", done.Path, err)
	}
	defer table.Close()
	opener := csvfile.Opener(project, table, func(name string, bytes int64) { done.Missing[name] = bytes })
	if r.Meta().DB {
		opener = dbfile.Opener(project, table)
	}
	n := render.New(r, opener, render.Options{Log: opt.Log, Closing: closing, Existing: existing, Force: opt.Force, Whole: r.Meta().DB})
	err = n.Finish(spool.End)
	done.Files, done.Torn = n.Stats().Files, r.Dropped()
	if err != nil {
		return err
	}
	return spool.Remove(project.Root, spool.Dir)
}

// living reads finished dumps and answers the MALLOC rows that have no FREE, in the order of their allocation ids.
func living(root *os.Root, files []string) ([]event.Event, error) {
	alive := make(map[uint64]event.Event)
	for _, name := range files {
		f, err := output.OpenRegular(root, name, os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		rows := csvfile.NewReader(f)
		var ev event.Event
		for {
			row, err := rows.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				f.Close()
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			switch {
			case !csvfile.ParseBlock(row, &ev):
			case ev.Kind == event.Malloc:
				alive[ev.AllocID] = ev
			default:
				delete(alive, ev.AllocID)
			}
		}
		f.Close()
	}
	return byID(alive), nil
}

// livingIn answers the same from a spool that is there from its beginning on.
func livingIn(root *os.Root) ([]event.Event, error) {
	r, err := spool.Open(root, spool.Dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	alive := make(map[uint64]event.Event)
	_, err = r.Verify(0, func(ev *event.Event) {
		switch ev.Kind {
		case event.Malloc:
			alive[ev.AllocID] = *ev
		case event.Free:
			delete(alive, ev.AllocID)
		}
	})
	return byID(alive), err
}

func byID(alive map[uint64]event.Event) []event.Event {
	return slices.SortedFunc(maps.Values(alive), func(a, b event.Event) int { return cmp.Compare(a.AllocID, b.AllocID) })
}
