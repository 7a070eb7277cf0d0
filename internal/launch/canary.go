package launch

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// canary is a child in the launcher's process group that does nothing. A signal that kills it was sent to the whole group (by
// `timeout`, `kill -- -PGID`, a key of the terminal), so the target has it, too; one that it survives was for the launcher alone.
// The system tells no Go program who has sent a signal to whom.
type canary struct {
	*process
	life int // the end of this pipe, also by the launcher's death, ends it
}

const (
	// canaryPause lies between the start of the target and that of the canary: short programs need none.
	canaryPause = 50 * time.Millisecond
	// canaryPatience is granted to a signal of the group to reach the canary, too.
	canaryPatience = 30 * time.Millisecond
)

// startCanary starts one. It has none of the target's streams and leaves no core behind. It is no shell, which catches SIGINT itself before
// it dies of it, and may put that off.
func startCanary() (*canary, error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	read, write := pipe[0], pipe[1]
	defer unix.Close(read)
	null, err := unix.Open(os.DevNull, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(write)
		return nil, err
	}
	defer unix.Close(null)
	bird, err := startProcess("/bin/sh", []string{"sh", "-c", "ulimit -c 0; exec cat"}, []string{}, "/", uintptr(read), uintptr(null), uintptr(null))
	if err != nil {
		unix.Close(write)
		return nil, err
	}
	return &canary{process: bird, life: write}, nil
}

// keepCanary puts a new canary into nest, after a pause, if one can be started.
func keepCanary(nest chan<- *canary, pause time.Duration) {
	time.Sleep(pause)
	if c, err := startCanary(); err == nil {
		nest <- c
	}
}

// dead says whether the canary has died or is about to, waiting that long for it, and whether signal s was the cause. A dead one is reaped.
func (c *canary) dead(s os.Signal, patience time.Duration) (dead, ofIt bool) {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(c.pid, &status, syscall.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case err != nil || pid == c.pid:
			c.bury()
			return true, err == nil && status.Signaled() && status.Signal() == s
		case c.pending(s.(syscall.Signal)): // on a busy machine it gets no time to die
			_ = c.signal(unix.SIGKILL) // it may be stopped
			go func() {
				for err := error(unix.EINTR); err == unix.EINTR; {
					_, err = syscall.Wait4(c.pid, nil, 0, nil)
				}
				c.bury()
			}()
			return true, true
		case time.Now().After(end):
			return false, false
		}
	}
}

// pending says whether the process has been sent s and has not looked at it yet.
func (c *canary) pending(s syscall.Signal) bool {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid))
	_, mask, found := strings.Cut(string(status), "\nShdPnd:\t")
	if !found || len(mask) < 16 {
		return false
	}
	bits, err := strconv.ParseUint(mask[:16], 16, 64)
	return err == nil && bits>>(s-1)&1 != 0
}

// bury gives back what belonged to a canary that has been reaped.
func (c *canary) bury() {
	unix.Close(c.life)
	c.release()
}
