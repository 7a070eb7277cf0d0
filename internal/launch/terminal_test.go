package launch

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A role of the test binary beside those in launch_test.go: a shell with job control, as small as can be. It runs its
// arguments as a foreground job; when the job stops it says so and continues it.
func shell() int {
	job := exec.Command(os.Args[1], os.Args[2:]...)
	job.Stdin, job.Stdout, job.Stderr = os.Stdin, os.Stdout, os.Stderr
	job.Env = append(os.Environ(), envRole+"=launcher")
	job.SysProcAttr = &syscall.SysProcAttr{Foreground: true, Ctty: 0}
	if err := job.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(job.Process.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			fmt.Println(err)
			return 1
		case status.Stopped():
			fmt.Println("shell: stopped by", int(status.StopSignal()))
			_ = unix.Kill(-job.Process.Pid, unix.SIGCONT)
		default:
			fmt.Println("shell: ended with", status.ExitStatus())
			return 0
		}
	}
}

// terminal runs a program under msmemscope under the shell on a terminal of its own.
func terminal(t *testing.T, program ...string) (keyboard *os.File, screen *bufio.Scanner) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here:", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	cmd := command(t, append([]string{os.Args[0]}, program...)...)
	cmd.Env = append(cmd.Env, envRole+"=shell")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	})
	return master, bufio.NewScanner(master)
}

// see waits for a line on the screen.
func see(t *testing.T, screen *bufio.Scanner, want string) {
	t.Helper()
	for screen.Scan() {
		line := strings.TrimSpace(screen.Text())
		if strings.Contains(line, want) {
			return
		}
		t.Logf("on the screen: %q", line)
	}
	t.Fatalf("%q does not appear: %v", want, screen.Err())
}

func TestInterruptKeyComesOnce(t *testing.T) {
	keyboard, screen := terminal(t, "bash", "-c",
		"n=0; trap 'n=$((n+1))' INT; echo ready; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; done; echo interrupts $n; exit 5")
	see(t, screen, "ready")
	time.Sleep(50 * time.Millisecond)
	keyboard.Write([]byte{3}) // Ctrl-C
	see(t, screen, "interrupts 1")
	see(t, screen, "shell: ended with 5")
}

func TestStopKey(t *testing.T) {
	keyboard, screen := terminal(t, "bash", "-c", "echo ready; for i in 1 2 3 4 5; do sleep 0.1; done; echo done; exit 5")
	see(t, screen, "ready")
	keyboard.Write([]byte{26}) // Ctrl-Z
	see(t, screen, "shell: stopped by 20")
	see(t, screen, "done")
	see(t, screen, "shell: ended with 5")
}

// screenful reads the screen until a line has want, and returns it all.
func screenful(t *testing.T, screen *bufio.Scanner, want string) string {
	t.Helper()
	var text string
	for screen.Scan() {
		text += screen.Text() + "\n"
		if strings.Contains(screen.Text(), want) {
			return text
		}
	}
	t.Fatalf("%q does not appear: %q", want, text)
	return ""
}

// A target that stops itself stops the job, and goes on with it.
func TestTargetStopsItself(t *testing.T) {
	for _, signal := range []int{19, 20, 21} {
		_, screen := terminal(t, "bash", "-c", fmt.Sprintf("kill -%d $$; echo done; exit 5", signal))
		see(t, screen, fmt.Sprintf("shell: stopped by %d", signal))
		see(t, screen, "done")
		see(t, screen, "shell: ended with 5")
	}
}

// A target that does not want to stop keeps its launcher.
func TestStopKeyIgnored(t *testing.T) {
	keyboard, screen := terminal(t, "bash", "-c", "trap '' TSTP; echo ready; for i in 1 2 3 4 5; do sleep 0.1; done; echo done; exit 5")
	see(t, screen, "ready")
	time.Sleep(200 * time.Millisecond) // the launcher ignores the key from a moment after the start on
	keyboard.Write([]byte{26})
	if text := screenful(t, screen, "shell: ended with 5"); strings.Contains(text, "stopped") || !strings.Contains(text, "done") {
		t.Errorf("on the screen: %q", text)
	}
}

// The target starts with the dispositions of the caller although the launcher ignores stop signals.
func TestStopDispositions(t *testing.T) {
	if r := run(t, command(t, "grep", "SigIgn", "/proc/self/status")); ignored(t, r.out) != "0000000000000000" {
		t.Errorf("%q", r.out)
	}
	cmd := command(t, "grep", "SigIgn", "/proc/self/status")
	cmd.Args = append([]string{"sh", "-c", `trap '' TSTP; exec "$0" "$@"`, os.Args[0]}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	if r := run(t, cmd); ignored(t, r.out) != "0000000000080000" {
		t.Errorf("%q", r.out)
	}
}

// Without a terminal a target is stopped and continued as without us.
func TestStopWithoutTerminal(t *testing.T) {
	cmd := command(t, "sh", "-c", "(sleep 0.3; kill -CONT $$) & kill -STOP $$; wait; exit 5")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if r := run(t, cmd); r.code != 5 {
		t.Errorf("%+v", r)
	}
}
