package read

import (
	"bytes"
	"io"
	"os"
	"strings"

	"zombiezen.com/go/sqlite"

	"memscope/internal/dump/cells"
)

// Columns of Cells, in the order of ColumnNames.
const (
	ColID     = colID
	ColEvent  = colEvent
	ColType   = colType
	ColName   = colName
	ColStamp  = colStamp
	ColPID    = colPID
	ColTID    = colTID
	ColDevice = colDevice
	ColPtr    = colPtr
	ColAttr   = colAttr
	ColPython = colPython
	ColC      = colC
	Columns   = columns
)

// Cell is a cell as it stands in the file.
type Cell struct {
	Text   []byte // without outer quotes, and inner ones not doubled
	Quoted bool   // CSV only
}

// Cells are the cells of a row by column; what the file lacks is empty.
type Cells [Columns]Cell

// CSVCells hands every row of a CSV dump to visit, cell by cell and undecoded, valid during the call.
func CSVCells(path string, visit func(*Cells) error) (*Summary, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := newChunker(f, path)
	if err := c.header(); err != nil {
		return nil, err
	}
	d := newDecoder(c.layout, 0, nil)
	sum := &Summary{Sorted: true, Extra: c.layout.extra}
	b := &Batch{csv: true}
	var fields [maxColumns]field
	for {
		if err := c.next(b); err == io.EOF {
			return sum, nil
		} else if err != nil {
			return sum, err
		}
		d.rows(b) // finds the rows that are some, and their places
		sum.add(b)
		for i := range b.Rows {
			split(b.text, int(b.Rows[i].start), fields[:d.n])
			var cells Cells
			for k, f := range fields[:d.n] {
				if col := d.column[k]; col != colOther {
					cells[col] = Cell{b.Text(Span{f.start, f.end}), f.quoted}
				}
			}
			if err := visit(&cells); err != nil {
				return sum, err
			}
		}
	}
}

// DBCells is CSVCells for the dump in a database, in the order of its rows. Integers come as their digits.
func DBCells(path, table string, visit func(*Cells) error) error {
	conn, err := OpenDB(path)
	if err != nil {
		return err
	}
	defer conn.Close()
	return dbError(path, dbCells(conn, table, visit))
}

func dbCells(conn *sqlite.Conn, table string, visit func(*Cells) error) error {
	table, names, err := DumpTable(conn, table)
	if err != nil {
		return err
	}
	l, err := newLayout(names)
	if err != nil {
		return err
	}
	for i := range names {
		names[i] = cells.Quoted(names[i])
	}
	st, _, err := conn.PrepareTransient("SELECT " + strings.Join(names, ",") + " FROM " + cells.Quoted(table))
	if err != nil {
		return err
	}
	defer st.Finalize()
	var text bytes.Buffer
	var ends [maxColumns]int
	for {
		ok, err := st.Step()
		if err != nil || !ok {
			return err
		}
		text.Reset()
		for i := range names {
			text.WriteString(st.ColumnText(i)) // of an integer: its digits
			ends[i] = text.Len()
		}
		var cells Cells
		at := 0
		for i := range names {
			if col := l.column[i]; col != colOther {
				cells[col] = Cell{Text: text.Bytes()[at:ends[i]]}
			}
			at = ends[i]
		}
		if err := visit(&cells); err != nil {
			return visitError{err}
		}
	}
}
