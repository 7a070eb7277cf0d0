package hostheap_test

import (
	"testing"
	"time"

	"memscope/internal/hostheap"
	"memscope/internal/hostheap/heaptest"
)

// TestRecycle: a full stack table gets places back from stacks that hold nothing; what they had is not lost, and a stack that takes such a
// place has its own numbers only.
func TestRecycle(t *testing.T) {
	const places = 40
	tables, err := hostheap.NewTables(hostheap.Limits{ArenaBytes: 64 << 20, TextBytes: 1 << 20, Slots: 16, Stacks: hostheap.StackFirst + places,
		Index: 128, Spares: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	p := heaptest.New(tables)
	const beat = 20 * time.Millisecond
	r := hostheap.NewRecorder(tables, beat)
	if _, err := r.Open(hostheap.Options{}); err != nil {
		t.Fatal(err)
	}
	frame := func(i int) []hostheap.NativeFrame { return []hostheap.NativeFrame{{PC: uint64(0x1000 + i)}} }
	addr := uint64(0x7f0000000000)
	malloc := func(stack uint32) uint64 {
		addr += 64
		p.Malloc(0, addr, 50, stack)
		return addr
	}
	for i := range places { // every second one keeps a block
		stack := p.Stack(frame(i), nil)
		kept := malloc(stack)
		if i%2 == 0 {
			p.Free(0, kept, 0)
		}
	}
	if stack := p.Stack(frame(1000), nil); stack != hostheap.StackUnknown {
		t.Fatalf("stack %d in a full table", stack)
	}
	h := tables.Header()
	for deadline := time.Now().Add(5 * time.Second); h.Spare_head < places/2; time.Sleep(beat) {
		if time.Now().After(deadline) {
			t.Fatalf("%d places are back, of %d", h.Spare_head, places/2)
		}
	}
	stack := p.Stack(frame(2000), nil)
	malloc(stack)
	s, err := r.Close(false)
	if err != nil {
		t.Fatal(err)
	}
	if h.Spare_head != places/2 || s.Recycled != places/2 || s.Folded.Allocs != places/2 || s.Unknown.Allocs != places/2 {
		t.Errorf("%d places are back; %+v", h.Spare_head, s)
	}
	if s.Total.Allocs != places+1 || s.Unfreed.Count != places/2+1 || s.Truncated != hostheap.TruncStacks {
		t.Errorf("%+v", s)
	}
	for _, site := range s.Sites {
		if site.Counts.Allocs != 1 || site.Unfreed.Count != 1 {
			t.Errorf("stack %d: %+v", site.Stack, site)
		}
	}
	if frames, ok := tables.Stack(stack); !ok || frames.Native[0].PC != 0x1000+2000 {
		t.Errorf("the stack in a recycled place: %+v", frames)
	}
}

// TestBusyClose: closing waits for a thread that is inside the hook, and tells of one that does not leave it.
func TestBusyClose(t *testing.T) {
	tables := small(t)
	p := heaptest.New(tables)
	r := hostheap.NewRecorder(tables, time.Second)
	for _, c := range []struct {
		leaves time.Duration
		late   int
	}{{100 * time.Millisecond, 0}, {time.Hour, 1}} {
		if _, err := r.Open(hostheap.Options{}); err != nil {
			t.Fatal(err)
		}
		slot := p.Slot(3)
		hostheap.Turn(slot, 1)
		timer := time.AfterFunc(c.leaves, func() { hostheap.Turn(slot, 1) })
		s, err := r.Close(false)
		if err != nil || s.Late != c.late {
			t.Errorf("late %d, want %d (%v)", s.Late, c.late, err)
		}
		timer.Stop()
	}
}

// BenchmarkInterim is a look at a window with two million live blocks.
func BenchmarkInterim(b *testing.B) {
	tables, err := hostheap.NewTables(hostheap.Limits{Slots: 16})
	if err != nil {
		b.Fatal(err)
	}
	defer tables.Close()
	p := heaptest.New(tables)
	r := hostheap.NewRecorder(tables, hostheap.Beat)
	if _, err := r.Open(hostheap.Options{}); err != nil {
		b.Fatal(err)
	}
	defer r.Close(false)
	var stacks []uint32
	for i := range 1000 {
		stacks = append(stacks, p.Stack([]hostheap.NativeFrame{{PC: uint64(0x1000 + i)}}, nil))
	}
	for i := range 2 << 20 {
		p.Malloc(0, 0x7f0000000000+uint64(i)*64, 48, stacks[i%len(stacks)])
	}
	for b.Loop() {
		if s, err := r.Interim(); err != nil || s.Unfreed.Count != 2<<20 {
			b.Fatal(err)
		}
	}
}
