// Package csvfile writes and reads the CSV form of a dump (contract 3.1 to 3.3). It knows columns, Attr and quoting, and
// nothing of the order of rows.
package csvfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"memscope/internal/dump/cells"
	"memscope/internal/dump/render"
	"memscope/internal/event"
	"memscope/internal/output"
)

// Writer writes one CSV file. It is a render.Format.
//
// Where more rows come between two flushes than a batch holds, they become text in a goroutine of their own, a batch at a time,
// while the caller reads the events of the next one and writes the text of the one before. Writes, and so errors, stay with the caller.
type Writer struct {
	f    *os.File // opened for appending
	name string
	size int64 // bytes in the file, whole rows

	// The batches that have begun, nil where there is none; the first rows are in made.
	made    *batch // its text is not in the file yet
	making  *batch // becomes text
	filling *batch

	stacks cells.Stacks
}

// New begins a new file: its first line is the header. name is what Name answers.
func New(f *os.File, name string) *Writer {
	w := &Writer{f: f, name: name, made: newBatch()}
	w.made.text = append(append(w.made.text, Header...), '\n')
	return w
}

// Row: see render.Format.
func (w *Writer) Row(ev *event.Event, id uint64) error {
	if w.filling == nil {
		w.filling = newBatch()
	}
	if w.filling.add(ev, id); w.filling.bytes < batchBytes {
		return nil
	}
	full := w.filling
	go full.make(w.stacks)
	w.take()
	w.making, w.filling = full, nil
	return w.write()
}

// Flush: see render.Format.
func (w *Writer) Flush() error {
	w.take()
	if w.filling != nil {
		w.filling.make(w.stacks)
		w.making, w.filling = w.filling, nil
		w.take()
	}
	return w.write()
}

// take waits for the batch that becomes text.
func (w *Writer) take() {
	b := w.making
	if b == nil {
		return
	}
	<-b.made
	w.making = nil
	if w.made == nil {
		w.made = b
	} else { // a write failed
		w.made.text = append(w.made.text, b.text...)
		b.free()
	}
}

// write writes what is made, in one write.
func (w *Writer) write() error {
	if w.made == nil {
		return nil
	}
	n, err := w.f.Write(w.made.text)
	if err != nil {
		if n > 0 {
			if e := w.f.Truncate(w.size); e != nil {
				return errors.Join(err, e)
			}
		}
		return err
	}
	w.size += int64(n)
	w.made.free()
	w.made = nil
	return nil
}

// Size: see render.Format.
func (w *Writer) Size() int64 { return w.size }

// Name: see render.Format.
func (w *Writer) Name() string { return w.name }

// Finish: see render.Format. A CSV file is always complete.
func (w *Writer) Finish() error { return nil }

// Close: see render.Format.
func (w *Writer) Close() error {
	w.take() // which needs the stacks
	return w.f.Close()
}

// Opener makes CSV files in a project directory. missing hears of a file that is to be continued but is shorter than it was
// when its size was noted, as after a loss of power; it may be nil, as may stacks.
func Opener(p *output.Project, stacks cells.Stacks, missing func(name string, bytes int64)) render.Opener {
	return func(device int32, name string, size int64) (render.Format, error) {
		if name == "" {
			f, name, err := p.CreateDump(device, "csv")
			if err != nil {
				return nil, err
			}
			w := New(f, name)
			w.stacks = stacks
			return w, nil
		}
		w, lost, err := resume(p.Root, name, size)
		if err != nil {
			return nil, fmt.Errorf("cannot continue %s: %w", filepath.Join(p.Path, name), err)
		}
		w.stacks = stacks
		if lost > 0 && missing != nil {
			missing(name, lost)
		}
		return w, nil
	}
}

// resume goes on writing a file whose first size bytes are whole rows. When it is shorter it goes on behind its last whole
// row; lost is what is missing.
func resume(root *os.Root, name string, size int64) (w *Writer, lost int64, err error) {
	f, err := output.OpenRegular(root, name, os.O_RDWR|os.O_APPEND)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if info.Size() < size {
		rows := NewReader(f)
		for {
			if _, err := rows.Next(); err == io.EOF || err == io.ErrUnexpectedEOF {
				break
			} else if err != nil {
				return nil, 0, err
			}
		}
		lost, size = size-rows.End(), rows.End()
	}
	if err := f.Truncate(size); err != nil {
		return nil, 0, err
	}
	if size == 0 {
		return New(f, name), lost, nil
	}
	return &Writer{f: f, name: name, size: size}, lost, nil
}
