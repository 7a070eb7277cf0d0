package csvfile

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"strconv"

	"memscope/internal/dump/cells"
	"memscope/internal/event"
)

// Reader splits a dump into rows.
type Reader struct {
	r   *bufio.Reader
	row []byte
	end int64
}

// NewReader reads rows from r; the header counts as one.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(r, 256<<10)} }

// Next is the next row with its line end, valid until the next call. A line end inside of double quotes belongs to the row.
// io.ErrUnexpectedEOF: the file ends within a row.
func (r *Reader) Next() ([]byte, error) {
	r.row = r.row[:0]
	quotes := 0
	for {
		part, err := r.r.ReadSlice('\n')
		whole := err == nil
		quotes += bytes.Count(part, []byte{'"'})
		if whole && quotes%2 == 0 {
			r.end += int64(len(r.row) + len(part))
			if len(r.row) == 0 {
				return part, nil
			}
			r.row = append(r.row, part...)
			return r.row, nil
		}
		r.row = append(r.row, part...)
		switch {
		case whole || err == bufio.ErrBufferFull:
		case err == io.EOF && len(r.row) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// End is the offset behind the last row that Next gave.
func (r *Reader) End() int64 { return r.end }

// ID is the number of a row.
func ID(row []byte) (id uint64, ok bool) {
	n := bytes.IndexByte(row, ',')
	if n < 0 {
		return 0, false
	}
	id, err := strconv.ParseUint(string(row[:n]), 10, 64)
	return id, err == nil
}

// ParseBlock reads a MALLOC or FREE row into ev: its kind, pool, ids, device, address, size, allocation id and whether it is
// a shadow row. false: it is some other row, or none.
func ParseBlock(row []byte, ev *event.Event) bool {
	const columns = 9 // before Attr; none of them holds a comma or quote in these rows
	var col [columns][]byte
	for i := range col {
		n := bytes.IndexByte(row, ',')
		if n < 0 {
			return false
		}
		col[i], row = row[:n], row[n+1:]
	}
	*ev = event.Event{Module: -1, Used: event.Unknown, Total: event.Unknown, ProcessUsed: event.Unknown, DeviceUsed: event.Unknown}
	switch string(col[1]) {
	case "MALLOC":
		ev.Kind = event.Malloc
	case "FREE":
		ev.Kind = event.Free
	default:
		return false
	}
	end := bytes.IndexByte(row, '}')
	if end < 2 {
		return false
	}
	var ok bool
	if ev.Pool, ok = cells.ParsePool(string(col[2])); !ok {
		ev.Pool, ev.Name = event.Named, string(col[2])
	}
	ok = true
	number := func(b []byte) uint64 {
		n, err := strconv.ParseUint(string(b), 0, 64)
		ok = ok && err == nil
		return n
	}
	id := func(b []byte) uint64 {
		if string(b) == cells.NA {
			return math.MaxUint64
		}
		return number(b)
	}
	ev.Stamp, ev.PID, ev.TID = int64(number(col[4])), id(col[5]), id(col[6])
	switch string(col[7]) {
	case cells.NA:
		ev.Device = event.DeviceNone
	case "cpu":
		ev.Device = event.DeviceCPU
	default:
		ev.Device = int32(number(col[7]))
	}
	for pair := range bytes.SplitSeq(row[2:end], []byte{','}) {
		key, value, _ := bytes.Cut(pair, []byte{':'})
		switch string(key) {
		case "allocation_id":
			ev.AllocID = number(value)
		case "addr":
			ev.Addr = number(value)
		case "size":
			n, err := strconv.ParseInt(string(value), 10, 64)
			ok = ok && err == nil
			ev.Size = n
		case "shadow":
			ev.Flags |= event.Shadow
		case "pinned":
			ev.Pool = event.HAL
		}
	}
	return ok && ev.AllocID != 0
}
