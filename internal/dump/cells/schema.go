package cells

import (
	"slices"
	"strings"

	"memscope/internal/dump/sqlitefile"
)

// Table is the name of the table that a dump is in a database.
const Table = "memscope_dump"

// Quoted is a name as SQL wants it.
func Quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// IsInteger tells whether a column is declared INTEGER.
func IsInteger(column int) bool {
	switch Columns[column] {
	case "ID", "Timestamp(ns)", "Process Id", "Thread Id":
		return true
	}
	return false
}

// createTable is the statement that makes a table of a dump.
func createTable(table string) string {
	var defs []string
	for i, name := range Columns {
		typ := " TEXT"
		if IsInteger(i) {
			typ = " INTEGER"
		}
		defs = append(defs, Quoted(name)+typ)
	}
	return "CREATE TABLE " + Quoted(table) + "(" + strings.Join(defs, ",") + ")"
}

// Schema is a database with a dump in a table of that name, with the indexes that Insight's queries want.
func Schema(table string) sqlitefile.Table {
	out := sqlitefile.Table{Name: table, SQL: createTable(table)}
	for _, index := range [][2]string{{"timestamp", "Timestamp(ns)"}, {"event", "Event"}, {"device", "Device Id"}} {
		name := "idx_" + table + "_" + index[0]
		out.Indexes = append(out.Indexes, sqlitefile.Index{
			Name: name, SQL: "CREATE INDEX " + Quoted(name) + " ON " + Quoted(table) + "(" + Quoted(index[1]) + ")",
			Column: slices.Index(Columns[:], index[1]),
		})
	}
	return out
}
