package csvfile

import (
	"bytes"
	"strconv"
	"strings"

	"memscope/internal/dump/cells"
	"memscope/internal/event"
)

// Header is the first line of a dump, without its line end (contract 3.1).
var Header = strings.Join(cells.Columns[:], ",")

// AppendRow appends the row of ev, with its line end, to b. It allocates nothing but what b needs to grow.
func AppendRow(b []byte, ev *event.Event, id uint64) []byte {
	b = strconv.AppendUint(b, id, 10)
	b = append(b, ',')
	b = append(b, cells.Kind(ev)...)
	b = append(b, ',')
	b = append(b, cells.Type(ev)...)
	b = append(b, ',')
	if at := len(b); ev.Kind == event.Mstx || strings.ContainsAny(ev.Name, "\",\r\n") {
		b = cells.AppendName(append(b, '"'), ev)
		b = closeQuotes(b, at)
	} else {
		b = cells.AppendName(b, ev)
	}
	b = append(b, ',')
	b = strconv.AppendInt(b, ev.Stamp, 10)
	b = append(b, ',')
	b = cells.AppendID(b, ev.PID)
	b = append(b, ',')
	b = cells.AppendID(b, ev.TID)
	b = append(b, ',')
	b = cells.AppendDevice(b, ev.Device)
	b = append(b, ',')
	b = cells.AppendPtr(b, ev)
	b = append(b, ',')
	at := len(b)
	b = append(b, '"')
	if b = cells.AppendAttr(b, ev); len(b) > at+1 {
		b = closeQuotes(b, at)
	} else {
		b = b[:at]
	}
	return append(b, ",,\n"...) // no call stacks
}

// closeQuotes ends the field that a quote at b[at] opened; quotes inside are doubled.
func closeQuotes(b []byte, at int) []byte {
	from := len(b)
	for range bytes.Count(b[at+1:], []byte{'"'}) {
		b = append(b, 0)
	}
	for to := len(b); to > from; { // from the end on, so that nothing is overwritten before it has moved
		from--
		to--
		b[to] = b[from]
		if b[to] == '"' {
			to--
			b[to] = '"'
		}
	}
	return append(b, '"')
}
