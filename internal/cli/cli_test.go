package cli

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memscope/internal/config"
	"memscope/internal/query"
)

var update = flag.Bool("update", false, "write the golden files anew")

// result is what a command line led to.
type result struct {
	status         int
	stdout, stderr string
	config         *config.Config // nil when nothing was run
	program        []string
	recovered      string
	forced         bool
}

// call runs a command line against a run that ends with status 42.
func call(t *testing.T, words ...string) result {
	t.Helper()
	var r result
	var stdout, stderr bytes.Buffer
	p := Program{
		Stdout: &stdout, Stderr: &stderr, Dir: func() (string, error) { return t.TempDir(), nil },
		Run: func(cfg config.Config, program []string) int {
			r.config, r.program = &cfg, program
			return 42
		},
		Questions: Questions{Names: query.Names(), Main: query.Main},
		Recover: func(dir string, force bool, w io.Writer) error {
			r.recovered, r.forced = dir, force
			if dir == "broken" {
				return errors.New("broken: no spool here")
			}
			_, err := io.WriteString(w, "recovered\n")
			return err
		},
	}
	r.status = p.Main(words)
	r.stdout, r.stderr = stdout.String(), stderr.String()
	return r
}

func TestWrongCommandLines(t *testing.T) {
	long := strings.Repeat("a", 5000)
	const accepted = "accepted: --compare --input-path=A,B"
	const languages = "c, python, c:<n>, python:<n> with n 0-1000"
	const beforeDump = "dump stands in first place, its options come after it; put -- before a program that is called dump"
	for _, c := range []struct {
		name  string
		words []string
		line  string // after the prefix
	}{
		{"nothing", nil, "there is no program to run"},
		{"only options", []string{"--events=alloc"}, "there is no program to run"},
		{"only the separator", []string{"--"}, "there is no program to run"},
		{"unknown option", []string{"--evnts=alloc", "p"}, "--evnts is not an option; --help shows all"},
		{"unknown short option", []string{"-x", "p"}, "-x is not an option; --help shows all"},
		{"unknown in a cluster", []string{"-vxq", "p"}, "-x is not an option; --help shows all"},
		{"no letter of ours", []string{"-v中文", "p"}, "-中 is not an option; --help shows all"},
		{"a terminal escape", []string{"--\x1b[2J\n", "p"}, `--\x1b[2J\n is not an option; --help shows all`},
		{"ambiguous", []string{"--inp=a", "p"}, "--inp is ambiguous: --input, --input-path"},
		{"ambiguous over groups", []string{"--lo", "p"}, "--lo is ambiguous: --load-api-env, --log-level"},
		{"ambiguous, but for what the front says", []string{"--s=1", "p"}, "--s is ambiguous: --sample-rate, --steps"},
		{"abbreviation of what the front says", []string{"--serve=1", "p"}, "--serve is not an option; --help shows all"},
		{"empty name", []string{"--=x", "p"}, "-- is ambiguous: " + allNames()},
		{"no value left", []string{"--events"}, "--events needs a value"},
		{"no value left, abbreviated", []string{"--eve"}, "--events needs a value"},
		{"no value left, short", []string{"-o"}, "-o needs a value"},
		{"flag with a value", []string{"--quiet=yes", "p"}, `--quiet takes no value, but has "yes"`},
		{"the next word is the value", []string{"--events", "--analysis=leaks", "p"},
			`--events does not know "--analysis=leaks"; accepted: alloc, free, launch, access, none`},

		{"events", []string{"--events=alloc,fre", "p"}, `--events does not know "fre"; accepted: alloc, free, launch, access, none`},
		{"events, blanks are not trimmed", []string{"--events=alloc, free", "p"},
			`--events does not know " free"; accepted: alloc, free, launch, access, none`},
		{"events, none mixed", []string{"--events=none,alloc", "p"}, "--events=none,alloc mixes none with other words"},
		{"events, traceback", []string{"--events=traceback", "p"},
			`--events=traceback is for scripts only: msmemscope.config(events="traceback") in Python; accepted: alloc, free, launch, access, none`},
		{"analysis", []string{"--analysis=leak", "p"}, `--analysis does not know "leak"; accepted: leaks, decompose, inefficient, oom[:K], exec:PROGRAM, host-leaks, none`},
		{"analysis, none mixed", []string{"--analysis=leaks，none", "p"}, "--analysis=leaks，none mixes none with other words"},
		{"analysis, oom:0", []string{"--analysis=oom:0", "p"}, `--analysis=oom:0: the number of blocks is "0"; accepted: oom or oom:K with K from 1 to 1000`},
		{"analysis, oom:1001", []string{"--analysis=leaks,oom:1001", "p"}, `--analysis=oom:1001: the number of blocks is "1001"; accepted: oom or oom:K with K from 1 to 1000`},
		{"analysis, oom:07", []string{"--analysis=oom:07", "p"}, `--analysis=oom:07: the number of blocks is "07"; accepted: oom or oom:K with K from 1 to 1000`},
		{"analysis, oom:", []string{"--analysis=oom:", "p"}, `--analysis=oom:: the number of blocks is ""; accepted: oom or oom:K with K from 1 to 1000`},
		{"analysis, none and oom", []string{"--analysis=none,oom", "p"}, "--analysis=none,oom mixes none with other words"},
		{"analysis, oomx", []string{"--analysis=oomx", "p"}, `--analysis does not know "oomx"; accepted: leaks, decompose, inefficient, oom[:K], exec:PROGRAM, host-leaks, none`},
		{"analysis, exec", []string{"--analysis=exec:/nowhere/x", "p"}, "--analysis=exec:/nowhere/x: no such file or directory; accepted: exec: and the path of a program, without arguments"},
		{"analysis, exec of no program", []string{"--analysis=exec:/etc/passwd", "p"}, "--analysis=exec:/etc/passwd: it cannot be executed; accepted: exec: and the path of a program, without arguments"},
		{"analysis, exec of nothing", []string{"--analysis=exec:/", "p"}, "--analysis=exec:/: it cannot be executed; accepted: exec: and the path of a program, without arguments"},
		{"analysis, exec and none", []string{"--analysis=none,exec:/bin/cat", "p"}, "--analysis=none,exec:/bin/cat mixes none with other words"},
		{"analysis, exec alone", []string{"--analysis=exec", "p"}, `--analysis does not know "exec"; accepted: leaks, decompose, inefficient, oom[:K], exec:PROGRAM, host-leaks, none`},
		{"level", []string{"--level=2", "p"}, `--level does not know "2"; accepted: op, kernel`},
		{"analysis, host-leaks with another", []string{"--analysis=host-leaks,oom", "p"}, "--analysis=host-leaks,oom: host-leaks cannot be combined with other analyses; accepted: --analysis=host-leaks"},
		{"device, empty", []string{"--device=", "p"}, "--device names no device; accepted: npu, npu:<id> with id 0-31, cpu"},
		{"device, only commas", []string{"--device=,，", "p"}, "--device names no device; accepted: npu, npu:<id> with id 0-31, cpu"},
		{"device, unknown", []string{"--device=test", "p"}, `--device does not know "test"; accepted: npu, npu:<id> with id 0-31, cpu`},
		{"device, too large", []string{"--device=npu:32", "p"}, `--device does not know "npu:32"; accepted: npu, npu:<id> with id 0-31, cpu`},
		{"device, huge", []string{"--device=npu:18446744073709551616", "p"},
			`--device does not know "npu:18446744073709551616"; accepted: npu, npu:<id> with id 0-31, cpu`},
		{"device, not a number", []string{"--device=npu:xx", "p"}, `--device does not know "npu:xx"; accepted: npu, npu:<id> with id 0-31, cpu`},
		{"device, no number", []string{"--device=npu:", "p"}, `--device does not know "npu:"; accepted: npu, npu:<id> with id 0-31, cpu`},
		{"device, sign", []string{"--device=npu:-1", "p"}, `--device does not know "npu:-1"; accepted: npu, npu:<id> with id 0-31, cpu`},
		{"device, not octal", []string{"--device=npu:08", "p"}, `--device does not know "npu:08"; accepted: npu, npu:<id> with id 0-31, cpu`},
		{"collect-mode", []string{"--collect-mode=later", "p"}, `--collect-mode does not know "later"; accepted: immediate, deferred`},
		{"format", []string{"--format=xml", "p"}, `--format does not know "xml"; accepted: csv, db`},
		{"log-level", []string{"--log-level=loud", "p"}, `--log-level does not know "loud"; accepted: debug, info, warning, error`},
		{"a value too long", []string{"--events=" + long, "p"}, "--events has a value of 5000 bytes; at most 4096 are accepted"},
		{"a long value is cut in the message", []string{"--events=" + long[:200], "p"},
			`--events does not know "` + long[:80] + `..."; accepted: alloc, free, launch, access, none`},

		{"output, empty", []string{"--output-path=", "p"}, "--output-path: the output path is empty; a directory is expected"},
		{"output, blank", []string{"-o", " ", "p"}, "--output-path: the output path is empty; a directory is expected"},
		{"output, first character", []string{"-o=x", "p"},
			`--output-path: the output path "=x" begins with '='; it must not begin with = + - or @`},
		{"output, root", []string{"-o/", "p"},
			`--output-path: the output path "/" is the root directory; a directory below it is expected`},

		{"steps, 0", []string{"--steps=1,0", "p"}, `--steps does not know "0"; accepted: 1 to 5 numbers from 1 to 4294967295`},
		{"steps, zero in front", []string{"--steps=01", "p"}, `--steps does not know "01"; accepted: 1 to 5 numbers from 1 to 4294967295`},
		{"steps, large", []string{"--steps=4294967296", "p"}, `--steps does not know "4294967296"; accepted: 1 to 5 numbers from 1 to 4294967295`},
		{"steps, range", []string{"--steps=2:3.4", "p"}, `--steps does not know "2:3.4"; accepted: 1 to 5 numbers from 1 to 4294967295`},
		{"steps, many", []string{"--steps=1,2,3,4,5,6", "p"}, "--steps names 6 steps; accepted: 1 to 5"},
		{"steps, none", []string{"--steps=,", "p"}, "--steps names 0 steps; accepted: 1 to 5"},
		{"call-stack", []string{"--call-stack", "c:3,perl", "p"}, `--call-stack does not know "perl"; accepted: ` + languages},
		{"call-stack, too deep", []string{"--call-stack=c:1001", "p"}, `--call-stack does not know "c:1001"; accepted: ` + languages},
		{"call-stack, leading zero", []string{"--call-stack=python:00", "p"}, `--call-stack does not know "python:00"; accepted: ` + languages},
		{"call-stack, sign", []string{"--call-stack=python:+1", "p"}, `--call-stack does not know "python:+1"; accepted: ` + languages},
		{"call-stack, no depth", []string{"--call-stack=c:", "p"}, `--call-stack does not know "c:"; accepted: ` + languages},
		{"watch", []string{"--watch=a,", "p"}, "--watch=a,: END is empty; " + watchRange},
		{"watch, output", []string{"--watch=a:01,b", "p"}, `--watch=a:01,b: START is "a:01"; ` + watchRange},
		{"watch, third part", []string{"--watch=a,b,full", "p"}, `--watch=a,b,full: the third part is "full"; ` + watchRange},
		{"compare alone", []string{"--compare"}, "--compare takes two dumps, but --input-path names 0; " + accepted},
		{"compare, one input", []string{"--compare", "--input-path=a,"}, "--compare takes two dumps, but --input-path names 1; " + accepted},
		{"compare, three inputs", []string{"--input-path=a，b", "--compare", "-i", "c"},
			"--compare takes two dumps, but --input-path names 3; " + accepted},
		{"compare, a program", []string{"--compare", "--input-path=a,b", "p"}, `--compare runs no program, but there is "p"`},
		{"compare, a program behind --", []string{"--compare", "--input-path=a,b", "--", "p"}, `--compare runs no program, but there is "p"`},
		{"compare, no level", []string{"--compare", "--input-path=a,b", "--level="}, "--level names no level; --compare takes op, kernel, or both"},
		{"input-path alone", []string{"-i", "a,b"}, "--input-path works only with --compare"},
		{"input-path and a program", []string{"--input-path=a,b", "p"}, "--input-path works only with --compare"},
		{"input-path after the program", []string{"p", "--input-path=a"},
			"--input-path works only with --compare (put -- before the program to pass --input-path=a to it)"},
		{"option before dump", []string{"-q", "dump", "recover", "x"}, beforeDump},
		{"compare before dump", []string{"--compare", "dump"}, beforeDump},
		{"pid", []string{"--pid=seven"}, `--pid does not know "seven"; accepted: a process id`},
		{"pid and a program", []string{"--pid=7", "p"}, `--pid runs no program, but there is "p"`},
		{"pid and compare", []string{"--pid=7", "--compare", "--input-path=a,b"}, "--pid cannot be combined with --compare"},
		{"command", []string{"--command=stop"}, "--command works only with --pid"},
		{"host-leak-mode", []string{"--host-leak-mode=all", "p"}, `--host-leak-mode does not know "all"; accepted: summary, event`},
		{"host-leak-mode without host-leaks", []string{"--host-leak-mode=event", "p"}, "--host-leak-mode works only with --analysis=host-leaks"},
		{"block-size-threshold", []string{"--block-size-threshold=-1", "p"}, `--block-size-threshold does not know "-1"; accepted: a number of bytes from 0 on`},
		{"sample-rate", []string{"--sample-rate=0", "p"}, `--sample-rate does not know "0"; accepted: a number from 1 on`},

		{"load-api-env out of place", []string{"-q", "--load-api-env=host"},
			"--load-api-env works only when sourced and in first place: source msmemscope --load-api-env"},
		{"bad value after the program", []string{"python3", "t.py", "--device=cuda:0"},
			`--device does not know "cuda:0"; accepted: npu, npu:<id> with id 0-31, cpu (put -- before the program to pass --device=cuda:0 to it)`},
		{"option of the host heap after the program", []string{"python3", "t.py", "--sample-rate=16000"},
			"--sample-rate works only with --analysis=host-leaks (put -- before the program to pass --sample-rate=16000 to it)"},
		{"pid after the program", []string{"p", "--level=op", "--pid=7"},
			`--pid runs no program, but there is "p" (put -- before the program to pass --level=op --pid=7 to it)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := call(t, c.words...)
			if want := usage + "[msmemscope] Error: " + c.line + "\n"; r.stderr != want {
				t.Errorf("stderr\n%s\nwant\n%s", r.stderr, want)
			}
			if r.status != 2 || r.stdout != "" || r.config != nil {
				t.Errorf("status %d, stdout %q, ran %v", r.status, r.stdout, r.config != nil)
			}
		})
	}
}

// allNames is every long option as an ambiguous name lists it.
func allNames() string {
	var names []string
	for _, o := range options {
		if o.name != "serve-shell" && o.name != "release-shell" {
			names = append(names, "--"+o.name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// TestOutputPathOnDisk: a path that cannot be used is told of at once, and the program runs all the same.
// TestSampleRate: rates are powers of two, up to 2^30, and what becomes of others is said.
func TestSampleRate(t *testing.T) {
	for value, want := range map[string]uint32{
		"1": 1, "2": 2, "3": 4, "4": 4, "1000": 1024, "1073741823": 1 << 30, "1073741824": 1 << 30, "1073741825": 1 << 30,
		"4294967297": 1 << 30, "99999999999999999999999": 1 << 30,
	} {
		r := call(t, "--analysis=host-leaks", "--sample-rate="+value, "p")
		if r.config == nil || r.config.SampleRate != want {
			t.Errorf("--sample-rate=%s: %+v %s", value, r.config, r.stderr)
			continue
		}
		said := strings.Contains(r.stderr, fmt.Sprintf("--sample-rate=%s becomes %d, a power of two up to 1073741824", value, want))
		if said != (value != fmt.Sprint(want)) {
			t.Errorf("--sample-rate=%s: said %q", value, r.stderr)
		}
	}
}

func TestOutputPathOnDisk(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	link := filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file: `the output path "` + file + `" is not a directory`,
		link: `the output path "` + link + `" is a symbolic link`,
	} {
		r := call(t, "-o", path, "p")
		if r.status != 42 || !strings.HasPrefix(r.stderr, "[msmemscope] Error: "+want) {
			t.Errorf("status %d, stderr %q, want 42 and %q", r.status, r.stderr, want)
		}
		if !strings.HasSuffix(r.stderr, "; the program is run, there will be a report but no dump\n") || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("stderr %q", r.stderr)
		}
	}
}

func TestOthersCanWriteTheOutput(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	r := call(t, "-o", dir, "p")
	want := "[msmemscope] Warn: the path " + dir + " can be changed by other users; make sure that it is trusted\n"
	if r.status != 42 || r.stderr != want {
		t.Errorf("status %d, stderr %q, want 42 and %q", r.status, r.stderr, want)
	}
}

func TestHelpAndVersion(t *testing.T) {
	golden := filepath.Join("testdata", "help.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(help()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	version = "1.2.3"
	for _, c := range []struct {
		want  string
		words []string
	}{
		{string(text), []string{"--help"}},
		{string(text), []string{"-h"}},
		{string(text), []string{"-vh", "--no-such-option"}}, // the scan stops
		{string(text), []string{"--events=alloc", "--he", "--events=bad"}},
		{"msmemscope 1.2.3\n", []string{"--version"}},
		{"msmemscope 1.2.3\n", []string{"-V", "--help"}},
		{"msmemscope 1.2.3\n", []string{"-Vh"}},
	} {
		if r := call(t, c.words...); r.status != 0 || r.stdout != c.want || r.stderr != "" {
			t.Errorf("%q: status %d, stderr %q, stdout\n%s\nwant\n%s", c.words, r.status, r.stderr, r.stdout, c.want)
		}
	}
	for _, o := range options {
		shown := strings.Contains(string(text), "--"+o.name+"=") || strings.Contains(string(text), "--"+o.name+" ")
		if want := o.group != hidden; shown != want && !strings.HasSuffix(o.name, "-api-env") {
			t.Errorf("--%s in the help: %v, want %v", o.name, shown, want)
		}
	}
	for i, line := range strings.Split(string(text), "\n") {
		if n := len([]rune(line)); n > 100 {
			t.Errorf("line %d of the help has %d characters", i+1, n)
		}
	}
}

func TestHelpOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	var stderr bytes.Buffer
	p := Program{Stdout: full, Stderr: &stderr}
	if status := p.Main([]string{"--help"}); status != 1 || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("status %d, stderr %q", status, stderr.String())
	}
}
