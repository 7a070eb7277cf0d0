package session

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"memscope/internal/config"
	"memscope/internal/dump/dbfile"
	"memscope/internal/event"
	"memscope/internal/wire"
)

// pyTrace turns the calls of Python functions into rows of python_trace_<TID>_<TS>.csv, one file per thread (contract 4).
// It belongs to the client's goroutine.
type pyTrace struct {
	dump    *dump
	offset  int64 // from a stamp to wall-clock ns
	names   map[uint64]string
	threads map[uint32]*pyThread
	device  int32 // where a thread's file goes that knows no card of its own
	failed  bool
}

// pyThread is the calls of one thread that have not returned, and its rows.
type pyThread struct {
	open   []pyCall
	muted  int // depth below a __torch_dispatch__; what happens there is a part of the operator
	lost   int // calls that are open beyond the bound
	device int32
	rows   bytes.Buffer // not in the file yet
	file   *os.File
	name   string // of the file, relative to the project directory
	home   int32  // the card that it belongs to
}

type pyCall struct {
	name  string
	start int64
}

// mostOpen bounds the calls of a thread that never return.
const mostOpen = 100000

func newPyTrace(d *dump, offset int64) *pyTrace {
	return &pyTrace{
		dump: d, offset: offset, names: map[uint64]string{}, threads: map[uint32]*pyThread{}, device: event.DeviceNone,
	}
}

// use takes a record; false when it is none of the trace's.
func (p *pyTrace) use(rec wire.Record) bool {
	switch rec.Type() {
	case wire.TypePyName:
		p.names[rec.Text().Value] = string(rec.TextBytes())
	case wire.TypePyCall:
		p.begin(rec, p.names[uint64(rec.Head().Stack)])
	case wire.TypePyOpen:
		p.begin(rec, "start: "+p.names[uint64(rec.Head().Stack)])
	case wire.TypePyReturn:
		p.end(rec, p.names[uint64(rec.Head().Stack)])
	case wire.TypePyBegin:
		p.begin(rec, string(rec.TextBytes()))
	case wire.TypePyEnd:
		p.end(rec, string(rec.TextBytes()))
	case wire.TypePyStop:
		p.stop()
	default:
		return false
	}
	return true
}

func (p *pyTrace) thread(rec wire.Record) *pyThread {
	t := p.threads[rec.TID()]
	if t == nil {
		t = &pyThread{device: event.DeviceNone}
		p.threads[rec.TID()] = t
	}
	if t.device == event.DeviceNone {
		t.device = int32(rec.Head().Device)
		p.seen(t.device)
	}
	return t
}

func (p *pyTrace) begin(rec wire.Record, name string) {
	t := p.thread(rec)
	switch {
	case t.muted > 0:
		t.muted++
		return
	case len(t.open) >= mostOpen || t.lost > 0:
		t.lost++
		return
	}
	if strings.HasSuffix(name, ": __torch_dispatch__") {
		t.muted = 1
	}
	t.open = append(t.open, pyCall{name, rec.Head().Stamp + p.offset})
}

// end ends the newest call. One that began before the trace has no start.
func (p *pyTrace) end(rec wire.Record, name string) {
	t := p.thread(rec)
	switch {
	case t.muted > 1:
		t.muted--
		return
	case t.lost > 0:
		t.lost--
		return
	}
	t.muted = 0
	call := pyCall{name: name}
	if n := len(t.open); n > 0 {
		call = t.open[n-1]
		t.open = t.open[:n-1]
	}
	p.row(t, rec.TID(), call, rec.Head().Stamp+p.offset)
}

// stop writes what is open; it has no end.
func (p *pyTrace) stop() {
	for tid, t := range p.threads {
		for _, call := range slices.Backward(t.open) {
			p.row(t, tid, call, 0)
		}
		t.open, t.muted, t.lost = nil, 0, 0
	}
}

func (p *pyTrace) row(t *pyThread, tid uint32, call pyCall, end int64) {
	b := t.rows.AvailableBuffer()
	if strings.ContainsAny(call.name, ",\"\r\n") {
		var quoted bytes.Buffer
		w := csv.NewWriter(&quoted)
		_ = w.Write([]string{call.name})
		w.Flush()
		b = append(b, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
	} else {
		b = append(b, call.name...)
	}
	for _, stamp := range [...]int64{call.start, end} {
		b = append(b, ',')
		if stamp == 0 {
			b = append(b, "N/A"...)
		} else {
			b = strconv.AppendInt(b, stamp, 10)
		}
	}
	b = fmt.Appendf(b, ",%d,%d\n", tid, p.dump.pid)
	t.rows.Write(b)
}

// seen notes the first card of the process.
func (p *pyTrace) seen(device int32) {
	if p.device == event.DeviceNone && device < event.DeviceNone {
		p.device = device
	}
}

// flush brings the rows into the files; those of a thread without a card wait for one, until the end.
func (p *pyTrace) flush(end bool) {
	if end {
		p.stop()
	}
	for tid, t := range p.threads {
		if t.rows.Len() > 0 && p.dump.project != nil && !p.failed {
			if err := p.write(tid, t); err != nil {
				p.failed = true
				p.dump.log.Logf(config.Error, "the Python trace is no longer written: %v", err)
			}
		}
	}
}

func (p *pyTrace) write(tid uint32, t *pyThread) error {
	if t.file == nil {
		device := t.device
		if device >= event.DeviceNone {
			device = p.device
		}
		if device >= event.DeviceNone {
			return nil
		}
		file, name, err := p.dump.project.CreateTrace(device, tid)
		if err != nil {
			return err
		}
		t.file, t.name, t.home = file, name, device
		if p.dump.cfg.Format == config.CSV {
			p.dump.project.Notice("file", name)
		}
		if _, err = file.WriteString("FuncInfo,StartTime(ns),EndTime(ns),Thread Id,Process Id\n"); err != nil {
			return err
		}
	}
	_, err := t.file.Write(t.rows.Bytes())
	t.rows.Reset()
	return err
}

// close closes the files. Where the dump is a database, which is closed by now, they become a table of it: until here two writers would have
// had to share it.
func (p *pyTrace) close() {
	told := map[int32]bool{}
	for _, t := range p.threads {
		if t.file == nil {
			continue
		}
		if p.dump.cfg.Format == config.DB && !p.failed {
			name, err := p.intoDB(t)
			switch {
			case err != nil:
				p.dump.log.Logf(config.Error, "%s stays a file: %v", t.name, err)
			case !told[t.home]:
				told[t.home] = true
				p.dump.project.Notice(fmt.Sprintf("dbtable python_trace_%d in", p.dump.pid), name)
			}
		}
		t.file.Close()
	}
}

func (p *pyTrace) intoDB(t *pyThread) (name string, err error) {
	dir, base, err := p.dump.project.DB(t.home)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	if _, err := t.file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	path := filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), base)
	if err := dbfile.AddTrace(path, p.dump.pid, t.file); err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(t.name), base), p.dump.project.Root.Remove(t.name)
}
