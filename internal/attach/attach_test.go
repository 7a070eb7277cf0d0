package attach

import (
	"fmt"
	"net"
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

func TestComplete(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "s": "st", "sta": "start", "di": "display ", "display h": "display host_leak summary", "q": "quit", "x": "x",
		"  flu": "flush", "display status": "display status",
	} {
		if got := complete(line); got != want {
			t.Errorf("%q becomes %q, want %q", line, got, want)
		}
	}
}

// TestRefusals: who cannot be controlled is told why.
func TestRefusals(t *testing.T) {
	zombie := exec.Command("true")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	defer zombie.Wait()
	for {
		if s, err := readStatus(fmt.Sprintf("/proc/%d", zombie.Process.Pid)); err != nil || s.state == "Z" {
			break
		}
		time.Sleep(time.Millisecond)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	thread := threads[len(threads)-1].Name()
	for _, c := range []struct {
		pid  string
		want string
	}{
		{"4194999", "there is no process 4194999"},
		{strconv.Itoa(zombie.Process.Pid), "has ended"},
		{strconv.Itoa(os.Getpid()), "has no library of msmemscope loaded; start it with msmemscope"},
		{thread, "is a thread of process " + strconv.Itoa(os.Getpid())},
	} {
		pid, _ := strconv.Atoi(c.pid)
		if _, err := find(pid); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("process %s: %v, want %q", c.pid, err, c.want)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	other := exec.Command("setpriv", "--reuid=65534", "--clear-groups", "sleep", "60")
	if err := other.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	if _, err := find(other.Process.Pid); err == nil || !strings.Contains(err.Error(), "no library") { // root may
		t.Errorf("another user's process, as root: %v", err)
	}
}

// TestLauncher: who names the launcher, whose number a shell tells, is told the program's.
func TestLauncher(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile(shell)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), launcher)
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-c", "sleep 60 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Fscan(out, &child); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(child, syscall.SIGKILL)
		_ = cmd.Wait()
	}()
	_, err = find(cmd.Process.Pid)
	if err == nil || !strings.Contains(err.Error(), "only waits for the program that it runs; name that") {
		t.Fatalf("%v", err)
	}
	if children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid)); len(children) > 0 && !strings.Contains(err.Error(), strconv.Itoa(child)) {
		t.Errorf("%v, want %d named", err, child)
	}
}

// TestOwnSession: the session that a program has made for itself is found by its process id.
func TestOwnSession(t *testing.T) {
	name := fmt.Sprintf("msmemscope-%d-%d", os.Getpid(), time.Now().UnixNano())
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: "@" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := ownSession(strconv.Itoa(os.Getpid())); got != name {
		t.Errorf("session %q, want %q", got, name)
	}
	if got := ownSession("4194999"); got != "" {
		t.Errorf("session %q of nobody", got)
	}
}

func TestStatus(t *testing.T) {
	s, err := readStatus("/proc/" + strconv.Itoa(os.Getpid()))
	if err != nil || s.group != os.Getpid() || s.uid != os.Geteuid() || !slices.Contains(s.ids, strconv.Itoa(os.Getpid())) {
		t.Errorf("%+v, %v", s, err)
	}
}
