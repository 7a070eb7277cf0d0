package launch

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// passed are the signals that go on to the target. Not among them: those that cannot be caught, those of job control, whose
// default must happen to the launcher itself (the terminal gives them to the whole group), and those that a process's own
// doing raises.
func passed() []os.Signal {
	signals := []os.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGTERM,
		unix.SIGCONT, unix.SIGWINCH,
	}
	const rtMin, rtMax = 34, 64
	for s := rtMin; s <= rtMax; s++ {
		signals = append(signals, syscall.Signal(s))
	}
	var caught []os.Signal
	for _, s := range signals {
		if !signal.Ignored(s) { // nohup: the target inherits that
			caught = append(caught, s)
		}
	}
	return caught
}

// forward passes a signal on to the target unless the terminal has given it one already.
func forward(target *os.Process, s os.Signal) {
	switch s {
	case unix.SIGINT, unix.SIGQUIT, unix.SIGWINCH:
		if inForeground() {
			return
		}
	}
	_ = target.Signal(s) // it may have ended
}

// inForeground says whether the launcher is in the foreground group of its terminal, so that keys reach the target directly.
func inForeground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
