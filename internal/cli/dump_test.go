package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memscope/internal/dump/csvfile"
)

func TestRecover(t *testing.T) {
	if r := call(t, "dump", "recover", "dir"); r.status != 0 || r.recovered != "dir" || r.forced || r.stdout != "recovered\n" {
		t.Errorf("%+v", r)
	}
	if r := call(t, "dump", "recover", "--", "-dir"); r.recovered != "-dir" {
		t.Errorf("%+v", r)
	}
	for _, words := range [][]string{{"--force", "dir"}, {"--force", "--", "dir"}} {
		if r := call(t, append([]string{"dump", "recover"}, words...)...); r.recovered != "dir" || !r.forced {
			t.Errorf("%q: %+v", words, r)
		}
	}
	r := call(t, "dump", "recover", "broken")
	if r.status != 1 || r.stderr != "[msmemscope] Error: broken: no spool here\n" {
		t.Errorf("%+v", r)
	}
}

func TestWrongDumpLines(t *testing.T) {
	for line, want := range map[string]string{
		"dump":                 "dump needs a question",
		"dump foo":             `dump does not know the question "foo"`,
		"dump foo --help":      `dump does not know the question "foo"`,
		"dump help foo":        `dump does not know the question "foo"`,
		"dump --json":          `dump does not know the question "--json"`,
		"dump recover":         "dump recover takes one directory, but has 0 words",
		"dump recover a b":     "dump recover takes one directory, but has 2 words",
		"dump recover --force": "dump recover takes one directory, but has 0 words",
		"dump recover -q":      "dump recover has no option -q; put -- before a directory of that name",
		"dump recover --":      "dump recover takes one directory, but has 0 words",
		"dump recover -- a b":  "dump recover takes one directory, but has 2 words",
	} {
		r := call(t, strings.Fields(line)...)
		if r.status != 2 || r.stdout != "" || r.stderr != dumpUsage+"[msmemscope] Error: "+want+"\n" || r.config != nil || r.recovered != "" {
			t.Errorf("%s: %+v", line, r)
		}
	}
}

func TestDumpHelp(t *testing.T) {
	for line, wants := range map[string][]string{
		"dump --help":         {"dump QUESTION", "stats", "compare", "recover DIRECTORY", "./dump"},
		"dump -h":             {"dump QUESTION", "recover DIRECTORY"},
		"dump help":           {"dump QUESTION", "recover DIRECTORY"},
		"dump recover --help": {"dump recover [--force] <directory>", "output directory"},
		"dump recover -h x":   {"dump recover [--force] <directory>"},
		"dump help recover":   {"dump recover [--force] <directory>"},
		"dump stats --help":   {"msmemscope dump stats"},
		"dump help stats":     {"msmemscope dump stats"},
		"-h dump":             {"Collection:"},
	} {
		r := call(t, strings.Fields(line)...)
		if r.status != 0 || r.stderr != "" || r.recovered != "" {
			t.Errorf("%s: status %d, stderr %q", line, r.status, r.stderr)
		}
		for _, want := range wants {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("%s: no %q in\n%s", line, want, r.stdout)
			}
		}
	}
}

// A program that is called dump can be run.
func TestProgramDump(t *testing.T) {
	for _, line := range []string{"./dump stats", "-- dump stats", "-q -- dump recover x"} {
		r := call(t, strings.Fields(line)...)
		if r.status != 42 || strings.TrimPrefix(r.program[0], "./") != "dump" || len(r.program) < 2 || r.recovered != "" {
			t.Errorf("%s: %+v", line, r)
		}
	}
}

// dumps writes two dumps with one operator each, which allocates 512 bytes more in the second.
func dumps(t *testing.T) (base, other string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, size string) string {
		path := filepath.Join(dir, name)
		text := csvfile.Header + "\n" +
			"0,OP_LAUNCH,ATEN_START,mul,1,7,8,0,N/A,,,\n" +
			`1,MALLOC,PTA,N/A,2,7,8,0,0x0000000000001000,"{allocation_id:1,addr:0x0000000000001000,size:` + size + `,used:` + size + `,total:4096}",,` + "\n" +
			"2,KERNEL_LAUNCH,KERNEL_LAUNCH,MulKernel,3,7,8,0,N/A,,,\n" +
			"3,OP_LAUNCH,ATEN_END,mul,4,7,8,0,N/A,,,\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("memscope_dump_20260101000000.csv", "512"), write("memscope_dump_20260101000001.csv", "1024")
}

func TestCompare(t *testing.T) {
	base, other := dumps(t)
	for _, c := range []struct {
		words  []string
		rows   []string
		stderr string
	}{
		{[]string{"--input-path=" + base + "," + other}, []string{"OP_LAUNCH,mul,0,512,1024,512"}, ""},
		{[]string{"-i", base + "，" + other, "--level=kernel"}, []string{"KERNEL_LAUNCH,MulKernel,0,512,1024,512"}, ""},
		{[]string{"-i" + base, "--input-path", " " + other, "--level", "kernel,op"},
			[]string{"KERNEL_LAUNCH,MulKernel,0,512,1024,512", "OP_LAUNCH,mul,0,512,1024,512"}, ""},
		{[]string{"--input=" + base + "," + other, "--level=0"}, []string{"OP_LAUNCH,mul,0,512,1024,512"},
			"[msmemscope] Warn: --input is deprecated, please write --input-path\n[msmemscope] Warn: --level=0 is deprecated, please write --level=op\n"},
		{[]string{"-i", base + "," + other, "--level=1"}, []string{"KERNEL_LAUNCH,MulKernel,0,512,1024,512"},
			"[msmemscope] Warn: --level=1 is deprecated, please write --level=kernel\n"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		r := call(t, append(append([]string{"--compare"}, c.words...), "-o", out)...)
		if r.status != 0 || r.stderr != c.stderr || r.config != nil {
			t.Errorf("%q: %+v", c.words, r)
		}
		files, _ := filepath.Glob(filepath.Join(out, "compare", "memory_compare_*.csv"))
		if len(files) != 1 || !strings.Contains(r.stdout, files[0]) {
			t.Errorf("%q: files %q, stdout %q", c.words, files, r.stdout)
			continue
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Split(strings.TrimSpace(string(text)), "\n")[2:]; strings.Join(got, "\n") != strings.Join(c.rows, "\n") {
			t.Errorf("%q: rows %q, want %q", c.words, got, c.rows)
		}
	}
}

func TestCompareFails(t *testing.T) {
	base, _ := dumps(t)
	file := filepath.Join(t.TempDir(), "file")
	empty := filepath.Join(filepath.Dir(base), "empty.csv")
	for path, text := range map[string]string{file: "", empty: csvfile.Header + "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := call(t, "--compare", "-i", base+",/no/such.csv", "-o", t.TempDir())
	if r.status != 1 || r.stdout != "" || !strings.Contains(r.stderr, "/no/such.csv") ||
		!strings.HasSuffix(r.stderr, "\n[msmemscope] ERROR: Memory comparison failed!\n") {
		t.Errorf("%+v", r)
	}
	r = call(t, "--compare", "-i", empty+","+empty, "-o", t.TempDir())
	if r.status != 1 || r.stderr != "[msmemscope] Error: neither dump has a launch of the level, there is nothing to compare; record both with "+
		"--events=alloc,free,launch and the --level that is compared, or ask each with `msmemscope dump peak`\n"+
		"[msmemscope] ERROR: Memory comparison failed!\n" {
		t.Errorf("%+v", r)
	}
	r = call(t, "--compare", "-i", base+","+base, "-o", file)
	if r.status != 1 || r.stderr != `[msmemscope] Error: the output path "`+file+`" is not a directory`+"\n" {
		t.Errorf("%+v", r)
	}
}
