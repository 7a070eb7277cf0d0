package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"memscope/internal/config"
	"memscope/internal/control"
	"memscope/internal/session"
	"memscope/internal/wire"
	"memscope/internal/wire/wiretest"
)

// The test binary plays every process of a run: the launcher, the collector (which the launcher starts from the same
// binary) and the target.
const (
	envRole   = "LAUNCH_TEST_ROLE" // "launcher", or a target of targets
	envOutput = "LAUNCH_TEST_OUTPUT"
	envFIFO   = "LAUNCH_TEST_FIFO"
)

var targets = map[string]func(p *wiretest.Producer){
	// records one block and ends with status 3
	"record": func(p *wiretest.Producer) {
		record(p)
		fmt.Println("target: out")
		fmt.Fprintln(os.Stderr, "target: err")
		os.Exit(3)
	},
	// records one block, says nothing, and ends with status 3
	"quiet": func(p *wiretest.Producer) {
		record(p)
		os.Exit(3)
	},
	// records one block and waits for the end of its standard input
	"wait": func(p *wiretest.Producer) {
		record(p)
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(4)
	},
	// leaves a copy of itself behind that lives for as long as the test wants
	"leave": func(p *wiretest.Producer) {
		record(p)
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), envRole+"=linger")
		out, err := child.StdoutPipe()
		if err == nil {
			err = child.Start()
		}
		if err == nil {
			_, err = out.Read(make([]byte, 1)) // it is connected
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	},
	"linger": func(p *wiretest.Producer) {
		record(p)
		fmt.Println("ready")
		os.Stdout.Close()
		_, _ = os.ReadFile(os.Getenv(envFIFO)) // until somebody has opened and closed its other end
	},
}

func record(p *wiretest.Producer) {
	a := wire.Alloc{Addr: 0x1000, Size: 512, Detail: 1 << 10}
	a.H.Pool = wire.PoolHAL
	p.Alloc(uint32(os.Getpid()), a)
}

func TestMain(m *testing.M) {
	if os.Args[0] == control.ProcessName {
		os.Exit(session.Main(nil, nil))
	}
	role := os.Getenv(envRole)
	switch {
	case role == "shell":
		os.Exit(shell())
	case role == "launcher":
		os.Unsetenv(envRole)
		cfg := config.Default()
		cfg.OutputPath = os.Getenv(envOutput)
		os.Exit(Run(cfg, os.Args[1:], Self))
	case targets[role] != nil:
		p, _, err := wiretest.Connect(os.Getenv(control.EnvSession), os.Getpid())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		targets[role](p)
		os.Exit(0)
	}
	// Whoever runs the tests may ignore signals (nohup, make -j in the background); the programs under test begin without that.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	os.Exit(m.Run())
}

// hookDir has the hook libraries, empty ones.
func hookDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "empty.c")
	if err := os.WriteFile(source, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(dir, hooks[0])
	if out, err := exec.Command("gcc", "-shared", "-o", first, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return dir
}

// command prepares msmemscope PROGRAM…
func command(t *testing.T, program ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], program...)
	cmd.Env = append(os.Environ(), envRole+"=launcher", envOutput+"="+filepath.Join(t.TempDir(), "out"),
		"LD_PRELOAD_PATH="+hookDir(t))
	return cmd
}

// target prepares the launcher with a role of targets as its program.
func target(t *testing.T, role string) *exec.Cmd {
	t.Helper()
	return command(t, "env", envRole+"="+role, os.Args[0])
}

func outputOf(cmd *exec.Cmd) string {
	for _, kv := range cmd.Env {
		if v, ok := strings.CutPrefix(kv, envOutput+"="); ok {
			return v
		}
	}
	return ""
}

type result struct {
	code     int
	out, err string
}

func run(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

func TestStatus(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", "exit 5\n", 0o755)
	locked := write("locked", "#!/bin/sh\n", 0o644)
	lost := write("lost", "#!/no/such/interpreter\n", 0o755)
	for _, c := range []struct {
		program []string
		code    int
		err     string
	}{
		{[]string{"true"}, 0, ""},
		{[]string{"sh", "-c", "exit 7"}, 7, ""},
		{[]string{"sh", "-c", "kill -9 $$"}, 137, ""},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143, ""},
		{[]string{plain}, 5, ""},
		{[]string{"no-such-program-anywhere"}, 127, "[msmemscope] Error: cannot run no-such-program-anywhere: not found in PATH.\n"},
		{[]string{dir + "/none"}, 127, "[msmemscope] Error: cannot run " + dir + "/none: no such file.\n"},
		{[]string{lost}, 127, "[msmemscope] Error: cannot run " + lost + ": the interpreter that it names was not found.\n"},
		{[]string{locked}, 126, "[msmemscope] Error: cannot run " + locked + ": it is not executable.\n"},
		{[]string{dir}, 126, "[msmemscope] Error: cannot run " + dir + ": it is a directory.\n"},
	} {
		r := run(t, command(t, c.program...))
		if r.code != c.code || r.err != c.err || r.out != "" {
			t.Errorf("%q: status %d, want %d; stdout %q, stderr %q", c.program, r.code, c.code, r.out, r.err)
		}
	}
}

// A program in the working directory comes before one of PATH (contract 1.9), a directory of that name does not.
func TestFindInWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "true"), []byte("#!/bin/sh\nexit 9\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for program, code := range map[string]int{"true": 9, "sh": 0} {
		cmd := command(t, program)
		cmd.Dir = dir
		if r := run(t, cmd); r.code != code {
			t.Errorf("%s: status %d, want %d; %s", program, r.code, code, r.err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	cmd := command(t, "sh", "-c", `echo "$LD_PRELOAD|$LD_LIBRARY_PATH|$`+control.EnvSession+`"`)
	libs := strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], "LD_PRELOAD_PATH=")
	mine := filepath.Join(libs, hooks[0])
	cmd.Env = append(cmd.Env, "LD_PRELOAD="+mine, "LD_LIBRARY_PATH=/one:/two")
	r := run(t, cmd)
	preload := mine + ":" + mine
	want := regexp.QuoteMeta(preload+"|/one:/two|msmemscope-") + "[0-9a-f]{24}\n"
	if !regexp.MustCompile("^" + want + "$").MatchString(r.out) {
		t.Errorf("got  %q\nwant %q", r.out, want)
	}
	env, err := environment([]string{"HOME=/"}, libs, hooks, "x")
	if want := []string{"HOME=/", "LD_PRELOAD=" + strings.TrimSuffix(preload, ":"+mine), control.EnvSession + "=x"}; err != nil || !slices.Equal(env, want) {
		t.Errorf("got  %q (%v)\nwant %q", env, err, want)
	}
}

func TestRefusals(t *testing.T) {
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: fmt.Sprintf("@launch-test-%d", os.Getpid())})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	live := control.EnvSession + "=" + strings.TrimPrefix(listener.Addr().String(), "@")
	for _, c := range []struct {
		env  string
		code int
		err  string
	}{
		{live, 2, "already runs under msmemscope"},
		{control.EnvSession + "=nobody-listens-here", 0, ""},
		{"LD_PRELOAD_PATH=" + t.TempDir(), 2, "no hook library in"},
		{"LD_PRELOAD_PATH=/a b", 2, "blank or a colon"},
		{control.EnvRingBytes + "=12", 2, control.EnvRingBytes + "=12"},
		{control.EnvRingBytes + "=many", 2, control.EnvRingBytes + "=many"},
		{control.EnvRingBytes + "=1048576", 0, ""},
		{control.EnvBeat + "=9", 2, control.EnvBeat + "=9"},
		{control.EnvTop + "=1025", 2, control.EnvTop + "=1025: a number of leak sites from 1 to 1024"},
		{control.EnvWatchBytes + "=16G", 2, control.EnvWatchBytes + "=16G: a number of bytes"},
	} {
		cmd := command(t, "true")
		cmd.Env = append(cmd.Env, c.env)
		r := run(t, cmd)
		if r.code != c.code || !strings.Contains(r.err, c.err) || strings.Count(r.err, "\n") != min(c.code, 1) {
			t.Errorf("%s: status %d, %q", c.env, r.code, r.err)
		}
	}
}

func TestReport(t *testing.T) {
	cmd := target(t, "record")
	r := run(t, cmd)
	if r.code != 3 || r.err != "target: err\n" {
		t.Errorf("status %d, stderr %q", r.code, r.err)
	}
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if lines[0] != "target: out" || lines[len(lines)-1] != "[msmemscope] Info: Fflush temporary cache events to file!" ||
		!strings.Contains(r.out, "\n[msmemscope] Info: create file "+outputOf(cmd)) {
		t.Errorf("stdout %q", r.out)
	}
}

// The list of visible cards is spoken of when something was recorded, and called good when the agent takes it.
func TestVisibleCards(t *testing.T) {
	const good = "[msmemscope] Info: Set ASCEND_RT_VISIBLE_DEVICES successfully!\n"
	bad := func(list string) string {
		return "[msmemscope] Warn: ASCEND_RT_VISIBLE_DEVICES=\"" + list + "\" is not used, device numbers are taken as card numbers; " +
			"a list of card numbers is accepted: 0,2\n"
	}
	for _, list := range []string{"0", " 2 ,\t0", "007,9998", strings.Repeat("7,", 63) + "7"} {
		t.Setenv(envVisible, list)
		if got := strings.Join(visibleCards(), "") + "\n"; got != good {
			t.Errorf("%q: %q", list, got)
		}
	}
	for _, list := range []string{"", ",", "0,", "1,two", "-1", "+1", "0x1", "9999", "1 2", "18446744073709551616", "1，2"} {
		t.Setenv(envVisible, list)
		if got := strings.Join(visibleCards(), "") + "\n"; got != bad(list) {
			t.Errorf("%q: %q", list, got)
		}
	}
	t.Setenv(envVisible, strings.Repeat("7,", 64)+"7")
	if got := visibleCards(); len(got) != 1 || !strings.HasPrefix(got[0], "[msmemscope] Warn:") || len(got[0]) > 300 {
		t.Errorf("65 cards: %q", got)
	}
	os.Unsetenv(envVisible)
	for list, want := range map[string]result{
		"1,0": {3, good, ""},
		"1,x": {3, "", bad("1,x")},
	} {
		cmd := target(t, "quiet")
		cmd.Env = append(cmd.Env, envVisible+"="+list)
		if r := run(t, cmd); r.code != want.code || !strings.HasPrefix(r.out, want.out) || r.err != want.err {
			t.Errorf("%s: %+v", list, r)
		}
		cmd = command(t, "true")
		cmd.Env = append(cmd.Env, envVisible+"="+list)
		if r := run(t, cmd); r != (result{}) {
			t.Errorf("%s, nothing recorded: %+v", list, r)
		}
	}
}

func TestNothingRecorded(t *testing.T) {
	cmd := command(t, "sh", "-c", "echo out; echo err >&2")
	r := run(t, cmd)
	if r != (result{0, "out\n", "err\n"}) {
		t.Errorf("got %+v", r)
	}
	if _, err := os.Stat(outputOf(cmd)); !os.IsNotExist(err) {
		t.Errorf("%s: %v", outputOf(cmd), err)
	}
}

// begin starts the launcher and waits for the target's "ready".
func begin(t *testing.T, cmd *exec.Cmd) (in io.WriteCloser, errOut *bytes.Buffer) {
	t.Helper()
	errOut = new(bytes.Buffer)
	cmd.Stderr = errOut
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, out)
	return in, errOut
}

// relative finds the child of a process whose command line begins with a word.
func relative(t *testing.T, parent int, word string) int {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var children []string // each thread lists those that it started
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			children = append(children, strings.Fields(string(text))...)
		}
		for _, child := range children {
			if line, err := os.ReadFile("/proc/" + child + "/cmdline"); err == nil && strings.HasPrefix(string(line), word) {
				var pid int
				fmt.Sscan(child, &pid)
				return pid
			}
		}
	}
	t.Fatalf("process %d has no child %q", parent, word)
	return 0
}

func TestCollectorProcess(t *testing.T) {
	cmd := target(t, "wait")
	pipeRead, pipeWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{pipeWrite} // for the target only
	in, _ := begin(t, cmd)
	pipeWrite.Close()
	pid := relative(t, cmd.Process.Pid, control.ProcessName)
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || cwd != "/" {
		t.Errorf("works in %s (%v)", cwd, err)
	}
	if sid, err := unix.Getsid(pid); err != nil || sid != pid {
		t.Errorf("session %d of process %d (%v)", sid, pid, err)
	}
	ours, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/3", cmd.Process.Pid))
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if link, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name())); link == ours {
			t.Errorf("descriptor %s is the caller's %s", fd.Name(), link)
		}
	}
	in.Close()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 4 {
		t.Errorf("ended with %v", err)
	}
	pipeRead.Close()
}

// The one line about a dead collector tells what to do, and no file is announced.
func TestCollectorKilled(t *testing.T) {
	for _, name := range []string{"out", "out of mine"} {
		cmd := target(t, "wait")
		path := filepath.Join(t.TempDir(), name)
		shown := path
		if strings.Contains(path, " ") {
			shown = "'" + path + "'"
		}
		cmd.Env = append(cmd.Env, envOutput+"="+path)
		var out, errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errOut
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		waitSpool(t, path)
		if err := unix.Kill(relative(t, cmd.Process.Pid, control.ProcessName), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		in.Close()
		_ = cmd.Wait()
		want := "[msmemscope] Error: the collector has died (signal: killed); the program runs on without being recorded; " +
			"`msmemscope dump recover " + shown + "` completes the dump of what was recorded.\n"
		if cmd.ProcessState.ExitCode() != 4 || errOut.String() != want || out.String() != "ready\n" {
			t.Errorf("status %d, stdout %q, stderr %q, want %q", cmd.ProcessState.ExitCode(), &out, &errOut, want)
		}
	}
}

// When the program dies with the collector, nobody says that it runs on.
func TestAllKilled(t *testing.T) {
	cmd := target(t, "wait")
	_, errOut := begin(t, cmd)
	waitSpool(t, outputOf(cmd))
	for _, word := range []string{control.ProcessName, os.Args[0]} {
		if err := unix.Kill(relative(t, cmd.Process.Pid, word), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait()
	want := "[msmemscope] Error: the collector has died (signal: killed); the dump is not complete; `msmemscope dump recover " + outputOf(cmd) +
		"` completes the dump of what was recorded.\n"
	if cmd.ProcessState.ExitCode() != 137 || errOut.String() != want {
		t.Errorf("status %d, stderr %q, want %q", cmd.ProcessState.ExitCode(), errOut, want)
	}
}

// waitSpool waits until something is recorded below an output path.
func waitSpool(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if spools, _ := filepath.Glob(filepath.Join(path, "*", "spool", "*")); len(spools) > 0 {
			return
		}
	}
	t.Fatalf("no spool in %s", path)
}

// A collector that survives the launcher finishes the dump.
func TestLauncherKilled(t *testing.T) {
	cmd := target(t, "wait")
	in, _ := begin(t, cmd)
	collector := relative(t, cmd.Process.Pid, control.ProcessName)
	_ = cmd.Process.Kill()
	_, _ = cmd.Process.Wait()
	if err := unix.Kill(collector, 0); err != nil {
		t.Fatalf("the collector: %v", err)
	}
	in.Close()
	waitGone(t, collector)
	dumps, _ := filepath.Glob(filepath.Join(outputOf(cmd), "*/device_0/dump/*.csv"))
	if len(dumps) != 1 {
		t.Fatalf("dumps: %q", dumps)
	}
	text, err := os.ReadFile(dumps[0])
	if err != nil || strings.Count(string(text), "\n") != 3 || !strings.Contains(string(text), "shadow:true") {
		t.Errorf("%q, %v", text, err)
	}
}

func waitGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d does not end", pid)
		}
	}
}

// Grandchildren that live on keep neither the launcher nor its caller's pipe.
func TestGrandchild(t *testing.T) {
	cmd := target(t, "leave")
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, envFIFO+"="+fifo)
	r := run(t, cmd) // waits for the end of its output, too
	if release, err := os.OpenFile(fifo, os.O_WRONLY|unix.O_NONBLOCK, 0); err != nil {
		t.Errorf("the grandchild does not live: %v", err)
	} else {
		release.Close()
	}
	if r.code != 0 {
		t.Errorf("status %d", r.code)
	}
	if !strings.Contains(r.out, "1 process(es) of the program live on") || r.err != "" {
		t.Errorf("stdout %q, stderr %q", r.out, r.err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		dumps, _ := filepath.Glob(filepath.Join(outputOf(cmd), "*/device_0/dump/*.csv"))
		spools, _ := filepath.Glob(filepath.Join(outputOf(cmd), "*/spool"))
		if len(dumps) == 2 && len(spools) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("dumps %q, spools %q", dumps, spools)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestSignalsArePassedOn(t *testing.T) {
	for _, s := range []syscall.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, 40} {
		script := fmt.Sprintf("trap 'exit 42' %d; echo ready; while :; do sleep 0.02; done", s)
		cmd := command(t, "bash", "-c", script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal
		begin(t, cmd)
		ended := make(chan error)
		go func() { ended <- cmd.Wait() }()
		for waiting := true; waiting; { // real-time signals count from a moment after the start on
			_ = cmd.Process.Signal(s)
			select {
			case <-ended:
				waiting = false
			case <-time.After(100 * time.Millisecond):
			}
		}
		if cmd.ProcessState.ExitCode() != 42 {
			t.Errorf("signal %d: %v", s, cmd.ProcessState)
		}
	}
}

// Under nohup the target stays deaf to SIGHUP, and the launcher does not undo that.
func TestIgnoredHangup(t *testing.T) {
	cmd := command(t, "sh", "-c", "echo ready; sleep 0.3; exit 6")
	cmd.Args = append([]string{"sh", "-c", `trap '' HUP; exec "$0" "$@"`, os.Args[0]}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	begin(t, cmd)
	_ = cmd.Process.Signal(unix.SIGHUP)
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 6 {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
}

// ignored is the mask in a line SigIgn of /proc/<pid>/status, without signals 32 and 33: they are libc's own, and make leaves
// them ignored in what it starts.
func ignored(t *testing.T, line string) string {
	t.Helper()
	mask, err := strconv.ParseUint(strings.Fields(line)[1], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%016x", mask&^(3<<31))
}

// The target inherits what the caller ignores, and only that.
func TestIgnoredSignals(t *testing.T) {
	const show = "grep SigIgn /proc/self/status"
	for _, mask := range []string{"0000000000000000", "0000000000001201"} {
		cmd := command(t, "sh", "-c", show)
		cmd.Env = append(cmd.Env, envIgnored+"="+mask)
		if r := run(t, cmd); ignored(t, r.out) != mask {
			t.Errorf("%s becomes %s", mask, r.out)
		}
	}
	if r := run(t, command(t, "sh", "-c", show+"; env")); ignored(t, r.out) != "0000000000000000" || strings.Contains(r.out, envIgnored) {
		t.Errorf("without the front script: %s", r.out)
	}
}

// A reader that has gone away costs the target nothing.
func TestClosedOutput(t *testing.T) {
	cmd := target(t, "quiet")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	defer write.Close()
	cmd.Stdout = write
	if _ = cmd.Run(); cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
}
