package session

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// process watches over the life of a client.
type process struct {
	pid   int    // as this process sees it
	fd    int    // pidfd; -1 where the kernel has none
	start string // start time, in place of a pidfd: it tells a process from a later one of the same id
}

// watch begins to watch pid. The error is unix.ESRCH when that has ended already.
func watch(pid int) (*process, error) {
	p := &process{pid: pid, fd: -1}
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		p.fd = fd
		return p, nil
	}
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) { // Linux before 5.3; a container's filter
		return nil, fmt.Errorf("process %d: pidfd_open: %w", pid, err)
	}
	stat, err := readStat(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) {
		return nil, unix.ESRCH
	}
	if err != nil {
		return nil, err
	}
	p.start = stat.start
	return p, nil
}

// ended says whether every thread of the process is gone.
func (p *process) ended() bool {
	if p.fd >= 0 {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, 0)
		return err == nil && n > 0
	}
	stat, err := readStat(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	return stat.start != p.start || stat.state == 'Z' || stat.state == 'X'
}

func (p *process) close() {
	if p.fd >= 0 {
		unix.Close(p.fd)
		p.fd = -1
	}
}

// threadGone says whether a thread of the process does not exist any more.
func (p *process) threadGone(tid uint32) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", p.pid, tid))
	return errors.Is(err, os.ErrNotExist)
}

// stopped says whether any thread of the process is stopped, by a signal or by a debugger.
func (p *process) stopped() bool {
	dir := fmt.Sprintf("/proc/%d/task", p.pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, task := range tasks {
		stat, err := readStat(dir + "/" + task.Name() + "/stat")
		if err == nil && (stat.state == 'T' || stat.state == 't') {
			return true
		}
	}
	return false
}

// name is what the kernel calls the process, "" when it does not tell.
func (p *process) name() string {
	name, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/comm")
	if err != nil {
		return ""
	}
	return printable(strings.TrimSuffix(string(name), "\n"))
}

// printable makes what a process calls itself, which may be anything, part of a line.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, name)
}

// descends says whether pid is a process that ancestor has started, or one that such a process has.
func descends(pid, ancestor int) bool {
	for pid > 0 && pid != ancestor {
		stat, err := readStat(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		pid = stat.parent
	}
	return pid > 0
}

type stat struct {
	state  byte
	parent int
	start  string // clock ticks since boot
}

// readStat reads a stat file of /proc: "pid (name) state …", the start time being field 22 (proc(5)).
func readStat(path string) (stat, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return stat{}, err
	}
	_, rest, _ := bytes.Cut(text[max(0, bytes.LastIndexByte(text, ')')):], []byte(" "))
	fields := strings.Fields(string(rest))
	const parentField, startField = 4 - 3, 22 - 3 // the first field here is the third of the file
	if len(fields) <= startField {
		return stat{}, fmt.Errorf("%s: %d fields", path, len(fields))
	}
	parent, err := strconv.Atoi(fields[parentField])
	if err != nil {
		return stat{}, fmt.Errorf("%s: %w", path, err)
	}
	return stat{state: fields[0][0], parent: parent, start: fields[startField]}, nil
}
