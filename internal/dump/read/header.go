package read

import (
	"bytes"
	"fmt"
	"strings"

	"memscope/internal/dump/cells"
)

// Columns of a dump, in the order of contract 3.1.
const (
	colID = iota
	colEvent
	colType
	colName
	colStamp
	colPID
	colTID
	colDevice
	colPtr
	colAttr
	colPython
	colC
	columns
	colOther = 255 // a column that we do not know
)

// Header is the header line that the tool writes, without its line end.
var Header = strings.Join(ColumnNames, ",")

// ColumnNames are the columns of a dump in their order.
var ColumnNames = cells.Columns[:]

// columnOf finds columns by name, without regard to case: older dumps write "Thread ID".
var columnOf = func() map[string]uint8 {
	m := make(map[string]uint8)
	for i, name := range ColumnNames {
		m[strings.ToLower(name)] = uint8(i)
	}
	return m
}()

const maxColumns = 64

// layout says which field of a row holds which column.
type layout struct {
	column [maxColumns]uint8 // by field number
	n      int               // fields of a row
	native bool              // a row begins with ID,Event,
	extra  []string          // names that we do not know
}

// newLayout reads the names of the fields. The error says which columns are missing.
func newLayout(names []string) (*layout, error) {
	if len(names) > maxColumns {
		return nil, fmt.Errorf("the header has %d columns; at most %d are accepted", len(names), maxColumns)
	}
	l := &layout{n: len(names)}
	var seen [columns]bool
	for i, name := range names {
		c, ok := columnOf[strings.ToLower(strings.TrimSpace(name))]
		if !ok || seen[c] {
			c = colOther
			l.extra = append(l.extra, strings.TrimSpace(name))
		} else {
			seen[c] = true
		}
		l.column[i] = c
	}
	var missing []string
	for _, c := range []int{colEvent, colType, colStamp, colDevice, colAttr} {
		if !seen[c] {
			missing = append(missing, ColumnNames[c])
		}
	}
	if missing != nil {
		return nil, fmt.Errorf("not a memory dump: the header lacks %s", strings.Join(missing, ", "))
	}
	l.native = l.n > 2 && l.column[0] == colID && l.column[1] == colEvent
	return l, nil
}

// csvLayout reads a header line.
func csvLayout(line []byte) (*layout, error) {
	line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	names := strings.Split(string(bytes.TrimSpace(line)), ",")
	for i, name := range names {
		name = strings.TrimSpace(name)
		if len(name) > 1 && name[0] == '"' && name[len(name)-1] == '"' {
			name = name[1 : len(name)-1]
		}
		names[i] = name
	}
	return newLayout(names)
}
