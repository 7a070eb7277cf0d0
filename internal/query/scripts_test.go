package query

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test program stand for msmemscope, so that the scripts can be run against it.
func TestMain(m *testing.M) {
	if os.Getenv("MEMSCOPE_TEST_AS_PROGRAM") != "" {
		status := Main(os.Args[2:], os.Stdout, os.Stderr)
		if os.Getenv("MEMSCOPE_TEST_MEMORY") != "" {
			kernel, _ := os.ReadFile("/proc/self/status")
			os.Stderr.Write(kernel)
		}
		os.Exit(status)
	}
	os.Exit(m.Run())
}

// TestScripts runs the drop-in scripts with the options of old, and compares with what the program says.
func TestScripts(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3: ", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := func(words ...string) string {
		cmd := exec.Command(python, append([]string{filepath.Join("..", "..", "scripts", words[0])}, words[1:]...)...)
		cmd.Env = append(os.Environ(), "MEMSCOPE_TEST_AS_PROGRAM=1", "MSMEMSCOPE="+self, "PYTHONDONTWRITEBYTECODE=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", words, err, out)
		}
		return string(out)
	}
	for options, question := range map[string]string{
		"--stats":                       "stats FILE",
		"--check":                       "check FILE",
		"--curve":                       "curve FILE --limit 0",
		"--curve --ascii":               "curve FILE --ascii",
		"--curve --bins 5":              "curve FILE --bins 5",
		"--peak --key used --pool PTA":  "peak FILE --key used --pool PTA",
		"--at-timestamp 1060":           "at 1060 FILE",
		"--window 1040 1070 --pool HAL": "window 1040 1070 FILE --pool HAL",
		"--group-by owner --metric peak --pool HAL": "group FILE --by owner --metric peak --pool HAL",
		"--group-by event_type --metric total":      "group FILE --by event_type --metric total",
		"--leak-candidates --detail 2 --pool PTA":   "leak-candidates FILE --detail 2 --pool PTA",
		"--trend --buckets 4":                       "trend FILE --buckets 4",
		"--oom --detail 10":                         "oom FILE --detail 10",
		"--fragmentation --pool PTA":                "fragmentation FILE --pool PTA",
		"--hal-segments --min-size 1KB":             "hal-segments FILE --min-size 1KB",
	} {
		var want, errs bytes.Buffer
		if status := Main(strings.Fields(strings.Replace(question, "FILE", "testdata/nested.csv", 1)), &want, &errs); status != statusOK {
			t.Fatal(errs.String())
		}
		if got := script(append([]string{"aggregate_dump.py", "testdata/nested.csv"}, strings.Fields(options)...)...); got != want.String() {
			t.Errorf("%s:\n%s\nwant:\n%s", options, got, want.String())
		}
	}
	path := store(t, "memscope_dump_5.csv", load(t, "testdata/older.csv"))
	script("aggregate_dump.py", path, "--sort", "--overwrite")
	if sorted := at(ask(t, "check", path), "result.files.0.sorted"); sorted != true {
		t.Errorf("sorted: %v", sorted)
	}
	if out := script("convert_dump.py", path, "--to-db", "--table", "leaks_dump"); !strings.Contains(out, "20 rows written") {
		t.Error(out)
	}
	db := strings.TrimSuffix(path, "csv") + "db"
	if rows := fmt.Sprint(at(ask(t, "stats", db), "result.rows")); rows != "20" {
		t.Errorf("%s rows in the database", rows)
	}
	for range 2 { // a named output is replaced
		script("convert_dump.py", db, "--to-csv", "--output", filepath.Join(filepath.Dir(path), "x.csv"))
	}
}
