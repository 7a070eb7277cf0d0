package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"memscope/internal/event"
	"memscope/internal/output"
)

// StoppedError says that a spool takes no more events because a write failed, as on a full disk. What was flushed before
// stays whole. It unwraps to the cause (syscall.ENOSPC and others).
type StoppedError struct {
	Path string // of the spool
	Err  error
}

func (e *StoppedError) Error() string {
	return fmt.Sprintf("events can no longer be stored in %s: %v", e.Path, e.Err)
}

func (e *StoppedError) Unwrap() error { return e.Err }

// Writer appends events to a spool. It belongs to one goroutine.
type Writer struct {
	parent *os.Root
	name   string
	root   *os.Root
	lock   *Lock
	meta   Meta

	seg    *os.File // nil until the first block
	start  Pos      // of the segment
	length int64    // bytes of whole blocks in it, header included

	buf   []byte // block header and payload, capacity fixed
	state state
	count uint64 // events in buf

	late lateWriter

	err  *StoppedError
	lost uint64
}

// Create makes a spool, a new directory name in parent, and locks it.
func Create(parent *os.Root, name string, m Meta) (*Writer, error) {
	if err := parent.Mkdir(name, dirMode); err != nil {
		return nil, err
	}
	if err := parent.Chmod(name, dirMode); err != nil {
		return nil, err
	}
	return Resume(parent, name, m, 0)
}

// Resume opens an existing spool for writing from at on, a position between two blocks; what lies behind at is removed.
func Resume(parent *os.Root, name string, m Meta, at Pos) (*Writer, error) {
	if m.SegmentBytes == 0 {
		m.SegmentBytes = DefaultSegmentBytes
	}
	w := &Writer{parent: parent, name: name, meta: m, start: at}
	w.buf = make([]byte, blockHeader, blockHeader+BlockBytes)
	var err error
	if w.root, err = parent.OpenRoot(name); err != nil {
		return nil, err
	}
	if w.lock, err = TakeLock(parent, name); err != nil {
		w.root.Close()
		return nil, err
	}
	if err := w.cut(at); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// cut removes what lies behind at and makes the segment that ends there the current one.
func (w *Writer) cut(at Pos) error {
	starts, err := segments(w.root)
	if err != nil {
		return err
	}
	for _, s := range starts {
		if s < at {
			w.start = s
		} else if err := w.root.Remove(segmentName(s)); err != nil {
			return err
		}
	}
	if w.start == at {
		return nil
	}
	if w.seg, err = output.OpenRegular(w.root, segmentName(w.start), os.O_RDWR|os.O_APPEND); err != nil {
		return err
	}
	w.length = int64(at - w.start)
	return w.seg.Truncate(w.length)
}

// Append adds an event. It reaches the file with the next Flush, or earlier when a block is full. After a failed write
// every call fails with the same *StoppedError, at no cost, and the event is counted as lost. ev is not kept.
func (w *Writer) Append(ev *event.Event) error {
	if w.err != nil {
		w.lost++
		return w.err
	}
	if len(w.buf)+maxFields+min(len(ev.Name), MaxName)+min(len(ev.Owner), MaxName)+min(len(ev.Attrs), MaxName) > cap(w.buf) {
		if err := w.write(); err != nil {
			w.lost++
			return err
		}
	}
	w.count++
	w.buf = w.state.encode(w.buf, ev)
	return nil
}

// Flush writes what was appended, in one write, and says where it ends.
func (w *Writer) Flush() (Pos, error) {
	var err error
	switch {
	case w.err != nil:
		err = w.err
	case w.count > 0:
		err = w.write()
	}
	return w.start + Pos(w.length), err
}

// Lost is the number of events that could not be stored.
func (w *Writer) Lost() uint64 { return w.lost }

// write writes the block in buf and begins the next one.
func (w *Writer) write() error {
	b := w.buf
	le := binary.LittleEndian
	le.PutUint32(b[0:], uint32(len(b)-blockHeader))
	le.PutUint32(b[4:], checksum(b[blockHeader:]))

	err := w.roll(len(b))
	if err == nil {
		_, err = w.seg.Write(b)
	}
	if err != nil {
		if w.seg != nil {
			w.seg.Truncate(w.length) // a reader would stop there as well; this spares it the guess
		}
		w.lost += w.count
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err // the path is in our message
		}
		w.err = &StoppedError{Path: w.root.Name(), Err: err}
		return w.err
	}
	w.length += int64(len(b))
	w.buf, w.count, w.state = b[:blockHeader], 0, state{}
	return nil
}

// roll begins a new segment when there is none or n more bytes do not fit.
func (w *Writer) roll(n int) error {
	if w.seg != nil && w.length+int64(n) <= w.meta.SegmentBytes {
		return nil
	}
	at := w.start + Pos(w.length)
	name := segmentName(at)
	f, err := w.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, fileMode)
	if err != nil {
		return err
	}
	if _, err := f.Write(w.meta.header(at)); err != nil {
		f.Close()
		w.root.Remove(name)
		return err
	}
	if w.seg != nil {
		w.seg.Close()
	}
	w.seg, w.start, w.length = f, at, segmentHeader
	return nil
}

// Close closes the files and unlocks. The spool stays on disk; what was appended and not flushed is lost.
func (w *Writer) Close() error {
	var err error
	w.late.close()
	if w.seg != nil {
		err = w.seg.Close()
		w.seg = nil
	}
	if w.lock != nil {
		w.lock.Release()
		w.lock = nil
	}
	w.root.Close()
	return err
}

// Remove closes the spool and deletes it. Do this when every row is written.
func (w *Writer) Remove() error {
	err := Remove(w.parent, w.name)
	if e := w.Close(); err == nil {
		err = e
	}
	return err
}

// Remove deletes the spool name in parent. The checkpoint goes after the segments, so that a spool which is half removed is
// still known as one that has nothing left to say.
func Remove(parent *os.Root, name string) error {
	root, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	defer root.Close()
	names, err := list(root)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n != lockName && n != stateName {
			if err := root.RemoveAll(n); err != nil {
				return err
			}
		}
	}
	for _, n := range []string{stateName, lockName} {
		if err := root.Remove(n); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return parent.Remove(name)
}

// Empty says whether nothing is left in the spool name in parent, as after the last step but one of Remove.
func Empty(parent *os.Root, name string) (bool, error) {
	root, err := parent.OpenRoot(name)
	if err != nil {
		return false, err
	}
	defer root.Close()
	names, err := list(root)
	return !slices.ContainsFunc(names, func(n string) bool { return n != lockName }), err
}

// Parent is the directory that holds the spool.
func (w *Writer) Parent() *os.Root { return w.parent }
