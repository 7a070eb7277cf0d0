package session

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"strings"

	"memscope/internal/config"
	"memscope/internal/control"
	"memscope/internal/output"
	"memscope/internal/wire"
)

// defaultWatchBytes is the bound without control.EnvWatchBytes.
const defaultWatchBytes = 16 << 30

// watchDump writes what a process dumps of watched tensors (contract 4): a checksum of each, or its contents. The first error ends it, as does
// the bound on what it may take.
type watchDump struct {
	session *session
	cfg     *config.Config
	log     *log
	pid     uint64
	ring    *wire.Ring

	dir     *output.Watch
	sums    map[int32]*os.File // by device
	room    int64              // bytes that may still be written
	over    bool
	failing bool // a tensor could not be read, which has been said

	label string // of the dump in hand, empty: none
	name  string // of its file
	file  *os.File
	hash  hash.Hash
	left  uint64 // bytes that it still lacks
	owner uint32 // the thread that it is ahead of a kernel of, 0: it has its whole label

	kernels *kernelNames
	ahead   map[uint32][]unnamed // by thread
	parts   int                  // files of dumps ahead
	dumps   int
	started bool // by a kernel
}

// unnamed is a whole dump around a kernel that has not been named yet.
type unnamed struct {
	label string // what follows the kernel
	file  string // its bytes, else sum
	sum   string
}

// mostAhead bounds the dumps of a thread that wait for their kernel: the target's table of tensors has no more.
const mostAhead = 256

func newWatchDump(c *client) *watchDump {
	return &watchDump{session: c.session, cfg: &c.cfg, log: &c.log, pid: c.pid, ring: c.ring, kernels: c.session.kernels,
		room: setting(control.EnvWatchBytes, 0, math.MaxInt64, defaultWatchBytes)}
}

// arrive takes a record if it is of a watched tensor. They come whole, one after the other: in the ring there is nothing of another
// tensor between the records of one.
func (w *watchDump) arrive(rec wire.Record) bool {
	switch rec.Type() {
	case wire.TypeWatchBegin, wire.TypeWatchAhead:
		w.begin(rec)
	case wire.TypeWatchKernel:
		w.named(rec)
	case wire.TypeWatchData:
		if b, ok := rec.WatchData(); ok && w.label != "" && uint64(len(b)) <= w.left {
			w.left -= uint64(len(b))
			w.write(b)
		}
	case wire.TypeWatchEnd:
		w.end(rec)
	default:
		return false
	}
	return true
}

func (w *watchDump) begin(rec wire.Record) {
	w.drop() // its thread has died amid it
	if w.over || !rec.Plausible() || w.cfg.Watch.End == "" {
		return
	}
	w.left = rec.Text().Value
	label := string(rec.TextBytes())
	if w.owner = 0; rec.Type() == wire.TypeWatchAhead {
		if w.owner = rec.TID(); len(w.ahead[w.owner]) >= mostAhead {
			return // nobody names them
		}
	}
	if !w.take(w.takes(label)) {
		return
	}
	w.dumps++
	if err := w.open(label); err != nil {
		w.failed(err)
		return
	}
	w.label = label
}

// takes is what the dump in hand takes on disk, bytes.
func (w *watchDump) takes(label string) int64 {
	if w.cfg.Watch.Full {
		return int64(min(w.left, 1<<62))
	}
	return int64(len(label)) + 18 // a row
}

// take takes so much of the room; without it, that was it.
func (w *watchDump) take(bytes int64) bool {
	if bytes > w.room {
		w.stop(fmt.Sprintf("the dumps of watched tensors have reached the bound on what they take on disk (%s)", control.EnvWatchBytes))
		return false
	}
	w.room -= bytes
	return true
}

func (w *watchDump) open(label string) (err error) {
	if w.dir == nil {
		if w.dir, err = output.OpenWatch(w.cfg.OutputPath, w.session.talk.line); err != nil {
			return err
		}
	}
	if w.cfg.Watch.Full {
		if w.name = contentName(label); w.owner != 0 {
			w.parts++
			w.name = fmt.Sprintf("%d_%d.part", w.pid, w.parts)
		}
		w.file, err = w.dir.CreateContent(w.name)
		return err
	}
	w.hash = sha256.New()
	return nil
}

// contentName is the file for a dump: the first separator is _, others are points (contract 9-51). A name that is too long for a file system is cut,
// and gets a checksum of the whole.
func contentName(label string) string {
	const most, kept, end = 255, 160, 64
	name := strings.ReplaceAll(strings.Replace(label, "/", "_", 1), "/", ".")
	if len(name) > most {
		sum := sha256.Sum256([]byte(name))
		name = strings.ToValidUTF8(name[:kept]+"~"+hex.EncodeToString(sum[:8])+"~"+name[len(name)-end:], "")
	}
	return name
}

func (w *watchDump) write(b []byte) {
	if w.file == nil {
		w.hash.Write(b)
	} else if _, err := w.file.Write(b); err != nil {
		w.drop()
		w.failed(err)
	}
}

func (w *watchDump) end(rec wire.Record) {
	if w.label == "" {
		return
	}
	if code := rec.Text().Value; code != 0 || w.left > 0 {
		if w.log.Logf(config.Warning, "%s could not be read from the card: error %d of aclrtMemcpy", w.label, code); !w.failing {
			w.failing = true
			w.session.talk.process("Warn", w.pid, "a watched tensor could not be read from the card: error %d of aclrtMemcpy, %s", code, w.label)
		}
		w.drop()
		return
	}
	label := w.label
	w.label = ""
	var err error
	sum := ""
	if w.file != nil {
		err, w.file = w.file.Close(), nil
	} else {
		sum = hex.EncodeToString(w.hash.Sum(nil)[:8])
	}
	switch {
	case err != nil:
	case w.owner != 0:
		if w.ahead == nil {
			w.ahead = map[uint32][]unnamed{}
		}
		w.ahead[w.owner] = append(w.ahead[w.owner], unnamed{label: label, file: w.name, sum: sum})
	case sum != "":
		err = w.sum(int32(rec.Head().Device), label, sum)
	}
	if err != nil {
		w.failed(err)
	}
}

// named gives what a thread has dumped ahead the name of its kernel.
func (w *watchDump) named(rec wire.Record) {
	k := *rec.WatchKernel() // a copy, which the target cannot change
	dumps := w.ahead[rec.TID()]
	delete(w.ahead, rec.TID())
	name := w.kernels.of(k.Name)
	w.started = w.started || name == w.cfg.Watch.Start
	for i, d := range dumps {
		if k.Name == 0 || w.over {
			w.forget(dumps[i:])
			return
		}
		kernel := fmt.Sprintf("%d_%d/%s_%d", k.H.Device, rec.TID(), name, k.Count)
		var err error
		if d.sum == "" {
			err = w.dir.Rename(d.file, contentName(kernel+d.label))
		} else if w.take(int64(len(kernel))) {
			err = w.sum(int32(k.H.Device), kernel+d.label, d.sum)
		}
		if err != nil {
			w.failed(err)
		}
	}
}

// forget drops dumps that nothing is known of.
func (w *watchDump) forget(dumps []unnamed) {
	for _, d := range dumps {
		if d.sum == "" {
			_ = w.dir.Remove(d.file)
		}
	}
}

// sum writes the row of a checksum: the first 16 digits of the SHA-256 (contract 9-61).
func (w *watchDump) sum(device int32, label, sum string) error {
	f := w.sums[device]
	var text strings.Builder
	table := csv.NewWriter(&text)
	if f == nil {
		var err error
		if f, err = w.dir.CreateSums(device); err != nil {
			return err
		}
		if w.sums == nil {
			w.sums = map[int32]*os.File{}
		}
		w.sums[device] = f
		w.session.talk.line("[msmemscope] Info: create file " + f.Name() + ".")
		_ = table.Write([]string{"Tensor info", "Check data sum"})
	}
	_ = table.Write([]string{label, sum}) // to memory
	table.Flush()
	_, err := io.WriteString(f, text.String())
	return err
}

// drop forgets the dump in hand and what there is of its file.
func (w *watchDump) drop() {
	if w.label = ""; w.file != nil {
		w.file.Close()
		_ = w.dir.Remove(w.name)
		w.file = nil
	}
}

// failed ends the dumps for an error of the disk.
func (w *watchDump) failed(err error) {
	w.stop(fmt.Sprintf("watched tensors cannot be written: %v", err))
}

// stop ends the dumps of this process, and says so.
func (w *watchDump) stop(why string) {
	w.over = true
	w.ring.EndWatch()
	w.log.Logf(config.Error, "%s; no more are dumped", why)
	w.session.talk.process("Error", w.pid, "%s; no more are dumped", why)
}

// sayIdle says why nothing was dumped, if that is so.
func (w *watchDump) sayIdle() {
	if w.cfg.Watch.End == "" || w.dumps > 0 || w.over {
		return
	}
	why := "the program has registered no tensor"
	switch {
	case w.started:
		why = fmt.Sprintf("%q is a kernel, what kernels write is not known, and the program has registered no tensor", w.cfg.Watch.Start)
	case w.cfg.Watch.Start != "":
		why = fmt.Sprintf("no operator %q has ended while recording", w.cfg.Watch.Start)
		if w.cfg.Level&config.LevelKernel == 0 {
			why += "; kernels are watched with --level=kernel"
		}
	}
	w.session.talk.process("Warn", w.pid, "--watch has dumped nothing: %s", why)
	w.log.Logf(config.Warning, "--watch has dumped nothing: %s", why)
}

func (w *watchDump) close() {
	w.drop()
	for _, dumps := range w.ahead {
		w.forget(dumps) // their thread has died in the launch
	}
	for _, f := range w.sums {
		f.Close()
	}
	if w.dir != nil {
		_ = w.dir.Close()
	}
}
