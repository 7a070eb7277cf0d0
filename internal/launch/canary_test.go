package launch

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// counting starts a target, after prefix, that counts signals s and says at SIGUSR2 how many it has got, in a process group of its own.
func counting(t *testing.T, s syscall.Signal, prefix ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	script := fmt.Sprintf("n=0; trap 'n=$((n+1)); ' %d; trap 'echo got $n' USR2; echo ready; while :; do sleep 0.02; done", s)
	cmd := command(t, append(prefix, "bash", "-c", script)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	screen := bufio.NewScanner(out)
	t.Cleanup(func() {
		_ = unix.Kill(relative(t, cmd.Process.Pid, "bash"), unix.SIGKILL)
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	see(t, screen, "ready")
	relative(t, cmd.Process.Pid, "sh") // the canary
	return cmd, screen
}

// got fails the test unless the target has got n signals.
func got(t *testing.T, cmd *exec.Cmd, screen *bufio.Scanner, n int) {
	t.Helper()
	if err := unix.Kill(relative(t, cmd.Process.Pid, "bash"), unix.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprint("got ", n); !screen.Scan() || strings.TrimSpace(screen.Text()) != want {
		t.Errorf("%q instead of %q", screen.Text(), want)
	}
}

const betweenSignals = 150 * time.Millisecond // longer than the target, the launcher and a canary take for one

// What a whole group gets, the target gets once; what the launcher alone gets, too.
func TestGroupSignals(t *testing.T) {
	for _, s := range []syscall.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGALRM} {
		t.Run(unix.SignalName(s), func(t *testing.T) {
			t.Parallel()
			cmd, screen := counting(t, s)
			for i := range 6 { // each death of a canary is followed by the next one
				to := cmd.Process.Pid
				if i%3 != 2 {
					to = -to
				}
				if err := unix.Kill(to, s); err != nil {
					t.Fatal(err)
				}
				time.Sleep(betweenSignals)
				got(t, cmd, screen, i+1)
			}
		})
	}
}

// A target that has left the group has nobody but the launcher to tell it.
func TestGroupSignalToOtherGroup(t *testing.T) {
	cmd, screen := counting(t, unix.SIGTERM, "setsid")
	for i := range 2 {
		if err := unix.Kill(-cmd.Process.Pid, unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		time.Sleep(betweenSignals)
		got(t, cmd, screen, i+1)
	}
}

// The canary ends with the launcher, however that ends, and holds nothing of the caller.
func TestCanaryEnds(t *testing.T) {
	cmd := target(t, "wait")
	in, _ := begin(t, cmd)
	bird := relative(t, cmd.Process.Pid, "sh")
	_ = cmd.Process.Kill()
	waitGone(t, bird)
	in.Close()
	_, _ = cmd.Process.Wait()
}
