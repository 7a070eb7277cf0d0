package read

import (
	"bytes"
	"io"
	"os"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"memscope/internal/dump/cells"
)

// tailBytes is how far Bounds looks back from the end for the last row.
const tailBytes = 1 << 20

// Bounds gives the stamps of the first and the last row of a CSV dump, of which it reads only the two ends. Both are 0 for
// a file without rows.
func Bounds(path string) (first, last int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	c := newChunker(f, path)
	if err := c.header(); err != nil {
		return 0, 0, err
	}
	b := &Batch{csv: true}
	d := newDecoder(c.layout, 0, nil)
	for len(b.Rows) == 0 {
		if err := c.next(b); err == io.EOF {
			return 0, 0, nil
		} else if err != nil {
			return 0, 0, err
		}
		d.rows(b)
	}
	first, last = b.Rows[0].Stamp, b.Rows[len(b.Rows)-1].Stamp
	if c.eof && len(c.rest) == 0 {
		return first, last, nil
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, 0, err
	}
	tail := make([]byte, min(size, tailBytes))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && err != io.EOF {
		return 0, 0, err
	}
	if stamp, ok := d.lastRow(tail); ok {
		return first, stamp, nil
	}
	sum, err := CSV(path, Options{}, func(*Batch) error { return nil })
	if err != nil {
		return 0, 0, err
	}
	return sum.First, sum.Last, nil
}

// lastRow finds the last row in the end of a file: the last line at which a whole row begins.
func (d *decoder) lastRow(tail []byte) (stamp int64, ok bool) {
	var fields [maxColumns]field
	b := &Batch{csv: true, text: tail}
	for end := len(tail); end > 0; {
		at := bytes.LastIndexByte(tail[:end], '\n')
		if at < 0 {
			return 0, false
		}
		end = at
		at++
		if at == len(tail) || d.native && !rowStart(tail[at:]) {
			continue
		}
		n, _, whole := split(tail, at, fields[:d.n])
		var r Row
		if whole && n == d.n && d.row(&r, b, fields[:n]) == "" {
			return r.Stamp, true
		}
	}
	return 0, false
}

// DBBounds gives the lowest and the highest stamp of the dump in a database.
func DBBounds(path, table string) (first, last int64, err error) {
	conn, err := OpenDB(path)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	if table, _, err = DumpTable(conn, table); err != nil {
		return 0, 0, dbError(path, err)
	}
	err = sqlitex.ExecuteTransient(conn, `SELECT min("Timestamp(ns)"), max("Timestamp(ns)") FROM `+cells.Quoted(table), &sqlitex.ExecOptions{
		ResultFunc: func(st *sqlite.Stmt) error { first, last = st.ColumnInt64(0), st.ColumnInt64(1); return nil },
	})
	return first, last, dbError(path, err)
}
