package wire

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ring is the shared memory of one client, as the collector sees it: the header, and the data area twice in a row.
type Ring struct {
	file *os.File // nil after CloseFile
	base unsafe.Pointer
	span uintptr // mapped bytes
	size uint64  // data bytes, a power of two
}

// NewRing makes a ring of size data bytes (a power of two, at least MinBytes) whose memory is really allocated.
func NewRing(size uint64) (*Ring, error) {
	if size < MinBytes || size&(size-1) != 0 {
		return nil, fmt.Errorf("ring of %d bytes: not a power of two from %d up", size, MinBytes)
	}
	file, err := newMemory()
	if err != nil {
		return nil, err
	}
	fd := int(file.Fd())
	if err := unix.Fallocate(fd, 0, 0, int64(HeaderBytes+size)); err != nil {
		file.Close()
		return nil, fmt.Errorf("allocate a ring of %d bytes: %w", size, err)
	}
	// Without seals a target that shortens its copy would kill the collector by SIGBUS. The fallback file has none.
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	r, err := MapRing(file, size)
	if err != nil {
		file.Close()
		return nil, err
	}
	h := r.Header()
	h.Magic, h.Version, h.Size = Magic, Version, size
	return r, nil
}

// newMemory opens an empty file that lives in memory only.
func newMemory() (*os.File, error) {
	fd, err := unix.MemfdCreate("msmemscope-ring", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err == nil {
		return os.NewFile(uintptr(fd), "msmemscope-ring"), nil
	}
	if err != unix.ENOSYS { // Linux before 3.17
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	return newSharedFile()
}

// newSharedFile opens a file without a name in the file system for shared memory.
func newSharedFile() (*os.File, error) {
	file, err := os.CreateTemp("/dev/shm", "msmemscope-ring-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// MapRing maps the ring of size data bytes that file holds: the header and the data, then the data once more behind it, so
// that no record is ever in two pieces.
func MapRing(file *os.File, size uint64) (*Ring, error) {
	span := uintptr(HeaderBytes + 2*size)
	base, err := unix.MmapPtr(-1, 0, nil, span, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of addresses: %w", span, err)
	}
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_FIXED
	fd := int(file.Fd())
	_, err = unix.MmapPtr(fd, 0, base, uintptr(HeaderBytes+size), prot, flags)
	if err == nil {
		_, err = unix.MmapPtr(fd, HeaderBytes, unsafe.Add(base, HeaderBytes+size), uintptr(size), prot, flags)
	}
	if err != nil {
		_ = unix.MunmapPtr(base, span)
		return nil, fmt.Errorf("map a ring of %d bytes: %w", size, err)
	}
	return &Ring{file: file, base: base, span: span, size: size}, nil
}

// Header is the shared header. Every field but magic, version and size changes under the reader's feet: use sync/atomic.
func (r *Ring) Header() *Header { return (*Header)(r.base) }

// Size is the number of data bytes.
func (r *Ring) Size() uint64 { return r.size }

// File is the memory as a file, to be sent to the client.
func (r *Ring) File() *os.File { return r.file }

// CloseFile closes the collector's descriptor; the mapping stays.
func (r *Ring) CloseFile() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// Close unmaps the ring. The memory is free once the client has unmapped it, too.
func (r *Ring) Close() error {
	r.CloseFile()
	return unix.MunmapPtr(r.base, r.span)
}

// Beat tells producers that the collector lives.
func (r *Ring) Beat() { atomic.AddUint64(&r.Header().Heartbeat, 1) }

// Shut makes producers pass through for good and wakes those that wait.
func (r *Ring) Shut() {
	atomic.StoreUint32(&r.Header().Closed, 1)
	r.wake()
}

// EndWatch makes the process dump no tensors any more.
func (r *Ring) EndWatch() { atomic.StoreUint32(&r.Header().Unwatched, 1) }

// wake wakes every producer that waits for space.
func (r *Ring) wake() {
	h := r.Header()
	atomic.AddUint32(&h.Space, 1)
	const futexWake = 1 // FUTEX_WAKE; not private, the word is shared between processes
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&h.Space)), futexWake, 1<<30, 0, 0, 0)
}

// at is the address of a position in the first copy of the data.
func (r *Ring) at(pos uint64) unsafe.Pointer {
	return unsafe.Add(r.base, HeaderBytes+uintptr(pos&(r.size-1)))
}

func (r *Ring) mark(pos uint64) uint64 { return atomic.LoadUint64((*uint64)(r.at(pos))) }
