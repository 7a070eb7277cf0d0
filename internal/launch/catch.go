package launch

import (
	"encoding/binary"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signals are caught by a handler of our own, catch_linux_*.s, which writes their numbers to a pipe. os/signal takes 20 µs for each
// signal that it is to catch, two switches of threads, and there are forty, for every program that is run.

// catchPipe is the pipe that the handler writes to.
//
//lint:ignore U1000 only the handler reads it
var catchPipe int32

// catchHandler is the address of the handler.
var catchHandler uintptr

// catch catches the signals from now on, but for those that are ignored, as SIGHUP is under nohup. read sends the caught ones to c.
func catch(signals []syscall.Signal) (read func(c chan<- os.Signal), err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, err
	}
	catchPipe = int32(fds[1])
	for _, s := range signals {
		if !signal.Ignored(s) {
			dispose(s, catchHandler)
		}
	}
	return func(c chan<- os.Signal) {
		pipe := os.NewFile(uintptr(fds[0]), "signals")
		for {
			var number [4]byte
			if _, err := pipe.Read(number[:]); err != nil {
				return
			}
			c <- syscall.Signal(binary.NativeEndian.Uint32(number[:]))
		}
	}, nil
}
