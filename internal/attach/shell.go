package attach

import (
	"time"

	"memscope/internal/control"
	"memscope/internal/wire"
)

// ReleaseShell tells the collector of a shell that no more programs come.
func ReleaseShell(name string) int {
	// One that is gone already needs no word.
	_, _ = wire.Ask(name, wire.Control, "\n"+control.ReleaseWord, time.Second, func(byte, string) {})
	return 0
}
