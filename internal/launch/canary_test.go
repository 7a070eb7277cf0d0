package launch

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// counting starts a target, after prefix, that says how many signals s it has got, at each, in a process group of its own.
func counting(t *testing.T, s syscall.Signal, prefix ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	script := fmt.Sprintf("n=0; trap 'n=$((n+1)); echo got $n' %d; echo ready; while :; do sleep 0.02; done", s)
	cmd := command(t, append(prefix, "bash", "-c", script)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = out.(*os.File).SetReadDeadline(time.Now().Add(time.Minute))
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(relative(t, cmd.Process.Pid, "bash"), unix.SIGKILL)
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	screen := bufio.NewScanner(out)
	see(t, screen, "ready")
	return cmd, screen
}

// got fails the test unless the next that the target says is that it has got n signals.
func got(t *testing.T, screen *bufio.Scanner, n int) {
	t.Helper()
	if want := fmt.Sprint("got ", n); !screen.Scan() || strings.TrimSpace(screen.Text()) != want {
		t.Fatalf("%q instead of %q, %v", screen.Text(), want, screen.Err())
	}
}

const betweenSignals = 100 * time.Millisecond // in which a signal would come once more

// What a whole group gets, the target gets once; what the launcher alone gets, too.
func TestGroupSignals(t *testing.T) {
	for _, s := range []syscall.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGALRM} {
		t.Run(unix.SignalName(s), func(t *testing.T) {
			t.Parallel()
			cmd, screen := counting(t, s)
			for i := range 7 { // each death of a canary is followed by the next one
				bird := relative(t, cmd.Process.Pid, "cat")
				if i == 4 { // as on a busy machine: it has the signal, but no time to die of it
					_ = unix.Kill(bird, unix.SIGSTOP)
				}
				to := cmd.Process.Pid
				if i%3 != 2 {
					to = -to
				}
				if err := unix.Kill(to, s); err != nil {
					t.Fatal(err)
				}
				got(t, screen, i+1)
				if to < 0 {
					waitGone(t, bird)
				}
				time.Sleep(betweenSignals)
			}
		})
	}
}

// A target that has left the group has nobody but the launcher to tell it.
func TestGroupSignalToOtherGroup(t *testing.T) {
	cmd, screen := counting(t, unix.SIGTERM, "setsid")
	for i := range 3 {
		if err := unix.Kill(-cmd.Process.Pid, unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		got(t, screen, i+1)
		time.Sleep(betweenSignals)
	}
}

// The canary ends with the launcher, however that ends, and holds nothing of the caller.
func TestCanaryEnds(t *testing.T) {
	cmd := target(t, "wait")
	in, _ := begin(t, cmd)
	bird := relative(t, cmd.Process.Pid, "cat")
	_ = cmd.Process.Kill()
	waitGone(t, bird)
	in.Close()
	_, _ = cmd.Process.Wait()
}
