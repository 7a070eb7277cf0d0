// Package config holds the options of a run as data. Package cli makes a Config from words; everything else only reads it.
package config

import "memscope/internal/event"

// Bit values are those of config.json (contract 1.6).

// Events is a set of event classes.
type Events uint32

// Event classes.
const (
	Alloc Events = 1 << iota
	Free
	Launch
	Access
)

// Analyses is a set of analyses.
type Analyses uint32

// Analyses.
const (
	Leaks Analyses = 1 << iota
	Decompose
	Inefficient
	OOM
	HostLeaks
	// What mssanitizer checks, one of the two and nothing else: the memory that the driver hands out, or AscendCL.
	CheckDeviceHeap
	CheckCANNHeap
)

// Levels is a set of collection levels.
type Levels uint32

// Levels.
const (
	LevelOp Levels = 1 << iota
	LevelKernel
)

// Format is the form of a dump.
type Format uint8

// Formats.
const (
	CSV Format = iota
	DB
)

// LogLevel orders log lines; a line is kept when its level is at or above the configured one.
type LogLevel uint8

// Log levels.
const (
	Debug LogLevel = iota
	Info
	Warning
	Error
)

// Mode says when collection begins.
type Mode uint8

// Modes.
const (
	Immediate Mode = iota
	Deferred
)

// Depths of call stacks, frames of one language.
const (
	DefaultStackDepth = 50
	MostStackDepth    = 1000
)

// Config is every option of a run, after derivation.
type Config struct {
	Events     Events // collected (what the user asked plus what analyses imply)
	DumpEvents Events // written: what the user asked
	Analysis   Analyses
	Level      Levels
	AllNPU     bool
	NPUSlots   uint32 // bit per card 0-31, meaningful without AllNPU
	CPU        bool
	Mode       Mode
	Format     Format
	LogLevel   LogLevel
	OutputPath string // absolute and clean

	OOMTopK      int
	CStack       bool
	CStackDepth  int
	PyStack      bool
	PyStackDepth int
	Steps        []uint32
	Pools        []string // the user's own, event.Named and on
	Programs     []string // that analyse the events, absolute paths

	Watch        Watch
	Suppressions []string // of a leak check, as leakcheck.Parse takes them

	// Of HostLeaks.
	HostLeakDetail bool   // block by block: --host-leak-mode=event
	BlockThreshold uint64 // bytes; smaller blocks are counted only
	SampleRate     uint32 // one block in so many is tracked, a power of two
}

// Watch says around which operators tensors are dumped (contract 1.7). Without an End nothing is watched.
type Watch struct {
	Start  string // whose outputs are watched; may be empty: only what the program registers
	End    string // with which watching ends
	Output uint32 // which output of Start, AllOutputs for all
	Full   bool   // the contents, not only checksums
}

// AllOutputs is the Output of a Watch that names none.
const AllOutputs = 1<<32 - 1

// MostWatchName bounds Start and End, bytes.
const MostWatchName = 254

// Checks says whether this is a leak check: no dump, no other analysis.
func (c *Config) Checks() bool { return c.Analysis&(CheckDeviceHeap|CheckCANNHeap) != 0 }

// MostSampleRate bounds SampleRate.
const MostSampleRate = 1 << 30

// MostPools bounds Pools.
const MostPools = int(event.Pools - event.Named)

// PoolName is the name of a pool of the user's own, empty when it has none.
func (c *Config) PoolName(p event.Pool) string {
	if i := int(p) - int(event.Named); i >= 0 && i < len(c.Pools) {
		return c.Pools[i]
	}
	return ""
}

// Default is the Config of a command line without options, with OutputPath still empty.
func Default() Config {
	return Config{
		Events: Alloc | Free | Launch, DumpEvents: Alloc | Free | Launch,
		Analysis: Leaks, Level: LevelOp, AllNPU: true,
		LogLevel: Info, OOMTopK: 10, CStackDepth: DefaultStackDepth, PyStackDepth: DefaultStackDepth, SampleRate: 1,
	}
}
