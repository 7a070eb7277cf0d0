// Package control is what the launcher and the collector say to each other, and what tells a process which of them it is. It
// imports next to nothing: the launcher is small because every run waits for its start.
package control

import (
	"fmt"

	"memscope/internal/config"
	"memscope/internal/leakcheck"
)

// ProcessName is argv[0] of a collector: the program that answers questions is the collector, too, and main looks at this.
const ProcessName = "msmemscope-collector"

// Descriptors of a collector, as the launcher arranges them.
const (
	ListenerFD = 3 // the session socket, listening
	ControlFD  = 4 // a stream of JSON values: Order from the launcher, Message to it
)

// ShellWord is the first argument of a collector for a shell, whose process id is the second one; ReleaseWord ends it.
const (
	ShellWord   = "shell"
	ReleaseWord = "release"
)

// Libraries that the launcher preloads, one of them: for the device, and for the host heap alone.
const (
	DeviceHook = "libascend_kernel_hook.so"
	HostHook   = "libmsmemscope_host_mem_hook.so"
)

// Environment variables.
const (
	// EnvSession has the name of the session socket, without the NUL byte before it.
	EnvSession = "MSMEMSCOPE_SESSION"
	// EnvRingBytes sets the data bytes of each ring and so ends the sharing of one budget.
	EnvRingBytes = "MSMEMSCOPE_RING_BYTES"
	// EnvBeat sets the milliseconds between two looks at a host heap.
	EnvBeat = "MSMEMSCOPE_HEAP_BEAT_MS"
	// EnvTop sets how many leak sites a report of the host heap lists.
	EnvTop = "MSMEMSCOPE_HEAP_TOP"
	// EnvWatchBytes bounds what the tensors of one process may take on disk, bytes.
	EnvWatchBytes = "MSMEMSCOPE_WATCH_BYTES"
)

// Bounds of EnvRingBytes, EnvBeat and EnvTop.
const (
	MinRingBytes = 1 << 20
	MaxRingBytes = 1 << 30
	LeastBeatMs  = 10
	MostBeatMs   = 60000
	MostTop      = 1024 // contract 6.4
)

// FlushNotice says that the files are complete (contract 7).
const FlushNotice = "[msmemscope] Info: Fflush temporary cache events to file!"

// Order is what the launcher says. The first one carries the Config.
type Order struct {
	Config *config.Config `json:",omitempty"`
	// Launcher comes with it: the launcher's process id.
	Launcher int `json:",omitempty"`
	// Finish means that the target has ended: finish what has ended, report, and go on silently for what lives.
	Finish bool `json:",omitempty"`
}

// Message is what the collector says; one field is set.
type Message struct {
	Line     string    `json:",omitempty"` // for the user, complete with prefix
	Progress *Progress `json:",omitempty"` // after Finish only
	Report   string    `json:",omitempty"` // after Finish only: the text for standard output
	Done     *Done     `json:",omitempty"` // the last message
	// Leaks comes after Finish, too: what one process of a leak check has not freed. A long list comes in parts, one behind the
	// other.
	Leaks *leakcheck.Process `json:",omitempty"`
}

// Progress counts the bytes that are still to be rendered.
type Progress struct{ Done, Total int64 }

// Done ends the talk.
type Done struct {
	Collected int // processes of which something was recorded
	Stored    int // of these, those of which something is on disk
	Living    int // processes for which the collector goes on
}

// Lines is what the user hears last.
func (d Done) Lines() string {
	var text string
	if d.Stored > 0 {
		text += FlushNotice + "\n"
	}
	if d.Living > 0 {
		text += fmt.Sprintf("[msmemscope] Info: %d process(es) of the program live on; their recording goes on in the background, their reports go into their logs.\n", d.Living)
	}
	return text
}
