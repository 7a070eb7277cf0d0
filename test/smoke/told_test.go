package smoke

import (
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// toldRow is what a target says of a row (test/targets/told.h).
type toldRow struct {
	before, after int64
	columns       string
}

// told reads what the target of a run says that the dump has.
func told(t testing.TB, stdout string) (rows []toldRow) {
	t.Helper()
	for line := range strings.Lines(stdout) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if f[0] != "ROW" {
			continue
		}
		if len(f) != 10 {
			t.Fatalf("line %q", line)
		}
		before, _ := strconv.ParseInt(f[1], 10, 64)
		after, _ := strconv.ParseInt(f[2], 10, 64)
		rows = append(rows, toldRow{before, after, strings.Join(f[3:], " ")})
	}
	if len(rows) == 0 {
		t.Fatalf("the program tells nothing: %s", tail(stdout))
	}
	return rows
}

// optional are the keys of Attr that depend on the machine; those that a program tells of are compared all the same.
var optional = regexp.MustCompile(`,(process_used|device_used):\d+`)

var identity = regexp.MustCompile(`^\{allocation_id:\d+,addr:0x[0-9a-f]{16},?`)

// checkTold compares the rows of the run's dumps, all files of the process together in the order of their IDs, with what the program told,
// column by column. Rows of the kinds in except are left out.
func checkTold(t *testing.T, j *job, except ...string) {
	t.Helper()
	var got []string
	var stamps []int64
	for _, f := range columns(t, j) {
		if slices.Contains(except, f[1]) {
			continue
		}
		attr := f[9]
		if m := identity.FindString(attr); m != "" {
			attr = strings.TrimPrefix(attr, m)
		} else {
			attr = strings.TrimPrefix(attr, "{")
		}
		attr = optional.ReplaceAllString(strings.TrimSuffix(attr, "}"), "")
		stamp, _ := strconv.ParseInt(f[4], 10, 64)
		stamps = append(stamps, stamp)
		got = append(got, strings.Join([]string{f[6], f[1], f[2], f[3], f[7], f[8], attr}, " "))
	}
	want := told(t, j.stdout.String())
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("row %d is missing: %s", i, want[i].columns)
		case i >= len(want):
			t.Errorf("row %d was not told: %s", i, got[i])
		case got[i] != want[i].columns:
			t.Errorf("row %d:\n got %s\nwant %s", i, got[i], want[i].columns)
		case stamps[i] < want[i].before || stamps[i] > want[i].after:
			t.Errorf("row %d: %s at %d, not in %d to %d", i, got[i], stamps[i], want[i].before, want[i].after)
		}
	}
}

// columns reads the rows of the run's CSV files, in the order of their IDs.
func columns(t testing.TB, j *job) (rows [][]string) {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(j.out, "*", "device_*", "dump", "memscope_dump_*.csv"))
	byID := map[int][]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		table, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range table[1:] {
			id, _ := strconv.Atoi(f[0])
			byID[id] = f
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		rows = append(rows, byID[id])
	}
	return rows
}

// TestPools: the pools of every framework and of the user's own, and pinned host memory.
func TestPools(t *testing.T) {
	j := under(t, "--device=npu,cpu", "--pools=arena,heap%2", target("pools")).run().want(0).noComplaints()
	checkTold(t, j, "SYSTEM")
	j = under(t, "--device=npu", target("pools")).run().want(0).noComplaints()
	for _, name := range []string{"arena", "heap%2"} {
		if !strings.Contains(j.stdout.String(), fmt.Sprintln(name, "is not recorded")) {
			t.Errorf("%s is recorded though nobody asked for it", name)
		}
	}
	for _, bad := range []string{"", "PTA", "hal", "all", "N/A", "test", "a,a", "a:b", "a\tb", strings.Repeat("x", 64), "1,2,3,4,5,6,7,8,9,10,11"} {
		j := under(t, "--pools="+bad, "true").run().want(2)
		if !strings.Contains(j.stderr.String(), "--pools") {
			t.Errorf("--pools=%s: %s", bad, j.stderr.String())
		}
	}
}
