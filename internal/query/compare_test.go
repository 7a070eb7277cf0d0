package query

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const recorded = "../../../shared/data/ascend"

// compareRows runs compare and gives the rows of its file, headers checked and cut off.
func compareRows(t *testing.T, args ...string) [][]string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "results")
	res := ask(t, append(append([]string{"compare"}, args...), "--output-path", out)...)["result"]
	path := at(res, "output").(string)
	if m, _ := filepath.Glob(filepath.Join(out, "compare", "memory_compare_*.csv")); len(m) != 1 || m[0] != path {
		t.Fatalf("output %q, files %q", path, m)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	body, ok := strings.CutPrefix(string(text), ",,,Base,Compare\nEvent,Name,Device Id,Allocated Memory(byte),Allocated Memory(byte),Diff Memory(byte)\n")
	if !ok {
		t.Fatalf("wrong header: %.200s", text)
	}
	rows, err := csv.NewReader(strings.NewReader(body)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if n := at(res, "rows").(float64); int(n) != len(rows) {
		t.Errorf("%v rows told, %d written", n, len(rows))
	}
	return rows
}

func TestCompareRecorded(t *testing.T) {
	base, leaks := filepath.Join(recorded, "baseline.csv"), filepath.Join(recorded, "leaks.csv")
	if _, err := os.Stat(base); err != nil {
		t.Skip("no recorded dumps here: ", err)
	}
	rows := compareRows(t, base, leaks, "--level=op", "--allow-foreign-files")
	if len(rows) != 44 {
		t.Fatalf("%d rows, want 44", len(rows))
	}
	for i, r := range rows {
		only := r[1] == "torch._ops.aten.randn.default" || r[1] == "torch._ops.aten._to_copy.default"
		if r[0] != "OP_LAUNCH" || r[2] != "0" || (r[3] == "N/A") != only || r[4] == "N/A" {
			t.Errorf("row %d: %q", i, r)
		}
	}
	// By hand, from the MALLOC and FREE rows of PTA between an operator's rows on its thread: addmm takes 1536 and keeps
	// them; mse_loss takes 512 for its result and 16778240 for a while; ones_like 512; mse_loss_backward 1536; mm 512;
	// sum 512 and 1536 for a while. _to_copy takes 4000256 each time and is in the second dump only.
	for i, want := range []string{
		0:  "torch._ops.aten.t.default,0,0,0",
		1:  "torch._ops.aten.addmm.default,1536,1536,0",
		2:  "torch._ops.aten.mse_loss.default,512,512,0",
		3:  "torch._ops.profiler._record_function_enter_new.default,0,0,0",
		4:  "torch._ops.profiler._record_function_exit._RecordFunction,0,0,0",
		5:  "torch._ops.aten.ones_like.default,512,512,0",
		6:  "torch._ops.aten.mse_loss_backward.default,1536,1536,0",
		7:  "torch._ops.aten.t.default,0,0,0",
		8:  "torch._ops.aten.mm.default,512,512,0",
		9:  "torch._ops.aten.t.default,0,0,0",
		10: "torch._ops.aten.sum.dim_IntList,512,512,0",
	} {
		if got := strings.Join(slices.Delete(slices.Clone(rows[i][1:]), 1, 2), ","); got != want {
			t.Errorf("row %d is %s, want %s", i, got, want)
		}
	}
	copies := 0
	for _, r := range rows {
		if r[1] == "torch._ops.aten._to_copy.default" {
			copies++
			if got := strings.Join(r[3:], ","); got != "N/A,4000256,4000256" {
				t.Errorf("a _to_copy row says %s", got)
			}
		}
	}
	if copies != 2 {
		t.Errorf("%d _to_copy rows, want 2", copies)
	}
}

func TestCompareLevels(t *testing.T) {
	// launches.csv against itself without its second operator: see its rows.
	text, err := os.ReadFile("testdata/launches.csv")
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "11,") && !strings.HasPrefix(line, "13,") {
			kept = append(kept, line)
		}
	}
	other := filepath.Join(t.TempDir(), "other.csv")
	if err := os.WriteFile(other, []byte(strings.Join(kept, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		level string
		want  []string
	}{
		{"op", []string{"OP_LAUNCH,inner,0,-50,-50,0", "OP_LAUNCH,outer,0,50,50,0", "OP_LAUNCH,outer,0,20,N/A,-20"}},
		{"kernel", []string{"KERNEL_LAUNCH,kernel_a,0,157,157,0", "KERNEL_LAUNCH,kernel_b,0,-100,-100,0"}},
		{"op,kernel", []string{"KERNEL_LAUNCH,kernel_a,0,157,157,0", "OP_LAUNCH,inner,0,-50,-50,0", "OP_LAUNCH,outer,0,50,50,0", "KERNEL_LAUNCH,kernel_b,0,-100,-100,0", "OP_LAUNCH,outer,0,20,N/A,-20"}},
	} {
		var got []string
		for _, r := range compareRows(t, "testdata/launches.csv", other, "--level", c.level) {
			got = append(got, strings.Join(r, ","))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("level %s:\n got %q\nwant %q", c.level, got, c.want)
		}
	}
}

func TestCompareDirectories(t *testing.T) {
	text, err := os.ReadFile("testdata/launches.csv")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, path := range []string{"msmemscope_1_5_ascend/device_0/dump/memscope_dump_5.csv", "msmemscope_1_5_ascend/device_0/dump/memscope_dump_4.csv"} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, "4.csv") {
			text = text[:len(text)/2] // an older dump of the card, which must not count
		}
		if err := os.WriteFile(path, text, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	rows := compareRows(t, dir, "testdata/launches.csv")
	for _, r := range rows {
		if r[5] != "0" || r[3] == "N/A" || r[4] == "N/A" {
			t.Errorf("the same dump differs: %q", r)
		}
	}
	if len(rows) != 3 {
		t.Errorf("%d rows, want 3", len(rows))
	}
}
