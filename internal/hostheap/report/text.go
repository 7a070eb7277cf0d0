package report

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"memscope/internal/hostheap"
)

func sortResidents(sites []Site) {
	slices.SortStableFunc(sites, func(a, b Site) int { return cmp.Compare(b.Unfreed.Bytes, a.Unfreed.Bytes) })
}

// WriteJSON writes the overview as JSON.
func (o *Overview) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(o)
}

// WriteText writes the overview for people.
func (o *Overview) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	p := printer{b}
	title := "Host Leak Overview"
	if o.Interim {
		title += " (interim snapshot)"
	}
	p.line("====== %s: stage=%d, pid=%d ======", title, o.Stage, o.PID)
	p.health(o)
	p.section("Total Unfreed")
	if !o.Health.Available {
		p.row("Unfreed", "unavailable")
		return b.Flush()
	}
	p.row("Unfreed", "%s", o.Unfreed)
	if o.Health.OverNow.Blocks > 0 {
		p.row("of these", "%s in the overflow channel, without a stack", o.Health.OverNow)
	}
	if o.Health.UnknownNow.Blocks > 0 {
		p.row("of these", "%s in the unknown bucket", o.Health.UnknownNow)
	}
	p.section("Unfreed Block Size Distribution")
	p.distribution(o.Sizes)
	p.section("Pre-Window Free Size Distribution")
	p.distribution(o.Prewindow)
	p.section("TOP N Leak Sites")
	p.line("  top-k=%d, max-stacks=%d, ticks=%d, window=%.3f s (N=%d, tick=%d ms, stacks with a series=%d, suspected leaks=%d)", o.Series.TopK,
		o.Series.MaxStacks, o.Series.Ticks, o.Series.Seconds, len(o.Top), o.Series.BeatMs, o.Series.Stacks, o.Suspected)
	for i := range o.Top {
		p.site(&o.Top[i], true)
	}
	if len(o.Top) == 0 {
		p.line("  none")
	}
	if o.Others > 0 {
		p.line("  %d more site(s) with unfreed blocks are not listed", o.Others)
	}
	p.section("Resident Baselines")
	for i := range o.Residents {
		p.site(&o.Residents[i], false)
	}
	if len(o.Residents) == 0 {
		p.line("  none")
	}
	if o.Turnover {
		p.line("")
		p.line("NOTE: blocks from before the window that were freed in it (%s) are more than half of what the window allocated (%s): "+
			"caches are being turned over, and what looks like growth may be their replacement.", o.Health.Prewindow, o.Health.Allocs)
	}
	return b.Flush()
}

type printer struct{ w *bufio.Writer }

func (p printer) line(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }

func (p printer) section(title string) { p.line("\n%s", title) }

func (p printer) row(label, format string, args ...any) {
	p.line("  %-24s: "+format, append([]any{label}, args...)...)
}

func (p printer) distribution(buckets []Bucket) {
	for _, b := range buckets {
		p.line("  %-24s: %12d blocks %16d bytes %6.2f %%", b.Name, b.Blocks, b.Bytes, b.Share)
	}
}

func (s Size) String() string {
	return fmt.Sprintf("%d blocks, %d bytes%s", s.Blocks, s.Bytes, human(s.Bytes))
}

// human is a size for reading, in parentheses; nothing when that is no shorter.
func human(bytes uint64) string {
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if scale := uint64(1) << (10 * (4 - i)); bytes >= scale {
			return fmt.Sprintf(" (%.2f %s)", float64(bytes)/float64(scale), unit)
		}
	}
	return ""
}

const stamp = "2006-01-02 15:04:05.000"

func (p printer) health(o *Overview) {
	h := &o.Health
	p.section("Data Health Analysis")
	p.row("Window", "%s - %s, %.3f s (%s)", h.Opened.Format(stamp), h.Ended.Format(stamp), h.Seconds, h.How)
	p.row("Report mode", "%s", h.Mode)
	if !h.Available {
		p.row("Snapshot", "unavailable")
		p.conclusion(h)
		return
	}
	p.row("Allocations", "%s", h.Allocs)
	p.row("Frees", "%s", h.Frees)
	p.row("Stacks", "%d, key depth K=%d, class = same top-K frames (and the same %d Python frames)", h.Stacks, h.KeyDepth, h.PyDepth)
	p.row("Unattributed blocks", "%s allocated in the unknown bucket", h.Unknown)
	p.row("Dead stacks evicted", "%d, with %s, folded into the unknown bucket", h.Recycled, h.Folded)
	p.row("Truncation flags", "%s", truncation(h.Truncated))
	p.row("Overflow channel", "%s allocated, %s unfreed", h.Overflow, h.OverNow)
	p.row("Pre-window frees", "%s, not in the totals", h.Prewindow)
	if h.SampleRate > 1 {
		p.row("Sample rate", "1/%d (sampling view: all figures are of the sampled blocks; %s left out)", h.SampleRate, h.Unsampled)
	} else {
		p.row("Sample rate", "1")
	}
	p.row("Block threshold", "%d bytes, untracked below it: %s", h.Threshold, h.Below)
	p.row("Untracked", "%s after accounting stopped or at an odd address", h.Untracked)
	p.row("Frees not seen", "%s (the address was handed out again)", h.Unseen)
	p.row("Calls not looked at", "%d, from signal handlers inside the allocator", h.Nested)
	p.row("Stacks cut short", "%d (code without unwind tables)", h.CutWalks)
	late := ""
	if h.Late {
		late = fmt.Sprintf("; not finished in %d s, the rest is library and offset", int(Deadline/time.Second))
	}
	p.row("Symbolization coverage", "%d of %d frames (%.1f %%)%s", h.Symbolized, h.Frames, 100*float64(h.Symbolized)/float64(max(h.Frames, 1)), late)
	front := ""
	if h.InFront {
		front = ", found before ours: only what it passes on is seen"
	}
	p.row("Allocator", "%s%s", cmp.Or(h.Allocator, "unknown"), front)
	p.row("Python", "%s", h.Python)
	p.memory(h, o.Unfreed)
	if h.Frozen.Blocks > 0 {
		p.row("Snapshot freeze", "%s allocated while the ledger was read: counted, but perhaps not among the blocks below", h.Frozen)
	}
	for _, d := range h.Degraded {
		p.row("Snapshot degraded", "%s", d)
	}
	p.conclusion(h)
}

func (p printer) conclusion(h *Health) {
	if h.Usable {
		p.row("Data", "complete")
		return
	}
	p.row("Data", "incomplete, not usable as leak conclusion: %s", strings.Join(h.Why, "; "))
}

// memory compares the books with what the system says.
func (p printer) memory(h *Health, unfreed Size) {
	if h.RSS.Opened == 0 || h.RSS.Ended == 0 {
		p.row("Resident memory", "unknown")
		return
	}
	grown := h.RSS.Ended - h.RSS.Opened
	p.row("Resident memory", "%d bytes at the start, %d at the end: %+d, of which the ledger explains %d; the remainder %+d is retention by the "+
		"allocator, mmap, stacks, files, what was freed from before the window, and our tables", h.RSS.Opened, h.RSS.Ended, grown, unfreed.Bytes,
		grown-int64(unfreed.Bytes))
}

func truncation(bits uint32) string {
	if bits == 0 {
		return "0 (none)"
	}
	var texts []string
	for _, b := range []struct {
		bit  uint32
		text string
	}{
		{hostheap.TruncBlocks, "bit0: block table full, new blocks go to the overflow channel"},
		{hostheap.TruncStacks, "bit1: stack table full and no dead stack to evict, new stacks go to the unknown bucket"},
		{hostheap.TruncStopped, "bit2: overflow ledger full, accounting stopped; cannot be used as leak conclusion"},
	} {
		if bits&b.bit != 0 {
			texts = append(texts, b.text)
		}
	}
	return fmt.Sprintf("%d (%s)", bits, strings.Join(texts, "; "))
}

func (p printer) site(s *Site, ranked bool) {
	factor := func(f *float64) string {
		if f == nil {
			return "-"
		}
		return fmt.Sprintf("%.2f", *f)
	}
	head := fmt.Sprintf("[%s]", s.Class)
	if ranked {
		head = fmt.Sprintf("#%d [%s]", s.Rank, s.Class)
	}
	p.line("  %s LSI=%.1f Growth=%s Release=%.2f Lifetime=%.2f Pattern=%s Scale=%.2f", head, s.LSI, factor(s.Growth), s.Release, s.Lifetime,
		factor(s.Pattern), s.Scale)
	p.line("    unfreed: %s; allocated: %s; freed: %s", s.Unfreed, s.Allocs, s.Frees)
	slope := "-"
	if s.Slope != nil {
		slope = fmt.Sprintf("%.1f", *s.Slope)
	}
	note := ""
	if s.Degraded != "" {
		note += ", degraded (" + s.Degraded + ")"
	}
	if len(s.Notes) > 0 {
		note += ", note: " + strings.Join(s.Notes, ", ")
	}
	p.line("    slope: %s B/tick, ticks: %d%s", slope, s.Ticks, note)
	if s.Missing != "" {
		p.line("    %s", s.Missing)
		return
	}
	for i, f := range s.C {
		p.line("    C  #%-2d %s", i, f)
	}
	for i, f := range s.Python {
		p.line("    Py #%-2d %s", i, f)
	}
}
