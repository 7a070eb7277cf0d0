package steps_test

import (
	"fmt"
	"slices"
	"testing"

	"memscope/internal/analysis/steps"
	"memscope/internal/event"
)

func begin(device int32, name string, id uint64, stamp int64, seq uint64) *event.Event {
	return &event.Event{
		Kind: event.Mstx, Sub: event.RangeStart, Device: device, Name: name, Value: id, Stamp: stamp, Seq: seq,
	}
}

func end(device int32, id uint64) *event.Event {
	return &event.Event{Kind: event.Mstx, Sub: event.RangeEnd, Device: device, Value: id}
}

func python(device int32, n uint64, stamp int64) *event.Event {
	return &event.Event{Kind: event.System, Sub: event.Step, Device: device, Value: n, Stamp: stamp}
}

func TestChanges(t *testing.T) {
	for _, c := range []struct {
		name     string
		events   []*event.Event
		want     []steps.Change
		conflict []string
	}{
		{"mstx, with and without quotes", []*event.Event{
			begin(0, "step start", 7, 1, 1), end(0, 7), begin(0, `"step start"`, 8, 2, 2), end(0, 8),
		}, []steps.Change{{0, 1, false}, {0, 1, true}, {0, 2, false}, {0, 2, true}}, nil},
		{"other ranges", []*event.Event{
			begin(0, "step start", 7, 1, 1), begin(0, "step starts", 8, 2, 2), end(0, 8), end(0, 9), end(1, 7), end(0, 7), end(0, 7),
		}, []steps.Change{{0, 1, false}, {0, 1, true}}, nil},
		{"marks and domains of the same name", []*event.Event{
			{Kind: event.Mstx, Sub: event.Mark, Name: "step start"},
		}, nil, nil},
		{"one count for all devices", []*event.Event{
			begin(0, "step start", 7, 1, 1), begin(1, "step start", 8, 2, 2), end(1, 8), end(0, 7),
		}, []steps.Change{{0, 1, false}, {1, 2, false}, {1, 2, true}, {0, 1, true}}, nil},
		{"ranges that overlap", []*event.Event{
			begin(0, "step start", 7, 1, 1), begin(0, "step start", 8, 2, 2), end(0, 7), end(0, 8),
		}, []steps.Change{{0, 1, false}, {0, 2, false}, {0, 1, true}, {0, 2, true}}, nil},
		{"python", []*event.Event{
			python(0, 1, 1), python(0, 2, 2),
		}, []steps.Change{{0, 1, true}, {0, 2, false}, {0, 2, true}, {0, 3, false}}, nil},
		{"python first", []*event.Event{
			python(0, 1, 1), begin(0, "step start", 7, 2, 2), end(0, 7), begin(0, "step start", 8, 3, 3), begin(1, "step start", 9, 4, 4),
		}, []steps.Change{{0, 1, true}, {0, 2, false}}, []string{"0 mstx ranges", "1 mstx ranges"}},
		{"mstx first", []*event.Event{
			begin(0, "step start", 7, 1, 1), python(0, 1, 2), end(0, 7),
		}, []steps.Change{{0, 1, false}, {0, 1, true}}, []string{"0 msmemscope.step()"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var conflict []string
			tracker := steps.New(func(d int32, ignored string) { conflict = append(conflict, fmt.Sprint(d, " ", ignored)) })
			var got []steps.Change
			for _, ev := range c.events {
				got = append(got, tracker.Apply(ev)...)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("changes %v, want %v", got, c.want)
			}
			if !slices.Equal(conflict, c.conflict) {
				t.Errorf("conflicts %q, want %q", conflict, c.conflict)
			}
		})
	}
}

func TestAt(t *testing.T) {
	tracker := steps.New(nil)
	if tracker.Current(0) != 0 || tracker.At(0, 1, 1) != 0 {
		t.Error("a step before the first")
	}
	if _, ok := tracker.Begin(0, 1); ok {
		t.Error("a boundary before the first")
	}
	tracker.Apply(begin(0, "step start", 1, 1000, 10))
	tracker.Apply(begin(0, "step start", 2, 3000, 30))
	tracker.Apply(begin(0, "step start", 3, 2000, 20)) // another thread's, a little late
	tracker.Apply(begin(1, "step start", 4, 500, 40))
	for _, c := range []struct {
		device int32
		stamp  int64
		seq    uint64
		want   uint64
	}{
		{0, 999, 99, 0}, {0, 1000, 9, 0}, {0, 1000, 10, 1}, {0, 1999, 1, 1}, {0, 2000, 19, 1}, {0, 2000, 20, 3},
		{0, 2500, 1, 3}, {0, 3000, 30, 2}, {0, 9000, 1, 2}, {1, 9000, 1, 4}, {2, 9000, 1, 0},
	} {
		if got := tracker.At(c.device, c.stamp, c.seq); got != c.want {
			t.Errorf("device %d @%d #%d: step %d, want %d", c.device, c.stamp, c.seq, got, c.want)
		}
	}
	if tracker.Current(0) != 3 || tracker.Current(1) != 4 {
		t.Errorf("current %d and %d", tracker.Current(0), tracker.Current(1))
	}
	for step, want := range map[uint64]int64{1: 1000, 2: 2000, 3: 2000} {
		if got, ok := tracker.Begin(0, step); got != want || !ok {
			t.Errorf("first boundary of step %d or later: %d, want %d", step, got, want)
		}
	}
	if _, ok := tracker.Begin(0, 4); ok {
		t.Error("a boundary of a step to come")
	}
}
