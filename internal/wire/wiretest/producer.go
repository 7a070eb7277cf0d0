// Package wiretest plays the target's side of the wire protocol in tests: the hello, and a producer whose steps can be made
// one by one, so that a test can stop in any of them.
package wiretest

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"memscope/internal/wire"
)

// Producer writes records into one ring. Its methods may be called from several goroutines at once.
type Producer struct {
	Ring *wire.Ring
}

// Connect introduces the calling process to the session called name, as process pid, and returns a producer on its ring. The
// error names the answer when the session refuses.
func Connect(name string, pid int) (*Producer, wire.Welcome, error) {
	var w wire.Welcome
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: "@" + name})
	if err != nil {
		return nil, w, err
	}
	defer conn.Close()
	hello := wire.Hello{Magic: wire.Magic, Version: wire.Version, Pid: int32(pid)}
	if _, err := conn.Write(bytesOf(&hello)); err != nil {
		return nil, w, err
	}
	control := make([]byte, unix.CmsgSpace(4))
	n, cn, _, _, err := conn.ReadMsgUnix(bytesOf(&w), control)
	if err != nil {
		return nil, w, err
	}
	if n != int(unsafe.Sizeof(w)) || w.Magic != wire.Magic || w.Answer != wire.Accepted {
		return nil, w, fmt.Errorf("%d bytes of welcome, answer %d", n, w.Answer)
	}
	messages, err := unix.ParseSocketControlMessage(control[:cn])
	if err != nil || len(messages) != 1 {
		return nil, w, fmt.Errorf("welcome with %d control messages: %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, w, fmt.Errorf("welcome with %d descriptors: %v", len(fds), err)
	}
	ring, err := wire.MapRing(os.NewFile(uintptr(fds[0]), "ring"), w.Size)
	if err != nil {
		return nil, w, err
	}
	ring.CloseFile()
	return &Producer{Ring: ring}, w, nil
}

// epoch is a moment on Go's clock, and the same moment, or a little later, on CLOCK_MONOTONIC.
var epoch = struct {
	time time.Time
	mono int64
}{time.Now(), monotonic()}

func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

// Now is CLOCK_MONOTONIC in ns, or a moment later, at the price of Go's clock: a stamp is never before its reservation.
func Now() int64 { return epoch.mono + int64(time.Since(epoch.time)) }

// Reserve takes size bytes (a multiple of 8) of the ring, waiting for space, and returns their position. A closed ring gives false.
func (p *Producer) Reserve(size uint64) (uint64, bool) {
	h := p.Ring.Header()
	for {
		if atomic.LoadUint32(&h.Closed) != 0 {
			return 0, false
		}
		head, tail := atomic.LoadUint64(&h.Head), atomic.LoadUint64(&h.Tail)
		if tail+size-head > p.Ring.Size() {
			p.wait(size)
			continue
		}
		if atomic.CompareAndSwapUint64(&h.Tail, tail, tail+size) {
			return tail, true
		}
	}
}

// wait sleeps until there may be size bytes of space.
func (p *Producer) wait(size uint64) {
	h := p.Ring.Header()
	start := time.Now()
	atomic.AddUint32(&h.Waiters, 1)
	space := atomic.LoadUint32(&h.Space)
	if atomic.LoadUint64(&h.Tail)+size-atomic.LoadUint64(&h.Head) > p.Ring.Size() {
		const futexWait = 0
		timeout := unix.NsecToTimespec(int64(20 * time.Millisecond))
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&h.Space)), futexWait, uintptr(space),
			uintptr(unsafe.Pointer(&timeout)), 0, 0)
	}
	atomic.AddUint32(&h.Waiters, ^uint32(0))
	atomic.AddUint64(&h.Count, 1)
	atomic.AddUint64(&h.Ns, uint64(time.Since(start)))
}

// Busy marks the reserved bytes as a record in the making and stamps it.
func (p *Producer) Busy(pos, size uint64, typ uint16, tid uint32) {
	h := (*wire.Head)(p.at(pos))
	h.Pos = pos
	atomic.StoreUint64(&h.Mark, mark(wire.StateBusy, size, typ, tid))
	h.Stamp = Now()
}

// Publish makes a BUSY record READY.
func (p *Producer) Publish(pos uint64) {
	h := (*wire.Head)(p.at(pos))
	const states = wire.StateBusy | wire.StateReady
	atomic.StoreUint64(&h.Mark, h.Mark&^(states<<wire.MarkStateShift)|wire.StateReady<<wire.MarkStateShift)
}

// Payload is the record at pos as a struct of wire, to be filled between Busy and Publish.
func Payload[T any](p *Producer, pos uint64) *T { return (*T)(p.at(pos)) }

// Alloc publishes an allocation. Head, except device, pool and flags, is filled in. It returns false on a closed ring.
func (p *Producer) Alloc(tid uint32, a wire.Alloc) bool {
	const size = uint64(unsafe.Sizeof(a))
	pos, ok := p.Reserve(size)
	if !ok {
		return false
	}
	p.Busy(pos, size, wire.TypeAlloc, tid)
	to := Payload[wire.Alloc](p, pos)
	to.H.Device, to.H.Pool, to.H.Flags = a.H.Device, a.H.Pool, a.H.Flags
	to.Addr, to.Size, to.Detail, to.Total = a.Addr, a.Size, a.Detail, a.Total
	p.Publish(pos)
	return true
}

// Free publishes a free or, with typ TypeUndo, takes it back.
func (p *Producer) Free(tid uint32, typ uint16, f wire.Free) bool {
	const size = uint64(unsafe.Sizeof(f))
	pos, ok := p.Reserve(size)
	if !ok {
		return false
	}
	p.Busy(pos, size, typ, tid)
	to := Payload[wire.Free](p, pos)
	to.H.Device, to.H.Pool, to.H.Flags = f.H.Device, f.H.Pool, f.H.Flags
	to.Addr, to.Total = f.Addr, f.Total
	p.Publish(pos)
	return true
}

// Text publishes any other record.
func (p *Producer) Text(tid uint32, typ, device uint16, value uint64, text string) bool {
	size := (uint64(unsafe.Sizeof(wire.Text{})) + uint64(len(text)) + wire.RecordAlign - 1) &^ (wire.RecordAlign - 1)
	pos, ok := p.Reserve(size)
	if !ok {
		return false
	}
	p.Busy(pos, size, typ, tid)
	to := Payload[wire.Text](p, pos)
	to.H.Device, to.Value, to.Length = device, value, uint32(len(text))
	copy(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(to), unsafe.Sizeof(*to))), len(text)), text)
	p.Publish(pos)
	return true
}

func (p *Producer) at(pos uint64) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(p.Ring.Header()), wire.HeaderBytes+uintptr(pos&(p.Ring.Size()-1)))
}

func mark(state, size uint64, typ uint16, tid uint32) uint64 {
	return state<<wire.MarkStateShift | size/wire.RecordAlign<<wire.MarkWordsShift | uint64(typ)<<wire.MarkTypeShift | uint64(tid)
}

func bytesOf[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }
