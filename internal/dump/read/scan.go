package read

import (
	"fmt"
	"io"
	"os"
	"runtime"
)

const (
	chunkBytes = 128 << 10
	// maxRowBytes bounds a row; two deep call stacks are some 10 KiB.
	maxRowBytes = 16 << 20
)

// Options say how to scan.
type Options struct {
	Want    Want
	Ordered bool   // end with an UnsortedError when rows are not in time order
	Sort    bool   // DB: in time order, whatever their order in the table
	Pools   *Pools // gives the pools of the user's own their numbers; nil: such rows have NoPool
}

// CSV scans a CSV dump and hands its rows to visit, batch by batch in file order. An error of visit ends it. Rows that
// are none are passed over and told in the Summary. The error says what is wrong with the file as a whole.
func CSV(path string, opt Options, visit func(*Batch) error) (*Summary, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return scanCSV(f, path, opt, visit)
}

func scanCSV(f io.Reader, path string, opt Options, visit func(*Batch) error) (*Summary, error) {
	c := newChunker(f, path)
	if err := c.header(); err != nil {
		return nil, err
	}
	sum := &Summary{Sorted: true}
	return sum, pipeline(c.next, func() *decoder { return newDecoder(c.layout, opt.Want, opt.Pools) }, func(b *Batch) error {
		sum.add(b)
		if opt.Ordered && !sum.Sorted {
			return &UnsortedError{path}
		}
		return visit(b)
	})
}

// pipeline runs next, which fills batches with text, in one goroutine, decodes on all cores, and hands the batches to
// visit in order. Batches are used again: no more than a few exist.
func pipeline(next func(*Batch) error, decoder func() *decoder, visit func(*Batch) error) error {
	workers := min(runtime.GOMAXPROCS(0), 8)
	type job struct {
		b    *Batch
		err  error
		done chan struct{}
	}
	depth := 2*workers + 2
	free := make(chan job, depth)
	for range depth {
		free <- job{b: &Batch{csv: true}, done: make(chan struct{}, 1)}
	}
	order := make(chan job, depth)
	work := make(chan job, depth)
	stop := make(chan struct{})
	go func() {
		defer close(order)
		defer close(work)
		for {
			select {
			case <-stop:
				return
			case j := <-free:
				j.err = next(j.b)
				order <- j
				if j.err != nil {
					return
				}
				work <- j
			}
		}
	}()
	for range workers {
		go func() {
			d := decoder()
			for j := range work {
				d.rows(j.b)
				j.done <- struct{}{}
			}
		}()
	}
	var err error
	for j := range order {
		if j.err != nil {
			if j.err != io.EOF && err == nil {
				err = j.err
			}
			break
		}
		<-j.done
		if err == nil {
			if err = visit(j.b); err != nil {
				close(stop)
			}
		}
		free <- j
	}
	return err
}

// chunker cuts a file into pieces that hold whole rows.
type chunker struct {
	f      io.Reader
	path   string // for messages
	layout *layout
	rest   []byte // read, but not handed out
	offset int64  // of rest in the file
	eof    bool
}

func newChunker(f io.Reader, path string) *chunker { return &chunker{f: f, path: path} }

// header reads the first line.
func (c *chunker) header() error {
	buf := make([]byte, chunkBytes)
	n, err := c.fill(buf)
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("%s: the file is empty", c.path)
	}
	line := lineEnd(buf[:n], 0)
	if c.layout, err = csvLayout(buf[:line]); err != nil {
		return fmt.Errorf("%s: %w", c.path, err)
	}
	c.offset = int64(min(line+1, n))
	c.rest = buf[c.offset:n]
	return nil
}

// fill reads until buf is full or the file ends.
func (c *chunker) fill(buf []byte) (int, error) {
	n, err := io.ReadFull(c.f, buf)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		c.eof = true
		err = nil
	}
	return n, err
}

// next fills b.text with rows.
func (c *chunker) next(b *Batch) error {
	if cap(b.text) < chunkBytes {
		b.text = make([]byte, 0, chunkBytes)
	}
	buf := append(b.text[:0], c.rest...)
	for {
		if !c.eof {
			have := len(buf)
			if have == cap(buf) {
				if have >= maxRowBytes {
					return fmt.Errorf("%s: a row is longer than %d MiB; the file is no memory dump, or a quote has no end", c.path, maxRowBytes>>20)
				}
				buf = append(make([]byte, 0, 2*have), buf...)
			}
			n, err := c.fill(buf[have:cap(buf)])
			if err != nil {
				return err
			}
			buf = buf[:have+n]
		}
		end := wholeRows(buf, c.layout)
		if c.eof {
			if len(buf) == 0 {
				return io.EOF
			}
			end = len(buf)
		}
		if end > 0 {
			b.text, b.base, b.last = buf[:end], c.offset, c.eof
			c.offset += int64(end)
			c.rest = append(c.rest[:0], buf[end:]...)
			return nil
		}
	}
}
