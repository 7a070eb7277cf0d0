package hostheap

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"memscope/internal/hostheap/lsi"
)

// scale turns a tick into a bin of the survivors: tick * perTick - begin.
type scale struct{ perTick, begin float64 }

// stackCensus is what is counted of one stack, together because the blocks of a region are of many.
type stackCensus struct {
	Size
	scale
	survivors *[lsi.Bins]uint32 // by age; nil: of no site
}

// census is what one goroutine has seen of the live blocks; the census of a snapshot is their sum.
type census struct {
	reader  reader
	stacks  []stackCensus
	lengths [65]Size // by the number of bits of the size
}

// census counts the live blocks, by as many goroutines as there are processors.
func (s *Snapshot) census(t *Tables, dead bool) *census {
	length := float64(s.Ended.Sub(s.Opened)) / float64(s.Beat) // beats
	parts := t.parts()
	all := make([]*census, workers(len(parts)))
	for w := range all {
		all[w] = &census{reader: reader{t: t, window: s.Window, dead: dead}, stacks: make([]stackCensus, t.stackCount())}
		survivors := make([][lsi.Bins]uint32, len(s.Sites))
		for i := range s.Sites {
			span := s.Sites[i].history.Span
			c := &all[w].stacks[s.Sites[i].Stack]
			c.scale = scale{lsi.Bins / (span * ticksPerBeat), (length - span) / span * lsi.Bins}
			c.survivors = &survivors[i]
		}
	}
	share(len(parts), func(worker, i int) {
		c := all[worker]
		c.reader.read(parts[i], c.count)
	})
	for _, o := range all[1:] {
		all[0].add(o)
	}
	return all[0]
}

// count takes the blocks of one region.
func (c *census) count(entries []entry) {
	half := float64(uint32(1)<<c.reader.scale) / 2 // a tick is rounded down
	for _, e := range entries {
		stack := e.stack()
		if stack == StackUntracked {
			continue
		}
		if int(stack) >= len(c.stacks) {
			stack = StackUnknown // debris
		}
		size := e.size()
		if size == SizeLarge {
			size = c.reader.large
		}
		of := &c.stacks[stack]
		of.Count++
		of.Bytes += size
		length := &c.lengths[bits.Len64(size)]
		length.Count++
		length.Bytes += size
		if of.survivors != nil {
			bin := int((float64(e.age()<<c.reader.scale)+half)*of.perTick - of.begin)
			of.survivors[min(max(bin, 0), lsi.Bins-1)]++
		}
	}
}

// add adds what another goroutine has seen.
func (c *census) add(o *census) {
	c.reader.walk.Regions += o.reader.walk.Regions
	c.reader.walk.Degraded += o.reader.walk.Degraded
	c.reader.walk.Locked += o.reader.walk.Locked
	for i := range o.stacks {
		of, more := &c.stacks[i], &o.stacks[i]
		of.Count += more.Count
		of.Bytes += more.Bytes
		if of.survivors != nil {
			for bin, n := range more.survivors {
				of.survivors[bin] += n
			}
		}
	}
	for i, size := range o.lengths {
		c.lengths[i].Count += size.Count
		c.lengths[i].Bytes += size.Bytes
	}
}

// buckets are the blocks by size; the bounds of the buckets are powers of two.
func (c *census) buckets() (buckets [Buckets]Size) {
	for length, size := range c.lengths {
		bucket := &buckets[Bucket(1<<length-1)]
		bucket.Count += size.Count
		bucket.Bytes += size.Bytes
	}
	return buckets
}

// mostWorkers bounds the memory of a snapshot, 40 bytes for each stack and goroutine.
const mostWorkers = 8

func workers(n int) int { return max(1, min(runtime.GOMAXPROCS(0), mostWorkers, n)) }

// share does n pieces of work by workers(n) goroutines, of which each takes the next one when it is done.
func share(n int, work func(worker, i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for worker := range workers(n) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				work(worker, i)
			}
		})
	}
	all.Wait()
}
