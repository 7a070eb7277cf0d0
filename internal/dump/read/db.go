package read

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"memscope/internal/dump/cells"
)

// Tables are the names of the table that holds a dump, the newer first (contract 3.5).
var Tables = []string{"memscope_dump", "leaks_dump"}

// OpenDB opens a database for reading. One that nobody may write beside (read-only media) is opened as it lies.
func OpenDB(path string) (*sqlite.Conn, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err == nil {
		if err = sqlitex.ExecuteTransient(conn, "SELECT name FROM sqlite_schema LIMIT 1", nil); err == nil {
			return conn, nil
		}
		conn.Close()
	}
	if _, wal := os.Stat(path + "-wal"); os.IsNotExist(wal) && sqlite.ErrCode(err).ToPrimary() == sqlite.ResultCantOpen {
		return sqlite.OpenConn(fileURI(path)+"?immutable=1", sqlite.OpenReadOnly|sqlite.OpenURI)
	}
	return nil, dbError(path, err)
}

func fileURI(path string) string {
	path = filepath.ToSlash(path)
	if abs, err := filepath.Abs(path); err == nil {
		path = filepath.ToSlash(abs)
	}
	if !strings.HasPrefix(path, "/") { // a drive
		path = "/" + path
	}
	return "file://" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
}

// dbError is the error of the database, or of the file system, in one line. Those of the caller's stay as they are.
func dbError(path string, err error) error {
	if err == nil || errors.As(err, new(visitError)) {
		return err
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultNotADB:
		return fmt.Errorf("%s is no database", path)
	case sqlite.ResultCorrupt:
		return fmt.Errorf("%s is damaged: %v", path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// DumpTable finds the table that holds the dump, and its columns. table names it; empty: the one of Tables that exists. A
// view does not count: a strange file could make rows without end.
func DumpTable(conn *sqlite.Conn, table string) (name string, names []string, err error) {
	candidates := Tables
	if table != "" {
		candidates = []string{table}
	}
	for _, name := range candidates {
		err := sqlitex.Execute(conn, "SELECT c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.name = ? AND t.type = 'table' AND t.sql NOT LIKE 'create virtual%'", &sqlitex.ExecOptions{
			Args:       []any{name},
			ResultFunc: func(st *sqlite.Stmt) error { names = append(names, st.ColumnText(0)); return nil },
		})
		if err != nil {
			return "", nil, err
		}
		if names != nil {
			return name, names, nil
		}
	}
	return "", nil, fmt.Errorf("there is no table %s", strings.Join(candidates, " or "))
}

// DB scans the dump in a database, like CSV does a file. table is its name, empty: the usual ones.
func DB(path, table string, opt Options, visit func(*Batch) error) (*Summary, error) {
	conn, err := OpenDB(path)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	sum := &Summary{Sorted: true}
	err = scanDB(conn, table, opt, func(b *Batch) error {
		sum.add(b)
		if opt.Ordered && !sum.Sorted {
			return &UnsortedError{path}
		}
		return visit(b)
	})
	return sum, dbError(path, err)
}

// visitError keeps an error of the caller's apart from those of the database.
type visitError struct{ error }

func (e visitError) Unwrap() error { return e.error }

// batchRows is the number of rows of a batch from a database.
const batchRows = 2048

func scanDB(conn *sqlite.Conn, table string, opt Options, visit func(*Batch) error) error {
	table, names, err := DumpTable(conn, table)
	if err != nil {
		return err
	}
	l, err := newLayout(names)
	if err != nil {
		return err
	}
	for i, name := range names {
		names[i] = cells.Quoted(name)
	}
	sql := "SELECT " + strings.Join(names, ",") + " FROM " + cells.Quoted(table)
	if opt.Sort {
		sql += ` ORDER BY "Timestamp(ns)", "ID"`
	}
	st, _, err := conn.PrepareTransient(sql)
	if err != nil {
		return err
	}
	defer st.Finalize()
	d := newDecoder(l, opt.Want, opt.Pools)
	b := &Batch{sorted: true}
	fields := make([]field, l.n)
	hand := func() error {
		if err := visit(b); err != nil {
			return visitError{err}
		}
		*b = Batch{Rows: b.Rows[:0], text: b.text[:0], sorted: true}
		return nil
	}
	for row := 1; ; row++ {
		ok, err := st.Step()
		if err != nil {
			return err
		}
		if !ok {
			return hand()
		}
		for i := range fields {
			fields[i] = b.cell(st, i, l.column[i])
		}
		d.append(b, row, row, fields)
		if len(b.Rows) == batchRows || len(b.text) > chunkBytes {
			if err := hand(); err != nil {
				return err
			}
		}
	}
}

// cell appends one cell of a result row to the text, in the form that a CSV file has it.
func (b *Batch) cell(st *sqlite.Stmt, i int, column uint8) field {
	start := len(b.text)
	switch {
	case column == colOther:
	case st.ColumnType(i) == sqlite.TypeInteger:
		b.text = strconv.AppendInt(b.text, st.ColumnInt64(i), 10)
	default:
		n := st.ColumnLen(i)
		b.text = slices.Grow(b.text, n)[:start+n]
		st.ColumnBytes(i, b.text[start:])
		switch column {
		case colName, colPython, colC: // these keep their quotes in a database
			if n > 1 && b.text[start] == '"' && b.text[start+n-1] == '"' {
				return field{uint32(start + 1), uint32(start + n - 1), true}
			}
		}
	}
	return field{start: uint32(start), end: uint32(len(b.text))}
}
