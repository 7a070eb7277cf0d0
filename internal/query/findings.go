package query

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"memscope/internal/event"
)

// findings draws conclusions from the answers to the single questions.
type findings struct {
	d      *diagnosis
	say    func(id string, args ...any) string
	stats  *statsResult
	trend  *trendResult
	frag   *fragmentationResult
	leaks  *leakResult
	oom    *oomResult
	owners *groupResult
	peak   *peakResult
	list   []finding
}

func (f *findings) add(weight int, cause, severity, text string, evidence []string, advice ...string) {
	f.list = append(f.list, finding{weight, cause, severity, text, nonNil(evidence), nonNil(advice)})
}

func (f *findings) blockRows() int64 { return f.stats.count("MALLOC") + f.stats.count("FREE") }

func (f *findings) overview() []string {
	out := []string{f.say("rows", f.stats.Rows, f.blockRows(), since(f.stats.First, f.stats.Last))}
	for _, p := range f.peak.Peaks {
		out = append(out, f.say("peak", p.Process, p.Device, p.Pool, size(p.Peak), p.At))
	}
	return out
}

// evidence lists what is most worth to know whatever the conclusions: the curve, the largest owners, the candidates.
func (f *findings) evidence() (out []string) {
	for _, v := range f.trend.Views {
		shape := "steady"
		if v.Rising {
			shape = "rising"
		}
		out = append(out, f.say("trend "+shape, v.Process, v.Device, v.Pool, signed(v.Growth)))
	}
	for _, v := range f.owners.Views {
		for i, g := range v.Groups {
			if i == 3 {
				break
			}
			out = append(out, f.say("owner", v.Process, v.Device, v.Pool, g.Label, size(g.Bytes), percentage(g.Share)))
		}
	}
	for _, v := range f.leaks.Views {
		if v.Candidates.Blocks > 0 {
			out = append(out, f.say("candidates", v.Process, v.Device, v.Pool, v.Candidates.Blocks, size(v.Candidates.Bytes), v.AtExit.Blocks, v.Unseen.Blocks, v.NoFree.Blocks))
		}
	}
	return out
}

// missing says what the dump lacks and how to collect it.
func (f *findings) missing() (out []string) {
	if !f.stats.Keys["owner"] {
		out = append(out, f.say("no owners"))
	}
	if f.stats.Python+f.stats.C == 0 {
		out = append(out, f.say("no stacks"))
	}
	if !f.stats.Keys["device_used"] {
		out = append(out, f.say("no card"))
	}
	return out
}

const (
	hugeShare  = 0.3 // a single request, of the card or of what the process holds
	mostOfCard = 0.5
)

// outOfMemory explains each time that memory ran out, the same cause once.
func (f *findings) outOfMemory() {
	seen := make(map[string]bool)
	for _, c := range f.oom.Cases {
		cause, weight, text, advice := f.oomCause(c)
		if seen[cause] {
			continue
		}
		seen[cause] = true
		evidence := c.Hints
		if c.Stack != "" {
			evidence = append(evidence, f.say("from", firstFrames(c.Stack, 3)))
		}
		f.add(weight, cause, "high", text, evidence, advice)
	}
}

func (f *findings) oomCause(c *oomCase) (cause string, weight int, text, advice string) {
	others := c.DeviceUsed - c.ProcessUsed
	held := max(c.ProcessUsed, c.hal, 0)
	switch free := c.freeBytes(); {
	case c.DeviceUsed > 0 && c.ProcessUsed >= 0 && float64(others) > mostOfCard*float64(c.DeviceUsed):
		return "other process", 100, f.say("oom others", short(others), short(c.DeviceUsed), short(held)), f.say("advice others")
	case f.leaking():
		return "oom by leak", 80, f.say("oom leak", short(c.Request)), f.adviceLeak()
	case c.Request > 0 && (free < 0 || float64(c.Request) >= largeRequest*float64(free)) &&
		(c.Total > 0 && float64(c.Request) >= hugeShare*float64(c.Total) || c.Total <= 0 && held > 0 && float64(c.Request) >= hugeShare*float64(held)):
		if free < 0 {
			return "huge request", 95, f.say("oom huge unknown", short(c.Request), short(held)), f.say("advice huge")
		}
		return "huge request", 95, f.say("oom huge", short(c.Request), short(free)), f.say("advice huge")
	case f.unused(c) >= c.Request && f.fragmentedPool() != nil:
		return "oom by fragmentation", 90, f.say("oom fragmented", short(c.Request), short(f.unused(c))), f.say("advice fragmentation")
	}
	return "exhausted", 85, f.say("oom exhausted", short(c.Request), short(held)), f.say("advice exhausted", c.At, f.d.env.named())
}

// unused is what the pools of the process had reserved on the card and not handed out when memory ran out, bytes.
func (f *findings) unused(c *oomCase) (bytes int64) {
	for i, a := range f.d.frag.all {
		if pidName(a.PID) == c.Process && deviceName(a.Device) == c.Device {
			bytes += f.d.frag.states[i].total - f.d.frag.states[i].used
		}
	}
	return bytes
}

func (f *findings) leaking() bool {
	for _, v := range f.trend.Views {
		if v.Rising {
			return true
		}
	}
	return false
}

// leak reports rising use: in a framework pool if there is one, else in HAL, which only follows the pools.
func (f *findings) leak() {
	pools := false
	for _, v := range f.trend.Views {
		pools = pools || v.Rising && v.Pool != "HAL"
	}
	for _, v := range f.trend.Views {
		if !v.Rising || pools && v.Pool == "HAL" {
			continue
		}
		evidence := []string{f.say("floor", signed(v.Growth), signed(v.PerBucket), v.Climbs, v.Changes)}
		if v.Steps > 0 {
			evidence = []string{f.say("floor of steps", v.Steps, signed(v.Growth), signed(v.PerBucket), v.Climbs, v.Changes)}
		}
		if v.PerPart > 1 {
			evidence = []string{f.say("floor of parts", v.Steps, v.PerPart, signed(v.Growth), signed(v.PerBucket), v.Climbs, v.Changes)}
		}
		if v.TotalGrows {
			evidence = append(evidence, f.say("reserved grows"))
		}
		for _, l := range f.leaks.Views {
			if l.Process == v.Process && l.Device == v.Device && l.Pool == v.Pool {
				evidence = append(evidence, f.late(l)...)
			}
		}
		f.add(98, "leak", "high", f.say("leak", v.Process, v.Device, v.Pool, signed(v.Growth)), evidence, f.adviceLeak())
	}
}

// adviceLeak sends to the call stacks where there are any, else to the blocks.
func (f *findings) adviceLeak() string {
	if f.stats.Python+f.stats.C == 0 {
		return f.say("advice leak blocks")
	}
	return f.say("advice leak")
}

// healthy says that nothing was found; and how far that goes.
func (f *findings) healthy() {
	for _, v := range f.trend.Views {
		if evidence, advice := f.unsure(v.Process, v.Device, v.Pool); evidence != nil {
			f.add(1, "healthy", "none", f.say("healthy unsure"), evidence, advice...)
			return
		}
	}
	f.add(1, "healthy", "none", f.say("healthy"), nil)
}

// unsure says why blocks of a pool that were never freed may be a leak all the same: without steps residents look alike.
func (f *findings) unsure(process, device, pool string) (evidence, advice []string) {
	for _, v := range f.trend.Views {
		for _, l := range f.leaks.Views {
			if v.Process == process && v.Device == device && v.Pool == pool && v.Steps == 0 &&
				l.Process == process && l.Device == device && l.Pool == pool && l.Candidates.Blocks > 0 {
				return []string{f.say("judged by time")}, []string{f.say("advice steps")}
			}
		}
	}
	return nil, nil
}

// late describes the candidates of a leak: when they came, how they ended, who made them.
func (f *findings) late(l *leakView) (out []string) {
	late := l.Quarters[1].Bytes + l.Quarters[2].Bytes + l.Quarters[3].Bytes
	out = append(out, f.say("late", l.Candidates.Blocks, size(l.Candidates.Bytes), percent(late, l.Candidates.Bytes), l.AtExit.Blocks, l.Unseen.Blocks))
	for i, s := range l.Stacks {
		if i == 3 {
			break
		}
		out = append(out, f.say("stack", s.Label, s.Blocks, size(s.Bytes)))
	}
	if len(l.Stacks) == 0 && len(l.Owners) > 0 {
		out = append(out, f.say("top owner", l.Owners[0].Label, size(l.Owners[0].Bytes)))
	}
	return out
}

// severe is the unused share above which a pool counts as fragmented, and roomy the use below which it should not have
// had to grow.
const (
	severe = 0.15
	roomy  = 0.85
)

// smallSegment is what PyTorch's pool takes for its small blocks, which lie in no other segments: that there was room elsewhere says nothing.
const smallSegment = 2 << 20

// fragmentedPool is one that wastes memory even at its peak and grew although it had room, and when it did, the lowest use first.
type fragmentedPool struct {
	*fragmentationView
	needless []growth
}

// fragmentedPool is nil where there is none.
func (f *findings) fragmentedPool() *fragmentedPool {
	for i, v := range f.frag.Views {
		if v.Peak <= severe || v.Mean <= severe {
			continue
		}
		var needless []growth
		for _, g := range f.d.frag.states[i].growth {
			if g.Before > 0 && g.Use < roomy && g.Before-g.Used >= g.Step && g.Step > smallSegment {
				needless = append(needless, g)
			}
		}
		if needless != nil {
			slices.SortStableFunc(needless, func(a, b growth) int { return cmp.Compare(a.Use, b.Use) })
			return &fragmentedPool{v, needless}
		}
	}
	return nil
}

func (f *findings) fragmented() {
	v := f.fragmentedPool()
	if v == nil {
		return
	}
	evidence := []string{f.say("unused", percentage(v.Mean), percentage(v.Peak), percentage(v.Worst))}
	for _, g := range v.needless[:min(len(v.needless), 5)] {
		evidence = append(evidence, f.say("grew", g.At, short(g.Step), short(g.Before-g.Used), short(g.Before)))
	}
	f.add(70, "fragmentation", "medium", f.say("fragmented", v.Process, v.Device, v.Pool, percentage(v.Mean)), evidence, f.say("advice fragmentation"))
}

// largePart is the share of the driver's memory from which on a consumer is worth a word.
const largePart = 0.25

// communication reports HCCL buffers that take a large part of the memory from the driver.
func (f *findings) communication() {
	for _, v := range f.owners.Views {
		if v.Pool != "HAL" {
			continue
		}
		whole := int64(0)
		for _, p := range f.peak.Peaks {
			if p.Process == v.Process && p.Device == v.Device && p.Pool == v.Pool {
				whole = p.Peak
			}
		}
		for _, g := range v.Groups {
			if strings.HasPrefix(g.Label, "CANN@HCCL") && whole > 0 && float64(g.Bytes) >= largePart*float64(whole) {
				domains := fmt.Sprintf("%.1f", float64(g.Bytes)/float64(401<<20))
				f.add(50, "hccl buffers", "low", f.say("hccl", v.Process, v.Device, size(g.Bytes), percent(g.Bytes, whole), domains), nil, f.say("advice hccl"))
			}
		}
	}
}

// idle reports memory that is marked as idle.
func (f *findings) idle() {
	var used int64
	for _, p := range f.peak.Peaks {
		if p.Pool != "HAL" && p.Pool != "HOST" {
			used = max(used, p.Peak)
		}
	}
	owners := f.d.idle.list()
	if len(owners) == 0 || float64(f.d.idleOf[2]) < 0.05*float64(used) {
		return
	}
	var evidence []string
	for i, o := range owners {
		if i == 3 {
			break
		}
		evidence = append(evidence, f.say("top owner", o.Label, size(o.Bytes)))
	}
	f.add(60, "idle memory", "medium", f.say("idle", size(f.d.idleOf[2]), owners[0].Label), evidence, f.say("advice idle"))
}

// filled tells a cache that filled up and stays from nothing at all.
func (f *findings) filled() {
	for i, a := range f.d.trend.all {
		bins := withoutEnd(f.d.trend.used[i])
		n := len(bins)
		if a.Pool == event.HAL || n < 4 {
			continue
		}
		quarter := n / 4
		start, end := lowest(bins[:quarter]), lowest(bins[n-quarter:])
		middle := lowest(bins[n/2 : n-quarter])
		if end-start > 2*risingBytes && float64(end-start) > 0.1*float64(end) && float64(end-middle) < 0.05*float64(end-start) {
			process, device, pool := pidName(a.PID), deviceName(a.Device), f.d.env.names.Name(a.Pool)
			evidence, advice := f.unsure(process, device, pool)
			f.add(10, "resident", "none", f.say("resident", process, device, pool, short(end)), evidence, advice...)
			return
		}
	}
}
