package query

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"memscope/internal/dump/read"
)

// asked is a command line of a question for a file, without what would write beside it.
func asked(q *question, file string) []string {
	args := []string{q.name, file}
	switch q.name {
	case "at":
		args = []string{q.name, "5", file}
	case "window":
		args = []string{q.name, "1", "9", file}
	case "compare":
		args = append(args, file, "--output-path", filepath.Dir(file))
	case "convert":
		args = append(args, "--overwrite", "--output", file+".db")
	case "sort":
		args = append(args, "--output", file+".sorted")
	case "check-leaks":
		args = append(args, "--mstx-info", "m")
	}
	return args
}

// FuzzQuestions: whatever a file holds, a question is answered or refused in a line. Those that write files are left out:
// they wait for the disk, and SQLite is too slow with the fuzzer's counters in it.
func FuzzQuestions(f *testing.F) {
	questions := slices.DeleteFunc(slices.Clone(questions), func(q *question) bool {
		return q == convertQuestion || q == sortQuestion || q == inefficientQuestion || q == compareQuestion
	})
	samples, err := filepath.Glob("testdata/*.csv")
	if err != nil || samples == nil {
		f.Fatal("no samples: ", err)
	}
	for i, path := range samples {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for k := range questions {
			if k%len(samples) == i {
				f.Add(uint8(k), content)
			}
		}
	}
	path := filepath.Join(f.TempDir(), "memscope_dump_1.csv")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the files are small: waking threads would take most of the time
	f.Fuzz(func(t *testing.T, k uint8, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		q := questions[int(k)%len(questions)]
		var stdout, stderr bytes.Buffer
		status := Main(asked(q, path), &stdout, &stderr)
		switch said := stderr.String(); {
		case status == statusUsage:
			t.Fatalf("%s was not understood: %s", q.name, said)
		case status == statusFailure && stdout.Len() == 0 && strings.TrimSpace(said) == "":
			t.Fatalf("%s failed without a word", q.name)
		}
	})
}

// TestMemoryOfHostileFiles: no question takes more than 64 MB for a file of one.
func TestMemoryOfHostileFiles(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("needs Linux: ", err)
	}
	for name, line := range map[string]string{
		"blocks": "#,MALLOC,HAL,N/A,#,#,12,3,0x#,\"{allocation_id:#,size:5,used:#,owner:#}\",#,\n",
		"names":  "#,OP_LAUNCH,ATEN_START,op#,#,#,#,#,N/A,,,\n",
		"ends":   "#,KERNEL_LAUNCH,KERNEL_LAUNCH,op#,#,1,#,#,N/A,,,\n",
		"ooms":   "#,OOM_DETAIL,OOM_TRIGGER,N/A,#,1,1,#,N/A,\"{func:f,req_size:1}\",,\n",
		"marks":  "#,MSTX,Mark,\"m\",#,1,1,0,N/A,,,\n",
		"access": "#,ACCESS,READ,op,#,#,12,3,0x1#,\"{allocation_id:#,size:5,type:PTA}\",,\n",
		"lines":  "\n",
		"quotes": "\"",
		"commas": ",",
		"stack":  "1,MALLOC,PTA,N/A,5,1,1,0,0x1,{size:1},\"" + strings.Repeat("f(1): g\n", 1<<16) + "\",\n",
	} {
		path := filepath.Join(t.TempDir(), "memscope_dump_1.csv")
		text := []byte(read.Header + "\n")
		for i := 1; len(text) < 1<<20; i++ {
			text = append(text, strings.ReplaceAll(line, "#", strconv.Itoa(i))...)
		}
		for _, q := range questions {
			if !strings.Contains(line, "#") && q != statsQuestion && q != diagnoseQuestion {
				continue // no rows: every question sees the same
			}
			if err := os.WriteFile(path, text, 0o600); err != nil { // one of them writes into its input
				t.Fatal(err)
			}
			args := append([]string{"-"}, asked(q, path)...)
			cmd := exec.Command(os.Args[0], args...)
			cmd.Env = append(os.Environ(), "MEMSCOPE_TEST_AS_PROGRAM=1", "MEMSCOPE_TEST_MEMORY=1")
			out, _ := cmd.CombinedOutput() // some files are refused
			peak := regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(out)
			if peak == nil {
				t.Fatalf("%s of %s: %.300s", q.name, name, out)
			}
			if kib, _ := strconv.Atoi(string(peak[1])); kib > 64<<10 {
				t.Errorf("%s of %s takes %d MiB for 1 MiB", q.name, name, kib>>10)
			}
		}
	}
}
