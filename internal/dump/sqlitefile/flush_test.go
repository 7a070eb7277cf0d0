package sqlitefile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// watched sees the writes to a file, and lets some fail.
type watched struct {
	f      *os.File
	writes func(b []byte, at int64) error
}

func (w watched) WriteAt(b []byte, at int64) (int, error) {
	if err := w.writes(b, at); err != nil {
		return 0, err
	}
	return w.f.WriteAt(b, at)
}

// TestKilled cuts the writing off after each write to the file: what is there is a database whose rows are a beginning of all rows, never
// fewer than before. It looks while the first pages fill up, and while a root above 2000 pages does.
func TestKilled(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for _, phase := range []struct{ from, to, bytes, flush int }{{0, 300, 1000, 10}, {2058, 2064, 8300, 2}} {
		w, path := begin(t)
		least, flushed, seen := int64(0), int64(0), 0
		check := func() {
			conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for _, line := range execute(t, conn, "PRAGMA integrity_check(100000)") {
				for _, complaint := range strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "SQLITE_TEXT "), "|"), "\n") {
					if complaint != "ok" && !strings.Contains(complaint, "never used") && !strings.Contains(complaint, "in database main") {
						t.Fatalf("after %d of %d rows: %s", flushed, w.last, complaint)
					}
				}
			}
			var want []string
			got := execute(t, conn, "SELECT rowid, a FROM things")
			for i := range got {
				want = append(want, fmt.Sprintf("SQLITE_INTEGER %d|SQLITE_INTEGER %d|", i+1, i))
			}
			same(t, "rows", got, want)
			if n := int64(len(got)); n < least || n < flushed || n > w.last {
				t.Fatalf("%d rows after %d were there, %d were flushed, and %d are written", n, least, flushed, w.last)
			}
			least = int64(len(got))
			seen++
		}
		for i := range phase.to {
			if i == phase.from {
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
				w.pages.f = watched{w.f, func([]byte, int64) error { check(); return nil }}
			}
			if err := w.put(row{int64(i), text(r, phase.bytes-r.IntN(100)), nil, fmt.Sprint(i % 3)}); err != nil {
				t.Fatal(err)
			}
			if i > phase.from && r.IntN(phase.flush) == 0 {
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
				flushed = w.last
			}
		}
		levels := len(w.rows.levels)
		if levels > 2 { // it takes long
			w.pages.f = w.f
		}
		end(t, w)
		check()
		whole(t, open(t, path))
		if seen < 8 || phase.from > 0 && levels != 3 {
			t.Errorf("%d writes, %d levels", seen, levels)
		}
	}
}

// TestFullDisk lets some writes fail, to the file and to the scratch file. Every call is made again, and nothing is missing in the end.
func TestFullDisk(t *testing.T) {
	w, path := begin(t)
	r := rand.New(rand.NewPCG(8, 8))
	failures := 0
	failing := func([]byte, int64) error {
		if r.IntN(4) == 0 {
			failures++
			return syscall.ENOSPC
		}
		return nil
	}
	w.pages.f = watched{w.f, failing}
	create := w.scratch.create
	w.scratch.create = func() (*os.File, error) {
		if failures < 20 {
			failures++
			return nil, syscall.ENOSPC
		}
		return create()
	}
	again := func(call func() error) {
		for try := 0; ; try++ {
			err := call()
			if err == nil {
				return
			}
			if try > 1000 || !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
		}
	}
	var rows []row
	for i := range sortEntries + 2000 {
		rows = append(rows, row{int64(i), fmt.Sprint(r.IntN(1000)), "", int64(-i)})
		if err := w.put(rows[i]); err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		if i%5000 == 0 {
			again(w.Flush)
		}
	}
	before := failures
	again(w.Finish)
	if before < 20 || failures < before+3 {
		t.Errorf("%d failures, then %d", before, failures)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	ours, theirs := open(t, path), open(t, library(t, rows))
	whole(t, ours)
	same(t, "rows", execute(t, ours, "SELECT rowid, * FROM things"), execute(t, theirs, "SELECT rowid, * FROM things"))
}

// TestOtherProcess is two processes: one reads and would like to write while the other one writes.
func TestOtherProcess(t *testing.T) {
	if path := os.Getenv("SQLITEFILE_TEST_OPEN"); path != "" {
		other(path)
		os.Exit(0)
	}
	w, path := begin(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestOtherProcess$")
	cmd.Env = append(os.Environ(), "SQLITEFILE_TEST_OPEN="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	answers := bufio.NewReader(out)
	ask := func(sql, want string) {
		t.Helper()
		io.WriteString(in, sql+"\n")
		if got, err := answers.ReadString('\n'); strings.TrimSpace(got) != want || err != nil {
			t.Errorf("%s: %q, want %q, %v", sql, got, want, err)
		}
	}
	put := func(n int) {
		for range n {
			if err := w.put(row{w.last, strings.Repeat("r", 1000), nil, nil}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	count := "SELECT count(*) FROM things"
	ask(count, "0")
	put(10)
	ask(count, "10")
	ask("INSERT INTO things VALUES(1, 2, 3, 4)", "SQLITE_BUSY")
	put(500)
	ask("BEGIN", "ok")
	ask(count, "510")
	put(500) // the reader holds the database as it was
	ask(count, "510")
	w.busy = 300 * time.Millisecond
	begun := time.Now()
	if err := w.Finish(); !errors.Is(err, errLocked) {
		t.Errorf("finished under a reader: %v", err)
	} else if time.Since(begun) < w.busy {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
	ask(count, "510")
	ask("COMMIT", "ok")
	put(1)
	ask(count, "1011")
	ask("SELECT count(*) FROM sqlite_schema", "1")
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	ask("SELECT count(*) FROM sqlite_schema", "5")
	ask("SELECT count(*) FROM things INDEXED BY by_a WHERE a >= 1000", "11")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	ask("INSERT INTO things VALUES(5000, 2, 3, 4)", "ok")
	ask("PRAGMA integrity_check", "ok")
}

// other executes what it reads and answers the first cell.
func other(path string) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		fmt.Println(err)
		return
	}
	conn.SetBusyTimeout(0)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer := "ok"
		err := sqlitex.ExecuteTransient(conn, lines.Text(), &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
			answer = s.ColumnText(0)
			return nil
		}})
		if err != nil {
			answer = sqlite.ErrCode(err).String()
		}
		fmt.Println(answer)
	}
}
