package query

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"memscope/internal/dump/cells"
	"memscope/internal/dump/read"
)

// setAttr gives an Attr cell, in the plain notation, with a key set: at its place if it is there, else behind the others.
func setAttr(cell []byte, key, value string) []byte {
	out := []byte{'{'}
	found := false
	put := func(k, v []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, k...), ':'), v...)
	}
	read.Attrs(cell, func(k, v []byte) bool {
		if string(k) == key {
			found, v = true, []byte(value)
		}
		put(k, v)
		return true
	})
	if !found {
		put([]byte(key), []byte(value))
	}
	return append(out, '}')
}

const inefficientKey = "inefficient_type"

// markOf finds the mark of a row.
func markOf(cells *read.Cells, marks map[rowKey]string) (string, bool) {
	if string(cells[read.ColEvent].Text) != "MALLOC" {
		return "", false
	}
	id, ok := whole(bytes.TrimSpace(cells[read.ColID].Text))
	if !ok {
		return "", false
	}
	pid, err := strconv.ParseUint(string(bytes.TrimSpace(cells[read.ColPID].Text)), 10, 64)
	if err != nil {
		pid = read.NoID
	}
	mark, ok := marks[rowKey{id, pid}]
	return mark, ok
}

func markCSV(in *input, marks map[rowKey]string) error {
	return replace(in.path, in.path, func(w *bufio.Writer) error {
		w.WriteString(read.Header + "\r\n")
		var line []byte
		sum, err := read.CSVCells(in.path, func(cells *read.Cells) error {
			if mark, ok := markOf(cells, marks); ok {
				cells[read.ColAttr].Text = setAttr(cells[read.ColAttr].Text, inefficientKey, mark)
			}
			line = line[:0]
			for i := range cells {
				if i > 0 {
					line = append(line, ',')
				}
				if text := cells[i].Text; bytes.ContainsAny(text, ",\"\r\n") {
					line = appendQuoted(line, text)
				} else {
					line = append(line, text...)
				}
			}
			_, err := w.Write(append(line, '\r', '\n'))
			return err
		})
		switch {
		case err != nil:
			return err
		case sum.Bad > 0:
			return fmt.Errorf("%s has %d damaged rows, the first %s; nothing was written", in.path, sum.Bad, in.where(sum.Faults[0]))
		case sum.Extra != nil:
			return fmt.Errorf("%s has columns that would be lost: %s; nothing was written", in.path, strings.Join(sum.Extra, ", "))
		}
		return nil
	})
}

// markDB sets the marks in a database and answers the name of its table.
func markDB(in *input, table string, marks map[rowKey]string) (name string, err error) {
	conn, err := sqlite.OpenConn(in.path, sqlite.OpenReadWrite)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if table, _, err = read.DumpTable(conn, table); err != nil {
		return "", fmt.Errorf("%s: %w", in.path, err)
	}
	defer sqlitex.Save(conn)(&err)
	type found struct {
		row  int64
		attr string
	}
	var rows []found
	err = sqlitex.Execute(conn, `SELECT rowid, "ID", "Process Id", "Attr" FROM `+cells.Quoted(table)+` WHERE "Event" = 'MALLOC'`, &sqlitex.ExecOptions{
		ResultFunc: func(st *sqlite.Stmt) error {
			if mark, ok := marks[rowKey{st.ColumnInt64(1), uint64(st.ColumnInt64(2))}]; ok {
				attr := setAttr([]byte(st.ColumnText(3)), inefficientKey, mark)
				rows = append(rows, found{st.ColumnInt64(0), string(read.AppendJSON(nil, attr))})
			}
			return nil
		},
	})
	for _, r := range rows {
		if err != nil {
			break
		}
		err = sqlitex.Execute(conn, "UPDATE "+cells.Quoted(table)+` SET "Attr" = ? WHERE rowid = ?`, &sqlitex.ExecOptions{Args: []any{r.attr, r.row}})
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", in.path, err)
	}
	return table, nil
}
