// Package dbfile writes the SQLite form of a dump (contract 3.5), as MindStudio Insight imports it: the table memscope_dump
// with the twelve columns in their order, Attr as one flat JSON object of strings, three indexes, one file and no journal
// when it is closed.
package dbfile

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"memscope/internal/dump/cells"
	"memscope/internal/dump/read"
	"memscope/internal/dump/render"
	"memscope/internal/event"
	"memscope/internal/output"
)

const (
	// batch is the number of rows of a transaction. They are kept until it is committed, so that a full disk loses none.
	batch = 8192
	// busy is how long a writer waits for a reader that holds the database.
	busy = 5 * time.Second
)

// Writer writes one database. It is a render.Format. It cannot be continued: a dump that was not finished is written anew.
type Writer struct {
	conn   *sqlite.Conn
	insert *sqlite.Stmt
	dir    *os.File // what the database's path goes through, may be nil
	name   string
	rows   []row                      // accepted, not committed
	count  int64                      // committed
	bound  [len(cells.Columns)]string // texts that are bound, from the second transaction on
	buf    []byte
	json   []byte

	stacks cells.Stacks
}

type row struct {
	id uint64
	ev event.Event
}

// New begins a database in the empty file at path. name is what Name answers.
func New(path, name string) (*Writer, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	w := &Writer{conn: conn, name: name}
	conn.SetBusyTimeout(busy)
	// With a write-ahead log somebody who looks into the database does not hold us up. Nothing is synced, as in the spool.
	for _, sql := range []string{"PRAGMA page_size=16384", "PRAGMA journal_mode=WAL", "PRAGMA synchronous=OFF", cells.CreateTable(cells.Table)} {
		if err := sqlitex.ExecuteTransient(conn, sql, nil); err != nil {
			conn.Close()
			return nil, err
		}
	}
	if w.insert, err = conn.Prepare(cells.InsertInto(cells.Table)); err != nil {
		conn.Close()
		return nil, err
	}
	return w, nil
}

// Row: see render.Format.
func (w *Writer) Row(ev *event.Event, id uint64) error {
	w.rows = append(w.rows, row{id, *ev})
	if len(w.rows) < batch {
		return nil
	}
	return w.Flush()
}

// Flush: see render.Format. It is one transaction.
func (w *Writer) Flush() (err error) {
	if len(w.rows) == 0 {
		return nil
	}
	if err := w.commit(); err != nil {
		return err
	}
	w.count += int64(len(w.rows))
	w.rows = w.rows[:0]
	return nil
}

func (w *Writer) commit() (err error) {
	end, err := sqlitex.ImmediateTransaction(w.conn)
	if err != nil {
		return err
	}
	defer end(&err)
	for i := range w.rows {
		if err := w.add(&w.rows[i].ev, w.rows[i].id); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) add(ev *event.Event, id uint64) error {
	if err := w.insert.Reset(); err != nil {
		return err
	}
	w.insert.BindInt64(1+read.ColID, int64(id))
	w.bind(read.ColEvent, cells.Kind(ev))
	w.bind(read.ColType, cells.Type(ev))
	w.buf = w.buf[:0]
	if ev.Kind == event.Mstx { // such a name keeps its quotes
		w.buf = append(cells.AppendName(append(w.buf, '"'), ev), '"')
	} else {
		w.buf = cells.AppendName(w.buf, ev)
	}
	w.bindBuf(read.ColName)
	w.insert.BindInt64(1+read.ColStamp, ev.Stamp)
	w.bindID(read.ColPID, ev.PID)
	w.bindID(read.ColTID, ev.TID)
	w.buf = cells.AppendDevice(w.buf[:0], ev.Device)
	w.bindBuf(read.ColDevice)
	w.buf = cells.AppendPtr(w.buf[:0], ev)
	w.bindBuf(read.ColPtr)
	w.json = read.AppendJSON(w.json[:0], cells.AppendAttr(w.buf[:0], ev))
	w.insert.BindText(1+read.ColAttr, string(w.json))
	python, c := cells.StackColumns(w.stacks, ev)
	w.bind(read.ColPython, python)
	w.bind(read.ColC, c)
	_, err := w.insert.Step()
	return err
}

// bind binds a text, unless the row before has left the same one bound: binding is a good part of what a row costs.
func (w *Writer) bind(column int, text string) {
	if w.bound[column] != text || w.count == 0 {
		w.bound[column] = text
		w.insert.BindText(1+column, text)
	}
}

func (w *Writer) bindBuf(column int) {
	if w.bound[column] != string(w.buf) || w.count == 0 {
		w.bind(column, string(w.buf))
	}
}

func (w *Writer) bindID(column int, id uint64) {
	if id == math.MaxUint64 {
		w.insert.BindText(1+column, cells.NA)
	} else {
		w.insert.BindInt64(1+column, int64(id))
	}
}

// Size is the number of rows in the database.
func (w *Writer) Size() int64 { return w.count }

// Name: see render.Format.
func (w *Writer) Name() string { return w.name }

// Finish makes the indexes and leaves one file that can be read from anywhere, also without permission to write beside it.
func (w *Writer) Finish() error {
	for _, sql := range append(cells.CreateIndexes(cells.Table), "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA journal_mode=DELETE") {
		if err := sqlitex.ExecuteTransient(w.conn, sql, nil); err != nil {
			return err
		}
	}
	return nil
}

// Close: see render.Format.
func (w *Writer) Close() error {
	err := errors.Join(w.insert.Finalize(), w.conn.Close())
	if w.dir != nil {
		w.dir.Close()
	}
	return err
}

// Opener makes databases in a project directory. A name is that of a database to write anew. stacks may be nil.
func Opener(p *output.Project, stacks cells.Stacks) render.Opener {
	return func(device int32, name string, _ int64) (render.Format, error) {
		dir, name, err := p.CreateDB(device, name)
		if err != nil {
			return nil, err
		}
		// SQLite wants a path. This one leads through the directory that was opened, whatever its name leads to now.
		w, err := New(filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), filepath.Base(name)), name)
		if err != nil {
			dir.Close()
			return nil, err
		}
		w.dir, w.stacks = dir, stacks
		return w, nil
	}
}
