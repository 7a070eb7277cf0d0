package query

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"memscope/internal/dump/cells"
	"memscope/internal/dump/read"
)

var convertQuestion = &question{
	name: "convert", args: "FILE", common: noFilter,
	summary: "turn a CSV dump into a database for MindStudio Insight, or back",
	help: `
The result lies beside FILE, with the same number in its name: memscope_dump_<digits>.db or .csv; Insight opens no other
name. Rows keep their order. Every cell is kept; a CSV file with CRLF line ends comes back with LF.`,
	setup: func(fs *flag.FlagSet) func(*env, []string) (result, error) {
		to := fs.String("to", "", "`form`: csv or db; the other one than FILE's unless said otherwise")
		output := fs.String("output", "", "write to this `file`")
		overwrite := fs.Bool("overwrite", false, "replace the result if it exists")
		return func(e *env, args []string) (result, error) {
			in, err := e.one(args)
			if err != nil {
				return nil, err
			}
			if *to == "" {
				*to = map[bool]string{true: "csv", false: "db"}[in.db]
			}
			switch {
			case *to != "csv" && *to != "db":
				return nil, usagef("--to is csv or db, not %q", *to)
			case (*to == "db") == in.db:
				return nil, usagef("%s is a %s file already", in.path, *to)
			}
			e.files = []string{in.path}
			target := *output
			if target == "" {
				target = convertedName(in.path, *to)
			}
			if _, err := os.Lstat(target); err == nil && !*overwrite {
				return nil, fmt.Errorf("%s exists; --overwrite replaces it", target)
			}
			res := &convertResult{Output: target}
			if in.db {
				res.Rows, err = dbToCSV(e, in, target)
			} else {
				res.Rows, err = csvToDB(e, in, target)
			}
			return res, err
		}
	},
}

type convertResult struct {
	Rows   int64  `json:"rows"`
	Output string `json:"output"`
}

func (c *convertResult) Text(w *report) { w.line("%d rows written to %s", c.Rows, c.Output) }

var nameDigits = regexp.MustCompile(`_dump_(\d+)\.`)

func convertedName(path, to string) string {
	digits := time.Now().Format("20060102150405")
	if m := nameDigits.FindStringSubmatch(filepath.Base(path)); m != nil {
		digits = m[1]
	}
	return filepath.Join(filepath.Dir(path), "memscope_dump_"+digits+"."+to)
}

func csvToDB(e *env, in *input, target string) (rows int64, err error) {
	table := e.table
	if table == "" {
		table = read.Tables[0]
	}
	info, err := os.Stat(in.path)
	if err != nil {
		return 0, err
	}
	temp := target + ".tmp"
	defer os.Remove(temp)
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	conn, err := sqlite.OpenConn(temp, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return 0, err
	}
	defer func() {
		err = errors.Join(err, conn.Close())
		if err == nil {
			err = errors.Join(os.Chmod(temp, info.Mode().Perm()|0o600), os.Rename(temp, target))
		}
	}()
	// The file is new, and gone if this fails: no journal is needed.
	for _, sql := range []string{"PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF", "BEGIN",
		cells.CreateTable(table)} {
		if err := sqlitex.ExecuteTransient(conn, sql, nil); err != nil {
			return 0, err
		}
	}
	insert, err := conn.Prepare(cells.InsertInto(table))
	if err != nil {
		return 0, err
	}
	var buf []byte
	sum, err := read.CSVCells(in.path, func(row *read.Cells) error {
		rows++
		if err := insert.Reset(); err != nil {
			return err
		}
		for i := range row {
			c := &row[i]
			if cells.IsInteger(i) {
				if v, err := strconv.ParseInt(string(c.Text), 10, 64); err == nil && strconv.FormatInt(v, 10) == string(c.Text) {
					insert.BindInt64(i+1, v)
					continue
				}
				if _, number := decimal(c.Text); number { // one that SQLite would change
					insert.BindBytes(i+1, c.Text)
					continue
				}
			}
			text := c.Text
			switch {
			case i == read.ColAttr:
				buf = read.AppendJSON(buf[:0], text)
				text = buf
			case c.Quoted && keepsQuotes(row, i):
				buf = append(append(append(buf[:0], '"'), text...), '"')
				text = buf
			}
			insert.BindText(i+1, string(text))
		}
		_, err := insert.Step()
		return err
	})
	if err != nil {
		return rows, err
	}
	e.tell(in, sum)
	if sum.Extra != nil {
		e.note("columns that a database has no place for were left out: %s", strings.Join(sum.Extra, ", "))
	}
	if !sum.Sorted {
		e.note("%s is not in time order, and so is the database; `dump sort` first", in.path)
	}
	for _, sql := range cells.CreateIndexes(table) {
		if err := sqlitex.ExecuteTransient(conn, sql, nil); err != nil {
			return rows, err
		}
	}
	return rows, sqlitex.ExecuteTransient(conn, "COMMIT", nil)
}

// keepsQuotes tells whether a quoted cell keeps its quotes in a database: the names of MSTX rows and the call stacks do.
func keepsQuotes(cells *read.Cells, column int) bool {
	switch column {
	case read.ColPython, read.ColC:
		return true
	case read.ColName:
		return string(cells[read.ColEvent].Text) == "MSTX"
	}
	return false
}

func dbToCSV(e *env, in *input, target string) (rows int64, err error) {
	conn, err := read.OpenDB(in.path)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	err = replace(target, in.path, func(w *bufio.Writer) error {
		w.WriteString(read.Header + "\n")
		var line, buf []byte
		return read.DBCells(conn, e.table, func(cells *read.Cells) error {
			rows++
			line = line[:0]
			for i := range cells {
				if i > 0 {
					line = append(line, ',')
				}
				text := cells[i].Text
				quoted := len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"'
				switch {
				case i == read.ColAttr:
					if buf = read.AppendPlain(buf[:0], text); len(buf) > 0 {
						line = appendQuoted(line, buf)
					}
				case quoted && keepsQuotes(cells, i):
					line = appendQuoted(line, text[1:len(text)-1])
				case bytes.ContainsAny(text, ",\"\r\n"):
					line = appendQuoted(line, text)
				default:
					line = append(line, text...)
				}
			}
			_, err := w.Write(append(line, '\n'))
			return err
		})
	})
	return rows, err
}

func appendQuoted(line, text []byte) []byte {
	line = append(line, '"')
	for _, c := range text {
		if c == '"' {
			line = append(line, '"')
		}
		line = append(line, c)
	}
	return append(line, '"')
}
