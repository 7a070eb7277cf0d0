package csvfile

import (
	"bytes"
	"strings"

	"memscope/internal/dump/cells"
	"memscope/internal/event"
)

// Header is the first line of a dump, without its line end (contract 3.1).
var Header = strings.Join(cells.Columns[:], ",")

// special are the characters that make a field need quotes.
const special = "\",\r\n"

// AppendRow appends the row of ev, with its line end, to b. stacks may be nil. It allocates nothing but what b needs to grow.
func AppendRow(b []byte, ev *event.Event, id uint64, stacks cells.Stacks) []byte {
	b = cells.AppendUint(b, id)
	b = append(b, ',')
	b = append(b, cells.Kind(ev)...)
	b = append(b, ',')
	if typ := cells.Type(ev); ev.Pool >= event.Named && strings.ContainsAny(typ, special) { // no such pool is accepted; a file may hold it
		at := len(b)
		b = closeQuotes(append(append(b, '"'), typ...), at)
	} else {
		b = append(b, typ...)
	}
	b = append(b, ',')
	if at := len(b); ev.Kind == event.Mstx || strings.ContainsAny(ev.Name, special) {
		b = cells.AppendName(append(b, '"'), ev)
		b = closeQuotes(b, at)
	} else {
		b = cells.AppendName(b, ev)
	}
	b = append(b, ',')
	b = cells.AppendInt(b, ev.Stamp)
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
	python, c := cells.StackColumns(stacks, ev)
	b = appendStack(append(b, ','), python)
	b = appendStack(append(b, ','), c)
	return append(b, '\n')
}

// appendStack appends a column that is in quotes already.
func appendStack(b []byte, text string) []byte {
	if text == "" {
		return b
	}
	at := len(b)
	if b = append(b, text...); strings.Count(text, `"`) > 2 {
		b = closeQuotes(b[:len(b)-1], at)
	}
	return b
}

// closeQuotes ends the field that a quote at b[at] opened; quotes inside are doubled.
func closeQuotes(b []byte, at int) []byte {
	if bytes.IndexByte(b[at+1:], '"') < 0 {
		return append(b, '"')
	}
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
