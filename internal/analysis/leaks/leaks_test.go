package leaks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"memscope/internal/analysis/analysistest"
	"memscope/internal/analysis/leaks"
	"memscope/internal/config"
	"memscope/internal/event"
)

func process(change ...func(*config.Config)) *analysistest.Process {
	c := config.Default()
	for _, f := range change {
		f(&c)
	}
	return analysistest.New(c, leaks.Registration())
}

func expect(t *testing.T, got string, want ...string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if got == "" {
		lines = nil
	}
	if !slices.Equal(lines, want) {
		t.Errorf("report:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

// A program that marks no steps, or calls them something else, learns why there is nothing about its pools.
func TestNoSteps(t *testing.T) {
	const hint = "[msmemscope] Info: process 123 marked no steps, so pools of frameworks were not checked for leaks: a step is an mstx range \"step start\"%s" +
		" or ends with msmemscope.step(). `msmemscope dump leak-candidates` needs none."
	p := process()
	p.Malloc(event.PTA, 0, 1000, 10, 1)
	expect(t, p.Exit(9), fmt.Sprintf(hint, ""))

	p = process()
	p.Malloc(event.PTA, 0, 1000, 10, 1)
	for i, name := range []string{`"load"`, `"train step"`, `"train step"`} {
		p.Apply(event.Event{Kind: event.Mstx, Sub: event.RangeStart, Name: name, Value: uint64(i), Stamp: int64(2 + i)})
	}
	expect(t, p.Exit(9), fmt.Sprintf(hint, ` (there is "train step", 2 times)`))

	p = process() // no framework
	p.Malloc(event.HAL, 0, 1000, 10, 1)
	p.Free(event.HAL, 1000, 2)
	expect(t, p.Exit(9))
}

// The worked example of contract 5.1.
func TestWorked(t *testing.T) {
	p := process()
	p.Malloc(event.PTA, 0, 0x6000, 512, 900)
	p.Begin(0, 1, 1000)
	p.Malloc(event.PTA, 0, 0x8000, 2048, 1100)
	p.End(0, 1, 1900)
	p.Begin(0, 2, 2000)
	for range 7 {
		p.Apply(event.Event{Kind: event.KernelLaunch, Sub: event.Launched, Stamp: 2050})
	}
	p.Malloc(event.PTA, 0, 0x7000, 1024, 2100)
	p.End(0, 2, 2900)
	if warnings := p.Level("WARN"); warnings != nil {
		t.Errorf("after step 2: %q", warnings)
	}
	p.Begin(0, 3, 3000)
	p.End(0, 3, 3900)
	p.Begin(0, 4, 4000)
	p.Free(event.PTA, 0x7000, 4100) // a candidate stays one
	p.End(0, 4, 4900)
	want := []string{"device 0, step 3: 0x7000 (1024 bytes) lives for 1 steps; is there a leak in Pytorch Caching memory pool?"}
	if warnings := p.Level("WARN"); !slices.Equal(warnings, want) {
		t.Errorf("warnings %q, want %q", warnings, want)
	}
	expect(t, p.Exit(5000),
		"====== ERROR: Detected memory leaks on device 0 ======",
		"Direct Pytorch Caching memory pool leak of 0.000977 Mb(s) at 0x7000 in kernel_7 at step 2.",
		"====== SUMMARY: 0.000976562 Mb(s) leaked in 1 allocation(s) ======")
}

func TestPythonSteps(t *testing.T) {
	p := process()
	p.Malloc(event.PTA, 0, 0x1000, 1<<20, 5) // step 0
	p.Step(0, 1, 10)
	p.Malloc(event.PTA, 0, 0x2000, 1<<20, 15) // step 2
	p.Step(0, 2, 20)
	p.Malloc(event.PTA, 0, 0x3000, 1<<20, 25) // step 3
	if p.Level("WARN") != nil {
		t.Errorf("too early: %q", p.Lines)
	}
	p.Step(0, 3, 30)
	expect(t, p.Exit(40),
		"====== ERROR: Detected memory leaks on device 0 ======",
		"Direct Pytorch Caching memory pool leak of 1.000000 Mb(s) at 0x2000 in kernel_0 at step 2.",
		"====== SUMMARY: 1 Mb(s) leaked in 1 allocation(s) ======")
}

// By device, ascending; in it by step, then by address; all pools of the rule; the numbers of the reference's screenshot.
func TestReport(t *testing.T) {
	p := process()
	id := uint64(0)
	step := func(device int32, body func(stamp int64)) {
		id++
		at := int64(id) * 1000
		p.Begin(device, id, at)
		body(at)
		p.End(device, id, at+900)
	}
	nothing := func(int64) {}
	for _, d := range []int32{1, 0} {
		step(d, nothing)
		step(d, func(at int64) {
			p.Malloc(event.MindSpore, d, 0x9000, 2048, at+1)
			p.Malloc(event.PTA, d, 0x12c1ac200600, 2096640, at+2)
			p.Malloc(event.ATB, d, 0x9000, 40448, at+3)
			p.Malloc(event.PTAWorkspace, d, 0xa000, 1, at+4)
			p.Malloc(event.HAL, d, 0xb000, 1, at+5)
			p.Free(event.HAL, 0xb000, at+6)
		})
		step(d, func(at int64) { p.Malloc(event.PTA, d, 0x1000, 512, at+1) })
		step(d, nothing)
	}
	expect(t, p.Exit(1e6),
		"====== ERROR: Detected memory leaks on device 0 ======",
		"Direct Mindspore memory pool leak of 0.001953 Mb(s) at 0x9000 in kernel_0 at step 6.",
		"Direct ATB memory pool leak of 0.038574 Mb(s) at 0x9000 in kernel_0 at step 6.",
		"Direct Pytorch Caching memory pool leak of 1.999512 Mb(s) at 0x12c1ac200600 in kernel_0 at step 6.",
		"Direct Pytorch Caching memory pool leak of 0.000488 Mb(s) at 0x1000 in kernel_0 at step 7.",
		"====== SUMMARY: 2.04053 Mb(s) leaked in 4 allocation(s) ======",
		"====== ERROR: Detected memory leaks on device 1 ======",
		"Direct Mindspore memory pool leak of 0.001953 Mb(s) at 0x9000 in kernel_0 at step 2.",
		"Direct ATB memory pool leak of 0.038574 Mb(s) at 0x9000 in kernel_0 at step 2.",
		"Direct Pytorch Caching memory pool leak of 1.999512 Mb(s) at 0x12c1ac200600 in kernel_0 at step 2.",
		"Direct Pytorch Caching memory pool leak of 0.000488 Mb(s) at 0x1000 in kernel_0 at step 3.",
		"====== SUMMARY: 2.04053 Mb(s) leaked in 4 allocation(s) ======")
}

// What was there before start() takes part in totals only.
func TestPromotedIsNoLeak(t *testing.T) {
	p := process(func(c *config.Config) { c.Mode = config.Deferred })
	p.Apply(event.Event{Kind: event.Malloc, Pool: event.PTA, Addr: 0x1000, Size: 512, Stamp: 1, Flags: event.Paused})
	p.Apply(event.Event{Kind: event.System, Sub: event.StartTrace, Stamp: 2})
	for i := range uint64(4) {
		p.Begin(0, i+1, int64(i+1)*1000)
		p.Malloc(event.PTA, 0, 0x2000*(i+1), 512, int64(i+1)*1000+1)
		if i == 1 {
			p.Apply(event.Event{Kind: event.System, Sub: event.StopTrace, Stamp: 2500})
			p.Apply(event.Event{Kind: event.Malloc, Pool: event.PTA, Addr: 0x9000, Size: 512, Stamp: 2600, Flags: event.Paused})
			p.Apply(event.Event{Kind: event.System, Sub: event.StartTrace, Stamp: 2700})
		}
		p.End(0, i+1, int64(i+1)*1000+900)
	}
	report := p.Exit(9000)
	if !strings.Contains(report, "0x4000 ") || !strings.Contains(report, "0x6000 ") || !strings.Contains(report, "leaked in 2 ") {
		t.Errorf("report:\n%s", report)
	}
	for _, l := range p.Lines {
		if strings.Contains(l, "evice memory") {
			t.Errorf("deferred, yet driver memory is checked: %s", l)
		}
	}
}

// A step whose end never came, and ends that come late, still find everything once.
func TestEndsMissing(t *testing.T) {
	p := process()
	for i := range uint64(6) {
		at := int64(i+1) * 1000
		p.Begin(0, i+1, at)
		p.Malloc(event.PTA, 0, 0x1000*(i+1), 1024, at+1)
		switch i + 1 {
		case 2, 3, 5: // their ends come later or never
		case 4:
			p.End(0, 4, at+800)
			p.End(0, 2, at+900)
		default:
			p.End(0, i+1, at+900)
		}
	}
	expect(t, p.Exit(9000),
		"====== ERROR: Detected memory leaks on device 0 ======",
		"Direct Pytorch Caching memory pool leak of 0.000977 Mb(s) at 0x2000 in kernel_0 at step 2.",
		"Direct Pytorch Caching memory pool leak of 0.000977 Mb(s) at 0x3000 in kernel_0 at step 3.",
		"Direct Pytorch Caching memory pool leak of 0.000977 Mb(s) at 0x4000 in kernel_0 at step 4.",
		"Direct Pytorch Caching memory pool leak of 0.000977 Mb(s) at 0x5000 in kernel_0 at step 5.",
		"====== SUMMARY: 0.00390625 Mb(s) leaked in 4 allocation(s) ======")
}

func TestEnabled(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*config.Config)
		want   bool
	}{
		{"default", func(*config.Config) {}, true},
		{"oom only", func(c *config.Config) { c.Analysis = config.OOM }, true},
		{"decompose only", func(c *config.Config) { c.Analysis = config.Decompose }, false},
		{"picked steps", func(c *config.Config) { c.Steps = []uint32{3} }, false},
		{"no frees", func(c *config.Config) { c.Events = config.Alloc }, false},
		{"no allocations", func(c *config.Config) { c.Events = config.Free }, false},
	} {
		p := process(c.change)
		for i := range uint64(3) {
			p.Begin(0, i+1, int64(i+1)*1000)
			p.Malloc(event.PTA, 0, 0x1000*(i+1), 1024, int64(i+1)*1000+1)
			p.End(0, i+1, int64(i+1)*1000+900)
		}
		if report := p.Exit(9000); (report != "") != c.want {
			t.Errorf("%s: report %q", c.name, report)
		}
	}
}

func TestWarnings(t *testing.T) {
	p := process()
	p.Malloc(event.PTA, 0, 0x1000, 512, 1)
	p.Malloc(event.PTA, 0, 0x1000, 1024, 2)
	p.Apply(event.Event{Kind: event.Free, Pool: event.ATB, Device: 1, Addr: 0x5000, Stamp: 3})
	p.Malloc(event.HAL, 0, 0x1000, 512, 4)
	p.Malloc(event.HAL, 0, 0x1000, 1024, 5)
	p.Free(event.HAL, 0x1000, 6)
	p.Apply(event.Event{Kind: event.Free, Pool: event.HAL, Device: 0, Addr: 0x5000, Stamp: 7})
	p.Apply(event.Event{Kind: event.Free, Pool: event.PTAWorkspace, Device: 0, Addr: 0x5000, Stamp: 8})
	p.Exit(9)
	want := []string{
		"process 123, device 0, Pytorch Caching memory pool: 0x1000 is allocated again, though its block of 512 bytes was not freed",
		"process 123, device 1, ATB memory pool: free of 0x5000, where no block is",
		"process 123, device 0, device memory: 0x1000 is allocated again, though its block of 512 bytes was not freed",
		"process 123, device 0, device memory: free of 0x5000, where no block is",
	}
	if got := p.Level("WARN"); !slices.Equal(got, want) {
		t.Errorf("warnings:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestDriverMemory(t *testing.T) {
	p := process()
	p.Exit(1)
	if want := []string{"INFO no process used device memory"}; !slices.Equal(p.Lines, want) {
		t.Errorf("log %q, want %q", p.Lines, want)
	}

	p = process()
	p.Malloc(event.HAL, 0, 0x1000, 512, 1)
	p.Free(event.HAL, 0x1000, 2)
	p.Malloc(event.HAL, event.DeviceNone, 0x1000, 512, 3) // an unknown device is left alone
	p.Exit(4)
	if want := []string{
		"INFO process 123: first device memory event", "INFO process 123: all device memory was freed",
	}; !slices.Equal(p.Lines, want) {
		t.Errorf("log %q, want %q", p.Lines, want)
	}

	p = process()
	p.Malloc(event.HAL, 1, 0x1000, 512, 1)
	p.Malloc(event.HAL, event.DeviceCPU, 0x2000, 64, 2)
	p.Apply(event.Event{Kind: event.Malloc, Pool: event.HAL, Addr: 0x3000, Stamp: 3, Module: -1})
	p.Apply(event.Event{Kind: event.Malloc, Pool: event.HAL, Addr: 0x4000, Stamp: 3, Module: -1})
	p.Apply(event.Event{Kind: event.System, Sub: event.StopTrace, Stamp: 5})
	p.Apply(event.Event{Kind: event.Free, Pool: event.HAL, Device: event.DeviceNone, Addr: 0x4000, Stamp: 6, Flags: event.Paused})
	p.Apply(event.Event{Kind: event.Malloc, Pool: event.HAL, Addr: 0x5000, Stamp: 7, Flags: event.Paused})
	p.Apply(event.Event{Kind: event.System, Sub: event.StartTrace, Stamp: 8})
	const end = "not freed when process 123 ended; its log names each.\n"
	if report := p.Exit(9); report != "[msmemscope] Info: device 0: 1 block(s) of device memory, 0 bytes, were "+end+
		"[msmemscope] Info: device 1: 1 block(s) of device memory, 512 bytes, were "+end+
		"[msmemscope] Info: 1 block(s) of pinned host memory, 64 bytes, were "+end {
		t.Errorf("report %q", report)
	}
	if want := []string{
		"INFO process 123: first device memory event",
		"INFO process 123, device 0: device memory of module -1, which has no name",
		"WARN process 123, device 1: device memory at 0x1000 (512 bytes) was never freed",
		"WARN process 123, pinned host memory at 0x2000 (64 bytes) was never freed",
		"WARN process 123, device 0: device memory at 0x3000 (0 bytes) was never freed",
	}; !slices.Equal(p.Lines, want) {
		t.Errorf("log:\n%s\nwant:\n%s", strings.Join(p.Lines, "\n"), strings.Join(want, "\n"))
	}
}

func TestDriverMemoryLinesAreBounded(t *testing.T) {
	p := process()
	for i := range uint64(1500) {
		p.Malloc(event.HAL, 0, 0x1000*(i+1), 512, int64(i))
	}
	p.Exit(9000)
	got := p.Level("WARN")
	if len(got) != 1001 || got[1000] != "process 123: 500 more blocks of device memory were never freed" {
		t.Errorf("%d lines, last %q", len(got), got[len(got)-1])
	}
}

// A step end among many live blocks that are not of interest.
func BenchmarkStepEnd(b *testing.B) {
	const live = 1 << 20
	for _, c := range []struct {
		name  string
		churn bool // freed and allocated again in every step, all over the slabs
	}{{"weights", false}, {"churn", true}} {
		b.Run(c.name, func(b *testing.B) {
			p := process()
			p.Begin(0, 1, 1)
			for i := range uint64(live) {
				p.Malloc(event.PTA, 0, 0x1000*(i+1), 512, int64(i)+2)
			}
			stamp, id := int64(live)+2, uint64(1)
			p.End(0, 1, stamp)
			var total time.Duration
			for range b.N {
				id++
				stamp++
				p.Begin(0, id, stamp)
				for i := uint64(0); i < live; i += 1000 {
					stamp += 2
					if c.churn {
						p.Free(event.PTA, 0x1000*(i+1), stamp)
						p.Malloc(event.PTA, 0, 0x1000*(i+1), 512, stamp+1)
					}
				}
				stamp++
				began := time.Now()
				p.End(0, id, stamp)
				total += time.Since(began)
			}
			b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), "ms/end")
			if fmt.Sprint(p.Level("ERROR")) != "[]" {
				b.Fatal(p.Level("ERROR"))
			}
		})
	}
}
