package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"memscope/internal/config"
	"memscope/internal/dump/spool"
	"memscope/internal/event"
)

// Checkpoint is the state of a rendering between two rows. A file that is cut back to its size, and the events from Pos on but
// for the first Done, give exactly the rows that are still to be written. It is saved whenever a segment has been read, and
// when a file is opened.
type Checkpoint struct {
	Pos    spool.Pos // every event below has its row
	Done   int       // and so many of those in the block at Pos
	Next   uint64    // ID of the next row
	Last   int64     // stamp of the last row
	Shared spool.Pos // end of the events for files that are opened later
	Files  []CheckpointFile
	Over   bool // every row is written; nothing remains to do but to remove the spool
}

// CheckpointFile is a file that the rendering has opened.
type CheckpointFile struct {
	Device int32
	Name   string // relative to the project directory
	Size   int64  // bytes
	Fresh  bool   // it does not hold the shared rows before it yet
}

// save brings all rows into the files, saves a checkpoint, and deletes the segments that it makes superfluous.
func (r *Renderer) save() error {
	if err := r.flush(); err != nil {
		return err
	}
	if err := r.shared.flush(); err != nil {
		return r.stop(err)
	}
	if r.opt.Whole && !r.over {
		for _, f := range r.files {
			f.listed = true
		}
		return nil
	}
	c := Checkpoint{Pos: r.pos, Done: r.done, Next: r.next, Last: r.last, Shared: r.shared.end, Over: r.over}
	for _, f := range r.files {
		c.Files = append(c.Files, CheckpointFile{f.device, f.Name(), f.Size(), f.fresh})
	}
	text, err := json.Marshal(&c)
	if err == nil {
		err = r.spool.Save(text)
	}
	if err != nil {
		return r.stop(err)
	}
	for _, f := range r.files {
		f.listed = true
	}
	keep := r.pos
	if r.opt.Keep != nil {
		keep = min(keep, r.opt.Keep())
	}
	if err := r.spool.DropBefore(keep); err != nil {
		r.logf(config.Warning, "rendered spool segments stay on disk: %v", err)
	}
	return nil
}

// Load reads the checkpoint of a spool, nil if there is none. spool.ErrState: it is damaged.
func Load(r *spool.Reader) (*Checkpoint, error) {
	text, err := r.Saved()
	if err != nil || text == nil {
		return nil, err
	}
	c := new(Checkpoint)
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("the checkpoint in %s is %w: %v", r.Root().Name(), spool.ErrState, err)
	}
	return c, nil
}

// restore goes on from the checkpoint. Without one that can be read, it begins anew if the spool is there from its beginning on.
func (r *Renderer) restore() error {
	c, err := Load(r.spool)
	if err != nil && !errors.Is(err, spool.ErrState) {
		return err
	}
	if c == nil {
		if r.spool.First() != 0 {
			return fmt.Errorf("%s has lost its checkpoint and begins in the middle, at %d", r.spool.Root().Name(), r.spool.First())
		}
		return r.shared.restore(r.spool, 0)
	}
	if c.Over {
		r.over = true
		return nil
	}
	r.pos, r.done, r.next, r.last = c.Pos, c.Done, c.Next, c.Last
	var errs []error
	for _, cf := range c.Files {
		opened := &file{device: cf.Device, listed: true, fresh: cf.Fresh}
		opened.Format, err = r.open(cf.Device, cf.Name, cf.Size)
		if r.opt.Force && errors.Is(err, fs.ErrNotExist) {
			opened.listed, opened.fresh = false, true
			opened.Format, err = r.open(cf.Device, "", 0)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.files = append(r.files, opened)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if r.opt.Force && CheckShared(r.spool, c.Shared) != nil {
		c.Shared = 0
	}
	return r.shared.restore(r.spool, c.Shared)
}

// CheckShared says whether the events kept for files that are opened later are all there, up to end.
func CheckShared(r *spool.Reader, end spool.Pos) error {
	if end == 0 {
		return nil
	}
	kept, err := spool.Open(r.Root(), sharedDir)
	if err != nil {
		return err
	}
	defer kept.Close()
	at, err := kept.Verify(0, func(*event.Event) {})
	if err == nil && at < end {
		err = fmt.Errorf("%s ends at %d, before %d", kept.Root().Name(), at, end)
	}
	return err
}
