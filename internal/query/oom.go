package query

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"memscope/internal/dump/read"
	"memscope/internal/event"
)

var oomQuestion = &question{
	name: "oom", args: "FILE...", common: byDevice | byTime,
	summary: "what happened when memory ran out: the request, the largest and the latest blocks, what they hint at",
	help: `
Reads the OOM_DETAIL rows that --analysis=oom writes. Hints, each with its numbers:
  large request    the request is at least 80 % of what was free
  exhausted        it is less: the card was simply full
  pool growth      the request came from a framework pool that wanted to grow
  repeated stack   one call stack made 3 or more of the latest allocations
  accumulation     the latest allocations are alike in size: something piles up
  other processes  most of the card was held by others
A request that is repeated within 2 s, as a pool does before it gives up, is one case.`,
	setup: func(fs *flag.FlagSet) func(*env, []string) (result, error) {
		detail := fs.Int("detail", 10, "rows to list of each kind; 0: none")
		return func(e *env, args []string) (result, error) {
			if *detail < 0 {
				return nil, usagef("--detail is not negative")
			}
			var o *oom
			err := e.scan(args, read.PID|read.Device|read.Name|read.Stacks|read.AttrText|read.ProcessUsed|read.DeviceUsed, func() visitor {
				o = &oom{env: e, cards: make(map[device]cardState), open: make(map[device]int), detail: *detail}
				return o.visit
			})
			if err != nil {
				return nil, err
			}
			return o.result(), nil
		}
	},
}

type oom struct {
	env    *env
	detail int
	cards  map[device]cardState // what was last known
	open   map[device]int       // place of the latest trigger
	list   []*oomCase
}

// cardState is what the rows say about a card, bytes; -1: nothing.
type cardState struct{ process, device, total, free, hal int64 }

type oomCase struct {
	Process     string      `json:"process"`
	Device      string      `json:"device"`
	At          int64       `json:"at_ns"`
	Func        string      `json:"func"`
	Request     int64       `json:"req_size"`
	Flag        string      `json:"flag"`
	Ret         string      `json:"ret"`
	Stack       string      `json:"call_stack"`
	Free        int64       `json:"free"`         // -1: not told
	Total       int64       `json:"total"`        // of the card; -1: not told
	ProcessUsed int64       `json:"process_used"` // -1: not told
	DeviceUsed  int64       `json:"device_used"`  // -1: not told
	Top         []oomRecord `json:"top"`
	Recent      []oomRecord `json:"recent"`
	TopBytes    int64       `json:"top_bytes"`
	RecentBytes int64       `json:"recent_bytes"`
	Hints       []string    `json:"hints"`
	Attempts    int         `json:"attempts"` // calls of the driver in this case
	last        int64       // when the latest of them was, ns
	hal         int64       // what the process had from the driver; -1: not told
}

type oomRecord struct {
	Pool   string `json:"pool"`
	Ptr    string `json:"ptr"`
	Size   int64  `json:"size"`
	At     int64  `json:"allocated_ns"`
	Step   string `json:"step,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	Stack  string `json:"call_stack"`
}

func (o *oom) visit(b *read.Batch) error {
	for i := range b.Rows {
		r := &b.Rows[i]
		switch r.Kind {
		case event.Malloc, event.Free:
			if hal := r.Pool == event.HAL && r.Used >= 0; hal || r.DeviceUsed >= 0 || r.ProcessUsed >= 0 {
				s := o.card(r)
				if hal {
					s.hal = r.Used
				}
				if r.DeviceUsed >= 0 {
					s.device = r.DeviceUsed
				}
				if r.ProcessUsed >= 0 {
					s.process = r.ProcessUsed
				}
				o.cards[device{r.PID, r.Device}] = s
			}
		case event.Snapshot:
			o.snapshot(b, r)
		case event.OOMDetail:
			if o.env.wanted(r) && o.env.within(r) {
				o.record(b, r)
			}
		}
	}
	return nil
}

func (o *oom) card(r *read.Row) cardState {
	if s, ok := o.cards[device{r.PID, r.Device}]; ok {
		return s
	}
	return cardState{-1, -1, -1, -1, -1}
}

// snapshot reads what the card had free. The snapshot of an OOM is written around its rows, so it may come after them.
func (o *oom) snapshot(b *read.Batch, r *read.Row) {
	attr := b.Text(r.AttrText)
	total, ok1 := whole(read.Attr(attr, "total_mem"))
	free, ok2 := whole(read.Attr(attr, "free_mem"))
	if !ok1 || !ok2 { // older dumps
		total, ok1 = whole(read.Attr(attr, "total"))
		free, ok2 = whole(read.Attr(attr, "free"))
	}
	if !ok1 || !ok2 {
		return
	}
	s := o.card(r)
	s.total, s.free = total, free
	o.cards[device{r.PID, r.Device}] = s
	if at, ok := o.open[device{r.PID, r.Device}]; ok && string(b.Text(r.Name)) == "OOM_Snapshot" {
		if c := o.list[at]; c.Free < 0 {
			c.Total, c.Free = total, free
		}
	}
}

func (o *oom) record(b *read.Batch, r *read.Row) {
	attr := b.Text(r.AttrText)
	value := func(key string) string { return string(read.Attr(attr, key)) }
	number := func(key string) int64 {
		v, ok := whole(read.Attr(attr, key))
		if !ok {
			return -1
		}
		return v
	}
	d := device{r.PID, r.Device}
	stack := stackOf(b, r)
	if r.Sub == event.OOMTrigger {
		if at, ok := o.open[d]; ok && o.list[at].goesOn(value("func"), number("req_size"), r.Stamp) {
			return
		}
		s := o.card(r)
		o.open[d] = len(o.list)
		o.list = append(o.list, &oomCase{Process: pidName(r.PID), Device: deviceName(r.Device), At: r.Stamp, Func: value("func"),
			Request: number("req_size"), Flag: value("flag"), Ret: value("ret"), Stack: stack, Attempts: 1, last: r.Stamp,
			Free: s.free, Total: s.total, ProcessUsed: s.process, DeviceUsed: s.device, hal: s.hal})
		return
	}
	at, ok := o.open[d]
	if !ok {
		at = len(o.list)
		o.open[d] = at
		o.list = append(o.list, &oomCase{Process: pidName(r.PID), Device: deviceName(r.Device), At: r.Stamp, Request: -1, Free: -1, Total: -1, ProcessUsed: -1, DeviceUsed: -1, hal: -1})
	}
	rec := oomRecord{Pool: value("pool"), Ptr: value("ptr"), Size: number("size"), At: number("timestamp"), Step: value("step"), Kernel: value("kernel"), Stack: stack}
	c := o.list[at]
	switch r.Sub {
	case event.OOMTop:
		c.Top = append(c.Top, rec)
		c.TopBytes += max(rec.Size, 0)
	case event.OOMRecent:
		c.Recent = append(c.Recent, rec)
		c.RecentBytes += max(rec.Size, 0)
	}
}

// retry is how long after a refusal the same request belongs to the same case: as long as the rows of blocks are not repeated (contract
// 3.4). A pool asks again with other pages and when it has emptied its cache, each of which is a call of the driver and a row.
const retry = 2 * time.Second

// goesOn notes one more attempt, or says that a request is another case.
func (c *oomCase) goesOn(function string, request, stamp int64) bool {
	if c.Func != function || c.Request != request || stamp-c.last > int64(retry) {
		return false
	}
	c.Attempts++
	c.last = stamp
	return true
}

// stackOf is the call stack of a row, the Python one before the other.
func stackOf(b *read.Batch, r *read.Row) string {
	python := string(b.Text(r.Python))
	if python == "NA" {
		python = ""
	}
	return python + string(b.Text(r.C))
}

type oomResult struct {
	Cases []*oomCase `json:"cases"`
}

func (o *oom) result() *oomResult {
	for _, c := range o.list {
		c.Hints = c.hints()
		slices.SortStableFunc(c.Top, func(a, b oomRecord) int { return cmp.Compare(b.Size, a.Size) })
		slices.SortStableFunc(c.Recent, func(a, b oomRecord) int { return cmp.Compare(b.At, a.At) })
		c.Top, c.Recent = nonNil(c.Top[:min(len(c.Top), o.detail)]), nonNil(c.Recent[:min(len(c.Recent), o.detail)])
	}
	if len(o.list) == 0 {
		o.env.note("there is no OOM_DETAIL row: memory did not run out while it was collected, or --analysis=oom was not on")
	}
	return &oomResult{nonNil(o.list)}
}

const (
	largeRequest = 0.8 // of what was free
	sameStack    = 3
)

// hints draws the conclusions that the numbers allow.
func (c *oomCase) hints() (out []string) {
	hint := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	free := c.freeBytes()
	switch {
	case c.Request < 0:
	case free < 0:
		hint("request of %s; how much was free is not in the dump (a snapshot would tell)", short(c.Request))
	case float64(c.Request) >= largeRequest*float64(free):
		hint("large request: %s is %s of the %s that were free", short(c.Request), percent(c.Request, free), short(free))
	default:
		hint("exhausted: the request of %s is only %s of the %s that were free; memory is in pieces, or reserved", short(c.Request), percent(c.Request, free), short(free))
	}
	if name := growingPool(c.Func + "\n" + c.Stack); name != "" {
		hint("pool growth: the request came from a framework pool (%s in the call stack): what the pool holds already is the cause, not this request", name)
	}
	stacks := make(map[string]int)
	sizes := make(map[int64]int)
	for _, r := range c.Recent {
		if r.Stack != "" {
			stacks[r.Stack]++
		}
		sizes[r.Size]++
	}
	if stack, n := most(stacks); n >= sameStack {
		hint("repeated stack: %d of the %d latest allocations come from %s", n, len(c.Recent), firstFrames(stack, 1))
	}
	if bytes, n := most(sizes); n >= sameStack && 2*n >= len(c.Recent) {
		hint("accumulation: %d of the %d latest allocations that live are of %s each", n, len(c.Recent), short(bytes))
	}
	if c.DeviceUsed > 0 && c.ProcessUsed >= 0 && c.DeviceUsed-c.ProcessUsed > c.DeviceUsed/2 {
		hint("other processes: they hold %s of the %s in use on the card, this process %s", short(c.DeviceUsed-c.ProcessUsed), short(c.DeviceUsed), short(c.ProcessUsed))
	}
	return nonNil(out)
}

// freeBytes is what was free on the card; -1: not told.
func (c *oomCase) freeBytes() int64 {
	if c.Free < 0 && c.Total > 0 && c.DeviceUsed >= 0 {
		return max(c.Total-c.DeviceUsed, 0)
	}
	return c.Free
}

// growingPool finds the allocator of a framework in a call stack.
func growingPool(stack string) string {
	for _, name := range []string{"NPUCachingAllocator", "CachingAllocator", "alloc_block", "AscendMemoryPool", "DynamicMemPool", "libtorch_npu"} {
		if strings.Contains(stack, name) {
			return name
		}
	}
	return ""
}

// most finds the key with the highest count, the least key of several.
func most[K cmp.Ordered](counts map[K]int) (key K, n int) {
	for k, c := range counts {
		if c > n || c == n && k < key {
			key, n = k, c
		}
	}
	return key, n
}

func (o *oomResult) Text(w *report) {
	if len(o.Cases) == 1 {
		w.line("memory ran out once")
	} else {
		w.line("memory ran out %d times", len(o.Cases))
	}
	for _, c := range o.Cases {
		w.line("")
		w.line("process %s, device %s, at %d ns", c.Process, c.Device, c.At)
		if c.Request >= 0 {
			w.line("  %s asked for %s, flag %s, answer %s", cmp.Or(c.Func, "somebody"), size(c.Request), cmp.Or(c.Flag, "?"), cmp.Or(c.Ret, "?"))
			if c.Attempts > 1 {
				w.line("  asked %d times within %v", c.Attempts, time.Duration(c.last-c.At).Round(time.Microsecond))
			}
			if c.Stack != "" {
				w.line("  from %s", w.frames(c.Stack, 3))
			}
		} else {
			w.line("  the row that tells the request is missing")
		}
		w.line("  card: total %s, free %s, in use %s, by this process %s", size(c.Total), size(c.Free), size(c.DeviceUsed), size(c.ProcessUsed))
		records(w, "largest live blocks", c.Top, c.TopBytes)
		records(w, "latest live blocks", c.Recent, c.RecentBytes)
		for _, h := range c.Hints {
			w.line("  hint: %s", h)
		}
	}
}

func records(w *report, what string, list []oomRecord, bytes int64) {
	if len(list) == 0 {
		return
	}
	driver := int64(0)
	for _, r := range list {
		if r.Pool == "HAL" {
			driver += r.Size
		}
	}
	if driver > 0 && driver < bytes { // adding them up would count the memory of the pools twice
		w.line("  %s, %s of HAL and %s of pools, which lies in it:", what, size(driver), size(bytes-driver))
	} else {
		w.line("  %s, %s in all:", what, size(bytes))
	}
	var rows [][]string
	for _, r := range list {
		rows = append(rows, []string{r.Pool, r.Ptr, size(r.Size), count(r.At), r.Step, r.Kernel, w.frames(r.Stack, 2)})
	}
	w.table([]string{"pool", "block", ">size", ">allocated (ns)", ">step", ">kernel", "call stack"}, rows)
}
