package launch

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"memscope/internal/config"
	"memscope/internal/control"
)

// collector is the launcher's view of the collector process.
type collector struct {
	control  *os.File
	encode   *json.Encoder
	messages chan control.Message // closed when the collector has closed its end, by Done or by death
	failed   chan string          // gets one word on how the process ended
	said     chan []string        // gets what it wrote to standard error, once
}

// Self is this very program, even where its file has been replaced since.
const Self = "/proc/self/exe"

// startCollector runs the program exe as a collector that owns the listening socket.
func startCollector(exe string, listener *os.File, cfg *config.Config) (*collector, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	// The launcher's end is non-blocking, so that the runtime waits for it without a thread.
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	defer theirs.Close()
	errRead, errWrite, err := os.Pipe()
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer errWrite.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		ours.Close()
		errRead.Close()
		return nil, err
	}
	defer null.Close()
	process, err := os.StartProcess(exe, []string{control.ProcessName}, &os.ProcAttr{
		Dir: "/", Env: os.Environ(),
		Files: []*os.File{null, null, errWrite, control.ListenerFD: listener, control.ControlFD: theirs},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		ours.Close()
		errRead.Close()
		return nil, err
	}
	c := &collector{
		control: ours, encode: json.NewEncoder(ours),
		messages: make(chan control.Message), failed: make(chan string, 1), said: make(chan []string, 1),
	}
	go c.wait(process)
	go func() { c.said <- readLines(errRead) }()
	go c.read()
	return c, c.encode.Encode(control.Order{Config: cfg, Launcher: os.Getpid()})
}

// finish tells the collector that the target has ended. A collector that has died shows by its messages being closed.
func (c *collector) finish() { _ = c.encode.Encode(control.Order{Finish: true}) }

func (c *collector) read() {
	defer close(c.messages)
	decode := json.NewDecoder(bufio.NewReader(c.control))
	for {
		var m control.Message
		if decode.Decode(&m) != nil {
			return
		}
		c.messages <- m
		if m.Done != nil {
			return
		}
	}
}

func (c *collector) wait(process *os.Process) {
	state, err := process.Wait()
	if err != nil {
		c.failed <- err.Error()
		return
	}
	c.failed <- state.String()
}

// readLines collects what a dying collector says, up to a bound.
func readLines(r io.ReadCloser) []string {
	defer r.Close()
	const most = 40
	var lines []string
	for scan := bufio.NewScanner(r); scan.Scan(); {
		if len(lines) < most {
			lines = append(lines, scan.Text())
		}
	}
	return lines
}
