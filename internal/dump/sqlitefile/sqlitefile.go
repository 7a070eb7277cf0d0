// Package sqlitefile writes an SQLite database that holds one table and its indexes, from front to back. It is what SQLite does by
// inserting the rows one after the other and making the indexes at the end, several times faster, and nothing else: it cannot
// change a row, and it cannot go on with a file that it has not begun. The format is that of https://www.sqlite.org/fileformat2.html.
//
// The rows are numbered from 1 on, so a page of the table is full when the next row does not fit, and is never touched again. The
// entries of an index are sorted (sort.go), and its pages are filled in the same way.
//
// Flush makes what is written so far a database, without its indexes, that SQLite can read. Until Close the file has the lock of a
// writer, as SQLite would have it: others can read, but not write.
package sqlitefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Table is what a database holds.
type Table struct {
	Name    string
	SQL     string // as it stands in sqlite_schema: "CREATE TABLE …"
	Indexes []Index
}

// Index is an ascending index on one column.
type Index struct {
	Name   string
	SQL    string // as it stands in sqlite_schema: "CREATE INDEX …"
	Column int    // of the table, from 0 on
}

var errLocked = errors.New("another process has the database locked")

// busy is how long Finish waits for readers to be done.
const busy = 5 * time.Second

// Writer writes one database. A row is written by a call for each of its columns, in order, and EndRow.
type Writer struct {
	record
	f       *os.File
	table   Table
	pages   pager
	rows    tree
	last    int64 // rowid of the last row
	shown   int64 // of the last row that others see, -1: there is no database yet
	cell    []byte
	key     []byte
	sorters []sorter
	scratch scratch
	changes uint32 // how often the database has changed
	busy    time.Duration
	done    bool // Finish has succeeded
}

// New begins a database in f, which must be empty and open for reading and writing at any place. It owns f from now on, unless there is an error.
// scratch makes a file for indexes that are too large to be sorted in memory (about 20 bytes a row for those of a dump). It is asked until it
// gives one, and Close closes that.
func New(f *os.File, table Table, scratch func() (*os.File, error)) (*Writer, error) {
	if len(table.Name) >= 7 && strings.EqualFold(table.Name[:7], "sqlite_") {
		return nil, fmt.Errorf("the table cannot be named %s: SQLite keeps names that begin with sqlite_ for itself", table.Name)
	}
	w := &Writer{f: f, table: table, shown: -1, busy: busy, pages: pager{f: f, last: 1}, sorters: make([]sorter, len(table.Indexes))}
	w.scratch.create = scratch
	for i := range w.sorters {
		w.sorters[i].scratch = &w.scratch
	}
	w.rows = newTree(&w.pages, tableLeaf)
	if err := lockWriter(f); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return w, w.Flush()
}

// EndRow ends a row. A row is accepted also when there is an error, which is one of Flush.
func (w *Writer) EndRow() error {
	var failed error
	w.last++
	for i := range w.sorters {
		w.key = w.sortKey(w.key[:0], w.table.Indexes[i].Column)
		if err := w.sorters[i].add(w.key, w.last); err != nil {
			failed = err
		}
	}
	w.cell = w.pages.appendCell(w.cell[:0], w.head(), w.body, w.last, maxLocalTable)
	w.reset()
	w.rows.add(w.cell, w.last)
	return errors.Join(failed, w.pages.writeFull())
}

// Flush brings all rows into the file, and into the database unless somebody is just reading it: then a later Flush does. After an error the
// database is what it was, and Flush may be tried again.
func (w *Writer) Flush() error {
	if w.shown == w.last {
		return nil
	}
	return w.publish(nil, 0)
}

// Finish writes the indexes. No row follows, but Close. After an error it may be tried again. It waits up to 5 s for others who read the database.
func (w *Writer) Finish() (err error) {
	if w.done {
		return nil
	}
	if err := w.publish(nil, w.busy); err != nil { // a row must not be missing where an index has it
		return err
	}
	defer func() {
		if err != nil {
			w.pages.cutBack()
		}
	}()
	var roots []uint32
	for i := range w.sorters {
		root, err := w.index(&w.sorters[i])
		if err != nil {
			return err
		}
		roots = append(roots, root)
	}
	if err := w.publish(roots, w.busy); err != nil {
		return err
	}
	w.done = true
	return nil
}

// index writes a sorted index and answers its root.
func (w *Writer) index(s *sorter) (root uint32, err error) {
	t := newTree(&w.pages, indexLeaf)
	var r record
	err = s.each(func(key []byte, row int64) error {
		r.reset()
		r.fromSortKey(key)
		r.Int(row)
		w.cell = w.pages.appendCell(w.cell[:0], r.head(), r.body, 0, maxLocalIndex)
		t.add(w.cell, 0)
		return w.pages.writeFull()
	})
	if err != nil {
		return 0, err
	}
	t.queue()
	return t.root, w.pages.write()
}

// publish makes the database that which is written: with the indexes if there are roots. It gives way to readers: at once without
// an error if wait is 0.
//
// Pages that the database did not have before are written first, and those that it has from the leaves to the root. So it is
// whole at any moment: a process that is killed leaves a database with some rows less.
func (w *Writer) publish(roots []uint32, wait time.Duration) error {
	w.rows.queueNew()
	if err := w.pages.write(); err != nil {
		return err
	}
	if err := lockReaders(w.f, wait); err != nil {
		if wait == 0 {
			return nil
		}
		return fmt.Errorf("%s: %w", w.f.Name(), err)
	}
	defer unlockReaders(w.f)
	w.changes++
	if err := w.pages.writeAt(1, w.first(roots)); err != nil {
		return err
	}
	if err := w.rows.writeOld(); err != nil {
		return err
	}
	w.pages.published, w.shown = w.pages.last, w.last
	return nil
}

// Sizes and places of the header of a database.
const (
	headerBytes = 100
	version     = 3007000 // of the SQLite since which the size in the header counts
)

// first is the page with the header of the database and its schema, which has indexes if there are roots.
func (w *Writer) first(roots []uint32) []byte {
	p := newPage(1, tableLeaf)
	h := p.buf
	copy(h, "SQLite format 3\x00")
	binary.BigEndian.PutUint16(h[16:], pageBytes)
	h[18], h[19] = 1, 1              // no write-ahead log
	h[21], h[22], h[23] = 64, 32, 32 // fixed: how pages share out to overflow pages
	put := func(at int, v uint32) { binary.BigEndian.PutUint32(h[at:], v) }
	put(24, w.changes)                    // changes of the file
	put(28, w.pages.last)                 // its pages
	put(40, uint32(1+min(1, len(roots)))) // changes of the schema
	put(44, 4)                            // format of the schema
	put(56, 1)                            // texts are UTF-8
	put(92, w.changes)                    // for which the number of pages counts
	put(96, version)
	var r record
	add := func(kind, name, sql string, root uint32) {
		r.reset()
		r.String(kind)
		r.String(name)
		r.String(w.table.Name)
		r.Int(int64(root))
		r.String(sql)
		p.add(w.pages.appendCell(nil, r.head(), r.body, int64(p.cells+1), maxLocalTable))
	}
	add("table", w.table.Name, w.table.SQL, w.rows.root)
	for i, root := range roots {
		add("index", w.table.Indexes[i].Name, w.table.Indexes[i].SQL, root)
	}
	return p.bytes(0)
}

// Close closes the file as it is.
func (w *Writer) Close() error { return errors.Join(w.scratch.close(), w.f.Close()) }
