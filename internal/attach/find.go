// Package attach is `msmemscope --pid`: it finds the session of a process that runs already and sends it commands. The process itself
// notices nothing; its collector answers.
package attach

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"memscope/internal/control"
)

// target is a process and where its collector listens.
type target struct {
	pid     int
	session string
	ids     []string // of the process, in its namespaces from the outermost on
}

// libraries are files of ours, one of which a recorded process has in its memory.
var libraries = []string{"libascend_kernel_hook.so", "libascend_leaks.so", "libleaks_ascend_hal_hook.so", "libascend_mstx_hook.so",
	"libmsmemscope_host_mem_hook.so"}

const howToLoad = "start it with msmemscope, or from a shell after `source msmemscope --load-api-env=host`"

// find says where the collector of a process listens, or clearly why it cannot be controlled.
func find(pid int) (*target, error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	_, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no process %d", pid)
	}
	if err != nil {
		return nil, err
	}
	status, err := readStatus(dir)
	if err != nil {
		return nil, fmt.Errorf("process %d has ended", pid)
	}
	if uid, me := status.uid, os.Geteuid(); uid != me && me != 0 {
		return nil, fmt.Errorf("process %d belongs to another user (%d); only its own user may control it", pid, uid)
	}
	if status.state == "Z" {
		return nil, fmt.Errorf("process %d has ended", pid)
	}
	if status.group != 0 && status.group != pid {
		return nil, fmt.Errorf("%d is a thread of process %d; name the process", pid, status.group)
	}
	loaded, err := hasLibrary(dir)
	if err != nil {
		return nil, fmt.Errorf("process %d (%s) cannot be looked at: %w", pid, status.name, cause(err))
	}
	if !loaded && status.name == launcher {
		return nil, fmt.Errorf("process %d (%s) only waits for the program that it runs; name that%s", pid, status.name, childOf(dir))
	}
	if !loaded {
		return nil, fmt.Errorf("process %d (%s) has no library of msmemscope loaded; %s", pid, status.name, howToLoad)
	}
	if here, there := namespace("/proc/self", "net"), namespace(dir, "net"); here != there {
		return nil, fmt.Errorf("process %d (%s) sits in another container (network namespace); run msmemscope in there, or by `nsenter -n -t %d`",
			pid, status.name, pid)
	}
	t := &target{pid: pid, ids: status.ids, session: sessionName(dir)}
	if t.session == "" {
		t.session = ownSession(status.ids[len(status.ids)-1])
	}
	if t.session == "" {
		return nil, fmt.Errorf("process %d (%s) has our library loaded, but is not recorded by anybody; %s", pid, status.name, howToLoad)
	}
	return t, nil
}

// launcher is the name of the process that `msmemscope PROGRAM` stays.
const launcher = "msmemscope.run"

// childOf names the child of a process in parentheses, if the system tells.
func childOf(dir string) string {
	tasks, _ := os.ReadDir(dir + "/task")
	for _, task := range tasks {
		text, _ := os.ReadFile(dir + "/task/" + task.Name() + "/children")
		for _, child := range strings.Fields(string(text)) {
			if s, err := readStatus("/proc/" + child); err == nil && !strings.HasPrefix(control.ProcessName, s.name) {
				return fmt.Sprintf(" (%s, %s) or, when it is a script that starts others, one of these", child, s.name)
			}
		}
	}
	return ""
}

// processStatus is what /proc/<pid>/status says (proc(5)).
type processStatus struct {
	name, state string
	group, uid  int // thread group, effective user
	ids         []string
}

func readStatus(dir string) (s processStatus, err error) {
	text, err := os.ReadFile(dir + "/status")
	if err != nil {
		return s, err
	}
	for _, line := range strings.Split(string(text), "\n") {
		key, value, _ := strings.Cut(line, ":")
		words := strings.Fields(value)
		if len(words) == 0 {
			continue
		}
		switch key {
		case "Name":
			s.name = words[0]
		case "State":
			s.state = words[0]
		case "Tgid":
			s.group, _ = strconv.Atoi(words[0])
		case "Uid":
			s.uid, _ = strconv.Atoi(words[min(1, len(words)-1)])
		case "NSpid":
			s.ids = words
		}
	}
	if len(s.ids) == 0 { // Linux before 4.1
		s.ids = []string{dir[len("/proc/"):]}
	}
	return s, nil
}

func hasLibrary(dir string) (bool, error) {
	maps, err := os.Open(dir + "/maps")
	if err != nil {
		return false, err
	}
	defer maps.Close()
	scan := bufio.NewScanner(maps)
	for scan.Scan() {
		name := scan.Text()[strings.LastIndexByte(scan.Text(), '/')+1:]
		if slices.Contains(libraries, strings.TrimSuffix(name, " (deleted)")) {
			return true, nil
		}
	}
	return false, scan.Err()
}

func namespace(dir, kind string) string {
	link, _ := os.Readlink(dir + "/ns/" + kind)
	return link
}

// sessionName is the session that the process was started with.
func sessionName(dir string) string {
	environ, _ := os.ReadFile(dir + "/environ")
	for _, kv := range strings.Split(string(environ), "\x00") {
		if name, ok := strings.CutPrefix(kv, control.EnvSession+"="); ok {
			return name
		}
	}
	return ""
}

// ownSession is a session that a process has made for itself; its name has the process id, as the process knows it (native/agent/connect.c).
func ownSession(self string) string {
	sockets, err := os.Open("/proc/net/unix")
	if err != nil {
		return ""
	}
	defer sockets.Close()
	for scan := bufio.NewScanner(sockets); scan.Scan(); {
		words := strings.Fields(scan.Text())
		name, found := strings.CutPrefix(words[len(words)-1], "@")
		if found && strings.HasPrefix(name, "msmemscope-"+self+"-") {
			return name
		}
	}
	return ""
}

// cause is the innermost reason, in the words of the system.
func cause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
