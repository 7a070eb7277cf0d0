// Package spool keeps the events of one process on disk, in the order of their rows, until these are written: an append-only
// sequence of checksummed blocks in segment files, below <project dir>/spool/. It knows nothing of columns and of time.
//
//	spool/lock               locked (flock) while somebody works on the spool; holds that process's id
//	spool/<position>.seg     a segment, named by the position (16 hex digits) of its first byte
//	spool/checkpoint         what the rendering saved last, opaque here
//	spool/*.late, owners     what was learned of events after they were stored (late.go)
//
// A segment is a header and then blocks. Everything is little-endian.
//
//	segment header, 64 bytes: "msmspool"; version u32; CRC-32C u32 of what follows; position u64; pid u64; start stamp i64;
//	                          flags u64 (1: Paired, 2: DB); zeros
//	block: payload bytes u32; CRC-32C u32 of the payload; encoded events
//
// The checksum and the length find the end of what was written whole when a process or a machine dies: a block is there
// entirely or not at all. Nothing is synced to the device: a killed process loses nothing that was flushed; a machine that
// loses power loses what its kernel had not written yet.
package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"memscope/internal/output"
)

// Dir is the name of a spool within its project directory.
const Dir = output.Spool

// Pos is a position in a spool: the count of all bytes before it, headers included, since the spool began.
type Pos int64

// Meta describes a spool; it is part of every segment.
type Meta struct {
	PID    uint64
	Start  int64 // wall-clock ns
	Paired bool  // MALLOC and FREE are both in it, so a block without a FREE is alive
	DB     bool  // the rendering is into databases
	// SegmentBytes is the size at which a new segment begins; 0 means DefaultSegmentBytes. It is not stored.
	SegmentBytes int64
}

const (
	// DefaultSegmentBytes is the size of a segment. Rendering drops a segment and saves a checkpoint once per segment.
	DefaultSegmentBytes = 16 << 20
	// BlockBytes bounds the payload of a block. A reader holds the events of about one block, decoded.
	BlockBytes = 32 << 10

	magic         = "msmspool"
	version       = 1
	segmentHeader = 64
	blockHeader   = 8
	suffix        = ".seg"
	lockName      = "lock"
	stateName     = "checkpoint"
	dirMode       = 0o750
	fileMode      = 0o640
)

var errVersion = errors.New("spool of version")

var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// checksum is the CRC-32C of b. Its table is made at the first use: that takes 0.4 ms, which the launcher, too, would wait for.
func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli()) }

// InUseError says that another process works on a spool.
type InUseError struct {
	Path string // of the project directory
	PID  int    // 0 when it is not known
}

func (e *InUseError) Error() string {
	if e.PID == 0 {
		return e.Path + " is in use by another process"
	}
	return fmt.Sprintf("%s is in use by process %d", e.Path, e.PID)
}

// Lock keeps others from working on a spool. The kernel takes it back when the process ends.
type Lock struct{ f *os.File }

// TakeLock locks the spool name in parent, or answers an *InUseError.
func TakeLock(parent *os.Root, name string) (*Lock, error) {
	f, err := output.OpenRegular(parent, filepath.Join(name, lockName), os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
		text := make([]byte, 20)
		n, _ := f.ReadAt(text, 0)
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text[:n])))
		return nil, &InUseError{Path: parent.Name(), PID: pid}
	}
	// The id only serves a message: a disk too full for it must not stop the work.
	f.Truncate(0)
	f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return &Lock{f}, nil
}

// Release unlocks.
func (l *Lock) Release() error { return l.f.Close() }

func segmentName(p Pos) string { return fmt.Sprintf("%016x%s", int64(p), suffix) }

// segments lists the start positions of the segments in a spool directory, ascending.
func segments(root *os.Root) ([]Pos, error) {
	names, err := list(root)
	if err != nil {
		return nil, err
	}
	var out []Pos
	for _, n := range names {
		hex, ok := strings.CutSuffix(n, suffix)
		if p, valid := parsePos(hex); ok && valid {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out, nil
}

// parsePos reads the number in the name of a file.
func parsePos(hex string) (Pos, bool) {
	p, err := strconv.ParseInt(hex, 16, 64)
	return Pos(p), err == nil && len(hex) == 16
}

func list(root *os.Root) ([]string, error) {
	d, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

func (m *Meta) header(at Pos) []byte {
	b := make([]byte, segmentHeader)
	le := binary.LittleEndian
	copy(b, magic)
	le.PutUint32(b[8:], version)
	le.PutUint64(b[16:], uint64(at))
	le.PutUint64(b[24:], m.PID)
	le.PutUint64(b[32:], uint64(m.Start))
	if m.Paired {
		b[40] |= 1
	}
	if m.DB {
		b[40] |= 2
	}
	le.PutUint32(b[12:], checksum(b[16:]))
	return b
}

func parseHeader(b []byte, at Pos) (Meta, error) {
	le := binary.LittleEndian
	switch {
	case len(b) < segmentHeader || string(b[:8]) != magic:
		return Meta{}, errors.New("not a spool segment")
	case le.Uint32(b[8:]) != version:
		return Meta{}, fmt.Errorf("%w %d, this program knows %d", errVersion, le.Uint32(b[8:]), version)
	case le.Uint32(b[12:]) != checksum(b[16:segmentHeader]) || Pos(le.Uint64(b[16:])) != at:
		return Meta{}, errors.New("damaged spool segment header")
	}
	return Meta{PID: le.Uint64(b[24:]), Start: int64(le.Uint64(b[32:])), Paired: b[40]&1 != 0, DB: b[40]&2 != 0}, nil
}
