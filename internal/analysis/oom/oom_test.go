package oom

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"memscope/internal/analysis"
	"memscope/internal/analysis/steps"
	"memscope/internal/config"
	"memscope/internal/event"
	"memscope/internal/ledger"
)

// fill makes a ledger of live blocks from "pool device stamp size".
func fill(t testing.TB, blocks ...[4]int64) *ledger.Ledger {
	t.Helper()
	l := ledger.New(func(*event.Event, *ledger.Block) {})
	l.Apply(&event.Event{Kind: event.System, Sub: event.StartTrace, Device: event.DeviceNone})
	slices.SortStableFunc(blocks, func(a, b [4]int64) int { return int(a[2] - b[2]) })
	for i, b := range blocks {
		l.Apply(&event.Event{Kind: event.Malloc, Pool: event.Pool(b[0]), Device: int32(b[1]), Stamp: b[2], Size: b[3], Addr: uint64(i+1) << 12})
	}
	return l
}

func stamps(blocks []ledger.Block) (out []int64) {
	for _, b := range blocks {
		out = append(out, b.Born)
	}
	return out
}

func sizes(blocks []ledger.Block) (out []int64) {
	for _, b := range blocks {
		out = append(out, b.Size)
	}
	return out
}

// TestChoose has the worked examples of contract 5.7.
func TestChoose(t *testing.T) {
	const hal, pta = int64(event.HAL), int64(event.PTA)
	for _, c := range []struct {
		blocks        [][4]int64
		k             int
		recent, sizes []int64
	}{
		{[][4]int64{{pta, 0, 100, 1}, {pta, 0, 300, 1}, {pta, 0, 200, 1}, {hal, 0, 150, 1}, {hal, 0, 50, 1}}, 10, []int64{300, 200, 150, 100, 50}, nil},
		{[][4]int64{{pta, 0, 1, 1024}, {pta, 0, 2, 4096}, {hal, 0, 3, 512}, {hal, 0, 4, 2048}}, 10, nil, []int64{4096, 2048, 1024, 512}},
		{[][4]int64{{pta, 0, 500, 5}, {pta, 0, 400, 4}, {pta, 0, 300, 9}, {pta, 0, 200, 2}, {pta, 0, 100, 1}}, 2, []int64{500, 400}, []int64{9, 5}},
		{[][4]int64{{pta, 2, 100, 7}, {hal, 1, 200, 8}}, 10, []int64{200}, []int64{8}}, // of the pools, only the card's
		{nil, 3, nil, nil},
	} {
		recent, top := choose(fill(t, c.blocks...), 0, c.k)
		if c.recent != nil && fmt.Sprint(stamps(recent)) != fmt.Sprint(c.recent) {
			t.Errorf("recent %v, want %v", stamps(recent), c.recent)
		}
		if c.sizes != nil && fmt.Sprint(sizes(top)) != fmt.Sprint(c.sizes) {
			t.Errorf("top %v, want %v", sizes(top), c.sizes)
		}
		if len(recent) != min(c.k, len(c.recent)) && c.recent != nil {
			t.Errorf("%d recent", len(recent))
		}
	}
}

// TestPause: a program that runs out of memory tries again at once; for 2 s after the lists there are no others, but a snapshot each time.
func TestPause(t *testing.T) {
	const second = int64(time.Second)
	l := fill(t, [4]int64{int64(event.PTA), 0, 1, 100}, [4]int64{int64(event.PTA), 0, 2, 300})
	var rows []string
	a := Registration().New(analysis.Env{
		Ledger: l, Config: &config.Config{OOMTopK: 1, OutputPath: "/out"}, Steps: &steps.Tracker{},
		Emit: func(ev *event.Event) { rows = append(rows, fmt.Sprint(ev.Name, " ", ev.Stamp)) },
	})
	var want []string
	for _, c := range []struct {
		at    int64
		lists bool
	}{{10 * second, true}, {10*second + 1, false}, {12*second - 1, false}, {12 * second, true}, {13 * second, false}, {14 * second, true}} {
		a.Event(&event.Event{Kind: event.OOMDetail, Sub: event.OOMTrigger, Device: 0, PID: 7, Stamp: c.at}, nil)
		if c.lists {
			want = append(want, fmt.Sprint("OOM_RecentAlloc ", c.at), fmt.Sprint("OOM_TopAlloc ", c.at))
		}
		want = append(want, fmt.Sprint("OOM_Snapshot ", c.at))
	}
	if !slices.Equal(rows, want) {
		t.Errorf("rows\n%q, want\n%q", rows, want)
	}
	var report strings.Builder
	a.Report(&report)
	if want := "[msmemscope] Info: device 0: memory ran out, 6 request(s) of process 7 were refused; `msmemscope dump oom --pid=7 /out` tells who held it.\n"; report.String() != want {
		t.Errorf("report %q, want %q", report.String(), want)
	}
}

// BenchmarkChoose is among a million live blocks.
func BenchmarkChoose(b *testing.B) {
	var blocks [][4]int64
	for i := range int64(1_000_000) {
		blocks = append(blocks, [4]int64{int64(event.PTA), 0, i, i * 7919 % 1_000_003})
	}
	l := fill(b, blocks...)
	for b.Loop() {
		choose(l, 0, 10)
	}
}
