package control

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// Carriers lists the processes that live with the name of a session in their environment: what was started under the launcher, and has neither
// ended nor changed that. They may still have their first event before them. Of processes of other users and pid namespaces nothing is known.
//
// With after, the id of a process, those with lower ids are not looked at, unless ids have come round since: reading the environment of
// every process of a server takes milliseconds.
//
// Servers write their title over their environment (setproctitle). Then nobody can tell which session they are of: those with higher ids than
// titled count if they have our library.
func Carriers(session string, after, titled int) []int {
	// What ended between being listed and being looked at may have started another in its place, with a higher id: daemons do, and chains of
	// scripts. So there are more lists, each of what is younger, until nobody of it has ended or nobody has been started. Where others
	// start one process after the other that may be never.
	const most = 50
	for range most {
		last := newest()
		if last < after {
			after = 0
		}
		pids, ended := carriers(session, after, titled)
		if len(pids) > 0 || !ended || newest() == last {
			return pids
		}
		after = last
	}
	return nil
}

// carriers makes one list, and says whether some process ended meanwhile.
func carriers(session string, after, titled int) (pids []int, ended bool) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, false
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, false
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid <= after {
			continue
		}
		environ, alive := environment(pid)
		ended = ended || !alive
		if carries(session, environ) || pid > titled && preloaded(pid, environ) {
			pids = append(pids, pid)
		}
	}
	return pids, ended
}

// Carries says whether a process of Carriers is one still.
func Carries(session string, pid int) bool {
	environ, _ := environment(pid)
	return carries(session, environ) || preloaded(pid, environ)
}

func carries(session string, environ []byte) bool {
	return bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+EnvSession+"="+session+"\x00"))
}

// preloaded says whether a process has overwritten its environment, and has a library that the launcher preloads.
func preloaded(pid int, environ []byte) bool {
	if first, _, _ := bytes.Cut(environ, []byte{0}); len(environ) == 0 || bytes.ContainsRune(first, '=') {
		return false
	}
	maps, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps")
	for _, name := range []string{DeviceHook, HostHook} {
		if bytes.Contains(maps, []byte("/"+name)) {
			return true
		}
	}
	return false
}

// execMost bounds the wait for a process in the middle of execve: it may read its program from a slow disk.
const execMost = time.Second

// environment is that of a process, empty if it is not for us to read, and whether the process lives. A zombie has none any more. In the middle
// of execve there is none yet, and what is read across execve is cut short: both are read again, or a program would be missed just when it starts.
func environment(pid int) (environ []byte, alive bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	for end := time.Now().Add(execMost); ; time.Sleep(time.Millisecond) {
		environ, err := os.ReadFile(dir + "/environ")
		if os.IsPermission(err) {
			return nil, true
		}
		size, alive := environmentSize(dir)
		if !alive || size == len(environ) || !time.Now().Before(end) {
			return environ, alive
		}
	}
}

// environmentSize is what the kernel says of the size of a process's environment, in bytes, and whether the process lives. -1: it is in the middle of
// execve. Fields of /proc/<pid>/stat (proc(5)): 3 state, 9 flags, 26 startcode, 50 env_start, 51 env_end. execve sets startcode last; until then,
// and in the kernel's threads, it is 0.
func environmentSize(dir string) (size int, alive bool) {
	text, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // from field 3 on
	if len(fields) < 49 {
		return 0, false
	}
	number := func(field int) int {
		n, _ := strconv.Atoi(string(fields[field-3]))
		return n
	}
	const kernelThread = 0x00200000 // PF_KTHREAD
	switch {
	case fields[0][0] == 'Z' || fields[0][0] == 'X':
		return 0, false
	case number(26) == 0 && number(9)&kernelThread == 0:
		return -1, true
	default:
		return number(51) - number(50), true
	}
}

// newest is the id that was given out last, the last word of /proc/loadavg (proc(5)); 0 if that cannot be read.
func newest() int {
	text, _ := os.ReadFile("/proc/loadavg")
	pid, _ := strconv.Atoi(string(bytes.TrimSpace(text[bytes.LastIndexByte(text, ' ')+1:])))
	return pid
}
