package launch

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// process is a child. (The first os.StartProcess of a program starts another child, to learn what the kernel can do.)
type process struct {
	pid int
	fd  int // a pidfd: a signal to it never reaches another process that has got the number; -1 where there are none
}

// startProcess starts a program in dir, "" for ours, with files as its descriptors 0, 1, ...
func startProcess(path string, argv, env []string, dir string, files ...uintptr) (*process, error) {
	p := &process{fd: -1}
	attr := &syscall.ProcAttr{Dir: dir, Env: env, Files: files, Sys: &syscall.SysProcAttr{PidFD: &p.fd}}
	var err error
	p.pid, _, err = syscall.StartProcess(path, argv, attr)
	if err == unix.EINVAL { // of emulators that have no pidfds
		attr.Sys, p.fd = nil, -1
		p.pid, _, err = syscall.StartProcess(path, argv, attr)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// signal sends s, to nobody when the process has been waited for.
func (p *process) signal(s syscall.Signal) error {
	if p.fd < 0 {
		return unix.Kill(p.pid, s)
	}
	return unix.PidfdSendSignal(p.fd, s, nil, 0)
}

// release forgets a process that has been waited for.
func (p *process) release() {
	if p.fd >= 0 {
		unix.Close(p.fd)
	}
}
