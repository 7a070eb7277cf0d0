package launch

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"memscope/internal/control"
)

// ServeShell starts a collector for the programs that are started from a shell, a process id, and prints the name of its session. It ends
// with the shell and the last of its programs. The working directory is that of the shell.
func ServeShell(shell int) int {
	fail := new(launcher).fail
	if err := checkNumbers(); err != nil {
		return fail(exitUsage, err)
	}
	listener, name, err := listen()
	if err != nil {
		return fail(exitUsage, fmt.Errorf("cannot make the session socket: %w", err))
	}
	defer listener.Close()
	keepDescriptors()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fail(exitUsage, err)
	}
	defer null.Close()
	process, err := os.StartProcess(Self, []string{control.ProcessName, control.ShellWord, strconv.Itoa(shell)}, &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{null, null, null, control.ListenerFD: listener}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fail(exitUsage, fmt.Errorf("cannot start the collector: %w", err))
	}
	_ = process.Release()
	fmt.Println(name)
	return 0
}
