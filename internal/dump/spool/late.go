package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"memscope/internal/event"
	"memscope/internal/output"
)

// What is learned of a MALLOC after it was stored lies beside the segments, found by its allocation id:
//
//	spool/<id>.late   slots for lateSlots allocation ids, from the one that names the file (16 hex digits); 8 bytes each
//	spool/owners      texts: length u16, bytes
//
// A slot is: 1 + the place of the owner in owners (32 bits), Waste (8 bits), zeros; 0 says that nothing was learned. The slots
// are written through a mapping, so they outlive a killed process as everything flushed does, cost no system call each, and no
// memory but the kernel's cache, however long ago a block was allocated. Nothing here is needed to give an event its row:
// what cannot be read counts as not learned.
const (
	lateSlots  = 1 << 17
	lateBytes  = lateSlots * 8
	lateSuffix = ".late"
	ownersName = "owners"

	mostMapped = 64      // files that a writer has mapped
	mostOwners = 1 << 16 // texts that a writer remembers the places of
	wasteShift = 32
)

func lateName(id uint64) string { return fmt.Sprintf("%016x%s", id&^(lateSlots-1), lateSuffix) }

// lateWriter is the writing side. It belongs to the goroutine of its Writer.
type lateWriter struct {
	root   *os.Root
	mapped map[uint64][]byte // by first id
	owners *os.File
	end    int64             // of owners
	places map[string]uint32 // in owners
	err    error
}

// SetOwner makes owner that of the MALLOC with an allocation id, which is stored already. A reader that loads its block from here on
// sees it. After a failure every call answers the same *StoppedError.
func (w *Writer) SetOwner(id uint64, owner string) error {
	return w.late.change(w.root, id, func(slot uint64) (uint64, error) {
		place, err := w.late.place(owner)
		return slot&^(1<<wasteShift-1) | uint64(place), err
	})
}

// SetWaste is SetOwner for Waste.
func (w *Writer) SetWaste(id uint64, waste event.Waste) error {
	return w.late.change(w.root, id, func(slot uint64) (uint64, error) {
		return slot&(1<<wasteShift-1) | uint64(waste)<<wasteShift, nil
	})
}

func (l *lateWriter) change(root *os.Root, id uint64, change func(slot uint64) (uint64, error)) error {
	if l.err != nil {
		return l.err
	}
	l.root = root
	if err := l.store(id, change); err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		l.err = &StoppedError{Path: root.Name(), Err: err}
	}
	return l.err
}

// store changes a slot. A disk that breaks its promise of space makes a fault, which is an error here.
func (l *lateWriter) store(id uint64, change func(slot uint64) (uint64, error)) (err error) {
	data, err := l.slots(id)
	if err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v", fault)
		}
	}()
	slot := (*uint64)(unsafe.Pointer(&data[id%lateSlots*8]))
	value, err := change(atomic.LoadUint64(slot))
	if err == nil {
		atomic.StoreUint64(slot, value)
	}
	return err
}

// slots maps the file that has the slot of id.
func (l *lateWriter) slots(id uint64) ([]byte, error) {
	first := id &^ (lateSlots - 1)
	if data, ok := l.mapped[first]; ok {
		return data, nil
	}
	if len(l.mapped) >= mostMapped {
		l.unmap()
	}
	f, err := output.OpenRegular(l.root, lateName(id), os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := allocate(f); err != nil {
		return nil, err
	}
	data, err := unix.Mmap(int(f.Fd()), 0, lateBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	if l.mapped == nil {
		l.mapped = make(map[uint64][]byte)
	}
	l.mapped[first] = data
	return data, nil
}

// allocate gives a file all of its space, so that a full disk is an error here and not a fault later.
func allocate(f *os.File) error {
	info, err := f.Stat()
	if err != nil || info.Size() == lateBytes {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, lateBytes)
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = f.WriteAt(make([]byte, lateBytes), 0)
	}
	return err
}

// place is 1 + where a text lies in owners; it is put there when it is new.
func (l *lateWriter) place(owner string) (uint32, error) {
	if at, ok := l.places[owner]; ok {
		return at, nil
	}
	if l.owners == nil {
		var err error
		if l.owners, err = l.root.OpenFile(ownersName, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode); err != nil {
			return 0, err
		}
	}
	if l.places == nil || len(l.places) >= mostOwners {
		l.places = make(map[string]uint32)
	}
	text := owner[:min(len(owner), MaxName)]
	if l.end+2+int64(len(text)) >= 1<<wasteShift {
		return 0, errors.New("too many different owners")
	}
	b := binary.LittleEndian.AppendUint16(nil, uint16(len(text)))
	if _, err := l.owners.WriteAt(append(b, text...), l.end); err != nil {
		return 0, err
	}
	place := uint32(l.end) + 1
	l.places[strings.Clone(owner)] = place
	l.end += 2 + int64(len(text))
	return place, nil
}

func (l *lateWriter) unmap() {
	for first, data := range l.mapped {
		_ = unix.Munmap(data)
		delete(l.mapped, first)
	}
}

func (l *lateWriter) close() {
	l.unmap()
	if l.owners != nil {
		l.owners.Close()
		l.owners = nil
	}
}

// lateWindow is the number of slots that are read at once, for the events of a block.
const lateWindow = 4 << 10

// lateReader is the reading side.
type lateReader struct {
	slots  *os.File
	first  uint64 // id of the first slot of the file
	last   uint64 // newest id that was asked for
	window []byte
	begin  uint64 // id of the first slot in window
	owners *os.File
	texts  map[uint32]string
}

// refresh forgets what may have changed since it was read.
func (l *lateReader) refresh() { l.window = l.window[:0] }

// complete puts into a MALLOC what was learned later.
func (l *lateReader) complete(root *os.Root, ev *event.Event) {
	if ev.Kind != event.Malloc || ev.Flags&event.Shadow != 0 || ev.AllocID == 0 {
		return
	}
	l.last = max(l.last, ev.AllocID)
	if ev.AllocID < l.begin || ev.AllocID-l.begin >= uint64(len(l.window)/8) {
		l.read(root, ev.AllocID)
	}
	slot := binary.NativeEndian.Uint64(l.window[(ev.AllocID-l.begin)*8:])
	if slot == 0 {
		return
	}
	ev.Waste |= event.Waste(slot >> wasteShift)
	if owner := l.owner(root, uint32(slot)); owner != "" {
		ev.Owner = owner
	}
}

// read fills the window from the slot of id on; slots that are not there are zero.
func (l *lateReader) read(root *os.Root, id uint64) {
	if first := id &^ (lateSlots - 1); l.slots != nil && first != l.first {
		l.slots.Close()
		l.slots = nil
	}
	if l.slots == nil {
		l.slots, _ = output.OpenRegular(root, lateName(id), os.O_RDONLY)
		l.first = id &^ (lateSlots - 1)
	}
	if l.window == nil {
		l.window = make([]byte, lateWindow*8)
	}
	l.begin, l.window = id, l.window[:min(lateWindow, lateSlots-id%lateSlots)*8]
	n := 0
	if l.slots != nil {
		n, _ = l.slots.ReadAt(l.window, int64(id%lateSlots*8))
	}
	clear(l.window[n:])
}

// owner reads the text at a place, which is 1 more than its position.
func (l *lateReader) owner(root *os.Root, place uint32) string {
	if text, ok := l.texts[place]; ok || place == 0 {
		return text
	}
	if l.owners == nil {
		if l.owners, _ = output.OpenRegular(root, ownersName, os.O_RDONLY); l.owners == nil {
			return ""
		}
	}
	var length [2]byte
	if _, err := l.owners.ReadAt(length[:], int64(place)-1); err != nil {
		return ""
	}
	text := make([]byte, min(int(binary.LittleEndian.Uint16(length[:])), MaxName))
	if n, err := l.owners.ReadAt(text, int64(place)+1); n < len(text) || err != nil && err != io.EOF {
		return ""
	}
	if l.texts == nil || len(l.texts) >= internMax {
		l.texts = make(map[uint32]string)
	}
	l.texts[place] = string(text)
	return l.texts[place]
}

// dropBefore deletes the files of ids that lie below all that are still to be read: ids ascend.
func (l *lateReader) dropBefore(root *os.Root) error {
	names, err := list(root)
	if err != nil {
		return err
	}
	for _, name := range names {
		hex, ok := strings.CutSuffix(name, lateSuffix)
		if first, valid := parsePos(hex); ok && valid && uint64(first)+lateSlots <= l.last {
			if err := root.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *lateReader) close() {
	if l.slots != nil {
		l.slots.Close()
	}
	if l.owners != nil {
		l.owners.Close()
	}
}
