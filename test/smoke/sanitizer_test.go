package smoke

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// checked is a run of mssanitizer that has ended.
type checked struct {
	stdout, stderr string
	status         int
}

// sanitize runs mssanitizer in an empty directory, which must stay empty but for the files that are named.
func sanitize(t *testing.T, words []string, files ...string) checked {
	t.Helper()
	cmd := exec.Command(filepath.Join(build, "bin", "mssanitizer"), words...)
	cmd.Dir = t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(cmd.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.Contains(" "+strings.Join(files, " ")+" ", " "+e.Name()+" ") {
			t.Errorf("%v has made %s", words, e.Name())
		}
	}
	c := checked{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(cmd.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		c.stderr += string(text)
	}
	return c
}

// leaked is a block as a target tells it, or as the report should.
type leaked struct {
	bytes          int64
	address, space string
	place          string
}

// report is the text of contract 8.
func report(leaks ...leaked) string {
	text := "====== ERROR: LeakCheck: detected memory leaks\n\n"
	var sum int64
	for _, l := range leaks {
		text += fmt.Sprintf("======    Direct leak of %d byte(s) \n======      at %s on %s allocated in %s (serialNo:0)\n\n", l.bytes, l.address, l.space, l.place)
		sum += l.bytes
	}
	return text + fmt.Sprintf("====== SUMMARY: %d byte(s) leaked in %d allocation(s)\n", sum, len(leaks))
}

var anyAddress = regexp.MustCompile(`\bat 0x[1-9a-f][0-9a-f]* on`)

// normal is a report without its addresses.
func normal(text string) string { return anyAddress.ReplaceAllString(text, "at ADDRESS on") }

// compile builds C or C++ with the header and library of mssanitizer.
func compile(t *testing.T, compiler, source string, flags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	tools, vnpu := filepath.Join(build, "tools", "mssanitizer"), filepath.Join(build, "vnpu", "lib64")
	words := append([]string{"-Wall", "-Wextra", "-Werror", "-pedantic", "-o", program, "-I" + filepath.Join(tools, "include"),
		"-I" + filepath.Join(root, "vnpu", "include")}, flags...)
	cmd := exec.Command(compiler, append(words, filepath.Base(source),
		"-L"+vnpu, "-lascendcl", "-L"+filepath.Join(tools, "lib64"), "-lascend_acl_hook",
		"-Wl,-rpath,"+vnpu+":"+filepath.Join(tools, "lib64"), "-Wl,-rpath-link,"+vnpu)...)
	cmd.Dir = filepath.Dir(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return program
}

// The three steps of seed 001.
func TestSanitizerSteps(t *testing.T) {
	t.Parallel()
	again := compile(t, "g++", filepath.Join(root, "examples", "add_custom_npu", "main.cpp"), "-Wno-variadic-macros")
	for _, step := range []struct {
		option, program string
		bytes           int64
		place           string
	}{
		{"--check-device-heap=yes", example("add_custom_npu"), 32800, "<unknown>:0"},
		{"--check-cann-heap=yes", example("add_custom_npu"), 32768, "<unknown>:0"},
		{"--check-cann-heap=yes", again, 32768, "main.cpp:55"},
	} {
		c := sanitize(t, []string{step.option, "--leak-check=yes", step.program})
		want := report(leaked{step.bytes, "ADDRESS", "GM", step.place})
		if got := normal(c.stderr); got != want || c.stdout != "" || c.status != 0 {
			t.Errorf("%s: status %d, stdout %q, stderr:\n%s\nwant:\n%s", step.option, c.status, c.stdout, got, want)
		}
		if c := sanitize(t, []string{step.option, "--leak-check=yes", "--", step.program, "fixed"}); c != (checked{}) {
			t.Errorf("%s fixed: %+v, want nothing", step.option, c)
		}
	}
	// Without mssanitizer it is the same program.
	if out, err := exec.Command(again).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("alone: %v, %q", err, out)
	}
}

// What is right and wrong with memory: the target tells what it leaves behind, with addresses and lines.
func TestSanitizerScenarios(t *testing.T) {
	t.Parallel()
	for _, scenario := range []string{"clean", "twice", "unknown", "thread", "grow", "kinds", "devices", "mapped", "child"} {
		for _, heap := range []string{"cann", "device"} {
			c := sanitize(t, []string{"--check-" + heap + "-heap=yes", "--leak-check=yes", target("aclheap"), scenario})
			var leaks []leaked
			for line := range strings.Lines(c.stdout) {
				var l leaked
				var number int
				if _, err := fmt.Sscanf(line, "LEAK\t%d\t%s\t%s\t%d\n", &l.bytes, &l.address, &l.space, &number); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				l.place = fmt.Sprintf("test/targets/aclheap.c:%d", number)
				leaks = append(leaks, l)
			}
			want := ""
			if len(leaks) > 0 {
				want = report(leaks...)
			}
			got := c.stderr
			if scenario == "child" {
				var pid int
				var rest string
				if _, err := fmt.Sscanf(got, "====== Process %d (aclheap)\n", &pid); err != nil {
					t.Errorf("%s: no line names the child:\n%s", heap, got)
				}
				_, rest, _ = strings.Cut(got, "\n")
				got = rest
			}
			if heap == "device" { // sizes are those that the driver sees
				sizes := regexp.MustCompile(`\d+ byte\(s\)`)
				got, want = sizes.ReplaceAllString(got, "N byte(s)"), sizes.ReplaceAllString(want, "N byte(s)")
			}
			if got != want || c.status != 7 {
				t.Errorf("%s, %s: status %d, report:\n%s\nwant:\n%s", scenario, heap, c.status, c.stderr, want)
			}
		}
	}
}

// File and line by the header alone: no debug information.
func TestSanitizerPlaces(t *testing.T) {
	t.Parallel()
	source := filepath.Join(root, "test", "smoke", "testdata", "places.c")
	for _, c := range []struct {
		compiler string
		flags    []string
		calls    int
	}{
		{"gcc", []string{"-std=c11"}, 5},
		{"g++", []string{"-std=c++11", "-x", "c++"}, 8},
	} {
		program := compile(t, c.compiler, source, c.flags...)
		got := sanitize(t, []string{"--check-cann-heap=yes", program})
		var want []leaked
		for _, found := range regexp.MustCompile(`leak of (\d+) byte`).FindAllStringSubmatch(got.stderr, -1) {
			l := leaked{address: "ADDRESS", space: "GM", place: "places.c:" + found[1]}
			l.bytes, _ = strconv.ParseInt(found[1], 10, 64)
			if l.bytes == 1 {
				l.place = "<unknown>:0"
			}
			want = append(want, l)
		}
		text := strings.ReplaceAll(normal(got.stderr), "on HOST", "on GM")
		if text != report(want...) || len(want) != c.calls+1 || got.status != 0 {
			t.Errorf("%s: status %d:\n%s\nwant:\n%s", c.compiler, got.status, text, report(want...))
		}
		if out, err := exec.Command(program).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s, alone: %v, %q", c.compiler, err, out)
		}
	}
}

func TestSanitizerOptions(t *testing.T) {
	t.Parallel()
	kinds := []string{target("aclheap"), "kinds"}
	run := func(options ...string) checked {
		return sanitize(t, append(append([]string{"--check-cann-heap=yes"}, options...), kinds...))
	}
	if c := run("--error-exitcode=66"); c.status != 66 {
		t.Errorf("--error-exitcode: status %d", c.status)
	}
	if c := sanitize(t, []string{"--check-cann-heap=yes", "--error-exitcode=66", target("aclheap"), "clean"}); c != (checked{status: 7}) {
		t.Errorf("--error-exitcode and no leak: %+v", c)
	}
	if c := run("--leak-check=no", "--error-exitcode=66"); c.stderr != "" || c.status != 7 {
		t.Errorf("--leak-check=no: %+v", c)
	}
	plain := run()
	logged := sanitize(t, append([]string{"--check-cann-heap=yes", "--log-file=log"}, kinds...), "log")
	if normal(logged.stderr) != normal(plain.stderr) || logged.status != 7 {
		t.Errorf("--log-file: status %d, text:\n%s", logged.status, logged.stderr)
	}

	rules := filepath.Join(t.TempDir(), "rules")
	for _, c := range []struct {
		rules string
		left  []int64
	}{
		{"# nothing\n\n", []int64{101, 102, 103, 104, 105, 106, 107}},
		{"file:aclheap.c\n", nil},
		{"file:targets/*.c", nil},
		{"file:heap.c", []int64{101, 102, 103, 104, 105, 106, 107}},
		{"line:aclheap.c:" + lineOf(t, plain.stdout, 103) + "\nline:aclheap.c:" + lineOf(t, plain.stdout, 106), []int64{101, 102, 104, 105, 107}},
		{"function:kin*", nil},
		{"function:main", nil},
		{"function:run", []int64{101, 102, 103, 104, 105, 106, 107}},
	} {
		if err := os.WriteFile(rules, []byte(c.rules), 0o600); err != nil {
			t.Fatal(err)
		}
		got := run("--json", "--suppressions="+rules, "--error-exitcode=66")
		var found struct {
			Heap      string
			Leaked    struct{ Allocations, Bytes int64 }
			Processes []struct {
				Suppressed struct{ Allocations int }
				Leaks      []struct {
					Bytes          int64
					Address, Space string
					Device, Line   int
					File, Function string
					Stack          []string
				}
			}
		}
		if err := json.Unmarshal([]byte(got.stderr), &found); err != nil || len(found.Processes) != 1 {
			t.Fatalf("%q: %v\n%s", c.rules, err, got.stderr)
		}
		p := found.Processes[0]
		var left []int64
		for _, l := range p.Leaks {
			left = append(left, l.Bytes)
			if !strings.HasSuffix(l.File, "aclheap.c") || fmt.Sprint(l.Line) != lineOf(t, got.stdout, l.Bytes) || l.Function != "kinds" ||
				l.Stack[len(l.Stack)-1] != "main" || l.Space == "GM" && l.Device != 0 {
				t.Errorf("%q: %+v", c.rules, l)
			}
		}
		if fmt.Sprint(left) != fmt.Sprint(c.left) || p.Suppressed.Allocations != 7-len(left) || found.Heap != "cann" {
			t.Errorf("%q leaves %v, want %v: %s", c.rules, left, c.left, got.stderr)
		}
		if want := map[bool]int{true: 66, false: 7}[len(left) > 0]; got.status != want {
			t.Errorf("%q: status %d, want %d", c.rules, got.status, want)
		}
	}
}

// lineOf is the line of the block of so many bytes, as the target tells it.
func lineOf(t *testing.T, stdout string, bytes int64) string {
	t.Helper()
	found := regexp.MustCompile(fmt.Sprintf(`LEAK\t%d\t\S+\t\S+\t(\d+)\n`, bytes)).FindStringSubmatch(stdout)
	if found == nil {
		t.Fatalf("no block of %d bytes in %q", bytes, stdout)
	}
	return found[1]
}

// The launcher of mssanitizer is that of msmemscope: the target's status, signals, environment.
func TestSanitizerIsTransparent(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]checked{
		"exit 3":                 {status: 3},
		"kill -9 $$":             {status: 128 + 9},
		"echo out; echo err >&2": {stdout: "out\n", stderr: "err\n"},
	} {
		if got := sanitize(t, []string{"--check-cann-heap=yes", "--", "sh", "-c", script}); got != want {
			t.Errorf("%q: %+v, want %+v", script, got, want)
		}
	}
	cmd := exec.Command(filepath.Join(build, "bin", "mssanitizer"), "--check-device-heap=yes", target("waiter"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Errorf("the target says %q", lines.Text())
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	for lines.Scan() {
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 40+15 { // as the target says
		t.Errorf("SIGTERM: %v", cmd.ProcessState)
	}
}

func TestSanitizerRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		words, says string
		status      int
	}{
		{"--leak-check=yes true", "there is nothing to check; accepted: --check-device-heap=yes or --check-cann-heap=yes", 2},
		{"--check-device-heap=yes --check-cann-heap=yes true", "exclude each other", 2},
		{"--check-device-heap=maybe true", `--check-device-heap: "maybe": yes or no is accepted`, 2},
		{"--check-device-heap=yes", "there is no program", 2},
		{"--check-cann-heap=yes --error-exitcode=256 true", `"256": a number from 1 to 255 is accepted`, 2},
		{"--check-cann-heap=yes --tool=racecheck true", `"racecheck" is not here; accepted: memcheck`, 2},
		{"--check-cann-heap=yes --unused true", `"--unused" is no option of mssanitizer`, 2},
		{"--check-cann-heap=yes --suppressions=/nowhere/rules true", "/nowhere/rules: no such file", 2},
		{"--check-cann-heap=yes --suppressions=/etc/hostname true", "accepted: file:PATTERN, line:PATTERN:NUMBER, function:PATTERN", 2},
		{"--check-cann-heap=yes --log-file=/nowhere/log true", "--log-file: open /nowhere/log", 2},
		{"--check-cann-heap=yes ./nothing", "cannot run ./nothing: no such file", 127},
	} {
		got := sanitize(t, strings.Fields(c.words))
		if !strings.Contains(got.stderr, "[mssanitizer] Error: ") || !strings.Contains(got.stderr, c.says) || got.status != c.status || got.stdout != "" {
			t.Errorf("%s: %+v, want %q, status %d", c.words, got, c.says, c.status)
		}
	}
}
