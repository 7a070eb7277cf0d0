package render

import (
	"encoding/json"
	"errors"
	"fmt"

	"memscope/internal/config"
	"memscope/internal/dump/spool"
)

// checkpoint is the state of a rendering between two rows. A file that is cut back to its size, and the events from Pos on but
// for the first Done, give exactly the rows that are still to be written. It is saved whenever a segment has been read, and
// when a file is opened.
type checkpoint struct {
	Pos    spool.Pos // every event below has its row
	Done   int       // and so many of those in the block at Pos
	Next   uint64    // ID of the next row
	Last   int64     // stamp of the last row
	Shared spool.Pos // end of the events for files that are opened later
	Files  []checkpointFile
	Over   bool // every row is written; nothing remains to do but to remove the spool
}

type checkpointFile struct {
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
	c := checkpoint{Pos: r.pos, Done: r.done, Next: r.next, Last: r.last, Shared: r.shared.end, Over: r.over}
	for _, f := range r.files {
		c.Files = append(c.Files, checkpointFile{f.device, f.Name(), f.Size(), f.fresh})
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
	if err := r.spool.DropBefore(r.pos); err != nil {
		r.logf(config.Warning, "rendered spool segments stay on disk: %v", err)
	}
	return nil
}

// load reads the checkpoint, nil if there is none.
func load(r *spool.Reader) (*checkpoint, error) {
	text, err := r.Saved()
	if err != nil || text == nil {
		return nil, err
	}
	c := new(checkpoint)
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("the checkpoint in %s cannot be read: %w", r.Root().Name(), err)
	}
	return c, nil
}

// restore goes on from the checkpoint, if there is one.
func (r *Renderer) restore() error {
	c, err := load(r.spool)
	if err != nil {
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
		f, err := r.open(cf.Device, cf.Name, cf.Size)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.files = append(r.files, &file{Format: f, device: cf.Device, listed: true, fresh: cf.Fresh})
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return r.shared.restore(r.spool, c.Shared)
}

// Known answers the names of the files that the checkpoint of a spool knows, and whether it says that every row is written.
func Known(r *spool.Reader) (names []string, over bool, err error) {
	c, err := load(r)
	if c == nil || err != nil {
		return nil, false, err
	}
	for _, f := range c.Files {
		names = append(names, f.Name)
	}
	return names, c.Over, nil
}
