package smoke

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var usage = regexp.MustCompile(`,process_used:(\d+),device_used:(\d+)`)

// TestUsage: the numbers of the driver are in the rows where it has a management interface, follow what is allocated, and are left out
// where it has none or an older one.
func TestUsage(t *testing.T) {
	j := under(t, target("gauge"))
	state := t.TempDir()
	libs := filepath.Join(build, "vnpu", "lib64")
	j.env = append(j.env, "VNPU_STATE_DIR="+state, "LD_LIBRARY_PATH="+libs)
	j.run().want(0).noComplaints()
	var last int64
	seen, pools := 0, 0
	for _, f := range columns(t, j) {
		m := usage.FindStringSubmatch(f[9])
		if m == nil || strings.Contains(f[9], "shadow:true") {
			continue
		}
		process, _ := strconv.ParseInt(m[1], 10, 64)
		device, _ := strconv.ParseInt(m[2], 10, 64)
		if process != device || process < last || process > 3*32<<20 {
			t.Errorf("row %q after %d bytes", f, last)
		}
		last = process
		seen++
		if f[2] == "PTA" {
			pools++
		}
	}
	// Of the blocks of 32 MiB each row shows those before it, or it as well.
	if seen < 4 || pools != 1 || last < 2*32<<20 {
		t.Errorf("%d rows with numbers, %d of the pool, %d bytes at last", seen, pools, last)
	}
	if left, _ := os.ReadDir(state); len(left) > 0 {
		t.Errorf("left in the state directory: %v", left)
	}
	j = under(t, target("gauge")).run().want(0).noComplaints()
	log := j.log()
	if strings.Count(log, "process_used and device_used are not collected: libdcmi.so cannot be loaded") != 1 {
		t.Errorf("the log does not say once why there are no numbers:\n%s", log)
	}
	for _, f := range columns(t, j) {
		if usage.MatchString(f[9]) {
			t.Errorf("row %q without DCMI", f)
		}
	}
}

// log is the log files of the run.
func (j *job) log() string {
	j.t.Helper()
	var all strings.Builder
	paths, _ := filepath.Glob(filepath.Join(j.out, "*", "msmemscope_logs", "*.log"))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			j.t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
