// Package report says what is in a window of the host heap: the overview as text and as JSON, the list of blocks, and the live stacks for
// other tools. Section titles and file names are those of contract 6.3 and 6.4; docs/host-leaks.md explains the labels.
package report

import (
	"fmt"
	"time"

	"memscope/internal/hostheap"
	"memscope/internal/hostheap/lsi"
)

// TopDefault is the usual number of leak sites.
const TopDefault = 10

// Size is a number of blocks and their bytes.
type Size struct {
	Blocks uint64 `json:"blocks"`
	Bytes  uint64 `json:"bytes"`
}

// Overview is a report as data; its JSON is the file leak_overview_<stage>.json.
type Overview struct {
	Stage     int       `json:"stage"`
	PID       int       `json:"pid"`
	Interim   bool      `json:"interim"`
	Health    Health    `json:"data_health"`
	Unfreed   Size      `json:"total_unfreed"`
	Sizes     []Bucket  `json:"unfreed_sizes"`
	Prewindow []Bucket  `json:"prewindow_free_sizes"`
	Series    Series    `json:"series"`
	Top       []Site    `json:"top_leak_sites"`
	Suspected int       `json:"suspected_leaks"` // of all sites, also those below the top ones
	Others    int       `json:"other_sites"`     // growth_watch sites that are not listed
	Residents []Site    `json:"resident_baselines"`
	Turnover  bool      `json:"cache_turnover"`
	Written   time.Time `json:"written"`
}

// Bucket is one line of a distribution.
type Bucket struct {
	Name string `json:"size"`
	Size
	Share float64 `json:"percent_of_bytes"`
}

// Health is how much of the window the data are.
type Health struct {
	Opened     time.Time `json:"opened"`
	Ended      time.Time `json:"ended"`
	Seconds    float64   `json:"seconds"`
	How        string    `json:"closed_by"` // one of the Closed… texts
	Mode       string    `json:"mode"`
	Available  bool      `json:"available"` // false: nothing could be read
	Usable     bool      `json:"usable_as_leak_conclusion"`
	Why        []string  `json:"incomplete_because"`
	Allocs     Size      `json:"allocations"`
	Frees      Size      `json:"frees"`
	Stacks     int       `json:"stacks"`
	KeyDepth   int       `json:"key_depth"`
	PyDepth    int       `json:"python_depth"`
	Unknown    Size      `json:"unknown_bucket_allocations"`
	UnknownNow Size      `json:"unknown_bucket_unfreed"`
	Recycled   int       `json:"dead_stacks_evicted"`
	Folded     Size      `json:"dead_stacks_allocations"`
	Truncated  uint32    `json:"truncation_bits"`
	Overflow   Size      `json:"overflow_allocations"`
	OverNow    Size      `json:"overflow_unfreed"`
	Prewindow  Size      `json:"prewindow_frees"`
	SampleRate uint32    `json:"sample_rate"`
	Unsampled  Size      `json:"unsampled_allocations"`
	Threshold  uint64    `json:"block_size_threshold"`
	Below      Size      `json:"below_threshold_allocations"`
	Untracked  Size      `json:"untracked_allocations"`
	Unseen     Size      `json:"unseen_frees"`
	Nested     uint64    `json:"calls_from_signal_handlers"`
	CutWalks   uint64    `json:"stacks_cut_short"`
	Frames     int       `json:"frames"`
	Symbolized int       `json:"frames_symbolized"`
	Late       bool      `json:"symbolization_timed_out"`
	Allocator  string    `json:"allocator"`
	InFront    bool      `json:"allocator_in_front"` // of ours: only what it passes on is seen
	Python     string    `json:"python"`             // one of the Python… texts
	RSS        Memory    `json:"resident_memory"`
	Frozen     Size      `json:"snapshot_freeze"`
	Degraded   []string  `json:"snapshot_degraded"`
}

// Memory is the process's resident memory at the two ends of the window, bytes; 0 when it could not be read.
type Memory struct {
	Opened int64 `json:"opened"`
	Ended  int64 `json:"ended"`
}

// Series says how the beats went.
type Series struct {
	TopK      int     `json:"top_k"`
	MaxStacks int     `json:"max_stacks"`
	Ticks     int     `json:"ticks"`
	Seconds   float64 `json:"window_seconds"`
	Stacks    int     `json:"stacks_with_series"`
	BeatMs    int64   `json:"beat_ms"`
}

// Site is a call stack that is judged.
type Site struct {
	Rank     int      `json:"rank"`
	Stack    uint32   `json:"stack_id"`
	Class    string   `json:"class"`
	LSI      float64  `json:"lsi"`
	Growth   *float64 `json:"growth"` // nil: unknown
	Release  float64  `json:"release"`
	Lifetime float64  `json:"lifetime"`
	Pattern  *float64 `json:"pattern"` // nil: unknown
	Scale    float64  `json:"scale"`
	Degraded string   `json:"degraded,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	Unfreed  Size     `json:"unfreed"`
	Allocs   Size     `json:"allocations"`
	Frees    Size     `json:"frees"`
	Slope    *float64 `json:"slope_bytes_per_tick"`
	Ticks    int      `json:"ticks"`
	C        []string `json:"c_stack"`
	Python   []string `json:"python_stack"`
	Missing  string   `json:"unresolved,omitempty"`
}

// Texts of Health.How.
const (
	ClosedStop    = "stopped"
	ClosedExit    = "the process ended"
	ClosedKilled  = "the process was killed"
	ClosedExec    = "the process executed another program"
	ClosedInterim = "interim snapshot, window open"
)

// Texts of Health.Python.
const (
	PythonNone = "none"
	PythonSeen = "frames recorded"
	PythonLost = "an interpreter whose frames cannot be read"
)

// Input is what a report is made from.
type Input struct {
	Snapshot *hostheap.Snapshot
	Tables   *hostheap.Tables
	Texts    *Texts
	Top      int // sites listed, TopDefault when 0
	RSS      Memory
	Pymalloc bool // Python's small objects are in arenas of its own
}

const residentLeast = 4096 // bytes that make a resident stack worth a line

// Make makes the overview.
func Make(in Input) *Overview {
	s := in.Snapshot
	top := in.Top
	if top <= 0 {
		top = TopDefault
	}
	o := &Overview{
		Stage: s.Stage, PID: s.PID, Interim: s.Interim, Unfreed: size(s.Unfreed), Written: time.Now(),
		Series: Series{TopK: 256, MaxStacks: 1024, Ticks: s.Beats, Seconds: s.Ended.Sub(s.Opened).Seconds(), Stacks: s.SeriesStacks,
			BeatMs: s.Beat.Milliseconds()},
	}
	o.Sizes = distribution(s.Buckets)
	o.Prewindow = distribution(s.Tally.Prewindow)
	sites, passed := explain(in)
	for i := range sites {
		site := &sites[i]
		switch {
		case site.Verdict.Class.Resident():
			if site.Unfreed.Bytes >= residentLeast && !(s.Interim && len(o.Residents) >= top) {
				o.Residents = append(o.Residents, makeSite(in, site))
			}
			continue
		case site.Verdict.Class == lsi.SuspectedLeak:
			o.Suspected++
		}
		if len(o.Top) < top {
			made := makeSite(in, site)
			if passed[site.Stack] {
				made.Notes = append(made.Notes, "free list")
			}
			o.Top = append(o.Top, made)
		} else {
			o.Others++
		}
	}
	o.Others += s.Rest
	o.Top, o.Residents = list(o.Top), list(o.Residents)
	sortResidents(o.Residents)
	for i := range o.Top {
		o.Top[i].Rank = i + 1
	}
	o.Health = health(in)
	o.Turnover = o.Health.Prewindow.Bytes*2 > o.Health.Allocs.Bytes
	return o
}

// list is what was given, but JSON says [] where there is nothing.
func list[T any](of []T) []T {
	if of == nil {
		return []T{}
	}
	return of
}

func makeSite(in Input, s *hostheap.Site) Site {
	v := s.Verdict
	site := Site{
		Stack: s.Stack, Class: v.Class.String(), LSI: v.LSI, Release: v.Release, Lifetime: v.Lifetime, Scale: v.Scale, Ticks: s.Beats,
		Unfreed: size(s.Unfreed), Allocs: Size{s.Counts.Allocs, s.Counts.AllocBytes}, Frees: Size{s.Counts.Frees, s.Counts.FreeBytes},
		Degraded: string(s.Degraded), C: []string{}, Python: []string{},
	}
	if !v.Neutral {
		site.Growth, site.Pattern, site.Slope = &v.Growth, &v.Pattern, &v.Slope
	}
	for _, n := range []struct {
		holds bool
		text  string
	}{{v.Saturating, "saturating"}, {v.FewSteps, "few steps"}, {v.Replaced, "replaced"}, {v.BoundedAge, "bounded age"}, {v.ShortWindow, "short window"}} {
		if n.holds {
			site.Notes = append(site.Notes, n.text)
		}
	}
	if s.Stack == hostheap.StackUnknown {
		site.Missing = "unknown bucket"
		return site
	}
	frames, ok := in.Tables.Stack(s.Stack)
	if !ok {
		site.Missing = fmt.Sprintf("(unresolved stack %d)", s.Stack)
		return site
	}
	c, python := in.Texts.Stack(&frames)
	site.C, site.Python = list(c), list(python)
	return site
}

func health(in Input) Health {
	s := in.Snapshot
	h := Health{
		Opened: s.Opened, Ended: s.Ended, Seconds: s.Ended.Sub(s.Opened).Seconds(), Mode: "summary", Available: s.Attached,
		Allocs: Size{s.Total.Allocs, s.Total.AllocBytes}, Frees: Size{s.Total.Frees, s.Total.FreeBytes},
		Stacks: s.Stacks, KeyDepth: s.NativeDepth, PyDepth: s.PythonDepth,
		Unknown: Size{s.Unknown.Allocs, s.Unknown.AllocBytes}, UnknownNow: Size{s.Unknown.LiveBlocks(), s.Unknown.LiveBytes()},
		Recycled: s.Recycled, Folded: Size{s.Folded.Allocs, s.Folded.AllocBytes}, Truncated: s.Truncated,
		Overflow: Size{s.Overflow.Allocs, s.Overflow.AllocBytes}, OverNow: size(s.UnfreedOverflow),
		SampleRate: s.Options.Sample, Unsampled: size(s.Tally.Unsampled), Threshold: s.Options.Threshold, Below: size(s.Tally.Below),
		Untracked: size(s.Tally.Untracked), Unseen: size(s.Tally.Unseen), Nested: s.Tally.Nested, CutWalks: s.Tally.Truncated,
		Allocator: s.Allocator, RSS: in.RSS, Frozen: size(s.Frozen), Python: PythonNone,
		InFront: s.Flags&hostheap.InFront != 0,
	}
	h.Frames, h.Symbolized, h.Late = in.Texts.Coverage()
	if s.Options.Detail {
		h.Mode = "event"
	}
	for _, b := range s.Tally.Prewindow {
		h.Prewindow.Blocks += b.Count
		h.Prewindow.Bytes += b.Bytes
	}
	switch {
	case s.Flags&hostheap.PythonLost != 0:
		h.Python = PythonLost
	case s.Flags&hostheap.Python != 0 && in.Pymalloc:
		h.Python = PythonSeen + "; pymalloc is active: objects of up to 512 bytes are not visible, PYTHONMALLOC=malloc shows them"
	case s.Flags&hostheap.Python != 0:
		h.Python = PythonSeen
	}
	switch {
	case s.Interim:
		h.How = ClosedInterim
	case s.Dead && s.Replaced:
		h.How = ClosedExec
	case s.Dead && s.Orderly:
		h.How = ClosedExit
	case s.Dead:
		h.How = ClosedKilled
	default:
		h.How = ClosedStop
	}
	why, degraded := gaps(s)
	h.Why, h.Degraded = list(why), list(degraded)
	h.Usable = len(h.Why) == 0
	return h
}

// gaps says why the data are no ground for a conclusion, and what else the snapshot lacks.
func gaps(s *hostheap.Snapshot) (why, degraded []string) {
	if !s.Attached {
		return []string{"the process ended before its allocations were recorded"}, nil
	}
	if t := &s.Tally; s.Flags&hostheap.InFront != 0 && s.Total.Allocs+t.Below.Count+t.Unsampled.Count+t.Untracked.Count == 0 {
		why = append(why, "the allocator of the program is found before ours and has passed nothing on")
	}
	if s.Truncated&hostheap.TruncStopped != 0 {
		why = append(why, "the overflow ledger was full and accounting stopped: the data are a complete prefix of the window")
	}
	if books := s.Total.LiveBlocks(); !s.Interim && s.Walk.Degraded == 0 && difference(books, s.Unfreed.Count) > uint64(s.Late+s.Walk.Locked) {
		why = append(why, fmt.Sprintf("the counters have %d unfreed blocks (%d bytes), the block table %d (%d bytes)", books, s.Total.LiveBytes(),
			s.Unfreed.Count, s.Unfreed.Bytes))
	}
	if s.Walk.Degraded > 0 {
		text := fmt.Sprintf("block table: %d of %d regions were changing all the time, their blocks are missing (prefix data)", s.Walk.Degraded, s.Walk.Regions)
		degraded = append(degraded, text)
		if !s.Interim {
			why = append(why, text)
		}
	}
	if s.Walk.Locked > 0 {
		degraded = append(degraded, fmt.Sprintf("block table: %d regions were in the middle of a change when the process died; each may miss one block or have it in excess", s.Walk.Locked))
	}
	if s.Late > 0 {
		what := "did not leave the allocator in time"
		if s.Dead {
			what = "died within a call"
		}
		degraded = append(degraded, fmt.Sprintf("%d thread(s) %s: the last call of each may be counted half", s.Late, what))
	}
	return why, degraded
}

func difference(a, b uint64) uint64 { return max(a, b) - min(a, b) }

func size(s hostheap.Size) Size { return Size{s.Count, s.Bytes} }

func distribution(sizes [hostheap.Buckets]hostheap.Size) []Bucket {
	var all uint64
	for _, s := range sizes {
		all += s.Bytes
	}
	out := make([]Bucket, len(sizes))
	for i, s := range sizes {
		out[i] = Bucket{Name: hostheap.BucketNames[i], Size: size(s)}
		if all > 0 {
			out[i].Share = 100 * float64(s.Bytes) / float64(all)
		}
	}
	return out
}
