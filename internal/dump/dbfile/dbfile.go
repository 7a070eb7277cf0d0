// Package dbfile writes the SQLite form of a dump (contract 3.5), as MindStudio Insight imports it: the table memscope_dump
// with the twelve columns in their order, Attr as one flat JSON object of strings, three indexes, one file and no journal.
package dbfile

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"memscope/internal/dump/cells"
	"memscope/internal/dump/read"
	"memscope/internal/dump/render"
	"memscope/internal/dump/sqlitefile"
	"memscope/internal/event"
	"memscope/internal/output"
)

// Writer writes one database. It is a render.Format. It cannot be continued: a dump that was not finished is written anew.
type Writer struct {
	db      *sqlitefile.Writer
	dir     *os.Root // may be nil
	name    string
	rows    int64 // accepted
	flushed int64 // in the file
	buf     []byte
	json    []byte
	stacks  cells.Stacks
}

// New begins a database in f, which is empty and belongs to it unless there is an error. name is what Name answers; for scratch see sqlitefile.New.
func New(f *os.File, name string, scratch func() (*os.File, error)) (*Writer, error) {
	db, err := sqlitefile.New(f, cells.Schema(cells.Table), scratch)
	if err != nil {
		return nil, err
	}
	return &Writer{db: db, name: name}, nil
}

// Row: see render.Format.
func (w *Writer) Row(ev *event.Event, id uint64) error {
	w.rows++
	db := w.db
	db.Int(int64(id))
	db.String(cells.Kind(ev))
	db.String(cells.Type(ev))
	if ev.Kind == event.Mstx { // such a name keeps its quotes
		w.buf = append(cells.AppendName(append(w.buf[:0], '"'), ev), '"')
	} else {
		w.buf = cells.AppendName(w.buf[:0], ev)
	}
	db.Text(w.buf)
	db.Int(ev.Stamp)
	w.id(ev.PID)
	w.id(ev.TID)
	w.buf = cells.AppendDevice(w.buf[:0], ev.Device)
	db.Text(w.buf)
	w.buf = cells.AppendPtr(w.buf[:0], ev)
	db.Text(w.buf)
	w.buf = cells.AppendAttr(w.buf[:0], ev)
	w.json = read.AppendJSON(w.json[:0], w.buf)
	db.Text(w.json)
	python, c := cells.StackColumns(w.stacks, ev)
	db.String(python)
	db.String(c)
	return db.EndRow()
}

func (w *Writer) id(id uint64) {
	if id == math.MaxUint64 {
		w.db.String(cells.NA)
	} else {
		w.db.Int(int64(id))
	}
}

// Flush: see render.Format. Who is just reading the database sees the rows after a later Flush.
func (w *Writer) Flush() error {
	if err := w.db.Flush(); err != nil {
		return err
	}
	w.flushed = w.rows
	return nil
}

// Size is the number of rows in the database.
func (w *Writer) Size() int64 { return w.flushed }

// Name: see render.Format.
func (w *Writer) Name() string { return w.name }

// Finish makes the indexes.
func (w *Writer) Finish() error { return w.db.Finish() }

// Close: see render.Format.
func (w *Writer) Close() error {
	err := w.db.Close()
	if w.dir != nil {
		err = errors.Join(err, w.dir.Close())
	}
	return err
}

// Opener makes databases in a project directory. A name is that of a database to write anew. stacks may be nil.
func Opener(p *output.Project, stacks cells.Stacks) render.Opener {
	return func(device int32, name string, _ int64) (render.Format, error) {
		f, dir, name, err := p.CreateDB(device, name)
		if err != nil {
			return nil, err
		}
		w, err := New(f, name, func() (*os.File, error) { return unnamed(dir, filepath.Base(name)+"-sort") })
		if err != nil {
			return nil, errors.Join(err, f.Close(), dir.Close())
		}
		w.dir, w.stacks = dir, stacks
		return w, nil
	}
}

// unnamed makes a file that is gone when it is closed, however that comes about.
func unnamed(dir *os.Root, name string) (*os.File, error) {
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := dir.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := dir.Remove(name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
