package smoke

import (
	"slices"
	"strings"
	"testing"
)

// TestHealthy: runs with nothing wrong in them, everything recorded, warn of nothing, on the terminal or in the log (contract 9, row 64).
func TestHealthy(t *testing.T) {
	options := []string{"--device=npu,cpu", "--events=alloc,free,launch,access", "--level=op,kernel", "--analysis=leaks,decompose,inefficient,oom",
		"--call-stack=c:10,python:10"}
	for name, words := range map[string][]string{
		"C":       {example("train"), "--leak-bytes", "0"},
		"Python":  {"python3", example("train.py"), "--leak-bytes", "0"},
		"kernels": {target("kernels"), "ways", "3"},
		"pools":   {target("pools")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := under(t, append(append([]string{}, options...), words...)...)
			j.env = []string{"VNPU_STATE_DIR=" + t.TempDir(), "LD_LIBRARY_PATH=" + build + "/vnpu/lib64", "PYTHONPATH=" + build + "/python"}
			j.run().want(0).noComplaints()
			j.noWarnings()
		})
	}
}

// TestQuietLog: a hundred times the events, not a line more in the log.
func TestQuietLog(t *testing.T) {
	lines := func(events string) int {
		j := under(t, "--call-stack=c:3", example("storm"), "--threads", "1", "--events", events).run().want(0).noComplaints()
		return strings.Count(j.log(), "\n")
	}
	if few, many := lines("1000"), lines("100000"); few != many || few < 2 {
		t.Errorf("%d lines after 1000 events, %d after 100000", few, many)
	}
}

// TestSystemRows: the rows of a process's own life, which belong to no card.
func TestSystemRows(t *testing.T) {
	j := under(t, target("older"), build+"/vnpu/lib64/libms_tools_ext.so", "told").run().want(0).noComplaints()
	var got []string
	for _, f := range columns(t, j) {
		if f[1] == "SYSTEM" {
			got = append(got, strings.Join(append(f[2:4:4], f[7:]...), " "))
		}
	}
	want := []string{"ACL_INIT N/A N/A N/A   ", "ACL_FINI N/A N/A N/A   "}
	if !slices.Equal(got, want) {
		t.Errorf("SYSTEM rows %q, not %q", got, want)
	}
}
