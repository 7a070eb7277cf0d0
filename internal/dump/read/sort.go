package read

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
)

// runBytes is how much of a file is sorted at a time in memory.
const runBytes = 40 << 20

// Sorted holds the rows of a CSV dump in the order of (Stamp, ID, place in the file). What does not fit into memory lies in
// temporary files: sorted runs, which are merged while they are read.
type Sorted struct {
	header []byte
	runs   []string // files
	last   *run     // the one in memory
}

// run is a piece of the file in memory: rows one behind the other, and an index of them.
type run struct {
	text  []byte
	index []entry
}

type entry struct {
	stamp, id  int64
	start, end uint32
}

func (e entry) compare(o entry) int {
	return cmp.Or(cmp.Compare(e.stamp, o.stamp), cmp.Compare(e.id, o.id))
}

// SortCSV reads a file and sorts its rows; those that are none are left out. Temporary files go to dir (empty: where the
// system has them) until Close. first and last are the lowest and the highest stamp, ns.
func SortCSV(path, dir string) (s *Sorted, first, last int64, err error) {
	s = &Sorted{last: &run{}}
	if s.header, err = headerLine(path); err != nil {
		return nil, 0, 0, err
	}
	_, err = CSV(path, Options{Want: ID}, func(b *Batch) error {
		for i := range b.Rows {
			r := &b.Rows[i]
			if first == 0 || r.Stamp < first {
				first = r.Stamp
			}
			last = max(last, r.Stamp)
			raw := b.raw(r)
			if len(s.last.text)+len(raw)+1 > runBytes && len(s.last.index) > 0 {
				if err := s.spill(dir); err != nil {
					return err
				}
			}
			s.last.add(r, raw)
		}
		return nil
	})
	if err != nil {
		s.Close()
		return nil, 0, 0, err
	}
	s.last.sort()
	return s, first, last, nil
}

func headerLine(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, chunkBytes)).ReadBytes('\n')
	if err == io.EOF {
		line, err = append(line, '\n'), nil
	}
	return line, err
}

func (r *run) add(row *Row, raw []byte) {
	start := len(r.text)
	r.text = append(r.text, raw...)
	if !bytes.HasSuffix(raw, []byte{'\n'}) {
		r.text = append(r.text, '\n')
	}
	r.index = append(r.index, entry{row.Stamp, row.ID, uint32(start), uint32(len(r.text))})
}

func (r *run) sort() { slices.SortStableFunc(r.index, entry.compare) }

// spill writes the run in memory to a file.
func (s *Sorted) spill(dir string) error {
	s.last.sort()
	f, err := CreateTemp(dir, "msmemscope-sort-*")
	if err != nil {
		return err
	}
	s.runs = append(s.runs, f.Name())
	w := bufio.NewWriterSize(f, 1<<20)
	var head [20]byte
	for _, e := range s.last.index {
		binary.LittleEndian.PutUint64(head[:], uint64(e.stamp))
		binary.LittleEndian.PutUint64(head[8:], uint64(e.id))
		binary.LittleEndian.PutUint32(head[16:], e.end-e.start)
		w.Write(head[:])
		w.Write(s.last.text[e.start:e.end])
	}
	s.last.text, s.last.index = s.last.text[:0], s.last.index[:0]
	return errors.Join(w.Flush(), f.Close())
}

// Close removes the temporary files.
func (s *Sorted) Close() error {
	var errs []error
	for _, path := range s.runs {
		errs = append(errs, RemoveTemp(path))
	}
	s.runs = nil
	return errors.Join(errs...)
}

// WriteTo writes the whole file, header first, in order.
func (s *Sorted) WriteTo(w io.Writer) (int64, error) {
	var m merge
	defer m.close()
	for i, path := range s.runs {
		f, err := os.Open(path)
		if err != nil {
			return 0, err
		}
		if err := m.add(&source{file: f, r: bufio.NewReaderSize(f, 64<<10), order: i}); err != nil {
			return 0, err
		}
	}
	if err := m.add(&source{mem: s.last, order: len(s.runs)}); err != nil {
		return 0, err
	}
	heap.Init(&m)
	count, err := w.Write(s.header)
	total := int64(count)
	for err == nil && len(m) > 0 {
		count, err = w.Write(m[0].raw)
		total += int64(count)
		if err == nil {
			err = m.advance()
		}
	}
	return total, err
}

// Scan scans the sorted rows like CSV does a file; path is for messages.
func (s *Sorted) Scan(path string, opt Options, visit func(*Batch) error) (*Summary, error) {
	pr, pw := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w := bufio.NewWriterSize(pw, chunkBytes)
		_, err := s.WriteTo(w)
		if err == nil {
			err = w.Flush()
		}
		pw.CloseWithError(err)
	}()
	sum, err := scanCSV(pr, path, opt, visit)
	pr.CloseWithError(io.ErrClosedPipe) // ends the writer when the scan ended early
	<-done
	return sum, err
}

// source is a run that is being read.
type source struct {
	file  *os.File
	r     *bufio.Reader
	mem   *run
	at    int
	order int // runs come in the order of the file, which decides between equals

	key entry
	raw []byte
}

// next goes on to the next row; io.EOF behind the last.
func (s *source) next() error {
	if s.mem != nil {
		if s.at == len(s.mem.index) {
			return io.EOF
		}
		s.key = s.mem.index[s.at]
		s.raw = s.mem.text[s.key.start:s.key.end]
		s.at++
		return nil
	}
	var head [20]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		return err
	}
	s.key.stamp = int64(binary.LittleEndian.Uint64(head[:]))
	s.key.id = int64(binary.LittleEndian.Uint64(head[8:]))
	n := int(binary.LittleEndian.Uint32(head[16:]))
	s.raw = slices.Grow(s.raw[:0], n)[:n]
	_, err := io.ReadFull(s.r, s.raw)
	return err
}

// merge is a heap of runs, the one with the least row on top.
type merge []*source

func (m merge) Len() int { return len(m) }
func (m merge) Less(i, j int) bool {
	c := m[i].key.compare(m[j].key)
	return c < 0 || c == 0 && m[i].order < m[j].order
}
func (m merge) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m *merge) Push(x any)   { *m = append(*m, x.(*source)) }
func (m *merge) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

func (m *merge) add(s *source) error {
	switch err := s.next(); err {
	case nil:
		*m = append(*m, s)
		return nil
	case io.EOF:
		return s.close()
	default:
		return errors.Join(err, s.close())
	}
}

func (m *merge) advance() error {
	switch err := (*m)[0].next(); err {
	case nil:
		heap.Fix(m, 0)
		return nil
	case io.EOF:
		return heap.Pop(m).(*source).close()
	default:
		return err
	}
}

func (m merge) close() {
	for _, s := range m {
		s.close()
	}
}

func (s *source) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
