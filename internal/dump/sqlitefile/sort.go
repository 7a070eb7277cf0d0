package sqlitefile

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"os"
	"slices"
)

// Entries are sorted in memory up to so many, and so many bytes of keys; more than that goes to a scratch file in sorted runs, which are
// merged in the end.
const (
	sortEntries = 1 << 16
	sortBytes   = 4 << 20
	mergeBytes  = 16 << 20 // of the buffers of a merge, but
	leastBuffer = 4 << 10  // for each run at least this
)

// sorter sorts the entries of one index by their keys; rows come in order, and of equal keys the smaller row is first.
type sorter struct {
	scratch *scratch
	entries []entry
	keys    []byte
	runs    []*run
}

type entry struct {
	from, to int // of the key in keys
	row      int64
}

// run is a sorted part of the entries. If the entries come in order anyway, as times do, there is one.
type run struct {
	parts []extent
	key   []byte // of the last entry
	row   int64  // of the last entry
}

type extent struct{ at, size int64 }

func (s *sorter) add(key []byte, row int64) error {
	from := len(s.keys)
	s.keys = append(s.keys, key...)
	s.entries = append(s.entries, entry{from, len(s.keys), row})
	if len(s.entries) < sortEntries && len(s.keys) < sortBytes {
		return nil
	}
	return s.spill()
}

func (s *sorter) key(e *entry) []byte { return s.keys[e.from:e.to] }

func (s *sorter) sort() {
	slices.SortFunc(s.entries, func(a, b entry) int {
		if c := bytes.Compare(s.key(&a), s.key(&b)); c != 0 {
			return c
		}
		return cmp.Compare(a.row, b.row)
	})
}

// spill moves the entries to the scratch file. Each is the length of its key, the key, and the distance of the row to that before; the length
// is 0 for the key of the entry before. After an error they are all still here.
func (s *sorter) spill() error {
	s.sort()
	first, last := s.key(&s.entries[0]), &s.entries[len(s.entries)-1]
	into := &run{}
	if n := len(s.runs); n > 0 && bytes.Compare(s.runs[n-1].key, first) <= 0 {
		into = s.runs[n-1]
	}
	var key, out []byte
	row := into.row
	for i := range s.entries {
		e := &s.entries[i]
		if k := s.key(e); bytes.Equal(k, key) {
			out = append(out, 0)
		} else {
			key = k
			out = append(binary.AppendUvarint(out, uint64(len(k))), k...)
		}
		out = binary.AppendVarint(out, e.row-row)
		row = e.row
	}
	part, err := s.scratch.append(out)
	if err != nil {
		return err
	}
	if into.parts == nil {
		s.runs = append(s.runs, into)
	}
	into.parts, into.key, into.row = append(into.parts, part), bytes.Clone(s.key(last)), row
	s.entries, s.keys = s.entries[:0], s.keys[:0]
	return nil
}

// each visits all entries in order. It can be called again.
func (s *sorter) each(visit func(key []byte, row int64) error) error {
	if len(s.runs) == 0 {
		s.sort()
		for i := range s.entries {
			if err := visit(s.key(&s.entries[i]), s.entries[i].row); err != nil {
				return err
			}
		}
		return nil
	}
	if len(s.entries) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
	}
	var m merge
	for _, r := range s.runs {
		var parts []io.Reader
		for _, p := range r.parts {
			parts = append(parts, io.NewSectionReader(s.scratch.f, p.at, p.size))
		}
		c := &cursor{in: bufio.NewReaderSize(io.MultiReader(parts...), max(mergeBytes/len(s.runs), leastBuffer))}
		if err := c.next(); err != nil {
			return unexpected(err)
		}
		m = append(m, c)
	}
	for i := len(m)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	for len(m) > 0 {
		if err := visit(m[0].key, m[0].row); err != nil {
			return err
		}
		switch err := m[0].next(); err {
		case nil:
		case io.EOF:
			m[0] = m[len(m)-1]
			m = m[:len(m)-1]
		default:
			return err
		}
		m.down(0)
	}
	return nil
}

// cursor reads a run.
type cursor struct {
	in  *bufio.Reader
	key []byte
	row int64
}

// next goes on to the next entry. io.EOF: there is none.
func (c *cursor) next() error {
	n, err := binary.ReadUvarint(c.in)
	if err != nil {
		return err
	}
	if n > 0 {
		c.key = slices.Grow(c.key[:0], int(n))[:n]
		if _, err := io.ReadFull(c.in, c.key); err != nil {
			return unexpected(err)
		}
	}
	distance, err := binary.ReadVarint(c.in)
	c.row += distance
	return unexpected(err)
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// merge is a heap of cursors: the smallest entry is first.
type merge []*cursor

func (m merge) less(i, j int) bool {
	if c := bytes.Compare(m[i].key, m[j].key); c != 0 {
		return c < 0
	}
	return m[i].row < m[j].row
}

// down moves a cursor to its place among those below it.
func (m merge) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m); child++ {
			if m.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		m[i], m[least] = m[least], m[i]
		i = least
	}
}

// scratch is a file that is made when it is needed.
type scratch struct {
	create func() (*os.File, error)
	f      *os.File
	size   int64
}

func (s *scratch) append(b []byte) (part extent, err error) {
	if s.f == nil {
		if s.f, err = s.create(); err != nil {
			s.f = nil
			return part, err
		}
	}
	if _, err := s.f.WriteAt(b, s.size); err != nil {
		return part, err
	}
	part = extent{s.size, int64(len(b))}
	s.size += part.size
	return part, nil
}

func (s *scratch) close() error {
	if s.f == nil {
		return nil
	}
	return s.f.Close()
}
