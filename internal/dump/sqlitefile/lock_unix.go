//go:build unix

package sqlitefile

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// SQLite's locks are locks on these bytes: who writes has the byte reserved, who reads shares the bytes behind it. A process loses its locks
// when it closes the file anywhere. Where the file system has no locks we go on without.
const (
	reserved    = lockByte + 1
	shared      = lockByte + 2
	sharedBytes = 510
)

func setLock(f *os.File, kind int16, at, bytes int64) error {
	err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: kind, Whence: io.SeekStart, Start: at, Len: bytes})
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return errLocked
	}
	return nil
}

// lockWriter keeps other writers off until the file is closed.
func lockWriter(f *os.File) error { return setLock(f, syscall.F_WRLCK, reserved, 1) }

// lockReaders keeps readers off; it waits so long for those that are there.
func lockReaders(f *os.File, wait time.Duration) error {
	for end := time.Now().Add(wait); ; time.Sleep(10 * time.Millisecond) {
		err := setLock(f, syscall.F_WRLCK, shared, sharedBytes)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

func unlockReaders(f *os.File) { _ = setLock(f, syscall.F_UNLCK, shared, sharedBytes) }
