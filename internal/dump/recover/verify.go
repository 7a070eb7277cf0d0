package recover

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"memscope/internal/dump/csvfile"
	"memscope/internal/dump/render"
	"memscope/internal/dump/spool"
	"memscope/internal/event"
	"memscope/internal/output"
)

const (
	dumpPattern = "device_*/dump/memscope_dump_*.csv"
	dbPattern   = "device_*/dump/memscope_dump_*.db"
)

// verify looks whether the rendering can go on from the checkpoint without losing a row that is in a file: the spool is whole from
// there on, and every row that will be cut off is of an event in it. Without a checkpoint that can be read, the whole spool has
// to be there. Nothing is changed but that empty dumps are deleted. With force, what is wrong is noted in done, and only what makes it
// impossible to go on is an error. existing are the files with rows that no checkpoint knows, by device.
func verify(done *Project, root *os.Root, r *spool.Reader, force bool) (existing map[int32]string, err error) {
	c, err := render.Load(r)
	if err != nil && !errors.Is(err, spool.ErrState) {
		return nil, err
	}
	if c == nil {
		if first := r.First(); first != 0 {
			why := "the checkpoint is missing"
			if err != nil {
				why = err.Error()
			}
			return nil, fmt.Errorf("%s, and the spool begins at %d, so that its rows have no place; what is in the CSV files is safe; "+
				"put the checkpoint back, or delete %s to keep the dump as it is", why, first, r.Root().Name())
		}
		c = new(render.Checkpoint)
	}
	if c.Over {
		return nil, nil
	}
	if r.Meta().DB { // each is written anew, from the first event on
		return databases(root)
	}
	if err := safe(root, c); err != nil {
		return nil, err
	}
	v := &verifier{root: root, spool: r, checkpoint: c}
	if existing, err = v.unknown(); err != nil {
		return nil, err
	}
	if err = v.check(existing); err == nil {
		return existing, nil
	}
	if !force {
		return nil, fmt.Errorf("%w; nothing was changed: the rows in the CSV files and the spool are safe; "+
			"`msmemscope dump recover --force %s` cuts the files back to the last checkpoint and writes what the spool still holds", err, done.Path)
	}
	done.Forced = err
	return existing, nil
}

// safe says whether the files that the checkpoint names may be written to. One that is missing is not its concern.
func safe(root *os.Root, c *render.Checkpoint) error {
	for _, cf := range c.Files {
		if ok, _ := filepath.Match(dumpPattern, cf.Name); !ok || cf.Size < 0 {
			return fmt.Errorf("the checkpoint names %q, which is no dump", cf.Name)
		}
		f, err := output.OpenRegular(root, cf.Name, os.O_RDWR)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

type verifier struct {
	root       *os.Root
	spool      *spool.Reader
	checkpoint *render.Checkpoint
}

// unknown lists the dumps with rows that the checkpoint does not know and whose devices it has no file for: they will be written
// anew. Empty ones were made in the moment of the death and are deleted. What has no rows of ours is left alone.
func (v *verifier) unknown() (map[int32]string, error) {
	names, err := fs.Glob(v.root.FS(), dumpPattern)
	if err != nil {
		return nil, err
	}
	existing := make(map[int32]string)
	for _, name := range names {
		if slices.ContainsFunc(v.checkpoint.Files, func(f render.CheckpointFile) bool { return f.Name == name }) {
			continue
		}
		f, err := output.OpenRegular(v.root, name, os.O_RDWR)
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		device, ours := deviceOf(name)
		if ours && err == nil && info.Size() > int64(len(csvfile.Header)+1) {
			ours = begins(f)
		}
		f.Close()
		switch {
		case err != nil:
			return nil, err
		case info.Size() <= int64(len(csvfile.Header)+1):
			if err := v.root.Remove(name); err != nil {
				return nil, err
			}
		case !ours:
		case slices.ContainsFunc(v.checkpoint.Files, func(f render.CheckpointFile) bool { return f.Device == device }):
		case existing[device] != "":
			return nil, fmt.Errorf("%s and %s are both dumps of one device, and no checkpoint says which to continue; move one away", existing[device], name)
		default:
			existing[device] = name
		}
	}
	return existing, nil
}

// databases lists the databases of an unfinished dump, by device.
func databases(root *os.Root) (map[int32]string, error) {
	names, err := fs.Glob(root.FS(), dbPattern)
	if err != nil {
		return nil, err
	}
	existing := make(map[int32]string)
	for _, name := range names {
		device, ours := deviceOf(name)
		if !ours {
			continue
		}
		if existing[device] != "" {
			return nil, fmt.Errorf("%s and %s are both dumps of one device, and nothing says which to write anew; move one away", existing[device], name)
		}
		f, err := output.OpenRegular(root, name, os.O_RDWR)
		if err != nil {
			return nil, err
		}
		f.Close()
		existing[device] = name
	}
	return existing, nil
}

// deviceOf is the device of a dump, by its directory.
func deviceOf(name string) (int32, bool) {
	dir, _, _ := strings.Cut(name, "/")
	id := strings.TrimPrefix(dir, "device_")
	if id == "cpu" {
		return event.DeviceCPU, true
	}
	n, err := strconv.ParseInt(id, 10, 32)
	return int32(n), err == nil
}

// begins says whether a file begins as a dump with rows.
func begins(f io.Reader) bool {
	rows := csvfile.NewReader(f)
	header, err := rows.Next()
	if err != nil || string(header) != csvfile.Header+"\n" {
		return false
	}
	row, err := rows.Next()
	if err != nil {
		return err == io.ErrUnexpectedEOF
	}
	_, ok := csvfile.ID(row)
	return ok
}

// check compares spool and files. Its error says why the one cannot replace what is in the other.
func (v *verifier) check(existing map[int32]string) error {
	c := v.checkpoint
	events := uint64(0)
	end, err := v.spool.Verify(c.Pos, func(*event.Event) { events++ })
	if err != nil {
		return err
	}
	if uint64(c.Done) > events || c.Done < 0 {
		return fmt.Errorf("%s ends at %d, before the checkpoint", v.spool.Root().Name(), end)
	}
	if err := render.CheckShared(v.spool, c.Shared); err != nil {
		return err
	}
	next := c.Next + events - uint64(c.Done)
	for _, cf := range c.Files {
		if err := v.tail(cf.Name, cf.Size, next); err != nil {
			return err
		}
	}
	for _, name := range existing {
		if err := v.tail(name, 0, next); err != nil {
			return err
		}
	}
	return nil
}

// tail looks at the rows of a file from size on, which will be cut off: their IDs have to be below next, or they are the closing
// rows of a recovery that was interrupted, which are made from the files again.
func (v *verifier) tail(name string, size int64, next uint64) error {
	f, err := output.OpenRegular(v.root, name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing; put it back, or --force writes what the spool still holds into a new file", filepath.Join(v.root.Name(), name))
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if size > 0 {
		if _, err := f.Seek(size-1, io.SeekStart); err != nil {
			return err
		}
		var b [1]byte
		if n, err := f.Read(b[:]); n == 0 && err == io.EOF {
			return nil // shorter: nothing is cut off but a torn row
		} else if err != nil {
			return err
		}
		if b[0] != '\n' {
			return fmt.Errorf("%s has no end of a row at byte %d, where the checkpoint has one", f.Name(), size)
		}
	}
	rows := csvfile.NewReader(f)
	for first := size == 0; ; first = false {
		at := size + rows.End()
		row, err := rows.Next()
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil {
			return err
		}
		if first {
			continue // the header
		}
		id, ok := csvfile.ID(row)
		if !ok {
			return fmt.Errorf("%s is damaged at byte %d", f.Name(), at)
		}
		if id < next {
			continue
		}
		var ev event.Event
		if !v.spool.Meta().Paired || !csvfile.ParseBlock(row, &ev) || ev.Kind != event.Free || ev.Flags&event.Shadow == 0 {
			return fmt.Errorf("the spool ends before row %d of %s", id, f.Name())
		}
	}
}
