package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"memscope/internal/event"
)

// DamageError says where a spool is not whole.
type DamageError struct {
	Path   string // of the segment
	Offset int64  // bytes from its beginning
	What   string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d (%s)", e.Path, e.Offset, e.What)
}

// Verify reads everything from at on and visits the events, from the block at at on. end is where the last whole block
// ends. A *DamageError says that events are missing on the way: a block that does not read, or a segment that does not begin where
// the one before it ends. What is torn at the end of the last segment is not that: a death in the middle of a write leaves it.
func (r *Reader) Verify(at Pos, visit func(ev *event.Event)) (end Pos, err error) {
	defer func(last uint64) { r.late.last = last }(r.late.last) // what is only looked at is still to be read
	starts, err := segments(r.root)
	if err != nil {
		return 0, err
	}
	for len(starts) > 1 && starts[1] <= at {
		starts = starts[1:]
	}
	switch {
	case len(starts) == 0 && at == 0:
		return 0, nil
	case len(starts) == 0 || starts[0] > at:
		return 0, fmt.Errorf("%s holds no segment for the position %d", r.root.Name(), at)
	}
	for i, start := range starts {
		last := i == len(starts)-1
		if end, err = r.verifySegment(start, max(at, start), last, visit); err != nil {
			return end, err
		}
		if !last && end != starts[i+1] {
			return end, r.damage(end, "the next segment begins elsewhere: "+segmentName(starts[i+1]))
		}
	}
	return end, nil
}

// verifySegment is Verify for the segment that begins at start.
func (r *Reader) verifySegment(start, at Pos, last bool, visit func(ev *event.Event)) (Pos, error) {
	if err := r.open(start); err != nil {
		return start, err
	}
	info, err := r.seg.Stat()
	if err != nil {
		return start, err
	}
	stop := start + Pos(info.Size())
	if at > start && at > stop {
		return stop, r.damage(stop, fmt.Sprintf("it ended at byte %d or later", at-start))
	}
	if r.damaged {
		if last && stop < start+segmentHeader && at == start {
			return start, nil
		}
		return start, r.damage(start, "its header")
	}
	at = max(at, start+segmentHeader)
	for at < stop {
		whole, err := r.read(at)
		if err != nil {
			return at, err
		}
		if !whole {
			if torn, err := r.torn(at, stop); err != nil {
				return at, err
			} else if last && torn {
				return at, nil
			}
			return at, r.damage(at, "no whole block")
		}
		var ev event.Event
		for {
			err := r.Next(&ev)
			if err == io.EOF {
				break
			}
			if err != nil {
				return at, r.damage(r.block.End-Pos(len(r.rest)), "no event of this program")
			}
			visit(&ev)
		}
		at = r.block.End
	}
	return at, nil
}

// torn says whether what is no whole block at at can be the beginning of one write that was cut off at stop, where the file
// ends: it has no more bytes than its length says, and if it has all of them, they never reached the disk. A length is
// missing where the machine died: then all is zero.
func (r *Reader) torn(at, stop Pos) (bool, error) {
	b := make([]byte, min(int64(stop-at), blockHeader+BlockBytes+1))
	if _, err := r.seg.ReadAt(b, int64(at-r.start)); err != nil {
		return false, err
	}
	if len(b) < blockHeader {
		return true, nil
	}
	size := int64(binary.LittleEndian.Uint32(b))
	if size > 0 && size <= BlockBytes {
		return int64(stop-at) <= blockHeader+size, nil
	}
	for off := int64(at - r.start); ; {
		n, err := r.seg.ReadAt(b, off)
		for _, c := range b[:n] {
			if c != 0 {
				return false, nil
			}
		}
		off += int64(n)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err == nil, err
		}
	}
}

func (r *Reader) damage(at Pos, what string) error {
	return &DamageError{Path: r.seg.Name(), Offset: int64(at - r.start), What: what}
}
