package dbfile

import (
	"encoding/csv"
	"fmt"
	"io"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// busy is how long the calls of a trace wait for somebody who holds the database.
const busy = 5 * time.Second

// AddTrace adds the calls of a Python trace to the table python_trace_<pid> of the database at path (contract 3.5). trace is the CSV
// form with its header: function, start, end, thread id, process id.
func AddTrace(path string, pid uint64, trace io.Reader) (err error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetBusyTimeout(busy)
	table := fmt.Sprintf(`"python_trace_%d"`, pid)
	if err := sqlitex.ExecuteTransient(conn, `CREATE TABLE IF NOT EXISTS `+table+` ("FuncInfo" TEXT, "StartTime(ns)" TEXT, "EndTime(ns)" TEXT, `+
		`"Thread Id" INTEGER, "Process Id" INTEGER)`, nil); err != nil {
		return err
	}
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return err
	}
	defer end(&err)
	insert, err := conn.Prepare("INSERT INTO " + table + " VALUES (?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer insert.Finalize()
	rows := csv.NewReader(trace)
	rows.ReuseRecord = true
	for header := true; ; header = false {
		row, err := rows.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if header {
			continue
		}
		for i, cell := range row { // the columns of numbers make numbers of them
			insert.BindText(1+i, cell)
		}
		if _, err := insert.Step(); err != nil {
			return err
		}
		if err := insert.Reset(); err != nil {
			return err
		}
	}
}
