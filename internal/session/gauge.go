package session

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"memscope/internal/config"
	"memscope/internal/event"
	"memscope/internal/ledger"
)

const (
	// gaugePause is the least time between two questions (abi 2.7): the management interface takes milliseconds for an answer.
	gaugePause = time.Millisecond
	// gaugePatience is how long an event waits for numbers of its own.
	gaugePatience = 5 * time.Millisecond
	// gaugeStart is how long the first one does.
	gaugeStart = 200 * time.Millisecond
)

// gaugeEnd is how long a process's log stays open for the first answer.
const gaugeEnd = 2 * time.Second

// gaugeRare is the time since the event before from which on one waits, ns.
const gaugeRare = int64(50 * time.Millisecond)

// gaugeLag is how much later than an event its numbers may have been read, ns; after that they are of another moment.
const gaugeLag = int64(100 * time.Millisecond)

// gaugeName is the program beside the hooks that asks the driver (native/gauge).
const gaugeName = "msmemscope-gauge"

// card is how full a card is, bytes.
type card struct {
	total, used int64
	processes   map[uint64]int64 // by process id
	at          int64            // when the driver was asked, CLOCK_MONOTONIC ns
}

// gauge knows how full the cards are: it keeps a process that asks DCMI. One serves all clients. Most calls are for an event among
// many, or where nobody answers, so they take no lock.
type gauge struct {
	start  sync.Once
	ask    chan struct{}
	now    atomic.Pointer[answer]
	looked atomic.Int64 // moment of the newest event that asked
}

// answer is what the process said last, or why there will be none.
type answer struct {
	cards map[int32]card
	at    int64 // when the driver was asked, CLOCK_MONOTONIC ns
	why   string
	lacks string        // the function without which there are no numbers of processes
	next  chan struct{} // closed when there is another one
}

func newGauge() *gauge {
	g := &gauge{ask: make(chan struct{}, 1)}
	g.now.Store(&answer{next: make(chan struct{})})
	return g
}

// look answers the numbers of a card, if possible such that were read after a moment (CLOCK_MONOTONIC ns). It waits a little for
// them where events are rare. Where they are not, the numbers are those that were asked for by an event before.
func (g *gauge) look(device int32, moment int64) (card, bool) {
	patience := gaugePatience
	g.start.Do(func() {
		patience = gaugeStart
		go g.run()
	})
	r := g.now.Load()
	if r.why == "" && r.at < moment {
		select {
		case g.ask <- struct{}{}:
		default:
		}
		if patience == gaugeStart || moment-g.looked.Load() > gaugeRare {
			r = g.wait(r, moment, patience)
		}
	}
	g.looked.Store(moment)
	c, ok := r.cards[device]
	return c, ok
}

// wait lets the next answers come until there is one of after the moment, or patience ends.
func (g *gauge) wait(r *answer, moment int64, patience time.Duration) *answer {
	timeout := time.After(patience)
	for r.why == "" && r.at < moment {
		select {
		case <-r.next:
			r = g.now.Load()
		case <-timeout:
			return r
		}
	}
	return r
}

// answered takes a new answer.
func (g *gauge) answered(r *answer) {
	r.next = make(chan struct{})
	close(g.now.Swap(r).next)
}

// settle waits until it is known whether there are numbers, if somebody has asked.
func (g *gauge) settle() {
	if g.looked.Load() != 0 {
		g.wait(g.now.Load(), 1, gaugeEnd)
	}
}

// absent says what is not collected and why, empty while everything may be.
func (g *gauge) absent() string {
	switch r := g.now.Load(); {
	case r.why != "":
		return "process_used and device_used are not collected: " + r.why
	case r.lacks != "":
		return "process_used is not collected: libdcmi.so lacks: " + r.lacks
	}
	return ""
}

func (g *gauge) run() { g.answered(&answer{why: g.converse().Error()}) }

// converse asks as long as there are answers. It ends with this process.
func (g *gauge) converse() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	dir := os.Getenv("LD_PRELOAD_PATH")
	if dir == "" {
		dir = filepath.Join(filepath.Dir(exe), "..", "lib64")
	}
	cmd := exec.Command(filepath.Join(dir, gaugeName))
	cmd.Env = withoutPreload(os.Environ())
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for first := true; ; first = false {
		if !first {
			<-g.ask
			time.Sleep(gaugePause)
		}
		at := monotonic()
		_, err := in.Write([]byte{'?'})
		cards := map[int32]card{}
		answered, lacks := false, ""
		for err == nil && !answered && lines.Scan() {
			if name, ok := strings.CutPrefix(lines.Text(), "lacks "); ok {
				lacks = name
			} else if answered = lines.Text() == "."; !answered {
				err = readCard(lines.Text(), at, cards)
			}
		}
		if !answered {
			in.Close()
			out.Close()
			if cmd.Wait() != nil && complaint.Len() > 0 {
				err = fmt.Errorf("%s", strings.TrimSpace(complaint.String()))
			}
			if err == nil {
				err = fmt.Errorf("%s gave up", gaugeName)
			}
			return err
		}
		g.answered(&answer{cards: cards, at: at, lacks: lacks})
	}
}

// readCard reads one line of an answer.
func readCard(line string, at int64, cards map[int32]card) error {
	f := strings.Fields(line)
	if len(f) < 3 {
		return fmt.Errorf("%s answers %q", gaugeName, line)
	}
	device, err1 := strconv.ParseInt(f[0], 10, 32)
	total, err2 := strconv.ParseInt(f[1], 10, 64)
	used, err3 := strconv.ParseInt(f[2], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return fmt.Errorf("%s answers %q", gaugeName, line)
	}
	c := card{total: total, used: used, at: at, processes: map[uint64]int64{}}
	for _, p := range f[3:] {
		pid, bytes, _ := strings.Cut(p, ":")
		id, err1 := strconv.ParseUint(pid, 10, 64)
		n, err2 := strconv.ParseInt(bytes, 10, 64)
		if err1 != nil || err2 != nil {
			return fmt.Errorf("%s answers %q", gaugeName, line)
		}
		c.processes[id] = n
	}
	cards[int32(device)] = c
	return nil
}

func withoutPreload(environ []string) (out []string) {
	for _, kv := range environ {
		if !strings.HasPrefix(kv, "LD_PRELOAD=") {
			out = append(out, kv)
		}
	}
	return out
}

// usage completes the usage numbers of a row that only the driver knows (contract 3.2).
func (c *client) usage(ev *event.Event, b *ledger.Block) {
	switch {
	case ev.Kind == event.System && ev.Sub == event.StartTrace:
		if now, ok := c.look(0, ev); ok {
			ev.Attrs = fmt.Sprintf("free:%d,total:%d", now.total-now.used, now.total)
		}
	case b == nil || ev.Kind != event.Malloc && ev.Kind != event.Free || ev.Flags&event.Shadow != 0:
	case ev.Device == event.DeviceCPU:
		if ev.Pool == event.HAL {
			ev.ProcessUsed = c.resident()
		}
	case ev.Device < mostGauged:
		seen := &c.gauged[ev.Device]
		if ev.Pool == event.HAL {
			*seen = gauged{event.Unknown, event.Unknown}
			if now, ok := c.look(ev.Device, ev); ok {
				seen.device = now.used
				if used, ok := now.processes[uint64(c.proc.pid)]; ok {
					seen.process = used
				}
			}
		}
		if seen.device != 0 || seen.process != 0 {
			ev.ProcessUsed, ev.DeviceUsed = seen.process, seen.device
		}
	}
}

// look answers the numbers of a card at about the time of an event.
func (c *client) look(device int32, ev *event.Event) (card, bool) {
	moment := ev.Stamp - c.session.offset
	now, ok := c.session.gauge.look(device, moment)
	c.sayGauge()
	return now, ok && abs(now.at-moment) < gaugeLag
}

// sayGauge says what the driver does not tell, once that is known.
func (c *client) sayGauge() {
	if why := c.session.gauge.absent(); why != "" && !c.toldGauge {
		c.toldGauge = true
		c.log.Logf(config.Info, "%s", why)
	}
}

// mostGauged bounds the cards whose numbers are kept for the rows of pools.
const mostGauged = 64

// gauged is what the last row of the driver's on a card had; both 0 before there is one.
type gauged struct{ process, device int64 }

func abs(n int64) int64 { return max(n, -n) }

// resident is the resident memory of the process, bytes; it is read once in a millisecond.
func (c *client) resident() int64 {
	if now := time.Now(); now.Sub(c.residentAt) >= gaugePause {
		c.residentAt, c.residentBytes = now, event.Unknown
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.proc.pid))
		if f := strings.Fields(string(text)); err == nil && len(f) > 1 {
			if pages, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				c.residentBytes = pages * int64(os.Getpagesize())
			}
		}
	}
	return c.residentBytes
}
