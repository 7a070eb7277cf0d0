//go:build !unix

package sqlitefile

import (
	"os"
	"time"
)

// Databases are only converted here, under a name that nobody else knows.

func lockWriter(*os.File) error                 { return nil }
func lockReaders(*os.File, time.Duration) error { return nil }
func unlockReaders(*os.File)                    {}
