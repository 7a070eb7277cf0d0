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

	"memscope/internal/dump/cells"
	"memscope/internal/dump/read"
	"memscope/internal/dump/sqlitefile"
)

var convertQuestion = &question{
	name: "convert", args: "FILE|DIR", common: noFilter,
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
			switch there, err := os.Lstat(target); {
			case err != nil:
			case !*overwrite:
				return nil, fmt.Errorf("%s exists; --overwrite replaces it", target)
			case sameFile(in.path, there):
				return nil, usagef("%s is the file to convert", target)
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

func sameFile(path string, other os.FileInfo) bool {
	info, err := os.Stat(path)
	return err == nil && os.SameFile(info, other)
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
	f, err := beside(target)
	if err != nil {
		return 0, err
	}
	temp := f.Name()
	defer read.RemoveTemp(temp)
	var sorting string
	defer func() { err = errors.Join(err, read.RemoveTemp(sorting)) }()
	db, err := sqlitefile.New(f, cells.Schema(table), func() (*os.File, error) {
		f, err := read.CreateTemp(filepath.Dir(target), filepath.Base(target)+".sort.*.tmp")
		if err == nil {
			sorting = f.Name()
		}
		return f, err
	})
	if err != nil {
		return 0, errors.Join(err, f.Close())
	}
	defer func() {
		err = errors.Join(err, db.Close())
		if err == nil {
			for _, of := range []string{"-journal", "-wal", "-shm"} { // SQLite would put what a killed program has left there into the new database
				os.Remove(target + of)
			}
			err = errors.Join(os.Chmod(temp, info.Mode().Perm()|0o600), os.Rename(temp, target))
		}
	}()
	var buf []byte
	noAttr := 0
	sum, err := read.CSVCells(in.path, func(row *read.Cells) error {
		rows++
		for i := range row {
			c := &row[i]
			if cells.IsInteger(i) {
				if v, err := strconv.ParseInt(string(c.Text), 10, 64); err == nil && strconv.FormatInt(v, 10) == string(c.Text) {
					db.Int(v)
					continue
				}
				if _, number := decimal(c.Text); number { // SQLite would make a number of such a text in such a column
					db.Blob(c.Text)
					continue
				}
			}
			text := c.Text
			switch {
			case i == read.ColAttr:
				buf = read.AppendJSON(buf[:0], text)
				if string(buf) == "{}" && len(text) > 0 && string(text) != "{}" {
					noAttr++
				}
				text = buf
			case c.Quoted && keepsQuotes(row, i):
				buf = append(append(append(buf[:0], '"'), text...), '"')
				text = buf
			}
			db.Text(text)
		}
		return db.EndRow()
	})
	if err != nil {
		return rows, err
	}
	e.tell(in, sum)
	if noAttr > 0 {
		e.note("%s: %d cells of Attr hold no key:value and were left out", in.path, noAttr)
	}
	if sum.Extra != nil {
		e.note("columns that a database has no place for were left out: %s", strings.Join(sum.Extra, ", "))
	}
	if !sum.Sorted {
		e.note("%s is not in time order, and so is the database; `dump sort` first", in.path)
	}
	return rows, db.Finish()
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
	err = replace(target, in.path, func(w *bufio.Writer) error {
		w.WriteString(read.Header + "\n")
		var line, buf []byte
		return read.DBCells(in.path, e.table, func(cells *read.Cells) error {
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
