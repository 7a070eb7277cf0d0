package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"

	"memscope/internal/control"
)

// collectorGC is the growth of the heap in percent at which garbage is collected. The events that live are few bytes each and
// hold no pointers, so collecting early costs little and keeps the collector small beside the target.
const collectorGC = 50

// Main is the collector process. It returns the status to exit with; what it has to complain about goes to standard error.
// words are its arguments: none when a launcher has started it, ShellWord and a process id for a shell, else the process id of the program that has started it.
func Main(options Options, words []string) int {
	// The launcher may die at any time; then nobody reads what we write. A hang-up or an interrupt is meant for the target.
	signal.Ignore(unix.SIGPIPE, unix.SIGHUP, unix.SIGINT, unix.SIGTERM)
	growFiles()
	unix.Umask(0o027)
	debug.SetGCPercent(collectorGC)
	_ = os.WriteFile("/proc/self/comm", []byte(control.ProcessName), 0) // for ps; cut to 15 bytes by the kernel
	socket := os.NewFile(control.ListenerFD, "session socket")
	var err error
	if len(words) > 1 && words[0] == control.ShellWord {
		err = serveAlone(socket, options, words[1], (*session).runShell)
	} else if len(words) > 0 {
		err = serveAlone(socket, options, words[0], (*session).runAlone)
	} else {
		err = serve(socket, options, control.ControlFD)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// growFiles lifts the limit of the size of files as far as it goes, since the user has set it for the program. Beyond it a write
// fails and kills nobody.
func growFiles() {
	signal.Ignore(unix.SIGXFSZ)
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) == nil {
		limit.Cur = limit.Max
		_ = unix.Setrlimit(unix.RLIMIT_FSIZE, &limit)
	}
}

// listen makes the session socket, which this process has inherited, a listener.
func listen(socket *os.File) (*net.UnixListener, error) {
	l, err := net.FileListener(socket)
	if err != nil {
		return nil, fmt.Errorf("session socket: %w", err)
	}
	socket.Close()
	listener, ok := l.(*net.UnixListener)
	if !ok {
		return nil, errors.New("the session socket is no Unix socket")
	}
	return listener, nil
}

// serveAlone runs the session of a program or a shell, a process id, that has started this process in its own working directory.
func serveAlone(socket *os.File, options Options, program string, run func(*session)) error {
	listener, err := listen(socket)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(program)
	if err != nil {
		return err
	}
	dir, _ := os.Getwd() // what is said of an empty one is said when it is needed
	if err := os.Chdir("/"); err != nil {
		return err
	}
	cfg, _, err := options(dir, nil, false)
	if err != nil {
		return err
	}
	s := newSession(&cfg, options, listener, nil, pid)
	s.pace.slow()
	run(s)
	return nil
}

// serve runs the session on a listening socket for the launcher at the other end of control, a descriptor.
func serve(socket *os.File, options Options, controlFD int) error {
	listener, err := listen(socket)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(controlFD, true); err != nil { // waiting for it takes no thread then
		return fmt.Errorf("control: %w", err)
	}
	stream := os.NewFile(uintptr(controlFD), "control")
	defer stream.Close()
	orders := json.NewDecoder(stream)
	var first control.Order
	if err := orders.Decode(&first); err != nil || first.Config == nil {
		return fmt.Errorf("no configuration from the launcher: %v", err)
	}
	finish := make(chan struct{}, 1)
	go func() {
		defer close(finish)
		for {
			var order control.Order
			if orders.Decode(&order) != nil {
				return
			}
			if order.Finish {
				finish <- struct{}{}
			}
		}
	}()
	s := newSession(first.Config, options, listener, stream, first.Launcher)
	s.pace.slow()
	s.run(finish)
	return nil
}
