package control

import (
	"bytes"
	"os"
	"strconv"
)

// Carriers lists the processes that live with the name of a session in their environment: what was started under the launcher, and has neither
// ended nor changed that. They may still have their first event before them. Of processes of other users and pid namespaces nothing is known.
//
// With after, the id of a process, those with lower ids are not looked at, unless ids have come round since: reading the environment of
// every process of a server takes milliseconds.
func Carriers(session string, after int) []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil
	}
	if newest() < after {
		after = 0
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > after && Carries(session, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Carries says whether a process lives with the name of a session in its environment. A zombie has none any more.
func Carries(session string, pid int) bool {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+EnvSession+"="+session+"\x00"))
}

// newest is the id that was given out last, the last word of /proc/loadavg (proc(5)); 0 if that cannot be read.
func newest() int {
	text, _ := os.ReadFile("/proc/loadavg")
	pid, _ := strconv.Atoi(string(bytes.TrimSpace(text[bytes.LastIndexByte(text, ' ')+1:])))
	return pid
}
