package smoke

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every wrong word of a command line gives a short usage, then one line that names the option, the value and, where there is
// a list of them, what is accepted; status 2; and nothing is run (contract 1.3).
func TestBadInput(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, c := range []struct {
		words string
		names string // words that the line must have
	}{
		{"", "program"},
		{"--", "program"},
		{"--no-such-option PROG", "no-such-option"},
		{"-z PROG", "z"},
		{"--events", "events"},
		{"--events=alloc,frei PROG", "events frei alloc"},
		{"--events=none,alloc PROG", "events none"},
		{"--events=traceback PROG", "events traceback"},
		{"--analysis=leak PROG", "analysis leak leaks"},
		{"--analysis=none,leaks PROG", "analysis none"},
		{"--analysis=oom:0 PROG", "analysis oom:0"},
		{"--analysis=host-leaks,leaks PROG", "analysis host-leaks leaks"},
		{"--host-leak-mode=event PROG", "host-leak-mode host-leaks"},
		{"--analysis=exec:/nowhere/x PROG", "analysis exec /nowhere/x"},
		{"--device= PROG", "device npu"},
		{"--device=npu:32 PROG", "device npu:32 0-31"},
		{"--device=npu:xx PROG", "device npu:xx"},
		{"--device=gpu PROG", "device gpu npu"},
		{"--collect-mode=later PROG", "collect-mode later immediate deferred"},
		{"--format=xml PROG", "format xml csv"},
		{"--log-level=loud PROG", "log-level loud debug"},
		{"--level=2 PROG", "level 2"},
		{"--watch=a, PROG", "watch"},
		{"--pid=one", "pid"},
		{"--pid=1 PROG", "pid"},
		{"--command=stop", "command pid"},
		{"--compare", "compare"},
		{"--input-path=a,b PROG", "input-path"},
		{"--help=yes", "help"},
		{"--output-path= PROG", "output-path"},
		{"--output-path=/ PROG", "output-path"},
		{"--output-path=a?b PROG", "output-path a?b"},
		{"--output-path==x PROG", "output-path =x"},
		{"--output-path=" + long + " PROG", "output-path"},
		{"--output-path=" + strings.Repeat("n", 256) + " PROG", "output-path"},
		{"--events=" + long + " PROG", "events"},
		{"PROG --analysis=leek", "analysis leek"},
		{"dump recover", "recover"},
		{"dump recover a b", "recover"},
		{"--load-api-env", "sourced"},
	} {
		name := c.words
		if len(name) > 60 {
			name = name[:60]
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ran := filepath.Join(dir, "ran")
			var words []string
			for _, w := range strings.Fields(c.words) {
				if w == "PROG" {
					words = append(words, "touch")
					if i := strings.Index(c.words, "PROG "); i < 0 {
						words = append(words, ran)
					}
					continue
				}
				words = append(words, w)
			}
			j := &job{t: t, dir: dir, bare: true, words: append([]string{tool}, words...)}
			j.run()
			if c.names == "sourced" {
				if j.status() != 1 || !strings.Contains(j.stderr.String(), "must be sourced") {
					t.Errorf("status %d, %q", j.status(), j.stderr.String())
				}
				return
			}
			j.want(2)
			lines := strings.Split(strings.TrimSuffix(j.stderr.String(), "\n"), "\n")
			last := lines[len(lines)-1]
			if n := strings.Count(j.stderr.String(), "[msmemscope]"); n != 1 || !strings.HasPrefix(last, "[msmemscope] Error: ") {
				t.Errorf("%d lines of complaint, want one, the last; standard error: %q", n, tail(j.stderr.String()))
			}
			if len(lines) < 2 || !strings.HasPrefix(lines[0], "Usage:") || len(lines) > 12 {
				t.Errorf("no short usage: %d lines, %q", len(lines), lines[0])
			}
			if len(last) > 600 {
				t.Errorf("a line of %d bytes", len(last))
			}
			for word := range strings.FieldsSeq(c.names) {
				if !strings.Contains(last, word) {
					t.Errorf("the line does not name %q: %s", word, last)
				}
			}
			if j.stdout.Len() > 0 {
				t.Errorf("standard output: %q", j.stdout.String())
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left over, or run: %v", left)
			}
		})
	}
}

// Words after the program belong to it, except ours in the form --name=value; after -- all belong to it.
func TestProgramWords(t *testing.T) {
	for _, c := range []struct {
		words, printed string
		notices        int
	}{
		{"-- echo --steps 3 --analysis=leaks", "--steps 3 --analysis=leaks\n", 0},
		{"echo -v --lr 1 -o x", "-v --lr 1 -o x\n", 0},
		{"echo a --log-level=error b", "a b\n", 1},
		{"--anal=leaks echo x", "x\n", 0},
		{"--events alloc，free echo x", "x\n", 0},
		{"--log-level=warn echo x", "x\n", 1},
		{"--output=OUT echo x", "x\n", 1},
	} {
		t.Run(c.words, func(t *testing.T) {
			j := &job{t: t, dir: t.TempDir(), bare: true, words: append([]string{tool}, strings.Fields(c.words)...)}
			j.run().want(0)
			if j.stdout.String() != c.printed || len(j.complaints()) != c.notices {
				t.Errorf("%q, complaints %q", j.stdout.String(), j.complaints())
			}
		})
	}
	for _, word := range []string{"--help", "-h", "--version", "-V"} {
		j := &job{t: t, dir: t.TempDir(), bare: true, words: []string{tool, word, "--no-such-option"}}
		j.run().want(0)
		if j.stderr.Len() > 0 || !strings.Contains(j.stdout.String(), "msmemscope") {
			t.Errorf("%s: %q, %q", word, j.stdout.String(), j.stderr.String())
		}
	}
}

// A wrong environment is told of like a wrong option.
func TestBadEnvironment(t *testing.T) {
	for _, value := range []string{"0", "-1", "many", "1000", "99999999999999999999"} {
		t.Run(value, func(t *testing.T) {
			j := under(t, "true")
			j.env = []string{"MSMEMSCOPE_RING_BYTES=" + value}
			j.run().want(2)
			if lines := j.complaints(); len(lines) != 1 || !strings.Contains(lines[0], "MSMEMSCOPE_RING_BYTES") || !strings.Contains(lines[0], value) {
				t.Errorf("complaints: %q", lines)
			}
		})
	}
}

// An output path that cannot be used: one clear error that names it, the program runs to its end, its status is passed on,
// and the report is there, which needs no disk.
func TestBadOutputPath(t *testing.T) {
	const readOnly = "mount -t tmpfs -o size=1m none $T; mkdir $T/ro; mount -o remount,ro $T"
	for _, c := range []struct {
		name, prepare string // T is a directory of the case
		mount         bool
		out           string
		dump          bool // what fits is saved
	}{
		{name: "symlink", prepare: "mkdir $T/real; ln -s $T/real $T/link", out: "link"},
		{name: "dangling symlink", prepare: "ln -s $T/nowhere $T/link", out: "link"},
		{name: "symlink above", prepare: "mkdir $T/real; ln -s $T/real $T/link", out: "link/below", dump: true},
		{name: "too deep", prepare: ":", out: strings.Repeat("d/", 40) + "d"},
		{name: "file", prepare: "touch $T/file", out: "file"},
		{name: "below a file", prepare: "touch $T/file", out: "file/below"},
		{name: "read-only", mount: true, prepare: readOnly, out: "ro"},
		{name: "below read-only", mount: true, prepare: readOnly, out: "ro/below"},
		{name: "full", mount: true, prepare: "mount -t tmpfs -o size=64k none $T; mkdir $T/out; dd if=/dev/zero of=$T/fill bs=4k 2>/dev/null || :", out: "out"},
		{name: "nearly full", mount: true, prepare: "mount -t tmpfs -o size=600k none $T; mkdir $T/out", out: "out", dump: true},
		{name: "no inodes", mount: true, prepare: "mount -t tmpfs -o size=1m,nr_inodes=3 none $T; mkdir $T/out", out: "out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.mount {
				needRoot(t)
			}
			place := t.TempDir()
			j := under(t, "sh", "-c", example("train")+"; "+target("numbered")+" 4 3000; exit 23")
			j.out = filepath.Join(place, c.out)
			script := strings.ReplaceAll(c.prepare, "$T", place)
			if c.mount {
				// Look at what was saved before the file system goes away with its namespace.
				save := filepath.Join(t.TempDir(), "saved")
				j.words = append([]string{"--"}, j.words...)
				inner := fmt.Sprintf("%s\nset +e; \"$@\"; s=$?; cp -R %s %s 2>/dev/null; exit $s", script, j.out, save)
				j.words = append([]string{tool, "--output-path=" + j.out}, j.words...)
				j.words = append([]string{"unshare", "--mount", "sh", "-c", inner, "sh"}, j.words...)
				j.bare, j.out = true, save
			} else if out, err := shell(script); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			j.run().want(23)
			if !strings.Contains(j.stdout.String(), "\ndone\n") {
				t.Errorf("the program did not come to its end:\n%s", j.stdout.String())
			}
			checkReport(t, j)
			lines := j.complaints()
			usable := c.name == "symlink above"
			if usable == (len(lines) > 0) || len(lines) > 8 { // four for each of two processes
				t.Errorf("%d complaints: %q", len(lines), lines)
			}
			for _, line := range lines {
				if !strings.HasPrefix(line, "[msmemscope] Error: ") && !strings.HasPrefix(line, "[msmemscope] Warn: ") {
					t.Errorf("complaint %q", line)
				}
			}
			if len(lines) > 0 && !strings.Contains(strings.Join(lines, "\n"), place) {
				t.Errorf("the complaint does not name the path: %q", lines)
			}
			if c.name == "symlink" {
				if left, _ := os.ReadDir(filepath.Join(place, "real")); len(left) > 0 {
					t.Errorf("written through the link: %v", left)
				}
			}
			rows := 0
			for _, d := range readUnchecked(t, j) { // what was saved has no torn row
				rows += len(d.rows)
			}
			if c.dump != (rows > 0) {
				t.Errorf("%d rows were saved", rows)
			}
		})
	}
}

// checkReport demands the leak report of `train` with its defaults on two cards.
func checkReport(t *testing.T, j *job) {
	t.Helper()
	for card, leak := range planted(t, j.stdout.String()) {
		report := leakReport(j.stdout.String())[card]
		if int64(len(report.direct)) != leak[1] || report.summed != "====== SUMMARY: 9 Mb(s) leaked in 9 allocation(s) ======" {
			t.Errorf("card %d: report %q", card, report)
		}
	}
}
