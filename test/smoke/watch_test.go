package smoke

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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

// toldDumps reads what test/targets/watch.c says is dumped: labels and the 16 digits of the checksum of a tensor of 100,000 bytes.
func toldDumps(t *testing.T, j *job) (rows []string) {
	t.Helper()
	for line := range strings.Lines(j.stdout.String()) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); f[0] == "DUMP" && len(f) == 3 {
			fill, _ := strconv.Atoi(f[2])
			sum := sha256.Sum256(bytes.Repeat([]byte{byte(fill)}, 100000))
			rows = append(rows, fmt.Sprintf("%s %x", f[1], sum[:8]))
		}
	}
	if len(rows) == 0 {
		t.Fatalf("the program tells nothing: %s", tail(j.stdout.String()))
	}
	return rows
}

// dumpedSums are the rows of all files with checksums.
func dumpedSums(t *testing.T, j *job) (rows []string) {
	t.Helper()
	for _, name := range watchFiles(t, j) {
		if !strings.HasSuffix(name, ".csv") {
			t.Errorf("file %s", name)
			continue
		}
		text, err := os.ReadFile(filepath.Join(j.out, "watch_dump", name))
		if err != nil {
			t.Fatal(err)
		}
		table, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		card := strings.Split(name, "_")[5]
		for _, f := range table[1:] {
			if !strings.HasPrefix(f[0], card+"_") {
				t.Errorf("%s is in %s", f[0], name)
			}
			rows = append(rows, f[0]+" "+f[1])
		}
	}
	return rows
}

func compareDumps(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("dump %d is missing: %s", i, want[i])
		case i >= len(want):
			t.Errorf("dump %d was not told: %s", i, got[i])
		case got[i] != want[i]:
			t.Errorf("dump %d:\n got %s\nwant %s", i, got[i], want[i])
		}
	}
}

// TestWatchKernels: what the program has registered is dumped before and after each kernel that the runtime launches, under the kernel's name, though that
// is known only when it has been launched.
func TestWatchKernels(t *testing.T) {
	for name, c := range map[string]struct {
		option string
		words  []string
		sorted bool // several threads, processes or cards
	}{
		"names":   {"--watch=,none", []string{"kernels"}, false},
		"window":  {"--watch=Fill0:0,Fill1", []string{"kernels", "Fill0"}, false},
		"threads": {"--watch=,none", []string{"threads", "25"}, true},
		"fork":    {"--watch=,none", []string{"fork"}, true},
		"pause":   {"--watch=,none", []string{"pause"}, false},
		"cards":   {"--watch=,none", []string{"cards"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := under(t, append([]string{"--level=kernel", c.option, target("watch")}, c.words...)...).run().want(0).noComplaints()
			got, want := dumpedSums(t, j), toldDumps(t, j)
			if c.sorted {
				slices.Sort(got)
				slices.Sort(want)
			}
			compareDumps(t, got, want)
		})
	}
}

// TestWatchKernelContents: the same as files; what is dumped ahead of a launch that fails leaves none.
func TestWatchKernelContents(t *testing.T) {
	j := under(t, "--level=kernel", "--watch=,none,full-content", target("watch"), "kernels").run().want(0).noComplaints()
	var got, want []string
	for _, name := range watchFiles(t, j) {
		text, err := os.ReadFile(filepath.Join(j.out, "watch_dump", name))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		got = append(got, fmt.Sprintf("%s %x", name, sum[:8]))
	}
	for _, row := range toldDumps(t, j) {
		label, sum, _ := strings.Cut(row, ".bin ")
		want = append(want, strings.ReplaceAll(strings.Replace(label, "/", "_", 1), "/", ".")+".bin "+sum)
	}
	slices.Sort(got)
	slices.Sort(want)
	compareDumps(t, got, want)
}

// TestWatchNothing: a run that dumps nothing says in one line what it lacks.
func TestWatchNothing(t *testing.T) {
	for name, c := range map[string]struct {
		words []string
		line  string
	}{
		"level op": {[]string{"--watch=MatMul,Nothing", target("kernels"), "ways"},
			`--watch has dumped nothing: no operator "MatMul" has ended while recording; kernels are watched with --level=kernel.`},
		"kernels write what is not known": {[]string{"--level=kernel", "--watch=MatMul,Nothing", target("kernels"), "ways"},
			`--watch has dumped nothing: "MatMul" is a kernel, what kernels write is not known, and the program has registered no tensor.`},
		"no tensor": {[]string{"--level=kernel", "--watch=,Nothing", target("kernels"), "ways"},
			"--watch has dumped nothing: the program has registered no tensor."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := under(t, c.words...).run().want(0)
			j.oneComplaint(c.line)
		})
	}
}

// TestWatchDiskFull: the dumps end with a line, the program runs on, and no torn file is left.
func TestWatchDiskFull(t *testing.T) {
	needRoot(t)
	j := under(t, "--level=kernel", "--watch=,none,full-content", target("watch"), "threads", "20")
	j.mount = "mkdir " + j.out + " && mount -t tmpfs -o size=2m,mode=755 none " + j.out
	j.words = append([]string{"sh", "-c", `"$@"; s=$?; ls -l "$OUT/watch_dump"; exit $s`, "sh"}, append([]string{tool, "--output-path=" + j.out}, j.words...)...)
	j.bare, j.env = true, []string{"OUT=" + j.out}
	j.run().want(0)
	if n := strings.Count(j.stdout.String()+j.stderr.String(), "no space left on device; no more are dumped"); n != 1 {
		t.Errorf("said %d times: %s", n, tail(j.stdout.String()+j.stderr.String()))
	}
	sizes := regexp.MustCompile(`(?m)^-\S+ +\d+ +\S+ +\S+ +(\d+) `).FindAllStringSubmatch(j.stdout.String(), -1)
	if len(sizes) < 3 {
		t.Errorf("%d files:\n%s", len(sizes), tail(j.stdout.String()))
	}
	for _, size := range sizes {
		if size[1] != "100000" {
			t.Errorf("a file of %s bytes", size[1])
		}
	}
}
