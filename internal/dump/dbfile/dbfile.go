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
	"strings"
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
	// groupRows is the number of rows that one statement inserts, where there are so many: a statement's beginning and end cost as much as half a row.
	groupRows = 32
	// busy is how long a writer waits for a reader that holds the database.
	busy = 5 * time.Second
)

// Writer writes one database. It is a render.Format. It cannot be continued: a dump that was not finished is written anew.
type Writer struct {
	conn  *sqlite.Conn
	one   insert
	group insert
	dir   *os.File // what the database's path goes through, may be nil
	name  string
	rows  []row // accepted, not committed
	count int64 // committed
	buf   []byte
	json  []byte

	stacks cells.Stacks
}

// insert is a prepared statement for some rows, each of which has its own parameters.
type insert struct {
	stmt  *sqlite.Stmt
	bound []string // texts that are bound, by parameter
	set   []bool   // whether they are
}

func prepare(conn *sqlite.Conn, rows int) (insert, error) {
	one := cells.InsertInto(cells.Table)
	values := one[strings.LastIndexByte(one, '('):]
	stmt, err := conn.Prepare(one + strings.Repeat(","+values, rows-1))
	n := rows * len(cells.Columns)
	return insert{stmt, make([]string, n), make([]bool, n)}, err
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
	if w.one, err = prepare(conn, 1); err == nil {
		w.group, err = prepare(conn, groupRows)
	}
	if err != nil {
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
	for rest := w.rows; len(rest) > 0; {
		in, n := &w.one, 1
		if len(rest) >= groupRows {
			in, n = &w.group, groupRows
		}
		if err := w.add(in, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// add inserts as many rows as the statement has place for.
func (w *Writer) add(in *insert, rows []row) error {
	if err := in.stmt.Reset(); err != nil {
		return err
	}
	for i := range rows {
		w.fill(in, i*len(cells.Columns), &rows[i].ev, rows[i].id)
	}
	_, err := in.stmt.Step()
	return err
}

// fill binds a row to the parameters from first on.
func (w *Writer) fill(in *insert, first int, ev *event.Event, id uint64) {
	in.stmt.BindInt64(1+first+read.ColID, int64(id))
	in.bind(first+read.ColEvent, cells.Kind(ev))
	in.bind(first+read.ColType, cells.Type(ev))
	w.buf = w.buf[:0]
	if ev.Kind == event.Mstx { // such a name keeps its quotes
		w.buf = append(cells.AppendName(append(w.buf, '"'), ev), '"')
	} else {
		w.buf = cells.AppendName(w.buf, ev)
	}
	in.bindBuf(first+read.ColName, w.buf)
	in.stmt.BindInt64(1+first+read.ColStamp, ev.Stamp)
	in.bindID(first+read.ColPID, ev.PID)
	in.bindID(first+read.ColTID, ev.TID)
	w.buf = cells.AppendDevice(w.buf[:0], ev.Device)
	in.bindBuf(first+read.ColDevice, w.buf)
	w.buf = cells.AppendPtr(w.buf[:0], ev)
	in.bindBuf(first+read.ColPtr, w.buf)
	w.json = read.AppendJSON(w.json[:0], cells.AppendAttr(w.buf[:0], ev))
	in.stmt.BindText(1+first+read.ColAttr, string(w.json))
	python, c := cells.StackColumns(w.stacks, ev)
	in.bind(first+read.ColPython, python)
	in.bind(first+read.ColC, c)
}

// bind binds a text, unless the row that had this place before has left the same one bound: binding is a good part of what a row costs.
func (in *insert) bind(at int, text string) {
	if in.bound[at] != text || !in.set[at] {
		in.bound[at], in.set[at] = text, true
		in.stmt.BindText(1+at, text)
	}
}

func (in *insert) bindBuf(at int, text []byte) {
	if in.bound[at] != string(text) || !in.set[at] {
		in.bind(at, string(text))
	}
}

func (in *insert) bindID(at int, id uint64) {
	if id == math.MaxUint64 {
		in.stmt.BindText(1+at, cells.NA)
	} else {
		in.stmt.BindInt64(1+at, int64(id))
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
	err := errors.Join(w.one.stmt.Finalize(), w.group.stmt.Finalize(), w.conn.Close())
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
