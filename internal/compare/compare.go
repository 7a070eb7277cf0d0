package compare

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"memscope/internal/dump/read"
	"memscope/internal/event"
)

// ErrMindSporeOps says what cannot be compared.
var ErrMindSporeOps = errors.New("Comparison of the MindSpore framework under the op level is not supported.")

// ErrFailed says that there was nothing to compare.
var ErrFailed = errors.New("neither dump has a launch of the level, there is nothing to compare; record both with --events=alloc,free,launch and the --level that is compared, or ask each with `msmemscope dump peak`")

// Side is one of the two dumps.
type Side struct {
	Lists map[int32][]Element // by card
}

// Comparison is what two dumps have in common and what not.
type Comparison struct {
	Names   *Names
	Devices []DeviceDiff
}

// DeviceDiff is the comparison of one card.
type DeviceDiff struct {
	Device        int32
	Base, Compare []Element
	Script        []Move
}

// Reader makes a Side of the rows of a dump, which must come in time order within each file.
type Reader struct {
	side     *Side
	level    Level
	names    *Names
	pool     event.Pool
	file     string
	launches *Launches
}

// NewReader makes a reader. pool is the pool of the framework; if it is read.NoPool, the first MALLOC or FREE row of one
// tells it.
func NewReader(level Level, names *Names, pool event.Pool) *Reader {
	return &Reader{side: &Side{Lists: make(map[int32][]Element)}, level: level, names: names, pool: pool}
}

// Visit takes rows of a file. It is an error if they are of another framework.
func (rd *Reader) Visit(path string, b *read.Batch) error {
	if path != rd.file || rd.launches == nil {
		rd.file = path
		rd.launches = NewLaunches(rd.level, rd.names, func() (event.Pool, bool) { return rd.pool, rd.pool != read.NoPool },
			func(device int32, _ int64, e Element) { rd.side.Lists[device] = append(rd.side.Lists[device], e) })
	}
	for i := range b.Rows {
		r := &b.Rows[i]
		if r.Pool == event.PTA || r.Pool == event.MindSpore {
			if rd.pool == read.NoPool {
				rd.pool = r.Pool
			} else if rd.pool != r.Pool {
				return fmt.Errorf("The content of the file %s is invalid.", path)
			}
		}
		if r.Device != event.DeviceNone && r.Device != event.DeviceCPU {
			rd.launches.Row(b, r)
		}
	}
	return nil
}

// Pool is the pool of the framework as far as it is known.
func (rd *Reader) Pool() event.Pool { return rd.pool }

// Side is what was read. A name that a spreadsheet would take for a formula is an error.
func (rd *Reader) Side() (*Side, error) {
	for _, list := range rd.side.Lists {
		for _, e := range list {
			if name := rd.names.All[e.Name]; name != "" && strings.ContainsRune("=+-@", rune(name[0])) {
				return nil, fmt.Errorf("Name %s is invalid!", name)
			}
		}
	}
	return rd.side, nil
}

// Compare aligns two sides, card by card. warn gets a line for each card without launches.
func Compare(base, other *Side, names *Names, lim Limits, warn func(string)) (*Comparison, error) {
	devices := slices.Collect(maps.Keys(base.Lists))
	for d := range other.Lists {
		if _, both := base.Lists[d]; !both {
			devices = append(devices, d)
		}
	}
	slices.Sort(devices)
	c := &Comparison{Names: names}
	for _, d := range devices {
		a, b := base.Lists[d], other.Lists[d]
		if len(a)+len(b) == 0 {
			warn(fmt.Sprintf("Device %d has empty kernelLaunch/op data!", d))
			continue
		}
		script, err := Script(ids(a), ids(b), lim)
		if err != nil {
			return nil, err
		}
		c.Devices = append(c.Devices, DeviceDiff{d, a, b, script})
	}
	if len(c.Devices) == 0 {
		return nil, ErrFailed
	}
	return c, nil
}

func ids(list []Element) []int32 {
	out := make([]int32, len(list))
	for i, e := range list {
		out[i] = e.Name
	}
	return out
}

// Row is one line of the result: a launch of both sides, or of one.
type Row struct {
	Device        int32
	Base, Compare *Element // nil: not on this side
}

// Diff is the difference in memory, bytes.
func (r Row) Diff() (diff int64) {
	if r.Compare != nil {
		diff = r.Compare.Net
	}
	if r.Base != nil {
		diff -= r.Base.Net
	}
	return diff
}

// Element is the launch, of whichever side has it.
func (r Row) Element() *Element { return cmp.Or(r.Base, r.Compare) }

// Rows goes through the aligned rows, devices ascending.
func (c *Comparison) Rows(visit func(Row) error) error {
	for i := range c.Devices {
		d := &c.Devices[i]
		x, y := 0, 0
		for _, move := range d.Script {
			row := Row{Device: d.Device}
			if move != Insert {
				row.Base = &d.Base[x]
				x++
			}
			if move != Delete {
				row.Compare = &d.Compare[y]
				y++
			}
			if err := visit(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// WriteCSV writes memory_compare_*.csv (contract 4).
func (c *Comparison) WriteCSV(out io.Writer) error {
	w := bufio.NewWriterSize(out, 1<<20)
	w.WriteString(",,,Base,Compare\nEvent,Name,Device Id,Allocated Memory(byte),Allocated Memory(byte),Diff Memory(byte)\n")
	var line []byte
	number := func(e *Element) {
		line = append(line, ',')
		if e == nil {
			line = append(line, "N/A"...)
			return
		}
		line = strconv.AppendInt(line, e.Net, 10)
	}
	err := c.Rows(func(r Row) error {
		e := r.Element()
		line = append(line[:0], "OP_LAUNCH,"...)
		if e.Kernel {
			line = append(line[:0], "KERNEL_LAUNCH,"...)
		}
		line = append(line, csvCell(c.Names.All[e.Name])...)
		line = append(line, ',')
		line = strconv.AppendInt(line, int64(r.Device), 10)
		number(r.Base)
		number(r.Compare)
		line = append(line, ',')
		line = strconv.AppendInt(line, r.Diff(), 10)
		line = append(line, '\n')
		_, err := w.Write(line)
		return err
	})
	return errors.Join(err, w.Flush())
}

// csvCell is a name as it stands in a CSV file: as it is, unless that would break the line.
func csvCell(s string) string {
	if !strings.ContainsAny(s, ",\"\r\n") {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

// Culprit is a launch by name, with the difference that it accounts for.
type Culprit struct {
	Event       string `json:"event"`
	Name        string `json:"name"`
	Matched     int    `json:"matched"`
	BaseOnly    int    `json:"base_only"`
	CompareOnly int    `json:"compare_only"`
	Diff        int64  `json:"diff_bytes"`
}

// Culprits adds up the differences by name, the largest, whatever its sign, first.
func (c *Comparison) Culprits() []Culprit {
	type key struct {
		name   int32
		kernel bool
	}
	sums := make(map[key]*Culprit)
	c.Rows(func(r Row) error {
		e := r.Element()
		s := sums[key{e.Name, e.Kernel}]
		if s == nil {
			s = &Culprit{Event: "OP_LAUNCH", Name: c.Names.All[e.Name]}
			if e.Kernel {
				s.Event = "KERNEL_LAUNCH"
			}
			sums[key{e.Name, e.Kernel}] = s
		}
		switch {
		case r.Compare == nil:
			s.BaseOnly++
		case r.Base == nil:
			s.CompareOnly++
		default:
			s.Matched++
		}
		s.Diff += r.Diff()
		return nil
	})
	out := make([]Culprit, 0, len(sums))
	for _, s := range sums {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Culprit) int {
		return cmp.Or(cmp.Compare(max(b.Diff, -b.Diff), max(a.Diff, -a.Diff)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Event, b.Event))
	})
	return out
}
