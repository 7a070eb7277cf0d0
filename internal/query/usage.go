package query

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"memscope/internal/dump/read"
	"memscope/internal/event"
)

// meter is one of the figures that MALLOC and FREE rows tell.
type meter string

var meters = []meter{"used", "device_used", "process_used", "total"}

func (m *meter) flag(fs *flag.FlagSet) {
	*m = "used"
	names := make([]string, len(meters))
	for i, v := range meters {
		names[i] = string(v)
	}
	list := strings.Join(names, ", ")
	fs.Func("key", "the `figure`: "+list+"; used unless said otherwise", func(s string) error {
		if !slices.Contains(meters, meter(s)) {
			return fmt.Errorf("it is one of %s", list)
		}
		*m = meter(s)
		return nil
	})
}

// of is the figure of a row, event.Unknown if the row does not tell it.
func (m meter) of(r *read.Row) int64 {
	switch m {
	case "device_used":
		return r.DeviceUsed
	case "process_used":
		return r.ProcessUsed
	case "total":
		return r.Total
	}
	return r.Used
}

const meterWants = read.Used | read.Total | read.ProcessUsed | read.DeviceUsed

func isBlock(r *read.Row) bool { return r.Kind == event.Malloc || r.Kind == event.Free }

// decimal reads a number with a fraction.
func decimal(b []byte) (float64, bool) {
	v, err := strconv.ParseFloat(string(b), 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// whole reads a number without a fraction; ok is false if it is none.
func whole(b []byte) (int64, bool) {
	v, err := strconv.ParseInt(string(b), 10, 64)
	return v, err == nil
}
