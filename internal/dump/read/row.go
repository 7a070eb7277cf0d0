// Package read reads dumps: memscope_dump CSV files and databases, of this tool and of its older relatives (contract 3
// and 9). It streams: a scan holds a few chunks of the file, whatever its size, and decodes only the columns that the
// caller asks for, on all cores, while the caller sees the rows in file order.
package read

import (
	"bytes"
	"fmt"
	"math"

	"memscope/internal/event"
)

// Want is the set of columns, and of keys of the Attr column, that a scan decodes. Kind, Sub and Pool always are.
type Want uint32

// Columns, then keys of Attr.
const (
	ID Want = 1 << iota
	PID
	TID
	Device
	Addr
	Name
	Stacks
	AttrText // the Attr cell as it stands
	AllocID
	Size
	Used
	Total
	ProcessUsed
	DeviceUsed
	Shadow
	Owner
	Page   // page_type and alloc_type
	Access // the pool that an ACCESS row names

	attrKeys = AllocID | Size | Used | Total | ProcessUsed | DeviceUsed | Shadow | Owner | Page | Access
)

// NoID is the PID or TID of a row that has none (N/A in the file).
const NoID uint64 = math.MaxUint64

// NoPool is the Pool of a row that belongs to none or to one that nobody knows. Pools above it are numbers of Options.Pools.
const NoPool = event.Pools

// Span is a piece of text in a Batch; the zero Span is empty.
type Span struct{ Start, End uint32 }

// Len is the length in the file, in bytes; doubled quotes count twice.
func (s Span) Len() int { return int(s.End - s.Start) }

// Row is one row of a dump. Numbers that the row does not tell, or that were not asked for, are event.Unknown (sizes and
// usage, bytes), 0 (Addr, AllocID), NoID (PID, TID) or event.DeviceNone.
type Row struct {
	Stamp   int64 // ns since the epoch
	ID      int64
	PID     uint64
	TID     uint64
	Addr    uint64
	AllocID uint64

	Size        int64
	Used        int64
	Total       int64
	ProcessUsed int64
	DeviceUsed  int64

	Name     Span
	Owner    Span
	AttrText Span
	Python   Span // call stacks, one frame a line
	C        Span

	Device int32
	start  uint32 // of the row, in the Batch
	end    uint32 // CSV: behind its line end

	Kind  event.Kind // 0: none that we know
	Sub   event.Sub
	Pool  event.Pool // of Malloc and Free; of Access if Access was asked for
	Flags event.Flags
	Page  event.Page
}

// Batch is a run of consecutive rows. It and everything in it are valid during the call that hands it over.
type Batch struct {
	Rows []Row
	text []byte
	base int64 // offset of text in the file; db: 0
	csv  bool  // quotes in text are doubled
	last bool  // of the file

	faults     []Fault
	faultCount int64
	cut        bool // the last row is only a part of one
	sorted     bool // Rows are in ascending order of Stamp
}

// Text gives the text of a span of this batch. It is valid as long as the batch is.
func (b *Batch) Text(s Span) []byte {
	t := b.text[s.Start:s.End]
	if b.csv && bytes.IndexByte(t, '"') >= 0 {
		return bytes.ReplaceAll(t, []byte(`""`), []byte(`"`))
	}
	return t
}

// Offset is where the row begins in its file, in bytes; 0 in a database.
func (b *Batch) Offset(r *Row) int64 { return b.base + int64(r.start) }

// raw is the row as it stands in its CSV file, with its line end if it has one.
func (b *Batch) raw(r *Row) []byte { return b.text[r.start:r.end] }

// Fault is a row that could not be used and was passed over.
type Fault struct {
	Offset int64 // of the row in a CSV file, bytes; row number (from 1) in a database
	Reason string
}

// Summary is what a scan has seen.
type Summary struct {
	Rows      int64
	Bad       int64    // rows passed over, the truncated one included
	Faults    []Fault  // the first few of them
	Truncated bool     // the last row is cut off
	Sorted    bool     // rows are in ascending order of Stamp
	First     int64    // stamp of the first row, ns
	Last      int64    // stamp of the last row, ns
	Extra     []string // columns that we do not know
}

const keptFaults = 10

func (s *Summary) add(b *Batch) {
	if n := len(b.Rows); n > 0 {
		if s.Rows == 0 {
			s.First, s.Last = b.Rows[0].Stamp, b.Rows[0].Stamp
		}
		s.Sorted = s.Sorted && b.sorted && b.Rows[0].Stamp >= s.Last
		s.Last = b.Rows[n-1].Stamp
		s.Rows += int64(n)
	}
	s.Bad += b.faultCount
	s.Truncated = s.Truncated || b.cut
	s.Faults = append(s.Faults, b.faults[:min(len(b.faults), keptFaults-len(s.Faults))]...)
}

func (b *Batch) fault(at int, reason string) {
	b.faultCount++
	if len(b.faults) < keptFaults {
		b.faults = append(b.faults, Fault{b.base + int64(at), reason})
	}
}

// UnsortedError says that a scan that needs rows in time order met one that is not.
type UnsortedError struct{ Path string }

func (e *UnsortedError) Error() string {
	return fmt.Sprintf("%s is not in time order", e.Path)
}
