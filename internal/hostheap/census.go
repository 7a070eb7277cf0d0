package hostheap

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"memscope/internal/hostheap/lsi"
)

// spans says for each stack where its blocks are counted by age.
type spans struct {
	sites  []int32 // by stack: the number of its site plus one, 0 for none
	scales []scale // by site
}

// scale turns a tick into a bin of the survivors: tick * perTick - begin.
type scale struct{ perTick, begin float64 }

// census is what one goroutine has seen of the live blocks; the census of a snapshot is their sum.
type census struct {
	reader    reader
	spans     *spans
	live      []Size             // by stack
	lengths   [65]Size           // by the number of bits of the size
	survivors [][lsi.Bins]uint32 // by site
}

// census counts the live blocks, by as many goroutines as there are processors.
func (s *Snapshot) census(t *Tables, dead bool) *census {
	sp := &spans{make([]int32, t.stackCount()), make([]scale, len(s.Sites))}
	length := float64(s.Ended.Sub(s.Opened)) / float64(s.Beat) // beats
	for i := range s.Sites {
		span := s.Sites[i].history.Span
		sp.sites[s.Sites[i].Stack] = int32(i + 1)
		sp.scales[i] = scale{lsi.Bins / (span * ticksPerBeat), (length - span) / span * lsi.Bins}
	}
	parts := t.parts()
	all := make([]*census, workers(len(parts)))
	for w := range all {
		all[w] = &census{
			reader: reader{t: t, window: s.Window, dead: dead}, spans: sp, live: make([]Size, len(sp.sites)),
			survivors: make([][lsi.Bins]uint32, len(s.Sites)),
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
	live, sites := c.live, c.spans.sites[:len(c.live)]
	for _, e := range entries {
		stack := e.stack()
		if stack == StackUntracked {
			continue
		}
		if int(stack) >= len(live) {
			stack = StackUnknown // debris
		}
		size := e.size()
		if size == SizeLarge {
			size = c.reader.large
		}
		live[stack].Count++
		live[stack].Bytes += size
		length := &c.lengths[bits.Len64(size)]
		length.Count++
		length.Bytes += size
		if site := int(sites[stack]) - 1; site >= 0 {
			scale := &c.spans.scales[site]
			bin := int((float64(e.age()<<c.reader.scale)+half)*scale.perTick - scale.begin)
			c.survivors[site][min(max(bin, 0), lsi.Bins-1)]++
		}
	}
}

// add adds what another goroutine has seen.
func (c *census) add(o *census) {
	c.reader.walk.Regions += o.reader.walk.Regions
	c.reader.walk.Degraded += o.reader.walk.Degraded
	c.reader.walk.Locked += o.reader.walk.Locked
	for i, size := range o.live {
		c.live[i].Count += size.Count
		c.live[i].Bytes += size.Bytes
	}
	for i, size := range o.lengths {
		c.lengths[i].Count += size.Count
		c.lengths[i].Bytes += size.Bytes
	}
	for i := range o.survivors {
		for bin, n := range o.survivors[i] {
			c.survivors[i][bin] += n
		}
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

// mostWorkers bounds the memory of a snapshot, 16 bytes for each stack and goroutine.
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
