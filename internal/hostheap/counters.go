package hostheap

import "sync/atomic"

// Counts is what happened at one stack since the process began, or within a window after Sub.
type Counts struct {
	Allocs, AllocBytes uint64
	Frees, FreeBytes   uint64
	Lifetime           uint64 // of the blocks that the stack has lost, ticks, summed
	Resized            uint64 // of the allocations and of the frees: a realloc of the stack's own block, which lives on
}

// Births is the number of blocks that the stack got.
func (c Counts) Births() uint64 { return c.Allocs - min(c.Resized, c.Allocs) }

// Deaths is the number of blocks that the stack has lost.
func (c Counts) Deaths() uint64 { return c.Frees - min(c.Resized, c.Frees) }

// LiveBlocks is the number of blocks that are not freed.
func (c Counts) LiveBlocks() uint64 { return c.Allocs - min(c.Frees, c.Allocs) }

// LiveBytes is their size.
func (c Counts) LiveBytes() uint64 { return c.AllocBytes - min(c.FreeBytes, c.AllocBytes) }

// Sub takes away what was before the window.
func (c Counts) Sub(base Counts) Counts {
	return Counts{c.Allocs - base.Allocs, c.AllocBytes - base.AllocBytes, c.Frees - base.Frees, c.FreeBytes - base.FreeBytes,
		c.Lifetime - base.Lifetime, c.Resized - base.Resized}
}

// Add adds what another stack has.
func (c *Counts) Add(o Counts) {
	c.Allocs += o.Allocs
	c.AllocBytes += o.AllocBytes
	c.Frees += o.Frees
	c.FreeBytes += o.FreeBytes
	c.Lifetime += o.Lifetime
	c.Resized += o.Resized
}

// Counters fills into with the counts of every stack, by its id, and returns it, grown where needed. Frees are read before
// allocations, of all threads, so that no stack ever has more freed than allocated.
func (t *Tables) Counters(into []Counts) []Counts {
	n := int(t.stackCount())
	if cap(into) < n {
		grown := make([]Counts, n, n+n/4)
		into = grown
	}
	into = into[:n]
	clear(into)
	t.eachCount(n, func(sum *Counts, c *Count) {
		sum.Resized += atomic.LoadUint64(&c.Resized)
		sum.Frees += atomic.LoadUint64(&c.Free_count)
		sum.FreeBytes += atomic.LoadUint64(&c.Free_bytes)
		sum.Lifetime += atomic.LoadUint64(&c.Lifetime)
	}, into)
	t.eachCount(n, func(sum *Counts, c *Count) {
		sum.Allocs += atomic.LoadUint64(&c.Alloc_count)
		sum.AllocBytes += atomic.LoadUint64(&c.Alloc_bytes)
	}, into)
	return into
}

func (t *Tables) eachCount(n int, add func(*Counts, *Count), into []Counts) {
	slots := t.slots()
	for s := range slots {
		for piece := 0; piece*Counters < n && piece < len(slots[s].Counters); piece++ {
			counts := arena[Count](t, atomic.LoadUint32(&slots[s].Counters[piece]), Counters)
			first := piece * Counters
			for i := range counts {
				if first+i < n {
					add(&into[first+i], &counts[i])
				}
			}
		}
	}
}

// Tally is what the threads count beside the stacks, since the process began or, after Sub, within a window.
type Tally struct {
	Truncated uint64 // stacks whose walk ended early
	Nested    uint64 // calls of a signal handler inside the hook, which were not looked at
	Below     Size   // allocations below the threshold
	Unsampled Size   // allocations that sampling left out
	Unseen    Size   // blocks whose address was handed out again without a free that the hook saw
	Untracked Size   // allocations after accounting stopped, or at an odd address
	Prewindow [Buckets]Size
}

// Tally sums the threads' numbers.
func (t *Tables) Tally() Tally {
	var sum Tally
	slots := t.slots()
	for s := range slots {
		slot := &slots[s]
		sum.Truncated += atomic.LoadUint64(&slot.Truncated)
		sum.Nested += atomic.LoadUint64(&slot.Nested)
		sum.Below.add(&slot.Below)
		sum.Unsampled.add(&slot.Unsampled)
		sum.Unseen.add(&slot.Unseen)
		sum.Untracked.add(&slot.Untracked)
		for b := range sum.Prewindow {
			sum.Prewindow[b].add(&slot.Prewindow[b])
		}
	}
	return sum
}

func (s *Size) add(shared *Size) {
	s.Count += atomic.LoadUint64(&shared.Count)
	s.Bytes += atomic.LoadUint64(&shared.Bytes)
}

func (s Size) sub(base Size) Size { return Size{s.Count - base.Count, s.Bytes - base.Bytes} }

// Sub takes away what was before the window.
func (t Tally) Sub(base Tally) Tally {
	d := Tally{
		Truncated: t.Truncated - base.Truncated, Nested: t.Nested - base.Nested, Below: t.Below.sub(base.Below),
		Unsampled: t.Unsampled.sub(base.Unsampled),
		Unseen:    t.Unseen.sub(base.Unseen), Untracked: t.Untracked.sub(base.Untracked),
	}
	for b := range d.Prewindow {
		d.Prewindow[b] = t.Prewindow[b].sub(base.Prewindow[b])
	}
	return d
}

// busySlots is the number of threads that are inside the hook; after a death: whose last call is half done.
func (t *Tables) busySlots() (n int) {
	slots := t.slots()
	for s := range slots {
		if inside(s, atomic.LoadUint32(&slots[s].Turn)) {
			n++
		}
	}
	return n
}
