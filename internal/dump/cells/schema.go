package cells

import "strings"

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

// CreateTable is the statement that makes a table of a dump.
func CreateTable(table string) string {
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

// InsertInto is the statement that adds a row with all columns.
func InsertInto(table string) string {
	return "INSERT INTO " + Quoted(table) + " VALUES(?,?,?,?,?,?,?,?,?,?,?,?)"
}

// CreateIndexes are the statements that make the indexes that Insight's queries want.
func CreateIndexes(table string) []string {
	var out []string
	for _, index := range [][2]string{{"timestamp", "Timestamp(ns)"}, {"event", "Event"}, {"device", "Device Id"}} {
		out = append(out, "CREATE INDEX IF NOT EXISTS "+Quoted("idx_"+table+"_"+index[0])+" ON "+Quoted(table)+"("+Quoted(index[1])+")")
	}
	return out
}
