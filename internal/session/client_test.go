package session

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	dumprecover "memscope/internal/dump/recover"
	"memscope/internal/wire"
	"memscope/internal/wire/wiretest"
)

// handDriven is a client whose turns the test makes itself; its process is proc.
func handDriven(t testing.TB, proc *process, size uint64) (*client, *wiretest.Producer) {
	t.Helper()
	cfg := settings()
	cfg.OutputPath = filepath.Join(t.TempDir(), "out")
	ring, err := wire.NewRing(size)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(newSession(&cfg, nil, nil, io.Discard, os.Getpid()), proc, uint64(proc.pid), ring), &wiretest.Producer{Ring: ring}
}

// sleeper is a process that does nothing.
func sleeper(t *testing.T) *process {
	t.Helper()
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	proc, err := watch(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proc.close)
	return proc
}

func TestPoison(t *testing.T) {
	proc := sleeper(t)
	c, p := handDriven(t, proc, wire.MinBytes)
	const size = uint64(unsafe.Sizeof(wire.Alloc{}))
	pos, _ := p.Reserve(size)
	p.Busy(pos, size, wire.TypeAlloc, uint32(proc.pid)) // a thread that lives
	stuck := func(after time.Duration) bool {
		c.turn()
		c.unstick(time.Now().Add(after))
		return atomic.LoadUint32(&p.Ring.Header().Closed) != 0
	}
	if stuck(0) || stuck(time.Minute) {
		t.Error("shut though nobody waits")
	}
	for wire.MinBytes-p.Ring.Header().Tail >= size {
		p.Alloc(1, wire.Alloc{})
	}
	waited := make(chan bool)
	go func() { waited <- p.Alloc(1, wire.Alloc{}) }()
	for c.reader.Waiters() == 0 {
		time.Sleep(time.Millisecond)
	}
	_ = unix.Kill(proc.pid, unix.SIGSTOP)
	eventually(t, "the process is stopped", proc.stopped)
	if stuck(2 * time.Minute) {
		t.Error("shut though the process is stopped")
	}
	_ = unix.Kill(proc.pid, unix.SIGCONT)
	eventually(t, "the process runs on", func() bool { return !proc.stopped() })
	// the producer's sleep ends every 20 ms for a moment
	eventually(t, "the ring is shut", func() bool { return stuck(3 * time.Minute) })
	if <-waited {
		t.Error("a producer has got space")
	}
}

func TestOverwrittenRing(t *testing.T) {
	c, p := handDriven(t, sleeper(t), wire.MinBytes)
	p.Alloc(1, wire.Alloc{})
	wiretest.Payload[wire.Head](p, 0).Mark |= 0xffff << wire.MarkTypeShift
	go c.run()
	eventually(t, "the ring is shut", func() bool { return atomic.LoadUint32(&p.Ring.Header().Closed) != 0 })
	c.replaced.Store(true)
	<-c.done
	if lost := c.events; lost != 0 {
		t.Errorf("%d events", lost)
	}
}

// A record whose head is whole and whose fields cannot be is debris, too: the ring is shut, and nothing of it becomes a row.
func TestDamagedFields(t *testing.T) {
	for name, damage := range map[string]func(p *wiretest.Producer){
		"pool of a block": func(p *wiretest.Producer) { p.Alloc(1, wire.Alloc{H: wire.Head{Pool: wire.Pools}}) },
		"pool of a free":  func(p *wiretest.Producer) { p.Free(1, wire.TypeFree, wire.Free{H: wire.Head{Pool: 255}}) },
		"pool of an undo": func(p *wiretest.Producer) { p.Free(1, wire.TypeUndo, wire.Free{H: wire.Head{Pool: wire.Pools}}) },
		"pool of a mark": func(p *wiretest.Producer) {
			p.Text(1, wire.TypeMark, 0, 1, "a")
			wiretest.Payload[wire.Head](p, 0).Pool = wire.Pools
		},
		"card of a block": func(p *wiretest.Producer) { p.Alloc(1, wire.Alloc{H: wire.Head{Device: wire.DeviceCPU + 1}}) },
		"card of a step":  func(p *wiretest.Producer) { p.Text(1, wire.TypeStep, 65535, 1, "") },
		"flags":           func(p *wiretest.Producer) { p.Alloc(1, wire.Alloc{H: wire.Head{Flags: 4}}) },
		"length of a mark": func(p *wiretest.Producer) {
			p.Text(1, wire.TypeMark, 0, 1, "a")
			wiretest.Payload[wire.Text](p, 0).Length = 9
		},
		"length of a log": func(p *wiretest.Producer) {
			p.Text(1, wire.TypeLog, 0, 1, "a")
			wiretest.Payload[wire.Text](p, 0).Length = 1 << 31
		},
		"time": func(p *wiretest.Producer) { p.Alloc(1, wire.Alloc{}); wiretest.Payload[wire.Head](p, 0).Stamp = -1 },
		"far time": func(p *wiretest.Producer) {
			p.Alloc(1, wire.Alloc{})
			wiretest.Payload[wire.Head](p, 0).Stamp = 1 << 62
		},
	} {
		c, p := handDriven(t, sleeper(t), wire.MinBytes)
		damage(p)
		p.Alloc(1, wire.Alloc{})
		c.turn()
		if atomic.LoadUint32(&p.Ring.Header().Closed) == 0 || c.damaged != 1 {
			t.Errorf("%s: %d damaged records", name, c.damaged)
		}
		c.drain()
		if c.events != 1 {
			t.Errorf("%s: %d events", name, c.events)
		}
	}
}

// A failure in one pipeline ends that one alone; what it has recorded is not lost.
func TestPanic(t *testing.T) {
	c, p := handDriven(t, sleeper(t), wire.MinBytes)
	heard := make(chan string, 1)
	read, write := io.Pipe()
	c.session.talk = newTalk(write)
	go func() {
		text, _ := io.ReadAll(read)
		heard <- string(text)
	}()
	p.Alloc(1, wire.Alloc{H: wire.Head{Pool: wire.PoolHAL}, Addr: 1 << 20, Size: 512})
	eventually(t, "a row", func() bool { c.turn(); return c.events == 1 })
	fd, err := unix.Dup(int(c.ring.File().Fd()))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := wire.MapRing(os.NewFile(uintptr(fd), "ring"), c.ring.Size()) // as the process has it
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	c.ledger = nil
	p.Alloc(1, wire.Alloc{H: wire.Head{Pool: wire.PoolHAL}, Addr: 2 << 20, Size: 512})
	c.run()
	<-c.done
	c.session.talk.close()
	<-c.session.talk.idle
	write.Close()
	if text := <-heard; strings.Count(text, "has failed inside the tool") != 1 || !strings.Contains(text, fmt.Sprintf("process %d (sleep)", c.pid)) {
		t.Errorf("said %q", text)
	}
	if ring.Header().Closed == 0 {
		t.Error("the ring is open")
	}
	logs, _ := filepath.Glob(filepath.Join(c.session.cfg.OutputPath, "*", "*", "*.log"))
	if len(logs) != 1 {
		t.Fatalf("logs: %q", logs)
	}
	if text, err := os.ReadFile(logs[0]); err != nil || !strings.Contains(string(text), "panic: ") || !strings.Contains(string(text), "client.go:") {
		t.Errorf("log %q (%v)", text, err)
	}
	eventually(t, "the rows so far are written", func() bool { done, total := c.dump.progress(); return done == total })
	if err := c.dump.spool.Close(); err != nil { // as the end of the collector would
		t.Fatal(err)
	}
	// the recovery adds the end of the block
	project := filepath.Dir(filepath.Dir(logs[0]))
	if _, err := dumprecover.Recover(project, dumprecover.Options{}); err != nil {
		t.Error(err)
	}
	files, _ := filepath.Glob(filepath.Join(project, "device_0/dump/*.csv"))
	if len(files) != 1 {
		t.Fatalf("dumps: %q", files)
	}
	text, err := os.ReadFile(files[0])
	if err != nil || strings.Count(string(text), "MALLOC") != 1 || strings.Count(string(text), "FREE") != 1 {
		t.Errorf("dump %q (%v)", text, err)
	}
}

func TestProcess(t *testing.T) {
	for _, how := range []string{"pidfd", "start time"} {
		cmd := exec.Command("sleep", "100")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		proc, err := watch(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "exec", func() bool { return proc.name() == "sleep" })
		if how == "start time" {
			proc.close()
			stat, err := readStat(fmt.Sprintf("/proc/%d/stat", proc.pid))
			if err != nil {
				t.Fatal(err)
			}
			proc.start = stat.start
		}
		if proc.ended() || proc.threadGone(uint32(proc.pid)) || !proc.threadGone(1<<22+1) {
			t.Errorf("%s: a living process counts as dead", how)
		}
		_ = cmd.Process.Kill()
		eventually(t, how+": the zombie counts as dead", proc.ended)
		_ = cmd.Wait()
		if !proc.ended() {
			t.Errorf("%s: a dead process counts as living", how)
		}
		proc.close()
	}
	if _, err := watch(1<<22 + 1); !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EINVAL) {
		t.Errorf("watch of nobody: %v", err)
	}
}

func TestReadStat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stat")
	fields := "12 " + strings.Repeat("0 ", 17) + "4711 0"
	for text, want := range map[string]stat{
		"7 (a) S " + fields:          {'S', 12, "4711"},
		"7 (a) b) (c d) T " + fields: {'T', 12, "4711"},
		"7 (a) S 0":                  {},
		"7 (a) S x " + fields[3:]:    {},
		"":                           {},
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readStat(path); got != want || (err == nil) != (want != stat{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestBudget(t *testing.T) {
	const memory = 27 << 20 // so that twelve rings see the end of it
	b := newBudget()
	b.left = memory
	var rings []*wire.Ring
	var sizes []uint64
	for range 12 {
		ring, err := b.ring()
		if err != nil {
			t.Fatal(err)
		}
		rings = append(rings, ring)
		sizes = append(sizes, ring.Size()>>20)
	}
	want := []uint64{4, 4, 4, 2, 2, 2, 2, 1, 1, 1, 1, 1}
	for i := range want {
		if sizes[i] != want[i] {
			t.Fatalf("rings of %d MiB, want %d", sizes, want)
		}
	}
	b.left = 0
	if ring, err := b.ring(); err != nil || ring.Size() != wire.MinBytes {
		t.Errorf("with nothing left: %v", err)
	} else if err := b.give(ring); err != nil {
		t.Error(err)
	}
	b.left = memory
	for _, ring := range rings {
		b.left -= int64(ring.Size())
	}
	for _, ring := range rings {
		if err := b.give(ring); err != nil {
			t.Error(err)
		}
	}
	if b.left != memory {
		t.Errorf("%d bytes are left", b.left)
	}
}
