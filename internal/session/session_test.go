package session

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"memscope/internal/config"
	"memscope/internal/control"
	"memscope/internal/wire"
	"memscope/internal/wire/wiretest"
)

func hal(device, module, bits uint64) uint64 {
	return device | 1<<flagSpaceShift | module<<flagModuleShift | bits
}

func init() {
	// named: gives itself a name that clears a screen and records a block
	children["named"] = func(p *wiretest.Producer, _ []string) {
		_ = os.WriteFile("/proc/self/comm", []byte("a\x1b[2J\nb"), 0)
		children["hello"](p, []string{"1"})
		fmt.Println("ready")
		block()
	}
	// hello ROUNDS: allocates and frees on card 2, leaves one block, and exits
	children["hello"] = func(p *wiretest.Producer, args []string) {
		rounds, _ := strconv.Atoi(args[0])
		tid := uint32(os.Getpid())
		for i := range rounds {
			a := wire.Alloc{Addr: 0x1000, Size: 512, Detail: hal(2, 33, flagHuge)}
			a.H.Pool = wire.PoolHAL
			p.Alloc(tid, a)
			f := wire.Free{Addr: 0x1000}
			f.H.Pool, f.H.Device = wire.PoolHAL, wire.DeviceNone
			if i < rounds-1 {
				p.Free(tid, wire.TypeFree, f)
			}
		}
	}
	// script LETTERS: one record per letter, see TestDeaths in wire; then "ready", and waits for its death
	children["script"] = func(p *wiretest.Producer, args []string) {
		const size = uint64(unsafe.Sizeof(wire.Alloc{}))
		tid := uint32(os.Getpid())
		for i, step := range args[0] {
			pos, _ := p.Reserve(size)
			if step == 'B' || step == 'R' {
				p.Busy(pos, size, wire.TypeAlloc, tid)
			}
			if step == 'R' {
				a := wiretest.Payload[wire.Alloc](p, pos)
				a.H.Pool, a.Addr, a.Size, a.Detail = wire.PoolHAL, uint64(0x1000+0x1000*i), 100, hal(0, 33, 0)
				p.Publish(pos)
			}
		}
		fmt.Println("ready")
		block()
	}
	// deadthread: a record of a thread that does not exist is in the way of the next one
	children["deadthread"] = func(p *wiretest.Producer, _ []string) {
		const size = uint64(unsafe.Sizeof(wire.Alloc{}))
		pos, _ := p.Reserve(size)
		p.Busy(pos, size, wire.TypeAlloc, 1<<22+1) // beyond the largest thread id
		a := wire.Alloc{Addr: 0x5000, Size: 1, Detail: hal(0, 33, 0)}
		a.H.Pool = wire.PoolHAL
		p.Alloc(uint32(os.Getpid()), a)
		fmt.Println("ready")
		block()
	}
	// strange: a block of card 0 that is freed, and frees of blocks that nobody has seen
	children["strange"] = func(p *wiretest.Producer, _ []string) {
		for _, pool := range []uint8{wire.PoolHAL, wire.PoolPTA, wire.PoolATB} {
			f := wire.Free{Addr: 0x7000}
			f.H.Pool, f.H.Device = pool, wire.DeviceNone
			p.Free(1, wire.TypeFree, f)
		}
		a := wire.Alloc{Addr: 0x1000, Size: 64, Total: 128}
		a.H.Pool = wire.PoolPTA
		p.Alloc(1, a)
		f := wire.Free{Addr: 0x1000, Total: 128}
		f.H.Pool, f.H.Device = wire.PoolPTA, wire.DeviceNone
		p.Free(1, wire.TypeFree, f)
	}
	// talker: a block whose free fails, between two lines for the log
	children["talker"] = func(p *wiretest.Producer, _ []string) {
		p.Text(1, wire.TypeLog, wire.DeviceNone, wire.LogWarn, "before")
		a := wire.Alloc{Addr: 0x1000, Size: 64, Detail: hal(0, 33, 0)}
		a.H.Pool = wire.PoolHAL
		p.Alloc(1, a)
		f := wire.Free{Addr: 0x1000}
		f.H.Pool, f.H.Device = wire.PoolHAL, wire.DeviceNone
		p.Free(1, wire.TypeFree, f)
		p.Free(1, wire.TypeUndo, f)
		p.Text(1, wire.TypeLog, wire.DeviceNone, 99, "behind")
	}
	// storm THREADS EVENTS: that many pairs of events in each thread
	children["storm"] = func(p *wiretest.Producer, args []string) {
		threads, _ := strconv.Atoi(args[0])
		events, _ := strconv.Atoi(args[1])
		var wg sync.WaitGroup
		for id := range threads {
			wg.Go(func() {
				a := wire.Alloc{Addr: uint64(id+1) << 32, Size: 64, Detail: hal(0, 33, 0)}
				a.H.Pool = wire.PoolHAL
				f := wire.Free{}
				f.H.Pool, f.H.Device = wire.PoolHAL, wire.DeviceNone
				for range events {
					a.Addr += 64
					f.Addr = a.Addr
					p.Alloc(uint32(id), a)
					p.Free(uint32(id), wire.TypeFree, f)
				}
			})
		}
		wg.Wait()
	}
}

func settings() config.Config {
	cfg := config.Default()
	cfg.Events |= config.Alloc | config.Free
	return cfg
}

func hasLine(lines []string, part string) bool {
	for _, l := range lines {
		if strings.Contains(l, part) {
			return true
		}
	}
	return false
}

func TestOneProcess(t *testing.T) {
	r := startRun(t, settings())
	c := r.child("hello 3")
	pid := c.cmd.Process.Pid
	c.wait()
	lines := r.conclude()
	if r.done.Collected != 1 || r.done.Living != 0 {
		t.Errorf("done: %+v", *r.done)
	}
	for _, want := range []string{"create file", "Config into file", "logging into file"} {
		if !hasLine(lines, want) {
			t.Errorf("no line with %q in %q", want, lines)
		}
	}
	rows := r.dumps(pid)["device_2"]
	if len(rows) != 6 {
		t.Fatalf("%d rows: %q", len(rows), rows)
	}
	first, last := rows[0], rows[5]
	if first[colEvent] != "MALLOC" || first[colType] != "HAL" || first[colPID] != strconv.Itoa(pid) ||
		first[colDevice] != "2" || first[colPtr] != "0x0000000000001000" ||
		!strings.Contains(first[colAttr], "size:512,used:512,page_type:huge,alloc_type:alloc") {
		t.Errorf("first row: %q", first)
	}
	if last[colEvent] != "FREE" || !strings.Contains(last[colAttr], "shadow:true") {
		t.Errorf("last row: %q", last)
	}
	stamp, _ := strconv.ParseInt(first[colStamp], 10, 64)
	if age := time.Since(time.Unix(0, stamp)); age < 0 || age > time.Minute {
		t.Errorf("the first row is %v old", age)
	}
	if spools, _ := filepath.Glob(filepath.Join(r.output, "*", "spool")); len(spools) != 0 {
		t.Errorf("left behind: %q", spools)
	}
}

func TestNobodyComes(t *testing.T) {
	r := startRun(t, settings())
	if lines := r.conclude(); len(lines) != 0 || r.report != "" || r.done.Collected != 0 {
		t.Errorf("lines %q, report %q, %+v", lines, r.report, *r.done)
	}
	if _, err := os.Stat(r.output); !os.IsNotExist(err) {
		t.Errorf("%s: %v", r.output, err)
	}
}

// A process without one of the chosen steps is said to have none, and that step() makes none.
func TestStepsNeverBegun(t *testing.T) {
	cfg := settings()
	cfg.Steps = []uint32{2}
	r := startRun(t, cfg)
	r.child("hello 0").wait()
	if lines := r.conclude(); len(lines) != 1 || !strings.Contains(lines[0], "the process has begun 0 of them; calls of msmemscope.step() do not count") {
		t.Errorf("lines %q", lines)
	}
}

// A process that connects and records nothing leaves nothing behind, and is said to.
func TestSilentProcess(t *testing.T) {
	r := startRun(t, settings())
	r.child("hello 0").wait()
	if lines := r.conclude(); len(lines) != 1 || !strings.Contains(lines[0], "nothing was recorded: none of its events") || r.done.Collected != 0 {
		t.Errorf("lines %q, %+v", lines, *r.done)
	}
	if _, err := os.Stat(r.output); !os.IsNotExist(err) {
		t.Errorf("%s: %v", r.output, err)
	}
}

func TestDeaths(t *testing.T) {
	for _, script := range []string{"R", "RB", "RU", "RBR", "RUR", "RRUBUR"} {
		t.Run(script, func(t *testing.T) {
			r := startRun(t, settings())
			c := r.child("script " + script)
			c.expect("ready")
			c.kill()
			lines := r.conclude()
			mallocs := 0
			for _, row := range r.dumps(c.cmd.Process.Pid)["device_0"] {
				if row[colEvent] == "MALLOC" {
					mallocs++
				}
			}
			if want := strings.Count(script, "R"); mallocs != want {
				t.Errorf("%d MALLOC rows, want %d", mallocs, want)
			}
			if want := strings.Contains(script, "B"); hasLine(lines, "cut off by the death") != want {
				t.Errorf("lines: %q", lines)
			}
			if want := strings.Contains(script, "U"); hasLine(lines, "gap(s)") != want {
				t.Errorf("lines: %q", lines)
			}
		})
	}
}

// eventually asks until the answer is yes.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !yes(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within ten seconds: %s", what)
		}
	}
}

func TestDeadThreadOfLivingProcess(t *testing.T) {
	r := startRun(t, settings())
	c := r.child("deadthread")
	c.expect("ready")
	eventually(t, "the row behind the dead thread's record", func() bool {
		return len(r.dumps(c.cmd.Process.Pid)["device_0"]) == 1
	})
	c.kill()
	if lines := r.conclude(); !hasLine(lines, "1 event(s) were cut off") {
		t.Errorf("lines: %q", lines)
	}
}

// The launcher's caller does not wait for a process that lives on; its recording is complete all the same.
func TestLivingProcess(t *testing.T) {
	r := startRun(t, settings())
	c := r.child("script RR")
	c.expect("ready")
	r.finish <- struct{}{}
	select {
	case <-r.read:
		t.Fatal("the session has ended")
	case <-time.After(2 * lastMoment):
	}
	c.kill()
	r.wait()
	if r.done == nil || r.done.Living != 1 || r.done.Collected != 0 {
		t.Errorf("done: %+v", r.done)
	}
	if rows := r.dumps(c.cmd.Process.Pid)["device_0"]; len(rows) != 4 {
		t.Errorf("rows: %q", rows)
	}
}

// The launcher has been killed.
func TestLauncherGone(t *testing.T) {
	r := startRun(t, settings())
	c := r.child("script R")
	c.expect("ready")
	close(r.finish)
	time.Sleep(50 * time.Millisecond)
	c.kill()
	r.wait()
	if r.done != nil {
		t.Errorf("done: %+v", *r.done)
	}
	if rows := r.dumps(c.cmd.Process.Pid)["device_0"]; len(rows) != 2 {
		t.Errorf("rows: %q", rows)
	}
}

// A second hello of one process id means that it has executed another program.
func TestExec(t *testing.T) {
	r := startRun(t, settings())
	for i := range 2 {
		p, w, err := wiretest.Connect(r.name, os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if w.Config.Events != uint32(config.Alloc|config.Free|config.Launch) || w.Config.All_npu != 1 || w.Config.Launched != 1 ||
			p.Ring.Header().Tracing != 1 {
			t.Errorf("welcome: %+v, tracing %d", w, p.Ring.Header().Tracing)
		}
		a := wire.Alloc{Addr: 0x1000, Size: 64, Detail: hal(0, 33, 0)}
		a.H.Pool = wire.PoolHAL
		p.Alloc(uint32(i), a)
	}
	eventually(t, "the first program is finished", func() bool {
		r.session.mu.Lock()
		defer r.session.mu.Unlock()
		return len(r.session.clients) == 2 && r.session.clients[0].isDone()
	})
	eventually(t, "the second one has a directory", func() bool {
		dirs, _ := filepath.Glob(filepath.Join(r.output, "*"))
		return len(dirs) == 2
	})
	r.session.mu.Lock()
	r.session.clients[1].replaced.Store(true) // this test's own process does not end
	r.session.mu.Unlock()
	r.conclude()
	if r.done.Collected != 2 || len(r.dumps(os.Getpid())["device_0"]) != 4 {
		t.Errorf("done %+v, rows %q", *r.done, r.dumps(os.Getpid()))
	}
}

func TestSeveralProcesses(t *testing.T) {
	const processes, threads, events = 4, 3, 2000
	r := startRun(t, settings())
	var all []*child
	for range processes {
		all = append(all, r.child(fmt.Sprintf("storm %d %d", threads, events)))
	}
	for _, c := range all {
		c.wait()
	}
	lines := r.conclude()
	for _, c := range all {
		rows := r.dumps(c.cmd.Process.Pid)["device_0"]
		if len(rows) != 2*threads*events {
			t.Errorf("process %d: %d rows", c.cmd.Process.Pid, len(rows))
		}
		last := int64(0)
		for _, row := range rows {
			stamp, err := strconv.ParseInt(row[colStamp], 10, 64)
			if err != nil || stamp < last {
				t.Fatalf("stamp %s after %d", row[colStamp], last)
			}
			last = stamp
		}
	}
	if hasLine(lines, "Error") || r.done.Collected != processes {
		t.Errorf("lines %q, done %+v", lines, *r.done)
	}
}

// A place that cannot be written costs the dump and nothing else.
func TestUnwritableOutput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := settings()
	cfg.OutputPath = filepath.Join(file, "out")
	r := startRun(t, cfg)
	r.child("hello 3").wait()
	lines := r.conclude()
	if !hasLine(lines, file) || !hasLine(lines, "6 event(s) could not be stored") || r.done.Collected != 1 {
		t.Errorf("lines %q, done %+v", lines, *r.done)
	}
}

// Events that were not asked for are collected for the analyses and not written.
func TestWriteFilter(t *testing.T) {
	cfg := settings()
	cfg.DumpEvents = config.Free
	r := startRun(t, cfg)
	c := r.child("hello 2")
	c.wait()
	r.conclude()
	rows := r.dumps(c.cmd.Process.Pid)["device_2"]
	if len(rows) != 2 || rows[0][colEvent] != "FREE" || rows[1][colEvent] != "FREE" {
		t.Errorf("rows: %q", rows)
	}
}

// With a filter of cards, a free of a block that the filter has hidden is no row; without one it is.
func TestFreesOfHiddenBlocks(t *testing.T) {
	for _, all := range []bool{true, false} {
		cfg := settings()
		cfg.AllNPU, cfg.NPUSlots = all, 1
		r := startRun(t, cfg)
		c := r.child("strange")
		c.wait()
		r.conclude()
		rows := 0
		for _, device := range r.dumps(c.cmd.Process.Pid) {
			rows += len(device)
		}
		if want := map[bool]int{true: 2 + 2, false: 2}[all]; rows != want { // with an unknown card a row is in no file of its own
			t.Errorf("all cards %v: %d rows, want %d", all, rows, want)
		}
	}
}

// Two threads may read the clock in another order than they reserve. Rows are in the order of the clock, and `used` adds up.
func TestClockOrder(t *testing.T) {
	c, p := handDriven(t, &process{fd: -1}, wire.MinBytes)
	const size = uint64(unsafe.Sizeof(wire.Alloc{}))
	for i := range uint64(3) {
		a := wire.Alloc{Addr: (i + 1) << 12, Size: 100, Detail: hal(0, 33, 0)}
		a.H.Pool = wire.PoolHAL
		p.Alloc(1, a)
		if i == 1 { // late by less than what the rest of this test takes
			wiretest.Payload[wire.Head](p, i*size).Stamp += int64(10 * time.Millisecond)
		}
	}
	time.Sleep(20 * time.Millisecond)
	c.replaced.Store(true)
	c.run()
	files, _ := filepath.Glob(filepath.Join(c.session.cfg.OutputPath, "*/device_0/dump/*.csv"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(string(text), "\n")
	for i, used := range []string{"1000,size:100,used:100", "3000,size:100,used:200", "2000,size:100,used:300"} {
		if !strings.Contains(rows[i+1], used) {
			t.Errorf("row %d: %s", i, rows[i+1])
		}
	}
}

func TestRingBytes(t *testing.T) {
	t.Setenv(control.EnvRingBytes, strconv.Itoa(3<<20))
	r := startRun(t, settings())
	p, w, err := wiretest.Connect(r.name, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if w.Size != 2<<20 || p.Ring.Size() != 2<<20 {
		t.Errorf("a ring of %d bytes, want %d", w.Size, 2<<20)
	}
	r.session.mu.Lock()
	for _, c := range r.session.clients {
		c.replaced.Store(true)
	}
	r.session.mu.Unlock()
	r.conclude()
}

// Strange peers get an answer, or none, and cost nobody anything.
func TestStrangers(t *testing.T) {
	r := startRun(t, settings())
	talk := func(send any, size int) []byte {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: "@" + r.name})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		var message bytes.Buffer
		if err := binary.Write(&message, binary.LittleEndian, send); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(message.Bytes()); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, size+1)
		n, _ := conn.Read(answer)
		return answer[:n]
	}
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: "@" + r.name})
	if err != nil {
		t.Fatal(err)
	}
	conn.Close() // only asks whether somebody lives
	if answer := talk([]uint32{1, 2, 3}, 100); len(answer) != 0 {
		t.Errorf("garbage is answered by %d bytes", len(answer))
	}
	const size = int(unsafe.Sizeof(wire.Welcome{}))
	hello := wire.Hello{Magic: wire.Magic, Version: wire.Version + 1, Pid: 1}
	var w wire.Welcome
	if _, err := binary.Decode(talk(hello, size), binary.LittleEndian, &w); err != nil || w.Answer != wire.RefusedVersion {
		t.Errorf("another version: %+v, %v", w, err)
	}
	r.session.mu.Lock()
	r.session.closing = true
	r.session.mu.Unlock()
	hello.Version = wire.Version
	if _, err := binary.Decode(talk(hello, size), binary.LittleEndian, &w); err != nil || w.Answer != wire.RefusedClosing {
		t.Errorf("too late: %+v, %v", w, err)
	}
	lines := r.conclude()
	if !hasLine(lines, "no hello") || !hasLine(lines, "another version") || len(lines) != 2 || r.done.Collected != 0 {
		t.Errorf("lines %q, %+v", lines, *r.done)
	}
}

// What the target logs is in the log of its project directory, whenever that is made.
func TestTargetLog(t *testing.T) {
	r := startRun(t, settings())
	c := r.child("talker")
	c.wait()
	r.conclude()
	logs, _ := filepath.Glob(filepath.Join(r.output, "*/msmemscope_logs/*.log"))
	if len(logs) != 1 {
		t.Fatalf("logs: %q", logs)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"[WARN]  [target] before", "[ERROR] [target] behind"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	// the free that failed is a FREE and a MALLOC
	var events []string
	for _, row := range r.dumps(c.cmd.Process.Pid)["device_0"] {
		events = append(events, row[colEvent])
	}
	if got := strings.Join(events, " "); got != "MALLOC FREE MALLOC FREE" {
		t.Errorf("rows: %s", got)
	}
}
