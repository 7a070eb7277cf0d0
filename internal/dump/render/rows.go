package render

import (
	"io"

	"memscope/internal/dump/spool"
	"memscope/internal/event"
)

// file is the dump of one device.
type file struct {
	Format
	device int32
	rows   int64 // written by this renderer
	listed bool  // the checkpoint knows of it
	fresh  bool  // it does not hold the shared rows before it yet
}

func (r *Renderer) fileOf(device int32) *file {
	for _, f := range r.files {
		if f.device == device {
			return f
		}
	}
	return nil
}

func (r *Renderer) names() []string {
	var out []string
	for _, f := range r.files {
		out = append(out, f.Name())
	}
	return out
}

// ready does what may fail before ev can have its row: it opens the device's file, or keeps the event for the files that
// are opened later. After an error it can be tried again.
func (r *Renderer) ready(ev *event.Event) error {
	if ev.Device == event.DeviceNone {
		return r.shared.add(r.spool, ev, r.next)
	}
	f := r.fileOf(ev.Device)
	if f == nil {
		opened, err := r.open(ev.Device, r.opt.Existing[ev.Device], 0)
		if err != nil {
			return err
		}
		f = &file{Format: opened, device: ev.Device, fresh: true}
		r.files = append(r.files, f)
	}
	if !f.listed { // before it has a row: recovery takes a file that no checkpoint knows for an empty one
		if err := r.save(); err != nil {
			return err
		}
	}
	if f.fresh {
		f.fresh = false
		return r.begin(f)
	}
	return nil
}

// begin writes the shared rows so far.
func (r *Renderer) begin(f *file) error {
	var write error
	if err := r.shared.replay(func(ev *event.Event, id uint64) {
		f.rows++
		if err := f.Row(ev, id); err != nil {
			write = err
		}
	}); err != nil {
		return r.fail(err)
	}
	return write
}

// row gives an event that is ready its ID and its row. An error means that some write failed; the event has its row all
// the same.
func (r *Renderer) row(ev *event.Event) error {
	id := r.next
	r.next++
	r.last = ev.Stamp
	if ev.Device != event.DeviceNone {
		f := r.fileOf(ev.Device)
		f.rows++
		return f.Row(ev, id)
	}
	var err error
	for _, f := range r.files {
		f.rows++
		if e := f.Row(ev, id); err == nil {
			err = e
		}
	}
	return err
}

// emit is ready and row.
func (r *Renderer) emit(ev *event.Event) error {
	if err := r.ready(ev); err != nil {
		return err
	}
	return r.row(ev)
}

func (r *Renderer) flush() error {
	for _, f := range r.files {
		if err := f.Flush(); err != nil {
			return r.stop(err)
		}
	}
	return nil
}

// shared keeps the events without a device, which every file that is opened later begins with: a spool of its own inside
// the spool, in which Seq holds the row's ID. It exists from the first such event on.
type shared struct {
	w   *spool.Writer
	end spool.Pos // flushed up to here
}

const sharedDir = "shared"

func (s *shared) add(r *spool.Reader, ev *event.Event, id uint64) error {
	if s.w == nil {
		var err error
		if s.w, err = spool.Create(r.Root(), sharedDir, r.Meta()); err != nil {
			return err
		}
	}
	row := *ev
	row.Seq = id
	return s.w.Append(&row)
}

func (s *shared) flush() (err error) {
	if s.w != nil {
		s.end, err = s.w.Flush()
	}
	return err
}

// restore cuts the kept events back to end.
func (s *shared) restore(r *spool.Reader, end spool.Pos) (err error) {
	if end == 0 {
		return r.Root().RemoveAll(sharedDir)
	}
	s.end = end
	s.w, err = spool.Resume(r.Root(), sharedDir, r.Meta(), end)
	return err
}

// replay visits what was kept.
func (s *shared) replay(visit func(ev *event.Event, id uint64)) error {
	if err := s.flush(); err != nil || s.w == nil {
		return err
	}
	r, err := spool.Open(s.w.Parent(), sharedDir)
	if err != nil {
		return err
	}
	defer r.Close()
	var ev event.Event
	for at := spool.Pos(0); ; {
		b, err := r.Load(at, s.end)
		if err == io.EOF {
			return nil
		}
		for err == nil {
			if err = r.Next(&ev); err == nil {
				visit(&ev, ev.Seq)
			}
		}
		if err != io.EOF {
			return err
		}
		at = b.End
	}
}

func (s *shared) close() {
	if s.w != nil {
		s.w.Close()
	}
}
