package smoke

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is the longest that any one run may take; only a hang takes so long.
const patience = 3 * time.Minute

// job is one run of the tool, or of a program without it.
type job struct {
	t     testing.TB
	dir   string // working directory, empty at first
	out   string // output path
	words []string
	bare  bool     // without the tool
	env   []string // added
	mount string   // shell commands, run as root in a mount namespace of its own before the tool
	stdin io.Reader
	files []*os.File // descriptors from 3 on

	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	state          *os.ProcessState
	timer          *time.Timer
	wall           time.Duration
	began          time.Time
}

// under is a run of words under the tool, with the output path in a fresh directory.
func under(t testing.TB, words ...string) *job {
	dir := t.TempDir()
	return &job{t: t, dir: dir, out: filepath.Join(dir, "out"), words: words}
}

// without is a run of words without the tool.
func without(t testing.TB, words ...string) *job {
	return &job{t: t, dir: t.TempDir(), words: words, bare: true}
}

// start starts the run; wait must follow.
func (j *job) start() *job {
	j.t.Helper()
	words := j.words
	sanitized := !j.bare && os.Getenv("SMOKE_PRELOAD") != ""
	if program := slices.IndexFunc(words, func(w string) bool { return !strings.HasPrefix(w, "-") }); sanitized && program >= 0 {
		// Not before: bash, which is the front, does not bear TSan.
		words = slices.Insert(slices.Clone(words), program, "sh", "-c", `LD_PRELOAD=$LD_PRELOAD:$SMOKE_PRELOAD exec "$@"`, "sh")
	}
	if !j.bare {
		words = append([]string{tool, "--output-path=" + j.out}, words...)
	}
	if j.mount != "" {
		words = append([]string{"unshare", "--mount", "sh", "-ec", j.mount + "\nexec \"$@\"", "sh"}, words...)
	}
	j.cmd = exec.Command(words[0], words[1:]...)
	j.cmd.Dir, j.cmd.Stdin, j.cmd.ExtraFiles = j.dir, j.stdin, j.files
	j.cmd.Stdout, j.cmd.Stderr = &j.stdout, &j.stderr
	j.cmd.Env = append(os.Environ(), "VNPU_DEVICES=2", "VNPU_HBM_BYTES=1T", "LC_ALL=C.UTF-8")
	if sanitized {
		// A sanitizer's dlopen does not look where the library that calls it would.
		j.cmd.Env = append(j.cmd.Env, "LD_LIBRARY_PATH="+filepath.Join(build, "vnpu", "lib64"))
	}
	j.cmd.Env = append(j.cmd.Env, j.env...)
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	j.cmd.WaitDelay = time.Second
	j.began = time.Now()
	if err := j.cmd.Start(); err != nil {
		j.t.Fatal(err)
	}
	j.timer = time.AfterFunc(patience, func() { _ = syscall.Kill(-j.cmd.Process.Pid, syscall.SIGKILL) })
	return j
}

// wait waits for the end and checks every dump.
func (j *job) wait() *job {
	j.t.Helper()
	err := j.cmd.Wait()
	j.wall = time.Since(j.began)
	j.state = j.cmd.ProcessState
	if !j.timer.Stop() {
		j.t.Fatalf("%v: no end after %v\nstdout: %s\nstderr: %s", j.cmd.Args, patience, tail(j.stdout.String()), tail(j.stderr.String()))
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		j.t.Fatalf("%v: %v", j.cmd.Args, err)
	}
	return j
}

func (j *job) run() *job { j.t.Helper(); return j.start().wait() }

// status is the exit status as a shell gives it.
func (j *job) status() int {
	if ws, ok := j.state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return j.state.ExitCode()
}

// want fails the case when the status is another one.
func (j *job) want(status int) *job {
	j.t.Helper()
	if got := j.status(); got != status {
		j.t.Fatalf("%v: status %d, want %d\nstdout: %s\nstderr: %s", j.words, got, status, tail(j.stdout.String()), tail(j.stderr.String()))
	}
	return j
}

// ours splits what was printed on one stream into the lines of the tool and the rest. The report counts as the tool's.
func ours(text string) (lines []string, rest string) {
	var theirs strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "[msmemscope]"), strings.HasPrefix(line, "====="), strings.HasPrefix(line, "Direct "),
			strings.HasPrefix(line, "\tMinAlloc/"), strings.HasPrefix(line, "MinGap\t"), strings.HasPrefix(line, "MaxGap\t"):
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		default:
			theirs.WriteString(line)
		}
	}
	return lines, theirs.String()
}

// complaints are the tool's lines on standard error.
func (j *job) complaints() []string {
	lines, _ := ours(j.stderr.String())
	return lines
}

// noComplaints fails the case when the tool has complained.
func (j *job) noComplaints() *job {
	j.t.Helper()
	if lines := j.complaints(); len(lines) > 0 {
		j.t.Errorf("%v: the tool complains:\n%s", j.words, strings.Join(lines, "\n"))
	}
	return j
}

// projects are the directories that the run has made, oldest first.
func (j *job) projects() []string {
	j.t.Helper()
	found, err := filepath.Glob(filepath.Join(j.out, "msmemscope_*_ascend"))
	if err != nil {
		j.t.Fatal(err)
	}
	return found
}

// dumps reads and checks every dump file of the run.
func (j *job) dumps() []*dump {
	j.t.Helper()
	var all []*dump
	for _, dir := range j.projects() {
		all = append(all, readProject(j.t, dir)...)
	}
	return all
}

// collector waits for the run's collector and returns its process id.
func (j *job) collector() int {
	j.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if pid := childNamed(j.cmd.Process.Pid, "msmemscope-coll"); pid != 0 {
			return pid
		}
	}
	j.t.Fatal("no collector has appeared")
	return 0
}

// waitFor waits until done says so.
func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come", what)
		}
	}
}

// childNamed finds a child of parent by the kernel's name of it; 0 if there is none.
func childNamed(parent int, name string) int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, word := range strings.Fields(string(text)) {
			comm, _ := os.ReadFile("/proc/" + word + "/comm")
			if pid, err := strconv.Atoi(word); err == nil && strings.TrimSpace(string(comm)) == name {
				return pid
			}
		}
	}
	return 0
}

// tail is the end of a long text, for a message.
func tail(text string) string {
	const most = 3000
	if len(text) > most {
		return "..." + text[len(text)-most:]
	}
	return text
}

// env is a whole number from the environment.
func env(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// shell runs a script.
func shell(script string) ([]byte, error) { return exec.Command("sh", "-ec", script).CombinedOutput() }
