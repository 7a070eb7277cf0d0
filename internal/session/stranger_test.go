package session

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"memscope/internal/control"
	"memscope/internal/wire"
)

// nobody runs the test binary as another user, from where that user may run it.
func nobody(r *run) *exec.Cmd {
	r.t.Helper()
	if os.Geteuid() != 0 {
		r.t.Skip("only root can become another user")
	}
	dir, err := os.MkdirTemp("", "stranger")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "nobody's\tprogram")
	binary, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(program, binary, 0o755)
	}
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), envChild+"=hello 1", control.EnvSession+"="+r.name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return cmd
}

// A target that has given up the rights of root is recorded.
func TestDroppedPrivileges(t *testing.T) {
	r := startRun(t, settings())
	cmd := nobody(r)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := r.conclude()
	if rows := r.dumps(cmd.Process.Pid)["device_2"]; len(rows) == 0 || r.done.Collected != 1 {
		t.Errorf("%d rows, %+v, %q", len(rows), r.done, lines)
	}
}

// A process of another user that is none of this run's is turned away, with a line.
func TestStranger(t *testing.T) {
	other := exec.Command("sleep", "100") // no ancestor of anybody
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	r := startRunUnder(t, settings(), other.Process.Pid)
	cmd := nobody(r)
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("it was accepted: %s", out)
	}
	lines := strings.Join(r.conclude(), "\n")
	want := fmt.Sprintf("[msmemscope] Warn: process %d (nobody's?progra) runs as another user (65534) and is not recorded.", cmd.Process.Pid)
	if lines != want {
		t.Errorf("said %q, want %q", lines, want)
	}
}

func TestDescends(t *testing.T) {
	me := os.Getpid()
	for _, c := range []struct {
		pid, ancestor int
		want          bool
	}{{me, me, true}, {me, os.Getppid(), true}, {os.Getppid(), me, false}, {me, 1 << 23, false}, {1 << 23, me, false}, {0, 0, false}} {
		if descends(c.pid, c.ancestor) != c.want {
			t.Errorf("%+v", c)
		}
	}
}

// The name of a process reaches the user's terminal without control characters.
func TestProcessName(t *testing.T) {
	r := startRun(t, settings())
	c := r.child("named")
	c.expect("ready")
	if got := (&process{pid: c.cmd.Process.Pid}).name(); got != "a?[2J?b" {
		t.Errorf("%q", got)
	}
	c.kill()
	r.conclude()
}

// Under `ulimit -f` the ring is smaller, or there is none, and nobody dies.
func TestFileSizeLimit(t *testing.T) {
	var saved unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &saved); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(unix.SIGXFSZ)
	t.Cleanup(func() {
		signal.Reset(unix.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &saved); err != nil {
			t.Error(err)
		}
	})
	for limit, want := range map[uint64]uint64{wire.MinBytes: 0, 3 << 20: 2 << 20} {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: saved.Max}); err != nil {
			t.Fatal(err)
		}
		b := newBudget()
		ring, err := b.ring()
		if want == 0 {
			if err == nil || !strings.Contains(err.Error(), "no memory for a ring") || !strings.Contains(err.Error(), "file too large") {
				t.Errorf("limit %d: %v", limit, err)
			}
			continue
		}
		if err != nil || ring.Size() != want {
			t.Fatalf("limit %d: %v", limit, err)
		}
		if err := b.give(ring); err != nil {
			t.Error(err)
		}
	}
	growFiles()
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &now); err != nil || now.Cur != saved.Max {
		t.Errorf("limit %d, the hard one %d (%v)", now.Cur, saved.Max, err)
	}
}

// A run whose files cannot be made has recorded something and stored nothing.
func TestNothingStored(t *testing.T) {
	cfg := settings()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.OutputPath = filepath.Join(file, "out")
	r := startRun(t, cfg)
	r.child("hello 2").wait()
	if r.conclude(); *r.done != (control.Done{Collected: 1}) {
		t.Errorf("%+v", *r.done)
	}
}
