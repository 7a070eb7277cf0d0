package launch

import (
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The launcher stops when the target stops, so that the shell sees its job stopped, and not on its own: a program that does not
// want to stop at Ctrl-Z must not lose its launcher to it.
var stopSignals = []syscall.Signal{unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU}

// Dispositions of signal(7), as the kernel has them.
const (
	sigDefault = 0
	sigIgnore  = 1
)

// dispose sets what a signal does to this process. Go's os/signal can ignore a stop signal, but not give it its default back.
// A handler has to end by rt_sigreturn.
func dispose(s syscall.Signal, handler uintptr) {
	// On the signal stack, because those of Go are small. The restorer, which x86 insists on, is never called.
	const restart, onStack, restorer = 0x10000000, 0x08000000, 0x04000000
	// struct sigaction of the kernel, 64 bits: handler, flags, restorer, mask
	action := [4]uintptr{handler, restart | onStack | restorer, handler, ^uintptr(0)}
	const maskBytes = 8
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, maskBytes, 0, 0)
}

// ignoreStops keeps the launcher running. Not before the target is started: that has the dispositions of the caller.
func ignoreStops() {
	for _, s := range stopSignals {
		dispose(s, sigIgnore)
	}
}

// waitTarget waits for the end of the target, and stops the launcher as often as the target stops.
func waitTarget(pid int) (syscall.WaitStatus, error) {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED|syscall.WCONTINUED, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case status.Stopped():
			if staysStopped(pid) {
				stopSelf(status.StopSignal())
			}
		case !status.Continued():
			return status, nil
		}
	}
}

// staysStopped says whether the target is still stopped after a moment. When the whole group was stopped and continued, its stop
// may be old news.
func staysStopped(pid int) bool {
	time.Sleep(10 * time.Millisecond)
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WCONTINUED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo == 0
}

// stopSelf stops the launcher as s has stopped the target, and returns when it has been continued. Without a terminal nobody
// controls jobs, and whoever stops the target alone will continue it alone.
func stopSelf(s syscall.Signal) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return
	}
	tty.Close()
	if s != unix.SIGSTOP {
		dispose(s, sigDefault)
		defer dispose(s, sigIgnore)
	}
	// To this very thread, which then does not get past the call: a signal that waits for another one would fall to sigIgnore.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), s)
}
