// Package output owns the output tree (contract 2): paths, names, permissions, config.json and the log file. It knows
// nothing of what is in a dump.
//
// Files are made through the descriptor of the directory that was opened at the beginning (os.Root), so somebody who
// swaps a directory on the way for a symbolic link cannot redirect what is written later.
package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"memscope/internal/event"
)

// Modes of what is made, whatever the umask (contract 9-33).
const (
	dirMode  = 0o750
	fileMode = 0o640
)

// Spool is the name of a spool within its project directory.
const Spool = "spool"

// stampLayout is <TS> of the contract: local time, 14 digits.
const stampLayout = "20060102150405"

// Project is the directory of one traced process, msmemscope_<PID>_<TS>_ascend.
type Project struct {
	Path string   // absolute
	Root *os.Root // the directory; open until Close

	notice func(line string)
	db     string // <TS> of the databases
}

// Create makes the project directory of process pid below base, an absolute path that Resolve accepted, and base itself
// where it is missing. When the directory of this second exists already (exec of the same pid), the next free second names
// it. notice gets lines for the user, complete with prefix and without line end ("[msmemscope] Info: create file …"); it is
// called from whichever goroutine makes the file and may be nil.
func Create(base string, pid int, notice func(line string)) (*Project, error) {
	if err := checkDepth(base); err != nil {
		return nil, err
	}
	top, err := openBase(base)
	if err != nil {
		return nil, fmt.Errorf("cannot make the output directory %s: %w", base, cause(err))
	}
	defer top.Close()
	if notice == nil {
		notice = func(string) {}
	}
	var root *os.Root
	name, err := freeName(func(ts string) (string, error) {
		name := "msmemscope_" + strconv.Itoa(pid) + "_" + ts + "_ascend"
		root, err = makeDir(top, name, true)
		return name, err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make a project directory in %s: %w", base, cause(err))
	}
	return &Project{Path: filepath.Join(base, name), Root: root, notice: notice}, nil
}

// Open opens an existing project directory.
func Open(path string, notice func(line string)) (*Project, error) {
	if notice == nil {
		notice = func(string) {}
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Project{Path: path, Root: root, notice: notice}, nil
}

// Close gives the directory's descriptor back. Files stay open.
func (p *Project) Close() error { return p.Root.Close() }

// CreateDump makes the dump file of a device, device_<id>/dump/memscope_dump_<TS>.<ext>, and says its name relative to the
// project directory.
func (p *Project) CreateDump(device int32, ext string) (*os.File, string, error) {
	f, name, err := p.createIn([]string{deviceDir(device), "dump"}, "memscope_dump_", "."+ext)
	if err == nil {
		p.notice("[msmemscope] Info: create file " + filepath.Join(p.Path, name) + ".")
	}
	return f, name, err
}

// CreateDB makes the empty database of a device, device_<id>/dump/memscope_dump_<TS>.db, opened for writing at any place, and answers its
// directory, too, and its name relative to the project directory. All databases of a process have the same <TS>. A name that is given is that
// of a database which is replaced.
func (p *Project) CreateDB(device int32, name string) (f *os.File, dir *os.Root, _ string, err error) {
	dir, err = p.dumpDir(device)
	if err != nil {
		return nil, nil, "", fmt.Errorf("cannot make a database in %s: %w", p.Path, cause(err))
	}
	if name != "" {
		for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
			if err := dir.Remove(filepath.Base(name) + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				dir.Close()
				return nil, nil, "", fmt.Errorf("cannot replace %s: %w", filepath.Join(p.Path, name), cause(err))
			}
		}
	} else {
		if p.db == "" {
			p.db = time.Now().Format(stampLayout)
		}
		name = filepath.Join(deviceDir(device), "dump", "memscope_dump_"+p.db+".db")
	}
	if f, err = newFile(dir, filepath.Base(name), 0); err != nil {
		dir.Close()
		return nil, nil, "", fmt.Errorf("cannot make %s: %w", filepath.Join(p.Path, name), cause(err))
	}
	p.notice("[msmemscope] Info: create dbfile " + filepath.Join(p.Path, name) + ".")
	p.notice("[msmemscope] Info: create dbtable memscope_dump in " + filepath.Join(p.Path, name) + ".")
	return f, dir, name, nil
}

func deviceDir(device int32) string {
	if device == event.DeviceCPU {
		return "device_cpu"
	}
	return "device_" + strconv.Itoa(int(device))
}

// dumpDir makes and opens the directory of a device's dumps.
func (p *Project) dumpDir(device int32) (*os.Root, error) {
	top, err := makeDir(p.Root, deviceDir(device), false)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	return makeDir(top, "dump", false)
}

// DB is the database that CreateDB has made for a device: its directory, opened, and its name in it. os.ErrNotExist: there is none.
func (p *Project) DB(device int32) (*os.File, string, error) {
	dir, err := p.dumpDir(device)
	if err != nil {
		return nil, "", err
	}
	defer dir.Close()
	name := "memscope_dump_" + p.db + ".db"
	if _, err := dir.Lstat(name); err != nil {
		return nil, "", err
	}
	opened, err := dir.Open(".")
	return opened, name, err
}

// CreateTrace makes the file of a thread's Python calls, device_<id>/dump/python_trace_<TID>_<TS>.csv, and says its name relative to the
// project directory.
func (p *Project) CreateTrace(device int32, tid uint32) (*os.File, string, error) {
	return p.createIn([]string{deviceDir(device), "dump"}, "python_trace_"+strconv.Itoa(int(tid))+"_", ".csv")
}

// Notice tells the user of something that was made in the project directory.
func (p *Project) Notice(what, name string) {
	p.notice("[msmemscope] Info: create " + what + " " + filepath.Join(p.Path, name) + ".")
}

// createIn makes a file <prefix><TS><suffix> in a sub-directory, given as its components, and says its name relative to
// the project directory.
func (p *Project) createIn(dirs []string, prefix, suffix string) (*os.File, string, error) {
	where := filepath.Join(dirs...)
	f, name, err := func() (*os.File, string, error) {
		root := p.Root
		for _, d := range dirs {
			sub, err := makeDir(root, d, false)
			if root != p.Root {
				root.Close()
			}
			if err != nil {
				return nil, "", err
			}
			root = sub
		}
		defer root.Close()
		var f *os.File
		name, err := freeName(func(ts string) (name string, err error) {
			name = prefix + ts + suffix
			f, err = createFile(root, name)
			return name, err
		})
		return f, filepath.Join(where, name), err
	}()
	if err != nil {
		return nil, "", fmt.Errorf("cannot make a file in %s: %w", filepath.Join(p.Path, where), cause(err))
	}
	return f, name, nil
}

// freeName calls try with the stamp of now, then of the following seconds until it does not answer "exists already".
func freeName(try func(ts string) (string, error)) (string, error) {
	const tries = 3600
	at := time.Now()
	for i := 0; ; i++ {
		name, err := try(at.Format(stampLayout))
		if i == tries || !errors.Is(err, fs.ErrExist) {
			return name, err
		}
		at = at.Add(time.Second)
	}
}

// createFile makes a new file for appending; O_EXCL never follows a symbolic link.
func createFile(root *os.Root, name string) (*os.File, error) {
	return newFile(root, name, os.O_APPEND)
}

func newFile(root *os.Root, name string, flag int) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR|flag, fileMode)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(fileMode); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// makeDir makes a directory, or takes the one that is there unless it has to be new, and opens it.
func makeDir(root *os.Root, name string, fresh bool) (*os.Root, error) {
	err := root.Mkdir(name, dirMode)
	switch {
	case err == nil:
		if err := root.Chmod(name, dirMode); err != nil {
			return nil, err
		}
	case fresh || !errors.Is(err, fs.ErrExist):
		return nil, err
	}
	return openDir(root, name)
}

// openDir opens a directory that must not be a symbolic link.
func openDir(root *os.Root, name string) (*os.Root, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", filepath.Join(root.Name(), name))
	}
	dir, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if after, err := dir.Stat("."); err != nil || !os.SameFile(before, after) { // swapped in between
		dir.Close()
		return nil, fmt.Errorf("%s changed while it was opened", filepath.Join(root.Name(), name))
	}
	return dir, nil
}

// openBase makes and opens the output directory. Links above it are followed, it must be none itself.
func openBase(base string) (*os.Root, error) {
	parent := filepath.Dir(base)
	if err := makeParents(parent); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(parent)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return makeDir(root, filepath.Base(base), false)
}

// makeParents is os.MkdirAll with modes that do not depend on the umask.
func makeParents(path string) error {
	if info, err := os.Stat(path); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is not a directory", path)
		}
		return nil
	}
	if err := makeParents(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Mkdir(path, dirMode); err != nil {
		if errors.Is(err, fs.ErrExist) { // another process of this run was quicker
			return nil
		}
		return err
	}
	return os.Chmod(path, dirMode)
}
