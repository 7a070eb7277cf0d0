// Package render turns a spool into rows: in its order, each exactly once, numbered in that order, each in the file of its
// device. It knows nothing of formats.
//
// It follows the spool's file in a goroutine of its own and may lag as far as it likes: what it has not read costs no
// memory. Behind itself it deletes the spool, a segment at a time, after it has saved a checkpoint from which the rows can
// be continued exactly (checkpoint.go).
package render

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"

	"memscope/internal/config"
	"memscope/internal/dump/spool"
	"memscope/internal/event"
)

// Format writes the rows of one device in some format, to one file. It buffers.
type Format interface {
	// Row adds a row. ev is not kept; its Seq means nothing here. The row is accepted also when an error is returned: that is one of Flush, below.
	Row(ev *event.Event, id uint64) error
	// Flush brings every row into the file. After an error the file ends with the last whole row of the flush before, the
	// rows since then are still buffered, and Flush may be tried again.
	Flush() error
	// Size is the length of the file in bytes after the last good Flush.
	Size() int64
	// Name is the file's path relative to the project directory.
	Name() string
	// Finish completes the file after the last Flush; no row follows. After an error it may be tried again.
	Finish() error
	// Close closes the file without flushing.
	Close() error
}

// Opener makes the files: a new one when name is empty, else the named one, cut back to size bytes to be continued.
type Opener func(device int32, name string, size int64) (Format, error)

// Logger takes lines for the log.
type Logger interface {
	Logf(level config.LogLevel, format string, args ...any)
}

// Options of a Renderer.
type Options struct {
	Log Logger // may be nil
	// Existing names files, by device, that are written anew when the device has its first row, in place of a new file.
	Existing map[int32]string
	// Whole says that the files cannot be continued by a recovery but only be written anew: the spool stays until all rows are written.
	Whole bool
	// Keep, if set, says from where on somebody else still needs the spool.
	Keep func() spool.Pos
	// Force goes on over damage: what cannot be read is passed over, and a file that is missing is begun again.
	Force bool
	// Closing, if set, is called by Finish when every event has its row in a file. Events that it emits become rows too. last
	// is the stamp of the last row, files are the names of the files.
	Closing func(files []string, last int64, emit func(*event.Event) error) error
}

// Stats says what became of the events.
type Stats struct {
	Rows     uint64           // events with an ID
	Homeless uint64           // of these, events that are in no file: without a device, and no device ever had a row
	Files    map[string]int64 // rows by file, shared rows counted in each; rows from before a recovery are not counted
}

// UnfinishedError says that rows are missing because they could not be written; the spool holds them.
type UnfinishedError struct {
	Path string // of the project directory
	Err  error
}

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("the dump in %s is not complete: %v; 'msmemscope dump recover %s' writes what is stored when the cause is gone", e.Path, e.Err, e.Path)
}

func (e *UnfinishedError) Unwrap() error { return e.Err }

// pause is how long a pass lets events gather for the next one. It bounds the wake-ups, and the writes to files that get few
// rows; a row is in its file about this long after its event was flushed.
const pause = 20 * time.Millisecond

// Renderer writes the rows of one process.
type Renderer struct {
	spool *spool.Reader
	open  Opener
	opt   Options

	end atomic.Int64 // a spool.Pos: rows of the events below may go out

	wake   chan struct{}
	syncs  chan chan struct{}
	finish chan struct{}
	ended  chan struct{}
	err    error // of Finish; valid after ended

	progress atomic.Int64

	// The rest belongs to the goroutine.
	files   []*file
	shared  shared
	ev      event.Event
	waiting bool      // ev has no row yet
	block   spool.Pos // end of the loaded block
	done    int       // events of it that have their row
	pos     spool.Pos // every event below it has its row
	segment spool.Pos // in which pos is
	next    uint64    // ID of the next row
	last    int64     // stamp of the last row
	stuck   error     // a write failed; Finish tries again
	broken  error     // the spool or checkpoint cannot be read: nothing more can be done here
	over    bool      // the checkpoint says that every row is written
	stats   Stats
}

// New starts to render what r reads, from the checkpoint on if there is one. The renderer owns r from now on.
func New(r *spool.Reader, open Opener, opt Options) *Renderer {
	n := &Renderer{
		spool: r, open: open, opt: opt, last: math.MinInt64,
		wake: make(chan struct{}, 1), syncs: make(chan chan struct{}), finish: make(chan struct{}), ended: make(chan struct{}),
	}
	r.SkipDamage = opt.Force
	go n.run()
	return n
}

// Advance says that the events below end are in the spool and that their rows may go out. It does not wait.
func (r *Renderer) Advance(end spool.Pos) {
	r.end.Store(int64(end))
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Sync returns when the rows below end are in their files, or never will be.
func (r *Renderer) Sync(end spool.Pos) {
	r.Advance(end)
	done := make(chan struct{})
	select {
	case r.syncs <- done:
		<-done
	case <-r.ended:
	}
}

// Finish writes the rows of everything below end (spool.End for all there is), closes the files, and ends the goroutine. An
// *UnfinishedError means that the spool is still needed; after nil it can be removed.
func (r *Renderer) Finish(end spool.Pos) error {
	r.end.Store(int64(end))
	close(r.finish)
	<-r.ended
	return r.err
}

// Progress says how many of how many bytes of the spool have become rows. Any goroutine may ask.
func (r *Renderer) Progress() (done, total int64) { return r.progress.Load(), r.end.Load() }

// Stats is valid after Finish.
func (r *Renderer) Stats() Stats { return r.stats }

func (r *Renderer) run() {
	defer close(r.ended)
	r.broken = r.restore()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.finish:
			r.err = r.complete()
			return
		case done := <-r.syncs:
			r.catchUp()
			close(done)
			continue
		case <-r.wake:
		}
		r.catchUp()
		timer.Reset(pause)
		for paused := true; paused; {
			select {
			case <-timer.C:
				paused = false
			case <-r.finish:
				paused = false
			case done := <-r.syncs:
				r.catchUp()
				close(done)
			}
		}
	}
}

// catchUp writes the rows that may go out, unless that has failed before.
func (r *Renderer) catchUp() {
	if r.stuck != nil || r.broken != nil {
		return
	}
	if err := r.pass(); err != nil {
		r.logf(config.Error, "rows are no longer written: %v", err)
	}
}

// complete is the work of Finish.
func (r *Renderer) complete() error {
	r.stuck = nil // try again
	err := r.broken
	if err == nil && !r.over {
		err = r.flush()
		if err == nil {
			err = r.pass()
		}
		if err == nil && r.opt.Closing != nil {
			err = r.opt.Closing(r.names(), r.last, r.emit)
			if err == nil {
				err = r.flush()
			}
		}
		for _, f := range r.files {
			if err == nil {
				err = f.Finish()
			}
		}
		if err == nil { // from here on the spool can go, and a death on the way does not bring the rows back
			r.over = true
			err = r.save()
		}
	}
	r.stats.Files = make(map[string]int64)
	for _, f := range r.files {
		r.stats.Files[f.Name()] = f.rows
		if e := f.Close(); err == nil {
			err = e
		}
	}
	if len(r.files) == 0 && r.next > 0 {
		r.stats.Homeless = r.next
		r.logf(config.Debug, "%d events without a device are in no file, because no device had a row", r.next)
	}
	r.stats.Rows = r.next
	path := filepath.Dir(r.spool.Root().Name())
	r.shared.close()
	r.spool.Close()
	if err != nil {
		return &UnfinishedError{Path: path, Err: err}
	}
	return nil
}

// pass writes the rows that may go out.
func (r *Renderer) pass() error {
	end := spool.Pos(r.end.Load())
	for {
		if err := r.read(end); err == io.EOF {
			return r.flush()
		} else if err != nil {
			return err
		}
		if err := r.ready(&r.ev); err != nil {
			return r.stop(err)
		}
		r.waiting = false
		r.done++
		if err := r.row(&r.ev); err != nil {
			return r.stop(err)
		}
	}
}

// read makes ev the next event below end, unless it waits for its row already. io.EOF: there is none.
func (r *Renderer) read(end spool.Pos) error {
	for !r.waiting {
		err := r.spool.Next(&r.ev)
		switch err {
		case nil:
			r.waiting = true
		case io.EOF:
			if err := r.load(end); err != nil {
				return err
			}
		default:
			return r.fail(err)
		}
	}
	return nil
}

// load goes on to the next block.
func (r *Renderer) load(end spool.Pos) error {
	if r.block != 0 {
		r.pos, r.block, r.done = r.block, 0, 0
		r.progress.Store(int64(r.pos))
		if start := r.spool.SegmentStart(); start != r.segment {
			r.segment = start
			if err := r.save(); err != nil {
				return err
			}
		}
	}
	b, err := r.spool.Load(r.pos, end)
	if err == io.EOF {
		return err
	}
	if err != nil {
		return r.fail(err)
	}
	if b.Pos != r.pos { // what the checkpoint has counted is not there any more
		r.done = 0
	}
	r.pos, r.block = b.Pos, b.End
	for range r.done { // before the death
		if err := r.spool.Next(&r.ev); err != nil {
			return r.fail(fmt.Errorf("%s: %d events have rows of the block at %d, which has fewer", r.spool.Root().Name(), r.done, r.pos))
		}
	}
	return nil
}

// stop notes that a write failed, fail that a read did.
func (r *Renderer) stop(err error) error {
	r.stuck = err
	return err
}

func (r *Renderer) fail(err error) error {
	r.broken = err
	return err
}

func (r *Renderer) logf(level config.LogLevel, format string, args ...any) {
	if r.opt.Log != nil {
		r.opt.Log.Logf(level, format, args...)
	}
}
