package session

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"memscope/internal/control"
)

// What a shell has started in the background may introduce itself when the shell has ended since.
func TestShellEndsFirst(t *testing.T) {
	name := fmt.Sprintf("msmemscope-shell-%d", os.Getpid())
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: "@" + name})
	if err != nil {
		t.Fatal(err)
	}
	start := func(env ...string) *exec.Cmd {
		cmd := exec.Command("sleep", "1000")
		cmd.Env = append(os.Environ(), env...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd
	}
	end := func(cmd *exec.Cmd) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	shell, job := start(), start(control.EnvSession+"="+name)
	cfg := settings()
	s := newSession(&cfg, nil, listener, nil, shell.Process.Pid)
	ended := make(chan struct{})
	go func() {
		s.runShell()
		close(ended)
	}()
	end(shell)
	select {
	case <-ended:
		t.Fatal("the session has ended before the job")
	case <-time.After(3 * outlastPause):
	}
	end(job)
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Error("the session does not end")
	}
}
