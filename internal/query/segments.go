package query

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"memscope/internal/dump/read"
	"memscope/internal/event"
)

var segmentsQuestion = &question{
	name: "hal-segments", args: "FILE...", common: byDevice | byTime,
	summary: "the large pieces that were taken from the driver",
	help: `
For comparison with what is expected: an HCCL communication domain takes about 401 MB at once (200 in, 200 out, 1 for the
windows), AIV mode 40 MB more, MC2 16 MB; a framework pool grows by segments of 20 MB or more. A segment with alloc_type
create says that expandable segments are in effect; of one that was allocated while nothing was collected it is unknown. If few segments show, lower --min-size.`,
	setup: func(fs *flag.FlagSet) func(*env, []string) (result, error) {
		minimum := int64(100 << 20)
		fs.Func("min-size", "segments from this `size` on, with KB, MB or GB; 100MB unless said otherwise", func(s string) (err error) {
			minimum, err = parseSize(s)
			return err
		})
		return func(e *env, args []string) (result, error) {
			e.pools = &poolSet{event.HAL: true}
			var s *segments
			err := e.scan(args, trackerWants|read.Page|read.Shadow|read.Stacks, func() visitor {
				s = &segments{tracker: newTracker(e), minimum: minimum, open: make(map[blockKey]int)}
				return s.visit
			})
			if err != nil {
				return nil, err
			}
			return s.result(), nil
		}
	},
}

// parseSize reads a size such as 100MB; the letters stand for powers of 1024.
func parseSize(s string) (int64, error) {
	text := strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(s)), "B")
	text = strings.TrimSuffix(text, "I")
	factor := 1.0
	if n := len(text); n > 0 {
		if i := strings.IndexByte("KMGT", text[n-1]); i >= 0 {
			factor = float64(int64(1) << (10 * (i + 1)))
			text = text[:n-1]
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || v < 0 || v*factor > 1<<62 {
		return 0, fmt.Errorf("%q is no size such as 100MB", s)
	}
	return int64(v * factor), nil
}

type segments struct {
	*tracker
	minimum int64
	list    []segment
	open    map[blockKey]int // live ones, place in list
	small   amount
	creates int64
	before  int64 // with synthetic MALLOC rows
}

type segment struct {
	Process string `json:"process"`
	Device  string `json:"device"`
	Addr    string `json:"ptr"`
	Size    int64  `json:"size"`
	Owner   string `json:"owner"`
	Page    string `json:"page_type"`
	Alloc   string `json:"alloc_type"`
	At      int64  `json:"allocated_ns"`
	Freed   int64  `json:"freed_ns,omitempty"` // 0: not, or only by a shadow FREE
	Stack   string `json:"call_stack,omitempty"`
}

var pageNames = map[event.Page]string{event.PageNormal: "normal", event.PageHuge: "huge", event.PageGiant: "giant"}

func (s *segments) visit(b *read.Batch) error {
	for i := range b.Rows {
		r := &b.Rows[i]
		c, ok := s.apply(b, r)
		if !ok {
			continue
		}
		key := blockKey{c.addr, int32(c.account)}
		if !c.came {
			if at, listed := s.open[key]; listed {
				if r.Flags&event.Shadow == 0 {
					s.list[at].Freed = r.Stamp
				}
				delete(s.open, key)
			}
			continue
		}
		delete(s.open, key)
		if !s.env.within(r) {
			continue
		}
		alloc := "alloc"
		switch {
		case r.Flags&event.Shadow != 0: // of a block that was there before: such rows always say create (contract 3.2)
			alloc = "unknown"
			s.before++
		case r.Flags&event.Created != 0:
			alloc = "create"
			s.creates++
		}
		if c.block.size < s.minimum {
			s.small.add(c.block.size)
			continue
		}
		s.open[key] = len(s.list)
		a := s.all[c.account]
		s.list = append(s.list, segment{pidName(a.PID), deviceName(a.Device), hex(c.addr), c.block.size, s.owners.all[c.block.owner],
			pageNames[r.Page], alloc, r.Stamp, 0, s.stackText(c.block.stack)})
	}
	return nil
}

type segmentsResult struct {
	Minimum  int64     `json:"min_size"`
	Segments []segment `json:"segments"`
	Smaller  amount    `json:"smaller"`
	Creates  int64     `json:"alloc_type_create"`  // of all sizes
	Before   int64     `json:"alloc_type_unknown"` // of all sizes
}

func (s *segments) result() *segmentsResult {
	slices.SortStableFunc(s.list, func(a, b segment) int { return cmp.Compare(b.Size, a.Size) })
	s.tell()
	return &segmentsResult{s.minimum, nonNil(s.list), s.small, s.creates, s.before}
}

func (s *segmentsResult) Text(w *report) {
	w.line("%d segments of %s or more; %d smaller ones, %s", len(s.Segments), short(s.Minimum), s.Smaller.Blocks, size(s.Smaller.Bytes))
	var rows [][]string
	for _, g := range s.Segments {
		freed := "never"
		if g.Freed > 0 {
			freed = count(g.Freed)
		}
		owner := g.Owner
		if owner == "" {
			owner = unowned
		}
		rows = append(rows, []string{g.Process, g.Device, g.Addr, size(g.Size), owner, g.Page, g.Alloc, count(g.At), freed, firstFrames(g.Stack, 1)})
	}
	if rows != nil {
		w.table([]string{">process", ">device", "segment", ">size", "owner", "page", "alloc", ">allocated (ns)", ">freed (ns)", "first frame"}, rows)
	}
	if s.Creates > 0 {
		w.line("%d segments have alloc_type create: expandable segments are in effect", s.Creates)
	}
	if s.Before > 0 {
		w.line("%d segments were allocated while nothing was collected: how is not known of them", s.Before)
	}
}
