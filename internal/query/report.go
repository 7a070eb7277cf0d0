package query

import (
	"bufio"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"memscope/internal/dump/read"
	"memscope/internal/event"
)

// report is the text of an answer.
type report struct {
	w   *bufio.Writer
	cut bool // a call stack is not shown as a whole
}

func (w *report) line(format string, args ...any) {
	fmt.Fprintf(w.w, format, args...)
	w.w.WriteByte('\n')
}

// table prints rows under a header, columns aligned; a header that begins with > marks numbers, set to the right.
func (w *report) table(header []string, rows [][]string) {
	width := make([]int, len(header))
	right := make([]bool, len(header))
	for i, h := range header {
		header[i], right[i] = strings.CutPrefix(h, ">")
		width[i] = utf8.RuneCountInString(header[i])
	}
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range append([][]string{header}, rows...) {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if right[i] {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
			line.WriteString("  ")
		}
		w.line("  %s", strings.TrimRight(line.String(), " "))
	}
}

// size prints bytes for people, and exactly.
func size(n int64) string {
	if n == event.Unknown {
		return "N/A"
	}
	if n > -1024 && n < 1024 {
		return short(n)
	}
	return fmt.Sprintf("%s (%d)", short(n), n)
}

// short prints bytes with three or four digits.
func short(n int64) string {
	v, sign := float64(n), ""
	if n < 0 {
		v, sign = -v, "-"
	}
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for v >= 1024 && i < len(units)-1 {
		v /= 1024
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%s%d B", sign, int64(v))
	}
	return fmt.Sprintf("%s%.2f %s", sign, v, units[i])
}

func percent(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(whole))
}

func ratio(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// since prints the distance between two stamps.
func since(from, to int64) string {
	d := time.Duration(to - from)
	if d > time.Millisecond {
		d = d.Round(time.Microsecond)
	}
	return d.String()
}

func hex(addr uint64) string { return fmt.Sprintf("0x%016x", addr) }

// deviceName prints a device as the Device Id column does.
func deviceName(d int32) string {
	switch d {
	case event.DeviceCPU:
		return "cpu"
	case event.DeviceNone:
		return "N/A"
	}
	return fmt.Sprint(d)
}

func pidName(pid uint64) string {
	if pid == read.NoID {
		return "N/A"
	}
	return fmt.Sprint(pid)
}

func count(n int64) string { return fmt.Sprint(n) }

func percentage(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }
