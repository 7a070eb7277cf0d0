package sqlitefile

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// things has an index on each of its columns. Of the values that rows of tests have, its types change none.
var things = Table{Name: "things", SQL: `CREATE TABLE "things"("a" INTEGER,"b" TEXT,"c d" TEXT,"e")`, Indexes: []Index{
	{"by_a", `CREATE INDEX "by_a" ON "things"("a")`, 0}, {"by_b", `CREATE INDEX "by_b" ON "things"("b")`, 1},
	{"by_c", `CREATE INDEX "by_c" ON "things"("c d")`, 2}, {"by_e", `CREATE INDEX "by_e" ON "things"("e")`, 3},
}}

const columns = 4

type row [columns]any // nil, int64, string, or []byte

func (w *Writer) put(r row) error {
	for _, v := range r {
		switch v := v.(type) {
		case nil:
			w.Null()
		case int64:
			w.Int(v)
		case string:
			if len(v)%2 == 0 {
				w.String(v)
			} else {
				w.Text([]byte(v))
			}
		case []byte:
			w.Blob(v)
		}
	}
	return w.EndRow()
}

func begin(t testing.TB) (w *Writer, path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "ours.db")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	w, err = New(f, things, func() (*os.File, error) { return os.Create(filepath.Join(dir, "scratch")) })
	if err != nil {
		t.Fatal(err)
	}
	return w, path
}

func end(t testing.TB, w *Writer) {
	t.Helper()
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, rows []row) (path string) {
	t.Helper()
	w, path := begin(t)
	for i := range rows {
		if err := w.put(rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	end(t, w)
	return path
}

// library writes the same with SQLite.
func library(t testing.TB, rows []row) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "library.db")
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, sql := range []string{"PRAGMA page_size=16384", "PRAGMA synchronous=OFF", "BEGIN", things.SQL} {
		execute(t, conn, sql)
	}
	for i := range rows {
		if err := sqlitex.Execute(conn, "INSERT INTO things VALUES(?,?,?,?)", &sqlitex.ExecOptions{Args: rows[i][:]}); err != nil {
			t.Fatal(err)
		}
	}
	for _, index := range things.Indexes {
		execute(t, conn, index.SQL)
	}
	execute(t, conn, "COMMIT")
	return path
}

func open(t testing.TB, path string) *sqlite.Conn {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// execute answers all cells of a result, exactly, a row a line.
func execute(t testing.TB, conn *sqlite.Conn, sql string) (out []string) {
	t.Helper()
	err := sqlitex.ExecuteTransient(conn, sql, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		line := ""
		for i := range s.ColumnCount() {
			b := make([]byte, s.ColumnLen(i))
			s.ColumnBytes(i, b)
			line += s.ColumnType(i).String() + " " + string(b) + "|"
		}
		out = append(out, line)
		return nil
	}})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return out
}

func whole(t testing.TB, conn *sqlite.Conn) {
	t.Helper()
	for _, check := range []string{"integrity_check", "quick_check"} {
		if got := execute(t, conn, "PRAGMA "+check); len(got) != 1 || got[0] != "SQLITE_TEXT ok|" {
			t.Errorf("%s: %.2000v", check, got)
		}
	}
}

// same compares lists and shows the first difference, shortened.
func same(t testing.TB, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("%s, row %d:\n got %.300q\nwant %.300q", what, i, got[i], want[i])
			return
		}
	}
}

// compare writes rows with us and with SQLite, and compares all that can be asked.
func compare(t testing.TB, rows []row) {
	t.Helper()
	ours, theirs := open(t, write(t, rows)), open(t, library(t, rows))
	whole(t, ours)
	for _, sql := range []string{
		"SELECT type, name, tbl_name, sql FROM sqlite_schema", "PRAGMA page_size", "PRAGMA user_version", "PRAGMA encoding", "PRAGMA journal_mode",
		"PRAGMA auto_vacuum", "PRAGMA application_id", "PRAGMA freelist_count", "SELECT rowid, * FROM things", "SELECT count(*), max(rowid) FROM things",
	} {
		same(t, sql, execute(t, ours, sql), execute(t, theirs, sql))
	}
	for i, column := range []string{`"a"`, `"b"`, `"c d"`, `"e"`} {
		name := things.Indexes[i].Name
		sql := "SELECT rowid, " + column + " FROM things ORDER BY " + column + ", rowid"
		if plan := strings.Join(execute(t, ours, "EXPLAIN QUERY PLAN "+sql), "\n"); !strings.Contains(plan, "USING COVERING INDEX "+name) {
			t.Errorf("%s: %s", sql, plan)
		}
		same(t, sql, execute(t, ours, sql), execute(t, theirs, sql))
		for n := 0; n < len(rows); n += 1 + len(rows)/8 {
			const find = "SELECT rowid, * FROM things %s WHERE %s IS (SELECT %[2]s FROM things NOT INDEXED WHERE rowid = %d) ORDER BY rowid"
			with := fmt.Sprintf(find, "INDEXED BY "+name, column, n+1)
			same(t, with, execute(t, ours, with), execute(t, ours, fmt.Sprintf(find, "NOT INDEXED", column, n+1)))
		}
	}
}

func text(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.IntN(256))
	}
	return string(b)
}

var ints = func() (out []int64) {
	for bits := range 64 {
		for d := int64(-2); d <= 2; d++ {
			out = append(out, 1<<bits+d, -1<<bits+d)
		}
	}
	return append(out, math.MaxInt64, math.MinInt64, 0)
}()

// value is of any kind that a column takes.
func value(r *rand.Rand, column, long int) any {
	switch k := r.IntN(10); {
	case k == 0:
		return nil
	case k == 1:
		return []byte(text(r, r.IntN(20)))
	case k == 2:
		return ""
	case k == 3 && long > 0:
		return "x" + text(r, r.IntN(long))
	case k < 6:
		return fmt.Sprintf("word %d", r.IntN(5))
	case column == 1 || column == 2:
		return text(r, r.IntN(40))
	case k < 8:
		return ints[r.IntN(len(ints))]
	}
	return r.Int64N(1000)
}

func TestAsSQLite(t *testing.T) {
	for _, n := range []int{0, 1, 2, 10, 2000} {
		for _, long := range []int{0, 200, 70000} {
			t.Run(fmt.Sprintf("%d rows, %d long", n, long), func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(n), uint64(long)))
				rows := make([]row, n)
				for i := range rows {
					for c := range rows[i] {
						rows[i][c] = value(r, c, min(long, 70000*30/max(n, 1)+200))
					}
				}
				compare(t, rows)
			})
		}
	}
}

func TestInts(t *testing.T) {
	var rows []row
	for _, v := range ints {
		rows = append(rows, row{v, nil, "", v})
	}
	compare(t, rows)
}

// TestLengths has payloads of the lengths at which the way changes that they are laid out, in the table and in indexes.
func TestLengths(t *testing.T) {
	var rows []row
	r := rand.New(rand.NewPCG(1, 1))
	for _, near := range []int{0, 120, 128, minLocal, maxLocalIndex, maxLocalTable, overflowBytes, minLocal + overflowBytes, maxLocalIndex + overflowBytes, maxLocalTable + overflowBytes, 3 * overflowBytes} {
		for d := -24; d <= 8; d++ {
			rows = append(rows, row{int64(d), strings.Repeat("x", max(0, near+d)), "", nil}, row{nil, "b" + text(r, max(0, near+d)), "c", nil})
		}
	}
	r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	compare(t, rows)
}

// TestManyColumns has a header of rows that is longer than a byte can say.
func TestManyColumns(t *testing.T) {
	var r record
	for range 200 {
		r.Int(7)
	}
	if h := r.head(); len(h) != 202 || h[0] != 0x81 || h[1] != 202-128 {
		t.Errorf("header of %d bytes, % x", len(h), h[:2])
	}
}

func TestHugeCells(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	compare(t, []row{
		{int64(1), text(r, 1<<20), text(r, 1<<20+1), nil}, {int64(2), "", "", nil}, {int64(3), text(r, 3<<20), "", []byte(text(r, 1<<20))},
	})
}

// TestDeep has trees of three levels and more: rows that fill a page, and keys of which four do.
func TestDeep(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	var rows []row
	for i := range 2200 {
		rows = append(rows, row{int64(i), fmt.Sprintf("%d", i%3), strings.Repeat("y", 8300), nil})
	}
	w, path := begin(t)
	for i := range rows {
		rows[i][2] = fmt.Sprintf("%08d", r.IntN(1e8)) + rows[i][2].(string)
		if err := w.put(rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(w.rows.levels); n != 3 {
		t.Errorf("%d levels", n)
	}
	end(t, w)
	whole(t, open(t, path))
	var tall []row
	for range 400 {
		tall = append(tall, row{nil, text(r, 4000), text(r, 4000) + "z", nil})
	}
	compare(t, tall)
}

// TestSorted sorts more entries than fit the memory: in order, the other way, by few keys, and by random ones.
func TestSorted(t *testing.T) {
	const n = 2*sortEntries + 100
	w, path := begin(t)
	r := rand.New(rand.NewPCG(4, 4))
	for i := range int64(n) {
		if err := w.put(row{i, fmt.Sprintf("%07d", n-i), [...]string{"MALLOC", "FREE", "ACCESS"}[r.IntN(3)], r.Int64()}); err != nil {
			t.Fatal(err)
		}
	}
	var runs []int
	for i := range w.sorters {
		runs = append(runs, len(w.sorters[i].runs))
	}
	if !slices.Equal(runs, []int{1, 2, 2, 2}) {
		t.Errorf("runs %v", runs)
	}
	end(t, w)
	conn := open(t, path)
	whole(t, conn) // compares each index with the table, and its order
}

// TestChanged lets SQLite change what we have written.
func TestChanged(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	var rows []row
	for i := range 3000 {
		rows = append(rows, row{int64(i), value(r, 1, 20000), value(r, 2, 0), int64(i)})
	}
	conn := open(t, write(t, rows))
	for _, sql := range []string{
		`INSERT INTO things SELECT a + 3000, b || 'x', "c d", e FROM things WHERE a % 3 = 0`, `UPDATE things SET b = b || b, e = 'new' WHERE a % 7 = 1`,
		`DELETE FROM things WHERE a % 5 = 2`, `ALTER TABLE things ADD COLUMN more TEXT DEFAULT 'm'`, `CREATE TABLE other(x)`, `INSERT INTO other SELECT a FROM things`,
		`REINDEX`, `VACUUM`, `PRAGMA journal_mode=WAL`, `DELETE FROM things WHERE a < 100`,
	} {
		execute(t, conn, sql)
		whole(t, conn)
	}
}

// TestLockPage crosses the page that must stay empty, with a hole in the file before it.
func TestLockPage(t *testing.T) {
	w, path := begin(t)
	w.pages.last = lockPage - 4
	var rows []row
	for i := range 20 {
		rows = append(rows, row{int64(i), strings.Repeat("x", 15000), strings.Repeat("y", 40000), nil})
		if err := w.put(rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	end(t, w)
	conn := open(t, path)
	for _, line := range execute(t, conn, "PRAGMA integrity_check(1000000)") {
		for _, complaint := range strings.Split(line, "\n") {
			if !strings.Contains(complaint, "never used") && !strings.Contains(complaint, "in database main") {
				t.Error(complaint)
			}
		}
	}
	theirs := open(t, library(t, rows))
	same(t, "rows", execute(t, conn, "SELECT rowid, * FROM things"), execute(t, theirs, "SELECT rowid, * FROM things"))
	b := make([]byte, pageBytes)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.ReadAt(b, lockByte); err != nil || !bytes.Equal(b, make([]byte, pageBytes)) {
		t.Errorf("the page of the locks is used, or not in the file: %v", err)
	}
}

func TestReservedName(t *testing.T) {
	_, err := New(nil, Table{Name: "SQLite_dump"}, nil)
	if err == nil || !strings.Contains(err.Error(), "SQLite_dump") {
		t.Error(err)
	}
}

// FuzzRow writes rows of any values and compares them with SQLite's.
func FuzzRow(f *testing.F) {
	f.Add(int64(0), "", []byte(nil), "x", 1)
	f.Add(int64(math.MinInt64), "a\x00\xff", []byte("blob"), strings.Repeat("long ", 4000), 3)
	f.Fuzz(func(t *testing.T, i int64, b string, blob []byte, long string, n int) {
		var rows []row
		for k := range 1 + n&15 {
			rows = append(rows, row{i + int64(k), b, long + b, blob}, row{blob, "c" + strings.Repeat(long, k), nil, i})
		}
		compare(t, rows)
	})
}
