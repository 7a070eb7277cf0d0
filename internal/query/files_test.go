package query

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"memscope/internal/dump/read"
)

func load(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func store(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConvertBothWays: from CSV to a database and back gives the same bytes.
func TestConvertBothWays(t *testing.T) {
	files, err := filepath.Glob("testdata/*.csv")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	more, _ := filepath.Glob(recorded + "/*.csv")
	for _, path := range append(files, more...) {
		want := load(t, path)
		if filepath.Base(path) == "older.csv" { // its spelling is not kept
			continue
		}
		csv := store(t, "memscope_dump_77.csv", want)
		db := strings.TrimSuffix(csv, ".csv") + ".db"
		ask(t, "convert", csv)
		back := filepath.Join(t.TempDir(), "back.csv")
		ask(t, "convert", db, "--output", back)
		if got := load(t, back); !bytes.Equal(got, want) {
			t.Errorf("%s comes back as\n%s", path, got)
		}
		var out, errs bytes.Buffer
		if status := Main([]string{"convert", csv}, &out, &errs); status != statusFailure || !strings.Contains(errs.String(), "exists; --overwrite") {
			t.Errorf("a second conversion: status %d, %s", status, errs.String())
		}
	}
}

func TestConvertOddCells(t *testing.T) {
	header := "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)\n"
	want := header +
		`0,MSTX,Mark,"",5,N/A,N/A,0,N/A,,,` + "\n" +
		`1,MSTX,Mark,"say ""x"", twice",6,1,1,0,N/A,,"NA",""` + "\n" +
		`2,ACCESS,READ,"a,b",7,1,18446744073709551614,0,0x10,"{allocation_id:1,addr:0x10,size:5,type:ATB,dtype:FLOAT,format:NZD,shape:[1,5,]}",,` + "\n" +
		`3,MALLOC,PTA,N/A,8,1,1,cpu,0x10,"{allocation_id:1,size:5,owner:PTA@a:b@c\n""q""}","f(1): ""g""` + "\n" + `","c(+0x1) [0x2]` + "\n" + `"` + "\n" +
		`4,OP_LAUNCH,ATEN_START,aten::add,9,1,1,0,N/A,,,` + "\n"
	csv := store(t, "memscope_dump_1.csv", []byte(want))
	ask(t, "convert", csv)
	ask(t, "convert", strings.TrimSuffix(csv, "csv")+"db", "--overwrite")
	if got := load(t, csv); string(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestTargets: a result takes the place of no device, directory or link, and not of the file that it is made of.
func TestTargets(t *testing.T) {
	unsorted := load(t, "testdata/older.csv")
	csv := store(t, "memscope_dump_1.csv", unsorted)
	dir := filepath.Dir(csv)
	link, folder := filepath.Join(dir, "link"), filepath.Join(dir, "folder")
	if err := errors.Join(os.Symlink("elsewhere", link), os.Mkdir(folder, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"convert --overwrite --output " + link, link + " is not a regular file"},
		{"convert --overwrite --output " + folder, folder + " is not a regular file"},
		{"sort --output " + link, link + " is not a regular file"},
		{"convert --overwrite --output " + csv, csv + " is the file to convert"},
	} {
		var out, errs bytes.Buffer
		if status := Main(append(strings.Fields(c.args), csv), &out, &errs); status == statusOK || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: status %d, %s", c.args, status, errs.String())
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 || !bytes.Equal(load(t, csv), unsorted) {
		t.Errorf("changed: %v, %v", left, err)
	}
	if to, err := os.Readlink(link); err != nil || to != "elsewhere" {
		t.Errorf("link: %q, %v", to, err)
	}
}

// TestNamed: whatever is wrong with one file of many, the line names it.
func TestNamed(t *testing.T) {
	for content, want := range map[string]string{"": "empty", "no,dump\n": "lacks Event"} {
		path := store(t, "memscope_dump_2.csv", []byte(content))
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), "memscope_dump_1.csv"), load(t, "testdata/nested.csv"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"peak", filepath.Dir(path)}, {"check", filepath.Dir(path)}, {"sort", path}, {"convert", path}} {
			var out, errs bytes.Buffer
			if status := Main(args, &out, &errs); status != statusFailure || strings.Count(errs.String(), path) != 1 || !strings.Contains(errs.String(), want) {
				t.Errorf("%s: status %d, %s", args, status, errs.String())
			}
		}
	}
}

// TestInterrupted: a signal ends a conversion, and nothing stays of what it has begun.
func TestInterrupted(t *testing.T) {
	if path := os.Getenv("QUERY_TEST_CONVERT"); path != "" {
		os.Exit(Main([]string{"convert", path}, os.Stdout, os.Stderr))
	}
	if runtime.GOOS == "windows" {
		t.Skip("has no signals")
	}
	header, row := read.Header+"\n", `1,MALLOC,HAL,N/A,9,1,1,0,0x10,"{allocation_id:1,size:5}",,`+"\n"
	path := store(t, "memscope_dump_1.csv", []byte(header+strings.Repeat(row, 500_000)))
	cmd := exec.Command(os.Args[0], "-test.run=^TestInterrupted$")
	cmd.Env = append(os.Environ(), "QUERY_TEST_CONVERT="+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); len(filesBeside(t, path)) < 2 && time.Since(begun) < 30*time.Second; {
		time.Sleep(time.Millisecond)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if left := filesBeside(t, path); len(left) != 1 || cmd.ProcessState.String() != "signal: interrupt" {
		t.Errorf("%s; files: %v", cmd.ProcessState, left)
	}
}

// filesBeside are the names of the files beside path, itself included.
func filesBeside(t *testing.T, path string) []string {
	names, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestLinkToDirectory: a link to a directory, as to the latest run of many, is as good as the directory.
func TestLinkToDirectory(t *testing.T) {
	dir := filepath.Dir(store(t, "memscope_dump_1.csv", load(t, "testdata/nested.csv")))
	link := filepath.Join(t.TempDir(), "latest")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	answer := ask(t, "stats", link)
	if files := fmt.Sprint(answer["files"]); at(answer["result"], "rows") != 20.0 || files != "["+filepath.Join(link, "memscope_dump_1.csv")+"]" {
		t.Errorf("%v rows of %s", at(answer["result"], "rows"), files)
	}
}

// TestToldOfRows: a note says why there are other rows than one would think.
func TestToldOfRows(t *testing.T) {
	const path = "testdata/nested.csv"
	for _, c := range []struct {
		args string
		rows float64
		note string
	}{
		{path + " testdata/../" + path, 20, "testdata/../" + path + " is named twice"},
		{path + " --since 1133", 0, "no row lies between --since and --until"},
		{path + " --until 999", 0, "no row lies between --since and --until"},
		{path + " --since 1132 --until 1132", 1, "[]"},
	} {
		answer := ask(t, append([]string{"stats"}, strings.Fields(c.args)...)...)
		if notes := fmt.Sprint(answer["notes"]); at(answer["result"], "rows") != c.rows || !strings.Contains(notes, c.note) {
			t.Errorf("%s: %v rows, notes %s", c.args, at(answer["result"], "rows"), notes)
		}
	}
	var out, errs bytes.Buffer
	if status := Main([]string{"stats", path, "--since", "+10ns", "--until", "1005"}, &out, &errs); status != statusUsage || !strings.Contains(errs.String(), "later than --until") {
		t.Errorf("status %d, %s", status, errs.String())
	}
}

// TestConvertOverUnfinished: what a program that was killed has left beside a database does not get into the one that takes its place.
func TestConvertOverUnfinished(t *testing.T) {
	csv := store(t, "memscope_dump_1.csv", load(t, "testdata/nested.csv"))
	db := strings.TrimSuffix(csv, "csv") + "db"
	ask(t, "convert", csv)
	conn, err := sqlite.OpenConn(db, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"PRAGMA journal_mode=WAL", "DELETE FROM memscope_dump"} {
		if err := sqlitex.ExecuteTransient(conn, sql, nil); err != nil {
			t.Fatal(err)
		}
	}
	left := load(t, db+"-wal")
	if err := errors.Join(conn.Close(), os.WriteFile(db+"-wal", left, 0o600)); err != nil {
		t.Fatal(err)
	}
	ask(t, "convert", csv, "--overwrite")
	if rows := at(ask(t, "stats", db)["result"], "rows"); rows != 20.0 {
		t.Errorf("%v rows", rows)
	}
}

// TestConvertNoAttr: an Attr that a database has no place for is told.
func TestConvertNoAttr(t *testing.T) {
	rows := read.Header + "\n"
	for _, attr := range []string{"", "{}", "{size:1}", "garbage", "more,garbage"} {
		rows += `1,MALLOC,HAL,N/A,1,1,1,0,0x1,"` + attr + `",,` + "\n"
	}
	answer := ask(t, "convert", store(t, "memscope_dump_1.csv", []byte(rows)))
	if notes := fmt.Sprint(answer["notes"]); !strings.Contains(notes, ": 2 cells of Attr") {
		t.Error(notes)
	}
}

func TestSort(t *testing.T) {
	// older.csv in order; of the rows with equal times, 10 comes before 11 and 15 to 18 by ID.
	path := store(t, "x.csv", load(t, "testdata/older.csv"))
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	res := ask(t, "sort", path, "--overwrite")["result"]
	if at(res, "rows") != 20.0 || at(res, "already_sorted") != false {
		t.Errorf("got %v", res)
	}
	var ids []string
	for line := range strings.Lines(string(load(t, path))) {
		if id, rest, _ := strings.Cut(line, ","); strings.HasPrefix(rest, "MALLOC") || strings.HasPrefix(rest, "FREE") || strings.HasPrefix(rest, "SYSTEM") {
			ids = append(ids, id)
		}
	}
	if got := strings.Join(ids, " "); got != "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19" {
		t.Errorf("rows in the order %s", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	sorted := load(t, path)
	if res := ask(t, "sort", path, "--overwrite")["result"]; at(res, "already_sorted") != true {
		t.Errorf("sorted again: %v", res)
	}
	if !bytes.Equal(load(t, path), sorted) {
		t.Error("a sorted file was changed")
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
}

// TestDamage: what is no row is passed over and told.
func TestDamage(t *testing.T) {
	whole := string(load(t, "testdata/nested.csv"))
	lines := strings.SplitAfter(whole, "\n")
	last := len(lines) - 2 // the last row
	for _, c := range []struct {
		name      string
		content   string
		rows, bad int
		truncated bool
		note      string
	}{
		{"cut in the last row", strings.Join(lines[:last], "") + lines[last][:40], 19, 1, true, "the last row is cut off"},
		{"cut within a call stack", strings.Join(lines[:5], "")[:len(strings.Join(lines[:5], ""))-10], 2, 1, true, "the last row is cut off"},
		{"no line end", strings.TrimSuffix(whole, "\n"), 20, 0, false, ""},
		{"a short row", strings.Replace(whole, "4,FREE,PTA,N/A,1040,100,100,", "4,FREE,PTA,N/A,1040,", 1), 19, 1, false, "line 10: 10 fields instead of 12"},
		{"no time", strings.Replace(whole, "4,FREE,PTA,N/A,1040", "4,FREE,PTA,N/A,x", 1), 19, 1, false, `line 10: timestamp "x" is no time`},
		{"a stray quote", strings.Replace(whole, "4,FREE,PTA,N/A,1040", `4,FREE,PTA,"N/A,1040`, 1), 19, 1, false, "line 10: "},
		{"blank lines", strings.Replace(whole, "4,FREE", "\n\r\n4,FREE", 1) + "\n", 20, 0, false, ""},
	} {
		path := store(t, "x.csv", []byte(c.content))
		answer := ask(t, "stats", path)
		if rows := at(answer, "result.rows"); rows != float64(c.rows) {
			t.Errorf("%s: %v rows, want %d", c.name, rows, c.rows)
		}
		if notes := fmt.Sprint(answer["notes"]); !strings.Contains(notes, c.note) || c.note == "" && notes != "[]" {
			t.Errorf("%s: notes %s, want %q", c.name, notes, c.note)
		}
		var stdout, stderr bytes.Buffer
		status := Main([]string{"check", path}, &stdout, &stderr)
		if (status == statusFailure) != (c.bad > 0) {
			t.Errorf("%s: check answers %d: %s", c.name, status, stdout.String())
		}
		if cut := strings.Contains(stdout.String(), "last row      cut off"); cut != c.truncated {
			t.Errorf("%s: check says %s", c.name, stdout.String())
		}
		if c.bad > 0 && !c.truncated {
			stderr.Reset()
			if status := Main([]string{"sort", path, "--overwrite"}, &stdout, &stderr); status != statusFailure || !strings.Contains(stderr.String(), "nothing was written") {
				t.Errorf("%s: sort answers %d, %s", c.name, status, stderr.String())
			}
		}
	}
	for content, want := range map[string]string{"": "the file is empty", "hello\n": "not a memory dump: the header lacks Event, Event Type, Timestamp(ns), Device Id, Attr"} {
		var stdout, stderr bytes.Buffer
		if status := Main([]string{"stats", store(t, "x.csv", []byte(content))}, &stdout, &stderr); status != statusFailure || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: status %d, %s", content, status, stderr.String())
		}
		stderr.Reset()
		if status := Main([]string{"stats", store(t, "x.db", []byte("no database "+content))}, &stdout, &stderr); status != statusFailure || !strings.Contains(stderr.String(), "is no database") && !strings.Contains(stderr.String(), "there is no table") {
			t.Errorf("a db of %q: status %d, %s", content, status, stderr.String())
		}
	}
}

func TestInefficient(t *testing.T) {
	want := `"{allocation_id:1,addr:0x10,size:1024,inefficient_type:early_allocation,late_deallocation}"`
	path := store(t, "x.csv", load(t, "testdata/tensors.csv"))
	res := ask(t, "check-inefficient", path)["result"]
	if at(res, "blocks.#") != 1.0 || at(res, "blocks.0.row_id") != 2.0 || fmt.Sprint(at(res, "blocks.0.inefficient_type")) != "[early_allocation late_deallocation]" {
		t.Errorf("got %v", res)
	}
	text := string(load(t, path))
	if !strings.Contains(text, want) || strings.Count(text, "inefficient_type") != 1 || strings.Count(text, "\r\n") != 12 || strings.Count(text, "\n") != 12 {
		t.Errorf("got:\n%s", text)
	}
	if !strings.Contains(text, `,"step, start",`) {
		t.Errorf("a name with a comma lost its quotes:\n%s", text)
	}
	// A second run finds the same and overwrites the key.
	var stdout, stderr bytes.Buffer
	if status := Main([]string{"check-inefficient", path, "--inefficient-type", "late_deallocation"}, &stdout, &stderr); status != statusOK {
		t.Fatal(stderr.String())
	}
	said := fmt.Sprintf("INFO: Connected to CSV file\nINFO: CSV file read successfully\nINFO: Connecting to csv %s to write results\nINFO: All results have been successfully written to csv %s\n", path, path)
	if stdout.String() != said {
		t.Errorf("said %q", stdout.String())
	}
	if text := string(load(t, path)); !strings.Contains(text, "size:1024,inefficient_type:late_deallocation}") || strings.Count(text, "inefficient_type") != 1 {
		t.Errorf("got:\n%s", text)
	}
	for _, args := range []string{"--mem-size 1025", "--inefficient-type temporary_idleness"} {
		if res := ask(t, append([]string{"check-inefficient", path}, strings.Fields(args)...)...)["result"]; at(res, "blocks.#") != 0.0 {
			t.Errorf("%s: %v", args, res)
		}
	}

	db := filepath.Join(t.TempDir(), "memscope_dump_1.db")
	ask(t, "convert", "testdata/tensors.csv", "--output", db)
	res = ask(t, "check-inefficient", db)["result"]
	if at(res, "blocks.#") != 1.0 {
		t.Errorf("got %v", res)
	}
	back := filepath.Join(t.TempDir(), "back.csv")
	ask(t, "convert", db, "--output", back)
	if text := string(load(t, back)); !strings.Contains(text, want) || strings.Count(text, "inefficient_type") != 1 {
		t.Errorf("got:\n%s", text)
	}

	// What cannot be written back whole is not written.
	odd := strings.ReplaceAll(string(load(t, "testdata/tensors.csv")), "\n", ",x\n")
	for content, want := range map[string]string{odd: "has columns that would be lost: x", string(load(t, "testdata/tensors.csv")) + "12,FREE": "has 1 damaged rows"} {
		path := store(t, "x.csv", []byte(content))
		stderr.Reset()
		if status := Main([]string{"check-inefficient", path}, &stdout, &stderr); status != statusFailure || !strings.Contains(stderr.String(), want) {
			t.Errorf("status %d, %s; want %s", status, stderr.String(), want)
		}
		if got := load(t, path); string(got) != content {
			t.Error("the file was changed all the same")
		}
	}
}
