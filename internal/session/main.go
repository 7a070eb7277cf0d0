package session

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// collectorGC is the growth of the heap in percent at which garbage is collected. The events that live are few bytes each and
// hold no pointers, so collecting early costs little and keeps the collector small beside the target.
const collectorGC = 50

// Main is the collector process. It returns the status to exit with; what it has to complain about goes to standard error.
func Main() int {
	// The launcher may die at any time; then nobody reads what we write. A hang-up or an interrupt is meant for the target.
	signal.Ignore(unix.SIGPIPE, unix.SIGHUP, unix.SIGINT, unix.SIGTERM)
	unix.Umask(0o027)
	debug.SetGCPercent(collectorGC)
	_ = os.WriteFile("/proc/self/comm", []byte(ProcessName), 0) // for ps; cut to 15 bytes by the kernel
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serve() error {
	socket := os.NewFile(ListenerFD, "session socket")
	l, err := net.FileListener(socket)
	if err != nil {
		return fmt.Errorf("descriptor %d: %w", ListenerFD, err)
	}
	socket.Close()
	listener, ok := l.(*net.UnixListener)
	if !ok {
		return fmt.Errorf("descriptor %d is no Unix socket", ListenerFD)
	}
	if err := unix.SetNonblock(ControlFD, true); err != nil {
		return fmt.Errorf("descriptor %d: %w", ControlFD, err)
	}
	control := os.NewFile(ControlFD, "control")
	orders := json.NewDecoder(control)
	var first Order
	if err := orders.Decode(&first); err != nil || first.Config == nil {
		return fmt.Errorf("no configuration from the launcher: %v", err)
	}
	finish := make(chan struct{}, 1)
	go func() {
		defer close(finish)
		for {
			var order Order
			if orders.Decode(&order) != nil {
				return
			}
			if order.Finish {
				finish <- struct{}{}
			}
		}
	}()
	newSession(first.Config, listener, control).run(finish)
	return nil
}
