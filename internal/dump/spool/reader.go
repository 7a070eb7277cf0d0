package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"

	"memscope/internal/event"
	"memscope/internal/output"
)

// Reader reads a spool, also one that is being written: it follows the writer through the file and reads nothing at or
// behind the limit it is given. It belongs to one goroutine.
type Reader struct {
	root *os.Root
	meta Meta

	// SkipDamage: events behind one that cannot be decoded are passed over and counted, up to the next block.
	SkipDamage bool

	first Pos // of the oldest segment when it was opened
	seg   *os.File
	start Pos // of seg

	damaged bool // its header is

	block   Block  // the one that is loaded; zero: none
	buf     []byte // its payload
	rest    []byte // what Next has not decoded yet
	state   state
	names   interner
	late    lateReader
	dropped map[Pos]int64 // where whole blocks ended within a segment, and how many bytes lay behind
}

// Block says where a block lies.
type Block struct{ Pos, End Pos }

// End is a limit for a spool that nobody writes any more.
const End Pos = math.MaxInt64

// Open opens the spool name in parent for reading. A spool without an event is fine: its Meta is zero.
func Open(parent *os.Root, name string) (*Reader, error) {
	root, err := parent.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	r := &Reader{root: root, buf: make([]byte, 0, BlockBytes), dropped: make(map[Pos]int64)}
	at, err := r.move(0)
	if err != nil && err != io.EOF {
		r.Close()
		return nil, err
	}
	r.first = at
	return r, nil
}

// Meta is what the first segment says.
func (r *Reader) Meta() Meta { return r.meta }

// Root is the spool's directory.
func (r *Reader) Root() *os.Root { return r.root }

// First is the position of the oldest segment when the spool was opened.
func (r *Reader) First() Pos { return r.first }

// SegmentStart is the position of the segment of the loaded block.
func (r *Reader) SegmentStart() Pos { return r.start }

// Close closes the reader.
func (r *Reader) Close() error {
	r.leave()
	r.late.close()
	return r.root.Close()
}

// Dropped is the number of bytes that were passed over because they were no whole block: the torn end after a death, or
// damage.
func (r *Reader) Dropped() (bytes int64) {
	for _, n := range r.dropped {
		bytes += n
	}
	return bytes
}

// Load loads the first block at or behind at and answers where it lies; Next then gives its events. io.EOF: there is none
// below limit. Bytes that are no whole block are passed over, up to the next segment, and counted.
func (r *Reader) Load(at, limit Pos) (Block, error) {
	r.late.refresh()
	if r.block.Pos == at && r.block.End > at {
		r.rest, r.state = r.buf, state{}
		return r.block, nil
	}
	if r.seg != nil && at < r.start {
		r.leave()
	}
	for at < limit {
		if r.seg != nil {
			at = max(at, r.start+segmentHeader)
			whole, err := r.read(at)
			if err != nil {
				return Block{}, err
			}
			if whole {
				return r.block, nil
			}
		}
		var err error
		if at, err = r.move(at); err != nil {
			return Block{}, err
		}
	}
	return Block{}, io.EOF
}

// read loads the block at a position of the current segment. whole is false, and what follows counts as dropped, when
// there is no whole block.
func (r *Reader) read(at Pos) (whole bool, err error) {
	r.block, r.rest = Block{}, nil
	off := int64(at - r.start)
	if !r.damaged {
		var h [blockHeader]byte
		n, err := r.seg.ReadAt(h[:], off)
		switch {
		case err == io.EOF && n == 0:
			return false, nil // the end of the segment, or a place behind it
		case err != nil && err != io.EOF:
			return false, err
		}
		le := binary.LittleEndian
		if size := le.Uint32(h[:]); n == blockHeader && size > 0 && size <= BlockBytes {
			r.buf = r.buf[:size]
			if _, err := r.seg.ReadAt(r.buf, off+blockHeader); err != nil && err != io.EOF {
				return false, err
			} else if err == nil && checksum(r.buf) == le.Uint32(h[4:]) {
				r.block = Block{Pos: at, End: at + blockHeader + Pos(size)}
				r.rest, r.state = r.buf, state{}
				return true, nil
			}
		}
	}
	info, err := r.seg.Stat()
	if err != nil {
		return false, err
	}
	if n := info.Size() - off; n > 0 {
		r.dropped[at] = n
	}
	return false, nil
}

// move opens the segment that holds at, or, when that is the current one and it has no more blocks, the next one; it
// answers where to read on. io.EOF: there is no such segment.
func (r *Reader) move(at Pos) (Pos, error) {
	starts, err := segments(r.root)
	if err != nil {
		return 0, err
	}
	i, exact := slices.BinarySearch(starts, at)
	if !exact && i > 0 && (r.seg == nil || starts[i-1] > r.start) {
		i-- // at lies inside this one
	}
	if i == len(starts) {
		return 0, io.EOF
	}
	return max(at, starts[i]), r.open(starts[i])
}

// open makes the segment that starts at p the current one.
func (r *Reader) open(p Pos) error {
	r.leave()
	f, err := output.OpenRegular(r.root, segmentName(p), os.O_RDONLY)
	if err != nil {
		return err
	}
	r.seg, r.start = f, p
	b := make([]byte, segmentHeader)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return err
	}
	m, err := parseHeader(b[:n], p)
	if errors.Is(err, errVersion) {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	r.damaged = err != nil
	if err == nil && r.meta == (Meta{}) {
		r.meta = m
	}
	return nil
}

func (r *Reader) leave() {
	if r.seg != nil {
		r.seg.Close()
		r.seg = nil
	}
}

// Next decodes the next event of the loaded block, with what was learned of it later. io.EOF: it was the last.
func (r *Reader) Next(ev *event.Event) error {
	if len(r.rest) == 0 {
		return io.EOF
	}
	rest, err := r.state.decode(r.rest, ev, &r.names)
	if err != nil && r.SkipDamage {
		r.dropped[r.block.End-Pos(len(r.rest))] = int64(len(r.rest))
		r.rest = nil
		return io.EOF
	}
	if err != nil {
		return fmt.Errorf("%s, block at %d: %w", r.root.Name(), r.block.Pos, err)
	}
	r.rest = rest
	r.late.complete(r.root, ev)
	return nil
}

// DropBefore deletes the segments that lie entirely below p, the end of what was read or a place before it.
func (r *Reader) DropBefore(p Pos) error {
	starts, err := segments(r.root)
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(starts) && starts[i+1] <= p; i++ {
		if err := r.root.Remove(segmentName(starts[i])); err != nil {
			return err
		}
	}
	if p < r.block.Pos { // somebody else reads more slowly
		return nil
	}
	return r.late.dropBefore(r.root)
}

// Save keeps text beside the segments, in place of what was saved before; a death leaves the one or the other, whole.
func (r *Reader) Save(text []byte) error {
	const temp = stateName + ".new"
	if err := r.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a death
		return err
	}
	f, err := r.root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(append(fmt.Appendf(nil, "%08x\n", checksum(text)), text...))
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return r.root.Rename(temp, stateName)
}

// maxState bounds what Save keeps: some hundred bytes for each file.
const maxState = 64 << 20

// ErrState says that what Save kept is damaged.
var ErrState = errors.New("damaged")

// Saved is what Save kept last, nil when it never did.
func (r *Reader) Saved() ([]byte, error) {
	f, err := output.OpenRegular(r.root, stateName, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err != nil {
		return nil, err
	}
	const n = 9 // checksum and line end
	if len(b) >= n && len(b) <= maxState {
		if sum, err := strconv.ParseUint(string(b[:n-1]), 16, 32); err == nil && uint32(sum) == checksum(b[n:]) {
			return b[n:], nil
		}
	}
	return nil, fmt.Errorf("%s/%s is %w", r.root.Name(), stateName, ErrState)
}
