package smoke

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// TestOOM: what asked for too much, the youngest and the largest blocks, and the pool at that moment and later; with a list of visible
// cards that turns their numbers around.
func TestOOM(t *testing.T) {
	j := under(t, "--analysis=oom:3", target("oom"))
	j.env = append(j.env, "VNPU_HBM_BYTES=64M", "ASCEND_RT_VISIBLE_DEVICES=1,0")
	j.run().want(0).noComplaints()
	told := regexp.MustCompile(`device 1: memory ran out, 2 request\(s\) of process (\d+) were refused; .(msmemscope dump oom --pid=\d+ \S+). tells`).FindStringSubmatch(j.stdout.String())
	if told == nil || told[2] != fmt.Sprintf("msmemscope dump oom --pid=%s %s", told[1], j.out) {
		t.Errorf("the report says %q\n%s", told, j.stdout.String())
	}
	var want, got []string
	for line := range strings.Lines(j.stdout.String()) {
		if word, attr, ok := strings.Cut(strings.TrimSpace(line), " "); ok && (word == "TRIGGER" || word == "RECENT" || word == "TOP") {
			want = append(want, word+" "+attr)
		}
	}
	if len(want) != 8 {
		t.Fatalf("told %q", want)
	}
	words := map[string]string{"OOM_TRIGGER": "TRIGGER", "OOM_RECENT_ALLOC": "RECENT", "OOM_TOP_ALLOC": "TOP"}
	var snapshots []string
	for _, f := range columns(t, j) {
		switch f[1] {
		case "OOM_DETAIL":
			attr, _, _ := strings.Cut(strings.Trim(f[9], "{}"), ",timestamp:")
			got = append(got, words[f[2]]+" "+attr)
			if f[7] != "1" || f[8] != "N/A" {
				t.Errorf("row %q", f)
			}
		case "SNAPSHOT":
			snapshots = append(snapshots, f[3]+" "+f[7]+" "+strings.Trim(f[9], "{}"))
		}
	}
	want = []string{want[0], want[2], want[3], want[4], want[5], want[6], want[7], want[1]} // the second call comes within 2 s
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	const state = "OOM_Snapshot 1 reserved:41943040,peak_reserved:41943040,allocated:10485760,peak_allocated:10485760,pt_utilization:0.250000"
	if len(snapshots) != 3 || snapshots[0] != state || snapshots[2] != state {
		t.Errorf("snapshots %q", snapshots)
	}
}
