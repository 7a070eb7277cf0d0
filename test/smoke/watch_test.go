package smoke

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dumped is a dump that the model of test/targets/atb.cpp leads to: what its label says behind the process, and the byte that
// fills the tensor of 1024 bytes.
type dumped struct {
	label string
	fill  byte
}

// From the end of step 1's second operator to that of its fourth.
var window = []dumped{
	{"/1/1_RmsNormOperation_1-1/1_RmsNormOperation_0_after.bin", 17},
	{"/1/2_LinearOperation_1-1/1_RmsNormOperation_0_before.bin", 17},
	{"/1/2_LinearOperation_1-1/1_RmsNormOperation_0_after.bin", 18},
	{"/1/3_RopeOperation_1-1/1_RmsNormOperation_0_before.bin", 18},
	{"/1/3_RopeOperation_1-1/1_RmsNormOperation_0_after.bin", 19},
}

func contents(fill byte) []byte { return bytes.Repeat([]byte{fill}, 1024) }

// watchFiles are the names in the watch directory of a run.
func watchFiles(t *testing.T, j *job) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(j.out, "watch_dump"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestWatch: checksums of what a window of operators does to a tensor, and its contents.
func TestWatch(t *testing.T) {
	for _, abi := range atbABIs {
		j := under(t, "--watch=1/1_RmsNormOperation:out0,1/3_RopeOperation", target("atb_"+abi), "3").run().want(0).noComplaints()
		names := watchFiles(t, j)
		if len(names) != 1 || !regexp.MustCompile(`^watch_dump_data_check_sum_0_\d{14}\.csv$`).MatchString(names[0]) {
			t.Fatalf("files %v", names)
		}
		text, err := os.ReadFile(filepath.Join(j.out, "watch_dump", names[0]))
		if err != nil {
			t.Fatal(err)
		}
		got := regexp.MustCompile(`(?m)^0_\d+`).ReplaceAllString(string(text), "")
		want := "Tensor info,Check data sum\n"
		for _, d := range window {
			sum := sha256.Sum256(contents(d.fill))
			want += fmt.Sprintf("%s,%x\n", d.label, sum[:8])
		}
		if got != want {
			t.Errorf("%s: checksums\n%swant\n%s", abi, got, want)
		}

		j = under(t, "--watch=1/1_RmsNormOperation,1/3_RopeOperation,full-content", target("atb_"+abi), "3").run().want(0).noComplaints()
		names = watchFiles(t, j)
		if len(names) != len(window) {
			t.Errorf("files %v", names)
		}
		for _, d := range window {
			name := "_" + strings.ReplaceAll(d.label[1:], "/", ".")
			i := slices.IndexFunc(names, regexp.MustCompile(`^0_\d+`+regexp.QuoteMeta(name)+"$").MatchString)
			if i < 0 {
				t.Errorf("%s is missing among %v", name, names)
			} else if b, err := os.ReadFile(filepath.Join(j.out, "watch_dump", names[i])); err != nil || !bytes.Equal(b, contents(d.fill)) {
				t.Errorf("%s holds %d bytes of %v, %v", names[i], len(b), b[:1], err)
			}
		}
	}
}

// TestWatchBound: at the bound of what may be written the dumps end, with a line, and the program runs on.
func TestWatchBound(t *testing.T) {
	j := under(t, "--watch=0/1_RmsNormOperation,no such operator,full-content", target("atb_cxx_abi_1"), "3")
	j.env = []string{"MSMEMSCOPE_WATCH_BYTES=3000"}
	j.run().want(0)
	if names := watchFiles(t, j); len(names) != 2 {
		t.Errorf("files %v", names)
	}
	if n := strings.Count(j.stdout.String()+j.stderr.String(), "MSMEMSCOPE_WATCH_BYTES); no more are dumped"); n != 1 {
		t.Errorf("said %d times: %s%s", n, j.stdout.String(), j.stderr.String())
	}
}
