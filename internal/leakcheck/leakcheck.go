// Package leakcheck is what a leak check finds, and how it is told: the text of contract 8, or JSON. Which allocations are not to be
// told of, suppressions, is here, too.
package leakcheck

// Space is a kind of memory, as the text calls it.
type Space string

// Spaces.
const (
	GM   Space = "GM"   // of a card
	Host Space = "HOST" // of the host, handed out by the stack
)

// Sum counts blocks.
type Sum struct {
	Allocations int   `json:"allocations"`
	Bytes       int64 `json:"bytes"`
}

// Add counts a block of so many bytes.
func (s *Sum) Add(bytes int64) {
	s.Allocations++
	s.Bytes += bytes
}

// Leak is a block that was allocated and not freed.
type Leak struct {
	Bytes   int64
	Address uint64
	Space   Space
	Device  int32 // event.DeviceNone: unknown
	Thread  uint64
	Origin  int // in the Process's
}

// Origin is where blocks were allocated.
type Origin struct {
	File      string   // empty: unknown
	Line      int      // from 1
	Function  string   // of the program, that has called the stack; empty: unknown
	Functions []string // of the stack, innermost first
}

// Process is what a process has leaked, in the order of the allocations.
type Process struct {
	PID        uint64
	Name       string
	Origins    []Origin
	Leaks      []Leak
	Suppressed Sum // which are not in Leaks
}
