package smoke

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// What a program prints and returns is the same with and without the tool.
func TestTransparent(t *testing.T) {
	script := `printf 'no newline at the end'; printf '\0\377\n' >&2; cat; exit 17`
	for _, c := range []struct {
		name  string
		words []string
		stdin string
	}{
		{"train", []string{example("train")}, ""},
		{"train.py", []string{"python3", example("train.py")}, ""},
		{"bad usage", []string{example("train"), "--steps"}, ""},
		{"shell", []string{"sh", "-c", script}, "standard input\n"},
		{"fork and exec", []string{"sh", "-c", example("train") + " --steps 2 | tail -n 1; ls / | head -n 1"}, ""},
		{"out of memory", []string{"env", "VNPU_HBM_BYTES=64M", example("train")}, ""},
		{"failing allocation", []string{"env", "VNPU_FAIL_ALLOC_NTH=7", "VNPU_FAIL_ALLOC_CODE=3", example("train")}, ""},
		{"failing free", []string{"env", "VNPU_FAIL_FREE_NTH=3", example("train")}, ""},
		{"background", []string{"sh", "-c", "sleep 0.3 >/dev/null 2>&1 & echo started"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain, traced := without(t, c.words...), under(t, c.words...)
			plain.stdin, traced.stdin = strings.NewReader(c.stdin), strings.NewReader(c.stdin)
			plain.run()
			traced.run().want(plain.status())
			// All lines of the tool come behind what the program has printed.
			if !bytes.HasPrefix(traced.stdout.Bytes(), plain.stdout.Bytes()) {
				t.Errorf("standard output without the tool:\n%q\nwith it:\n%q", plain.stdout.String(), traced.stdout.String())
			}
			rest := traced.stdout.String()[min(plain.stdout.Len(), traced.stdout.Len()):]
			if _, theirs := ours(rest); theirs != "" {
				t.Errorf("on standard output, neither the program's nor the tool's: %q", theirs)
			}
			if plain.stderr.String() != traced.stderr.String() {
				t.Errorf("standard error without the tool:\n%q\nwith it:\n%q", plain.stderr.String(), traced.stderr.String())
			}
			traced.dumps()
		})
	}
}

// 128 and the number of the signal that killed the program; 126 and 127 when there is none to run.
func TestStatus(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		words  []string
		status int
	}{
		{"0", []string{"true"}, 0},
		{"255", []string{"sh", "-c", "exit 255"}, 255},
		{"not found", []string{"no-such-program-anywhere"}, 127},
		{"no such path", []string{"./no/such/path"}, 127},
		{"not executable", []string{file}, 126},
		{"directory", []string{"/"}, 126},
		{"kill", []string{target("leaky"), "5", "kill"}, 137},
		{"abort", []string{target("leaky"), "5", "abort"}, 134},
		{"segv", []string{target("leaky"), "5", "segv"}, 139},
		{"_exit", []string{target("leaky"), "5", "_exit"}, 3},
		{"exit by another thread", []string{target("leaky"), "5", "thread"}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := under(t, append([]string{"--"}, c.words...)...).run().want(c.status)
			if c.status >= 126 && c.status < 128 {
				if lines := j.complaints(); len(lines) != 1 || !strings.Contains(lines[0], c.words[0]) {
					t.Errorf("complaints: %q", lines)
				}
			}
			if !strings.Contains(c.words[0], "leaky") {
				return
			}
			// However it ends, the report is that of what has happened: blocks of steps 2 to 4.
			report := leakReport(j.stdout.String())[0]
			if len(report.direct) != 3 || report.summed != "====== SUMMARY: 0.1875 Mb(s) leaked in 3 allocation(s) ======" {
				t.Errorf("report %q", report)
			}
			if len(j.complaints()) > 0 && c.name != "exit by another thread" {
				t.Errorf("complaints: %q", j.complaints())
			}
			dumps := j.dumps()
			if len(dumps) != 1 {
				t.Fatalf("%d dumps", len(dumps))
			}
			if n := dumps[0].count(func(r row) bool { return r.event == "MALLOC" && r.kind == "PTA" }); n != 9 {
				t.Errorf("%d blocks of the pool, want 9", n)
			}
		})
	}
}

// Signals to msmemscope reach the program.
func TestSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGQUIT} {
		for _, c := range []struct {
			name   string
			words  []string
			status int
		}{
			{"handled", []string{target("waiter")}, 40 + int(s)},
			{"default", []string{target("waiter"), "default"}, 128 + int(s)},
		} {
			t.Run(s.String()+" "+c.name, func(t *testing.T) {
				j := under(t, c.words...)
				out, in, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				// The program says "ready" on the pipe, which is its standard output only until then.
				j.words = append([]string{"sh", "-c", `exec "$@" >&3`, "sh"}, c.words...)
				j.files = []*os.File{in}
				j.start()
				in.Close()
				ready := make([]byte, 6)
				if _, err := out.Read(ready); err != nil || string(ready) != "ready\n" {
					t.Errorf("%q, %v", ready, err)
				}
				if err := j.cmd.Process.Signal(s); err != nil {
					t.Error(err)
				}
				j.wait().want(c.status).noComplaints()
				out.Close()
				if dumps := j.dumps(); len(dumps) != 1 || len(dumps[0].rows) < 2 {
					t.Errorf("dumps: %v", dumps)
				}
			})
		}
	}
}

// A program that never touches the stack leaves nothing: no directory, no line, no process.
func TestHelpersLeaveNothing(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"pipeline", "ls /dev/null | wc -l", "1\n"},
		{"fifty", "for i in $(seq 50); do echo $i | cat | tail -n 1; done | wc -l", "50\n"},
		{"python", "python3 -c 'import subprocess; subprocess.run([\"echo\", \"hi\"])'", "hi\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			j := &job{t: t, dir: dir, bare: true, words: []string{tool, "--", "sh", "-c", c.script}}
			j.run().want(0)
			if j.stdout.String() != c.want || j.stderr.Len() > 0 {
				t.Errorf("output %q, %q", j.stdout.String(), j.stderr.String())
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
}

// What lives on after the program keeps nobody waiting, and is recorded to its end.
func TestGrandchildLivesOn(t *testing.T) {
	j := under(t, "sh", "-c", target("waiter")+` </dev/null >/dev/null 2>&1 & echo $!; while [ ! -e "$1"/*/device_0 ]; do sleep 0.02; done`, "sh")
	j.words = append(j.words, j.out)
	j.run().want(0)
	told := strings.Join(j.complaints(), "\n") + j.stdout.String()
	if !strings.Contains(told, "1 process(es) of the program live on") {
		t.Errorf("not told that something lives on: %s", told)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(j.stdout.String(), "\n", 2)[0]))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of the spool", func() bool {
		spools, _ := filepath.Glob(filepath.Join(j.out, "*", "*spool*"))
		return len(spools) == 0
	})
	dumps := j.dumps()
	if len(dumps) != 1 || dumps[0].count(func(r row) bool { return r.event == "FREE" && !r.shadow }) != 1 {
		t.Errorf("%d dumps, or no FREE row of the grandchild", len(dumps))
	}
}

// What a script leaves in the background may come to the card when the script has ended long since: `nohup python train.py &`.
func TestBackgroundComesLate(t *testing.T) {
	j := under(t, "sh", "-c", "setsid sh -c 'sleep 0.5; exec "+example("train")+"' </dev/null >/dev/null 2>&1 & echo launched")
	j.run().want(0)
	if out := j.stdout.String() + j.stderr.String(); out != "launched\n" {
		t.Errorf("output %q", out)
	}
	waitFor(t, "the end of the recording", func() bool {
		dumps, _ := filepath.Glob(filepath.Join(j.out, "*", "device_*", "dump", "*"))
		spools, _ := filepath.Glob(filepath.Join(j.out, "*", "*spool*"))
		return len(dumps) == 2 && len(spools) == 0
	})
	j.dumps()
	logs, _ := filepath.Glob(filepath.Join(j.out, "*", "msmemscope_logs", "*"))
	waitFor(t, "the report in the log", func() bool {
		text, _ := os.ReadFile(logs[0])
		return bytes.Contains(text, []byte("Detected memory leaks on device 0")) && bytes.Contains(text, []byte("SUMMARY"))
	})
}

// A daemon that has written its title over its environment, as setproctitle does, and comes to the card when its launcher has ended: before or after it had the title.
func TestBackgroundWithTitle(t *testing.T) {
	const daemon = `
import ctypes, os, sys, time
early, script = sys.argv[1] == "early", sys.argv[2]
environ = dict(os.environ)
end, ready = os.pipe()
if os.fork():
    os.close(ready)
    os.read(end, 1)
    sys.exit()
os.setsid()
nowhere = os.open("/dev/null", os.O_RDWR)
for stream in range(3):
    os.dup2(nowhere, stream)
if not early:
    os.close(ready)
    time.sleep(0.5)
stat = open("/proc/self/stat").read().rsplit(")", 1)[1].split()
first, last = int(stat[45]), int(stat[48])  # from the first argument to the end of the environment
ctypes.memset(first, 0, last - first)
ctypes.memmove(first, b"server: master", 14)
if early:
    os.close(ready)
time.sleep(1)
if os.fork() == 0:
    os.execve(script, [script], environ)
os.wait()
`
	for _, when := range []string{"early", "late"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			j := under(t, "python3", "-c", daemon, when, example("train"))
			j.run().want(0)
			waitFor(t, "the end of the recording", func() bool {
				dumps, _ := filepath.Glob(filepath.Join(j.out, "*", "device_*", "dump", "*"))
				spools, _ := filepath.Glob(filepath.Join(j.out, "*", "*spool*"))
				return len(dumps) == 2 && len(spools) == 0
			})
		})
	}
}

// Of a job in the background whose disk is full, the log says what is missing, and how it is completed.
func TestBackgroundDiskFull(t *testing.T) {
	t.Parallel()
	needRoot(t)
	j := under(t)
	j.mount = "mkdir " + j.out + " && mount -t tmpfs -o size=200k,mode=755 none " + j.out
	j.bare, j.env = true, []string{"OUT=" + j.out, "TOOL=" + tool, "JOB=" + target("numbered") + " 1 5000"}
	j.words = []string{"sh", "-c", `$TOOL -o $OUT sh -c 'setsid sh -c "sleep 0.3; $JOB" </dev/null >/dev/null 2>&1 &'
		for i in $(seq 100); do grep -h "is not complete" $OUT/*/msmemscope_logs/* && break; sleep 0.1; done`}
	j.run().want(0)
	if said := j.stdout.String(); !strings.Contains(said, "no space left on device") || !strings.Contains(said, "dump recover") {
		t.Errorf("in the log: %q, %s", said, j.stderr.String())
	}
}

// A pipe to a program that ends early must not hurt the program: `msmemscope prog | head -1`.
func TestClosedOutput(t *testing.T) {
	j := under(t)
	j.bare = true
	j.words = []string{"bash", "-c", "set -o pipefail; " + tool + " -o " + j.out + " sh -c '" + target("numbered") + " 2 100 >/dev/null; exit 9' | true"}
	j.run().want(9)
	j.dumps()
}

// The tool inside the tool is refused with one line; the outer run goes on.
func TestNested(t *testing.T) {
	j := under(t, "sh", "-c", target("numbered")+" 1 10; "+tool+" true; echo inner $?").run().want(0)
	if !strings.Contains(j.stdout.String(), "inner 2\n") || len(j.complaints()) != 1 {
		t.Errorf("stdout %q, stderr %q", j.stdout.String(), j.stderr.String())
	}
	j.dumps()
}

// Where a tool has followed the links in lib64 (scp, zip), every name is a library of its own. They do no harm to each other.
func TestCopiedLibraries(t *testing.T) {
	copies := filepath.Join(t.TempDir(), "lib64")
	if out, err := exec.Command("cp", "-rL", filepath.Join(build, "lib64"), copies).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	linked, copied := under(t, example("train")), under(t, example("train"))
	copied.env = []string{"LD_PRELOAD_PATH=" + copies, "LD_PRELOAD=" + copies + "/libleaks_ascend_hal_hook.so:" + copies + "/libascend_mstx_hook.so"}
	a, b := linked.run().want(0).noComplaints().dumps(), copied.run().want(0).noComplaints().dumps()
	if len(a) != len(b) {
		t.Fatalf("%d dumps, with copies %d", len(a), len(b))
	}
	for i := range a {
		if len(a[i].rows) != len(b[i].rows) {
			t.Errorf("%d rows, with copies %d", len(a[i].rows), len(b[i].rows))
		}
	}
}

// The program's environment and descriptors are its own, but for what the hooks need.
func TestEnvironment(t *testing.T) {
	plain := without(t, "sh", "-c", "env | sort; ls /proc/self/fd | wc -l").run()
	traced := under(t, "sh", "-c", "env | sort; ls /proc/self/fd | wc -l").run()
	known := map[string]bool{"LD_PRELOAD": true, "LD_PRELOAD_PATH": true, "PWD": true, "OLDPWD": true, "MSTX_INJECTION_PATH": true}
	filter := func(text string) string {
		var kept []string
		for line := range strings.Lines(text) {
			if name, _, _ := strings.Cut(line, "="); !known[name] && !strings.HasPrefix(name, "MSMEMSCOPE_") {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	}
	if a, b := filter(plain.stdout.String()), filter(traced.stdout.String()); a != b {
		t.Errorf("without:\n%s\nwith:\n%s", a, b)
	}
}

// Sourced, the front script prepares a shell; the tool itself is not needed to run a program then.
func TestLoadEnvironment(t *testing.T) {
	for _, shell := range []string{"bash", "zsh"} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is missing", shell)
			continue
		}
		j := without(t, shell, "-c", "source "+tool+" --load-api-env >/dev/null && "+target("numbered")+" 2 100 && source "+tool+
			" --unload-api-env >/dev/null && echo preload=$LD_PRELOAD path=$LD_LIBRARY_PATH")
		j.run().want(0)
		if got := j.stdout.String(); !strings.HasPrefix(got, "done\npreload= ") || j.stderr.Len() > 0 {
			t.Errorf("%s: %q, %q", shell, got, j.stderr.String())
		}
	}
}
