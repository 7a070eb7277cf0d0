package read

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"

	"memscope/internal/dump/cells"
	"memscope/internal/event"
)

// kindOf reads the Event column; 0: none that we know.
func kindOf(b []byte) event.Kind {
	switch string(b) {
	case "MALLOC":
		return event.Malloc
	case "FREE":
		return event.Free
	case "ACCESS":
		return event.Access
	case "OP_LAUNCH":
		return event.OpLaunch
	case "KERNEL_LAUNCH":
		return event.KernelLaunch
	case "MSTX":
		return event.Mstx
	case "SYSTEM":
		return event.System
	case "SNAPSHOT":
		return event.Snapshot
	case "OOM_DETAIL":
		return event.OOMDetail
	}
	return 0
}

// poolOf reads the Event Type column of MALLOC and FREE, in all the spellings of contract 9.
func poolOf(b []byte) (event.Pool, event.Flags) {
	switch string(b) {
	case "HAL":
		return event.HAL, 0
	case "PTA", "PTA_CACHING":
		return event.PTA, 0
	case "PTA_WORKSPACE":
		return event.PTAWorkspace, 0
	case "ATB":
		return event.ATB, 0
	case "MINDSPORE", "MindSpore":
		return event.MindSpore, 0
	case "HOST":
		return event.Host, 0
	case "HOST_PINNED":
		return event.Host, event.Pinned
	}
	return NoPool, 0
}

// Pools numbers the pools that event does not know: those of the user's own (--pools), whose name is the Event Type of their
// rows. The numbers lie above NoPool, in no particular order. The zero Pools is empty; it may be shared by goroutines.
type Pools struct {
	mu    sync.Mutex
	index map[string]event.Pool
	names []string // of NoPool+1 and on
	seen  [math.MaxUint8 + 1]bool
}

// Number is the pool of a name in any spelling that a dump may have. A name that is new gets a number of its own; NoPool is
// the answer to no name and, in a file that names too many, to those for which no number is left.
func (p *Pools) Number(name string) event.Pool {
	name = strings.TrimSpace(name)
	if pool, _ := poolOf([]byte(strings.ToUpper(name))); pool != NoPool || name == "" || name == cells.NA {
		return pool
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.number(name)
}

func (p *Pools) number(name string) event.Pool {
	pool, ok := p.index[name]
	if ok || len(p.names) == math.MaxUint8-int(NoPool) {
		return cmp.Or(pool, NoPool)
	}
	if p.index == nil {
		p.index = make(map[string]event.Pool)
	}
	p.names = append(p.names, name)
	pool = NoPool + event.Pool(len(p.names))
	p.index[name] = pool
	return pool
}

// row is Number for the Event Type of a row that is none of event's pools.
func (p *Pools) row(typ []byte) event.Pool {
	typ = bytes.TrimSpace(typ)
	if len(typ) == 0 || string(typ) == cells.NA {
		return NoPool
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pool, ok := p.index[string(typ)]
	if !ok {
		pool = p.number(string(typ))
	}
	p.seen[pool] = true
	return pool
}

// Seen tells whether a row has named the pool, which has its number from Number.
func (p *Pools) Seen(pool event.Pool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[pool]
}

// Name is the name of a pool, N/A for NoPool.
func (p *Pools) Name(pool event.Pool) string {
	if pool <= NoPool {
		return cells.Pool(pool)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.names[pool-NoPool-1]
}

// Names are the user's own pools that rows have named, in the order of their names.
func (p *Pools) Names() (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, name := range p.names {
		if p.seen[int(NoPool)+1+i] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// subNames are the values of the Event Type column of the events that are no MALLOC or FREE.
var subNames = [...]string{
	event.AtenStart:     "ATEN_START",
	event.AtenEnd:       "ATEN_END",
	event.AtbStart:      "ATB_START",
	event.AtbEnd:        "ATB_END",
	event.Launched:      "KERNEL_LAUNCH",
	event.KernelStart:   "KERNEL_START",
	event.KernelEnd:     "KERNEL_END",
	event.ExecuteStart:  "KERNEL_EXECUTE_START",
	event.ExecuteEnd:    "KERNEL_EXECUTE_END",
	event.Read:          "READ",
	event.Write:         "WRITE",
	event.AccessUnknown: "UNKNOWN",
	event.Mark:          "Mark",
	event.RangeStart:    "Range_start",
	event.RangeEnd:      "Range_end",
	event.ACLInit:       "ACL_INIT",
	event.ACLFini:       "ACL_FINI",
	event.StartTrace:    "START_TRACE",
	event.StopTrace:     "STOP_TRACE",
	event.Step:          "STEP",
	event.OOMTrigger:    "OOM_TRIGGER",
	event.OOMRecent:     "OOM_RECENT_ALLOC",
	event.OOMTop:        "OOM_TOP_ALLOC",
}

// SubName is the Event Type column of a sub; N/A for none. SNAPSHOT rows have no sub, since there is only one.
func SubName(s event.Sub) string {
	if int(s) < len(subNames) && subNames[s] != "" {
		return subNames[s]
	}
	return "N/A"
}

// subOf reads the Event Type column of the events that are no MALLOC or FREE.
func subOf(b []byte) event.Sub {
	switch string(b) { // most rows
	case "ATEN_START":
		return event.AtenStart
	case "ATEN_END":
		return event.AtenEnd
	case "KERNEL_LAUNCH":
		return event.Launched
	}
	return subIndex[string(b)]
}

var subIndex = func() map[string]event.Sub {
	m := make(map[string]event.Sub)
	for s, name := range subNames {
		if name != "" {
			m[name] = event.Sub(s)
		}
	}
	return m
}()

// KindName is the Event column of a kind.
func KindName(k event.Kind) string {
	switch k {
	case event.Malloc:
		return "MALLOC"
	case event.Free:
		return "FREE"
	case event.Access:
		return "ACCESS"
	case event.OpLaunch:
		return "OP_LAUNCH"
	case event.KernelLaunch:
		return "KERNEL_LAUNCH"
	case event.Mstx:
		return "MSTX"
	case event.System:
		return "SYSTEM"
	case event.Snapshot:
		return "SNAPSHOT"
	case event.OOMDetail:
		return "OOM_DETAIL"
	}
	return "N/A"
}
