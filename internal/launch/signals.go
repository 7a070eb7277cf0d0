package launch

import (
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// plain are the signals that go on to the target. Not among them: those that cannot be caught, those of job control (the
// terminal gives them to the whole group; see stop.go), and those that a process's own doing raises.
var plain = []syscall.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGTERM, unix.SIGCONT,
	unix.SIGWINCH,
}

// passed are all that go on: those and the real-time signals.
func passed() []syscall.Signal {
	signals := slices.Clone(plain)
	for s := syscall.Signal(34); s <= 64; s++ {
		signals = append(signals, s)
	}
	return signals
}

// envIgnored has the signals that the caller ignores, as in SigIgn of /proc/<pid>/status. msmemscope.start sets it: by the time
// that Go code runs, the runtime has put its own handlers in their place.
const envIgnored = "MSMEMSCOPE_SIGIGN"

// inheritIgnored ignores again what the caller ignored, so that the target inherits it. SIGCHLD cannot be among them, since we
// wait for children.
func inheritIgnored(mask string) {
	bits, err := strconv.ParseUint(mask, 16, 64)
	if err != nil {
		return // started without it
	}
	for _, s := range append(passed(), unix.SIGPIPE) {
		if bits>>(s-1)&1 != 0 {
			signal.Ignore(s)
		}
	}
}

// survivePipes keeps a closed standard output from killing the launcher: the target's status is worth more than our lines. To be called
// before anything is written. It is a handler, not SIG_IGN, because that the target would inherit.
var survivePipes = sync.OnceFunc(func() {
	if !signal.Ignored(unix.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	}
})

// forward passes a signal on to the target unless that has got it already, together with the launcher.
func (l *launcher) forward(s os.Signal) {
	switch s {
	case unix.SIGCONT:
		if l.canary != nil { // it may have been stopped with the group
			_ = l.canary.signal(unix.SIGCONT)
		}
	case unix.SIGWINCH:
		if inForeground() {
			return
		}
	default:
		if l.groupHas(s) && l.sameGroup() {
			return
		}
	}
	_ = l.target.signal(s.(syscall.Signal)) // it may have ended
}

// groupHas says whether a signal that kills by default went to the launcher's whole process group.
func (l *launcher) groupHas(s os.Signal) bool {
	if l.canary == nil {
		select {
		case c := <-l.nest:
			l.adopt(c)
		default:
		}
	}
	if l.canary == nil { // too early, or it cannot be started: this much the terminal tells
		l.early = s
		return (s == unix.SIGINT || s == unix.SIGQUIT) && inForeground()
	}
	dead, ofIt := l.canary.dead(s, canaryPatience)
	if dead {
		l.replaceCanary()
	}
	return ofIt
}

// adopt takes a new canary, unless it has died of a signal that was passed on before it was known: that death says nothing any more.
func (l *launcher) adopt(c *canary) {
	l.canary = c
	if l.early == nil {
		return
	}
	if dead, _ := c.dead(l.early, 0); dead {
		l.replaceCanary()
	}
	l.early = nil
}

// replaceCanary forgets one that is dead; the next one comes into the nest.
func (l *launcher) replaceCanary() {
	l.canary = nil
	go keepCanary(l.nest, 0)
}

// sameGroup says whether the target is still in the launcher's process group.
func (l *launcher) sameGroup() bool {
	group, err := unix.Getpgid(l.target.pid)
	return err == nil && group == unix.Getpgrp()
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
