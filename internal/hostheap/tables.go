package hostheap

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Limits is how large the tables of one process are made. The zero value of a field stands for the constant of the same name.
type Limits struct {
	Slots, Index, Stacks, Natives, Pythons, Lookup, Modules, Spares, Directory uint32

	TextBytes, ArenaBytes  uint64
	Blocks, OverflowBlocks uint64

	NativeDepth, PythonDepth uint32 // frames of a stack; 0: depthDefault; NoPython: no Python frames
}

// depthDefault is K of contract 6.2.
const depthDefault = 20

// NoPython as a PythonDepth keeps Python frames out.
const NoPython = 1 << 31

func (l *Limits) fill() {
	or := func(v *uint32, value uint32) {
		if *v == 0 {
			*v = value
		}
	}
	or(&l.Slots, Slots)
	or(&l.Index, Index)
	or(&l.Stacks, Stacks)
	or(&l.Natives, Natives)
	or(&l.Pythons, Pythons)
	or(&l.Lookup, Lookup)
	or(&l.Modules, Modules)
	or(&l.Spares, Spares)
	or(&l.Directory, Directory)
	or(&l.NativeDepth, depthDefault)
	or(&l.PythonDepth, depthDefault)
	if l.PythonDepth == NoPython {
		l.PythonDepth = 0
	}
	or64 := func(v *uint64, value uint64) {
		if *v == 0 {
			*v = value
		}
	}
	or64(&l.TextBytes, TextBytes)
	or64(&l.ArenaBytes, ArenaMiB<<20)
	or64(&l.Blocks, Blocks)
	or64(&l.OverflowBlocks, OverflowBlocks)
}

// Tables is the shared memory of one process. What the hook has written may be anything, so every place that is taken from there is
// looked at before it is used; the sizes of the sections are our own copy. Methods that read may be called while the target runs.
type Tables struct {
	file *os.File // nil after CloseFile
	base unsafe.Pointer
	size uint64
	h    Header // the description of the sections as it was made
}

// NewTables makes the tables of a process. They are a file in memory without any page yet: those come as the hook touches them.
func NewTables(l Limits) (*Tables, error) {
	l.fill()
	t := &Tables{}
	h := &t.h
	h.Magic, h.Version = Magic, Version
	h.Slots, h.Index, h.Stacks, h.Natives, h.Pythons = l.Slots, l.Index, l.Stacks, l.Natives, l.Pythons
	h.Modules, h.Lookup, h.Spares, h.Directory = l.Modules, l.Lookup, l.Spares, l.Directory
	h.Native_depth, h.Python_depth, h.Text_bytes, h.Arena_bytes = l.NativeDepth, l.PythonDepth, l.TextBytes, l.ArenaBytes
	h.Blocks_most, h.Overflow_most = l.Blocks, l.OverflowBlocks
	h.Stack_bytes = (uint32(unsafe.Sizeof(Stack{})) + 4*(l.NativeDepth+l.PythonDepth) + 7) &^ 7
	end := align(uint64(unsafe.Sizeof(*h)))
	place := func(at *uint64, bytes uint64) {
		*at = end
		end = align(end + bytes)
	}
	place(&h.Slots_at, uint64(h.Slots)*uint64(unsafe.Sizeof(Slot{})))
	place(&h.Index_at, uint64(h.Index)*8)
	place(&h.Stacks_at, uint64(h.Stacks)*uint64(h.Stack_bytes))
	place(&h.Natives_at, uint64(h.Natives)*8)
	place(&h.Pythons_at, uint64(h.Pythons)*uint64(unsafe.Sizeof(PythonLine{})))
	place(&h.Modules_at, uint64(h.Modules)*uint64(unsafe.Sizeof(Module{})))
	place(&h.Lookup_at, uint64(h.Lookup)*4)
	place(&h.Text_at, h.Text_bytes)
	place(&h.Spares_at, uint64(h.Spares)*4)
	place(&h.Directory_at, uint64(h.Directory)*4)
	place(&h.Arena_at, h.Arena_bytes)
	h.Bytes = end

	fd, err := unix.MemfdCreate("msmemscope-heap", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	t.file = os.NewFile(uintptr(fd), "msmemscope-heap")
	if err := unix.Ftruncate(fd, int64(end)); err != nil {
		t.file.Close()
		return nil, fmt.Errorf("a table of %d bytes: %w", end, err)
	}
	// Without seals a target that shortens its copy would kill the collector by SIGBUS.
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	if strictMemory() { // a touch that finds no memory is SIGBUS there; of the arena the hook makes sure
		if err := unix.Fallocate(fd, 0, 0, int64(h.Arena_at)); err != nil {
			t.file.Close()
			return nil, fmt.Errorf("allocate %d bytes: %w", h.Arena_at, err)
		}
	}
	if t.base, err = unix.MmapPtr(fd, 0, nil, uintptr(end), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.file.Close()
		return nil, fmt.Errorf("map %d bytes: %w", end, err)
	}
	t.size = end
	*t.Header() = t.h
	return t, nil
}

// strictMemory says that the system gives no memory that it may not have.
func strictMemory() bool {
	text, _ := os.ReadFile("/proc/sys/vm/overcommit_memory")
	return len(text) > 0 && text[0] == '2'
}

func align(n uint64) uint64 { return (n + Align - 1) &^ (Align - 1) }

// Header is the shared header; every field but the description of the sections changes under the reader's feet.
func (t *Tables) Header() *Header { return (*Header)(t.base) }

// Size is the length of the whole, bytes.
func (t *Tables) Size() uint64 { return t.size }

// File is the memory as a file, to be sent to the process.
func (t *Tables) File() *os.File { return t.file }

// Close gives the memory back, once the process has unmapped it, too.
func (t *Tables) Close() error {
	t.file.Close()
	return unix.MunmapPtr(t.base, uintptr(t.size))
}

// at is the T at an offset, nil when it does not lie inside whole.
func at[T any](t *Tables, offset uint64) *T {
	var v T
	if offset > t.size || t.size-offset < uint64(unsafe.Sizeof(v)) || offset%uint64(unsafe.Alignof(v)) != 0 {
		return nil
	}
	return (*T)(unsafe.Add(t.base, offset))
}

// slice is n elements from an offset on, nil when they do not lie inside.
func slice[T any](t *Tables, offset, n uint64) []T {
	var v T
	if offset > t.size || n > (t.size-offset)/uint64(unsafe.Sizeof(v)) || offset%uint64(unsafe.Alignof(v)) != 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Add(t.base, offset)), n)
}

// arena is n elements at an arena unit, nil for none.
func arena[T any](t *Tables, unit uint32, n uint64) []T {
	offset := uint64(unit) * Unit
	if unit == 0 || offset >= t.h.Arena_bytes {
		return nil
	}
	return slice[T](t, t.h.Arena_at+offset, n)
}

// stackCount is the number of stack ids that were ever given out, those without a record included.
func (t *Tables) stackCount() uint32 {
	return max(min(atomic.LoadUint32(&t.Header().Stack_next), t.h.Stacks), StackFirst)
}

// slots are the threads' counters that were ever used.
func (t *Tables) slots() []Slot {
	high := min(max(atomic.LoadUint32(&t.Header().Slot_high), 1), t.h.Slots)
	return slice[Slot](t, t.h.Slots_at, uint64(high))
}
