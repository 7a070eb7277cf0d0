package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit codes of a shell for a program that does not start.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// startError is a target that did not start; code is the status to exit with.
type startError struct {
	code   int
	word   string
	reason string
}

func (e *startError) Error() string { return fmt.Sprintf("cannot run %s: %s", e.word, e.reason) }

// find looks the program up: a word with a slash is a path; another one is first a program in the working directory
// (contract 1.9), then looked for in PATH.
func find(word string) (string, error) {
	if word == "" {
		return "", &startError{exitNotFound, `""`, "a program has no empty name"}
	}
	if strings.Contains(word, "/") {
		return word, executable(word, word)
	}
	if here := "./" + word; executable(word, here) == nil {
		return here, nil
	}
	dirs, ok := os.LookupEnv("PATH")
	if !ok {
		dirs = "/bin:/usr/bin"
	}
	var refused error
	for _, dir := range filepath.SplitList(dirs) {
		if dir == "" {
			dir = "."
		}
		path := dir + "/" + word
		err := executable(word, path)
		if err == nil {
			return path, nil
		}
		if e := (*startError)(nil); errors.As(err, &e) && e.code == exitNotExecutable && refused == nil && isFile(path) {
			refused = err
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", &startError{exitNotFound, word, "not found in PATH"}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// executable says why path cannot be run, nil when it can.
func executable(word, path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &startError{exitNotFound, word, "no such file"}
	case err != nil:
		return startFailure(word, err)
	case info.IsDir():
		return &startError{exitNotExecutable, word, "it is a directory"}
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS); err != nil {
		return &startError{exitNotExecutable, word, "it is not executable"}
	}
	return nil
}

// start runs the program with our standard streams. A text without "#!" goes to the shell, as execvp does.
func start(path string, argv, env []string) (*process, error) {
	target, err := startProcess(path, argv, env, "", 0, 1, 2)
	if errors.Is(err, unix.ENOEXEC) {
		target, err = startProcess("/bin/sh", append([]string{"sh", path}, argv[1:]...), env, "", 0, 1, 2)
	}
	if err != nil {
		return nil, startFailure(argv[0], err)
	}
	return target, nil
}

func startFailure(word string, err error) error {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return &startError{exitNotExecutable, word, err.Error()}
	}
	if errno == unix.ENOENT { // it exists, find has seen it
		return &startError{exitNotFound, word, "the interpreter that it names was not found"}
	}
	return &startError{exitNotExecutable, word, errno.Error()}
}

// exitCode is the status with which the launcher passes the target's end on.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
