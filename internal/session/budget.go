package session

import (
	"bufio"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"memscope/internal/control"
	"memscope/internal/wire"
)

const (
	sessionBytes = 200 << 20 // all rings of a session (contract 1.9)
	largestShare = 4 << 20   // what the caches hold: a ring of 32 MiB costs 20 ns more for each record, in misses and page faults
	spareBytes   = 64 << 20  // what a ring must leave free on the machine: a lack of memory kills processes, not allocations
)

// The launcher, which checks EnvRingBytes, is built without package wire.
var _ [control.MinRingBytes - wire.MinBytes]struct{}
var _ [wire.MinBytes - control.MinRingBytes]struct{}

// errMemory means that there is no memory for a ring.
var errMemory = errors.New("no memory for a ring")

// budget shares the memory for rings out to the processes of a session.
type budget struct {
	fixed uint64 // bytes of every ring, 0 when shared

	mu   sync.Mutex
	left int64
}

func newBudget() *budget {
	return &budget{left: sessionBytes, fixed: uint64(setting(control.EnvRingBytes, control.MinRingBytes, control.MaxRingBytes, 0))}
}

// ring makes the ring of a new client: a quarter of what is left, less where memory is short.
func (b *budget) ring() (*wire.Ring, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	want := b.fixed
	if want == 0 {
		want = min(uint64(max(b.left, 0))/4, largestShare)
	}
	want = 1 << (bits.Len64(max(want, wire.MinBytes)) - 1)
	var last error
	for size := want; size >= wire.MinBytes; size /= 2 {
		if free := availableBytes(); free < size+spareBytes {
			last = fmt.Errorf("%w of %d bytes: %d bytes are available", errMemory, size, free)
			continue
		}
		ring, err := wire.NewRing(size)
		if err == nil {
			b.left -= int64(size)
			return ring, nil
		}
		if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.ENOMEM) && !errors.Is(err, unix.EFBIG) { // EFBIG: ulimit -f
			return nil, err
		}
		last = fmt.Errorf("%w: %w", errMemory, err)
	}
	return nil, last
}

// give takes a ring back.
func (b *budget) give(ring *wire.Ring) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += int64(ring.Size())
	return ring.Close()
}

// availableBytes is what the machine can still give without swapping; where it does not tell, more than enough.
func availableBytes() uint64 {
	const plenty = 1 << 62
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return plenty
	}
	defer file.Close()
	for scan := bufio.NewScanner(file); scan.Scan(); {
		if rest, ok := strings.CutPrefix(scan.Text(), "MemAvailable:"); ok {
			if kb, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64); err == nil {
				return kb << 10
			}
		}
	}
	return plenty
}
