package smoke

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"memscope/test/insight"
)

// databases checks that each database of the run is one that MindStudio Insight takes, and reads them by way of CSV.
func databases(t *testing.T, j *job) (dumps []*dump) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(j.out, "*", "device_*", "dump", "memscope_dump_*.db"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no database, %v", err)
	}
	for i, path := range paths {
		if violations, err := insight.Check(path); err != nil || len(violations) > 0 {
			t.Errorf("%s: %v %q", path, err, violations)
		}
		text := filepath.Join(t.TempDir(), fmt.Sprint(i, ".csv"))
		if out, err := exec.Command(tool, "dump", "convert", "--to", "csv", "--output", text, path).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		d, err := readDump(text)
		if err == nil {
			err = d.check()
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		dumps = append(dumps, d)
	}
	return dumps
}

// TestDatabase: --format=db gives one database for each card, with the rows that a CSV has.
func TestDatabase(t *testing.T) {
	rows := func(dumps []*dump) (n []int) {
		for _, d := range dumps {
			n = append(n, len(d.rows))
		}
		return n
	}
	db := under(t, "--format=db", "--", example("train")).run().want(0).noComplaints()
	csv := under(t, "--", example("train")).run().want(0)
	got, want := rows(databases(t, db)), rows(csv.dumps())
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("rows %v, as CSV %v", got, want)
	}
}

// TestDatabaseRecovered: the collector is killed in the middle; the recovery writes the database anew, with every event that
// was spooled.
func TestDatabaseRecovered(t *testing.T) {
	j := under(t, "--format=db", "--")
	tell := tellTo(j)
	j.words = append(j.words, target("numbered"), fmt.Sprint(killThreads), "30000", "3")
	j.start()
	tell.listen(j)
	<-tell.first
	collector := j.collector()
	waitFor(t, "a database", func() bool {
		found, _ := filepath.Glob(filepath.Join(j.out, "*", "device_*", "dump", "*.db"))
		return len(found) > 0
	})
	if err := syscall.Kill(collector, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	j.wait().want(0)
	recovered(t, j)
	if err := checkNumbers(databases(t, j), [killThreads]int64{}); err != nil {
		t.Error(err)
	}
}
