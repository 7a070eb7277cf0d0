package fluctuation_test

import (
	"slices"
	"strings"
	"testing"

	"memscope/internal/analysis/analysistest"
	"memscope/internal/analysis/fluctuation"
	"memscope/internal/config"
	"memscope/internal/event"
)

func process() *analysistest.Process {
	return analysistest.New(config.Default(), fluctuation.Registration())
}

const head = "\tMinAlloc/MaxAlloc(%)     MinAllocMem(MB)          StepId                   \n"

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("report:\n%q\nwant:\n%q", got, want)
	}
}

// used makes the pool hand out exactly the given bytes, one number after the other.
type used struct {
	p     *analysistest.Process
	pool  event.Pool
	now   int64
	stamp int64
	addrs []uint64
	sizes []int64
}

func (u *used) go1(to int64) {
	for u.now > to {
		n := len(u.addrs) - 1
		u.p.Free(u.pool, u.addrs[n], u.tick())
		u.now -= u.sizes[n]
		u.addrs, u.sizes = u.addrs[:n], u.sizes[:n]
	}
	if u.now < to {
		addr := uint64(0x1000 * (u.stamp + 1))
		u.p.Malloc(u.pool, 0, addr, to-u.now, u.tick())
		u.addrs, u.sizes = append(u.addrs, addr), append(u.sizes, to-u.now)
		u.now = to
	}
}

func (u *used) tick() int64 {
	u.stamp++
	return u.stamp
}

func (u *used) step(id uint64, numbers ...int64) {
	u.p.Begin(0, id, u.tick())
	for _, n := range numbers {
		u.go1(n)
	}
	u.p.End(0, id, u.tick())
}

// The worked example of contract 5.2: used 100, 400, 200 in step 2 and 300, 400 in step 3, in units of 1 MiB.
func TestWorked(t *testing.T) {
	const mb = 1 << 20
	p := process()
	u := &used{p: p, pool: event.PTA}
	u.step(1, 1000*mb, 0)
	u.step(2, 100*mb, 200*mb, 400*mb, 200*mb) // 200 on the way up, so that it can be gone back to
	u.step(3, 300*mb, 400*mb)
	u.step(4, 600*mb) // only the highest number: ratio 1
	expect(t, p.Exit(9000),
		"======= Pytorch Caching memory pool Gap Analysis of Device 0 =======\n"+head+
			"MinGap\t25.0000                  100.0000                 2                        \n"+
			"MaxGap\t100.0000                 600.0000                 4                        \n")
	want := []string{
		"INFO device 0, Pytorch Caching memory pool: step 1 ends with 0 bytes",
		"INFO device 0, Pytorch Caching memory pool: step 2 starts with 0 bytes",
		"INFO device 0, Pytorch Caching memory pool: step 2 ends with 209715200 bytes",
		"INFO device 0, Pytorch Caching memory pool: step 2 ends with +209715200 bytes against its start",
		"INFO device 0, Pytorch Caching memory pool: step 3 starts with 209715200 bytes",
		"INFO device 0, Pytorch Caching memory pool: step 3 ends with 419430400 bytes",
		"INFO device 0, Pytorch Caching memory pool: step 3 ends with +209715200 bytes against its start",
		"INFO device 0, Pytorch Caching memory pool: largest lowest/highest ratio rises from 0.250000 to 0.750000",
		"INFO device 0, Pytorch Caching memory pool: step 4 starts with 419430400 bytes",
		"INFO device 0, Pytorch Caching memory pool: step 4 ends with 629145600 bytes",
		"INFO device 0, Pytorch Caching memory pool: step 4 ends with +209715200 bytes against its start",
		"INFO device 0, Pytorch Caching memory pool: largest lowest/highest ratio rises from 0.750000 to 1.000000",
	}
	if !slices.Equal(p.Lines, want) {
		t.Errorf("log:\n%s\nwant:\n%s", strings.Join(p.Lines, "\n"), strings.Join(want, "\n"))
	}
}

func TestSmallerGap(t *testing.T) {
	p := process()
	u := &used{p: p, pool: event.ATB}
	u.step(1, 100)
	u.step(2, 200, 400, 200, 100) // 100, 400
	u.step(3, 1000, 100)          // 100, 1000: smaller
	u.step(4, 500, 1000, 500)     // 500, 1000: larger
	report := p.Exit(9000)
	expect(t, report, "======= ATB memory pool Gap Analysis of Device 0 =======\n"+head+
		"MinGap\t10.0000                  0.0001                   3                        \n"+
		"MaxGap\t50.0000                  0.0005                   4                        \n")
	lines := strings.Join(p.Lines, "\n")
	for _, want := range []string{
		"smallest lowest/highest ratio falls from 0.250000 to 0.100000", "largest lowest/highest ratio rises from 0.250000 to 0.500000",
		"step 3 gave back what it took",
	} {
		if !strings.Contains(lines, want) {
			t.Errorf("no line %q in\n%s", want, lines)
		}
	}
}

// 100 bytes in step 1 and nothing after it: zeros (contract 5.2).
func TestUnusedSteps(t *testing.T) {
	p := process()
	u := &used{p: p, pool: event.MindSpore}
	u.step(1, 100)
	u.step(2)
	u.step(3)
	expect(t, p.Exit(9000), "======= Mindspore memory pool Gap Analysis of Device 0 =======\n"+head+
		"MinGap\t0.0000                   0.0000                   0                        \n"+
		"MaxGap\t0.0000                   0.0000                   0                        \n")
	n := 0
	for _, l := range p.Lines {
		if strings.Contains(l, "not used in step") {
			n++
		}
		if !strings.HasPrefix(l, "INFO ") {
			t.Errorf("a healthy run has %q", l)
		}
	}
	if n != 2 {
		t.Errorf("%d steps said to be unused, want 2", n)
	}
}

// A table for every pool that saw an event, by device and pool; other pools have none.
func TestTables(t *testing.T) {
	p := process()
	for i, pool := range []event.Pool{event.HAL, event.PTAWorkspace, event.Host, event.ATB, event.MindSpore, event.PTA} {
		for _, device := range []int32{7, 0} {
			p.Malloc(pool, device, uint64(0x1000*(i+1)), 10, int64(i))
		}
	}
	var tables []string
	for line := range strings.Lines(p.Exit(100)) {
		if strings.HasPrefix(line, "=") {
			tables = append(tables, strings.TrimSpace(line))
		}
	}
	want := []string{
		"======= Pytorch Caching memory pool Gap Analysis of Device 0 =======",
		"======= Mindspore memory pool Gap Analysis of Device 0 =======",
		"======= ATB memory pool Gap Analysis of Device 0 =======",
		"======= Pytorch Caching memory pool Gap Analysis of Device 7 =======",
		"======= Mindspore memory pool Gap Analysis of Device 7 =======",
		"======= ATB memory pool Gap Analysis of Device 7 =======",
	}
	if !slices.Equal(tables, want) {
		t.Errorf("tables:\n%s\nwant:\n%s", strings.Join(tables, "\n"), strings.Join(want, "\n"))
	}
}

// Shadow rows carry no usage, and steps of another device settle nothing here.
func TestShadowRowsAndOtherDevices(t *testing.T) {
	p := process()
	p.Begin(0, 1, 1)
	p.End(0, 1, 2)
	p.Begin(0, 2, 3)
	p.Malloc(event.PTA, 0, 0x1000, 1<<20, 4)
	p.Malloc(event.PTA, 0, 0x2000, 1<<20, 5)
	p.Malloc(event.PTA, 0, 0x2000, 1<<20, 6) // FREE of the old one is a shadow
	p.Malloc(event.PTA, 1, 0x1000, 1<<20, 8)
	p.End(0, 2, 9)
	expect(t, p.Exit(100), "======= Pytorch Caching memory pool Gap Analysis of Device 0 =======\n"+head+
		"MinGap\t50.0000                  1.0000                   2                        \n"+
		"MaxGap\t50.0000                  1.0000                   2                        \n"+
		"======= Pytorch Caching memory pool Gap Analysis of Device 1 =======\n"+head+
		"MinGap\t0.0000                   0.0000                   0                        \n"+
		"MaxGap\t0.0000                   0.0000                   0                        \n")
}
