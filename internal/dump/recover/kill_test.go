package recover

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"memscope/internal/dump/csvfile"
	"memscope/internal/dump/render"
	"memscope/internal/dump/spool"
	"memscope/internal/event"
	"memscope/internal/output"
)

// The child processes of the kill test are this test program, told by the environment what to be.
func TestMain(m *testing.M) {
	switch dir := os.Getenv("RECOVER_TEST_DIR"); os.Getenv("RECOVER_TEST_ROLE") {
	case "collect":
		collect(dir)
	case "recover":
		if _, err := Recover(dir, Options{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

const step = 1000 // ns between events, of which some share a stamp

// made is the n-th event of a made-up process, n from 1: a pure function, so that the test knows what must be in the files.
// Its thread id is n, which names the event in its row.
func made(n uint64) event.Event {
	h := n * 0x9e3779b97f4a7c15
	stamp := int64(n+n/3) / 2 * step
	ev := event.Event{
		Stamp: stamp, Seq: n, PID: 99, TID: n, Device: int32(n / 3 % 3), Module: -1,
		ProcessUsed: event.Unknown, DeviceUsed: event.Unknown,
	}
	switch {
	case n%97 == 2: // not the first: without a device's row it would be in no file
		ev.Kind, ev.Sub, ev.Device = event.System, event.ACLInit, event.DeviceNone
		ev.ProcessUsed, ev.DeviceUsed = 0, 0
	case n%41 == 0:
		ev.Kind, ev.Sub, ev.Name, ev.Value = event.Mstx, event.Mark, "mark \""+strconv.FormatUint(n%7, 10)+"\"", n
	default: // blocks live for about 1000 events; of each 128 one lives on
		ev.Kind, ev.Pool, ev.Addr, ev.Size, ev.AllocID = event.Malloc, event.HAL, h|1, int64(h>>50), n
		if old := n - 1001; n > 1001 && n%2 == 0 && old%97 != 2 && old%41 != 0 && old%128 != 5 {
			m := made(old)
			if m.Kind == event.Malloc {
				ev.Kind, ev.Addr, ev.Size, ev.AllocID, ev.Device = event.Free, m.Addr, m.Size, m.AllocID, m.Device
			}
		}
		ev.Used = int64(n)
	}
	return ev
}

// later is how many events after it the owner of some blocks is learned; their rows wait for so long.
const later = 500

// owner is what is learned of a block, "" for most.
func owner(ev *event.Event) string {
	if ev.Kind == event.Malloc && ev.Seq%3 == 0 {
		return "PTA@" + strconv.FormatUint(ev.Seq%11, 10)
	}
	return ""
}

// collect writes and renders made-up events until it is killed, and says on standard output what it has flushed.
func collect(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	p, err := output.Create(dir, 99, nil)
	fail(err)
	w, err := spool.Create(p.Root, spool.Dir, spool.Meta{PID: 99, Paired: true, SegmentBytes: 100 << 10})
	fail(err)
	r, err := spool.Open(p.Root, spool.Dir)
	fail(err)
	n := render.New(r, csvfile.Opener(p, nil, nil), render.Options{})
	pause, _ := time.ParseDuration(os.Getenv("RECOVER_TEST_PAUSE"))
	limit, _ := strconv.ParseUint(os.Getenv("RECOVER_TEST_EVENTS"), 10, 64)
	type flush struct {
		seq uint64
		end spool.Pos
	}
	var flushes []flush
	for seq := uint64(1); limit == 0 || seq <= limit; seq++ {
		if seq > later {
			if old := made(seq - later); owner(&old) != "" {
				fail(w.SetOwner(old.AllocID, owner(&old)))
			}
		}
		ev := made(seq)
		fail(w.Append(&ev))
		if seq%(1+seq/100%500) == 0 || seq == limit {
			end, err := w.Flush()
			fail(err)
			flushes = append(flushes, flush{seq, end})
			for len(flushes) > 0 && flushes[0].seq+later <= seq {
				n.Advance(flushes[0].end)
				flushes = flushes[1:]
			}
			fmt.Println(seq)
			time.Sleep(pause)
		}
	}
	end, err := w.Flush()
	fail(err)
	fail(n.Finish(end))
	fail(w.Remove())
}

func child(t *testing.T, role, dir string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), append(env, "RECOVER_TEST_ROLE="+role, "RECOVER_TEST_DIR="+dir)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// killedCollector runs collect for a while, kills it, and answers the last event that it had flushed.
func killedCollector(t *testing.T, dir string, after, pause time.Duration) uint64 {
	t.Helper()
	cmd := child(t, "collect", dir, "RECOVER_TEST_PAUSE="+pause.String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var flushed uint64
	lines := bufio.NewScanner(out)
	lines.Scan() // it has begun
	flushed, _ = strconv.ParseUint(lines.Text(), 10, 64)
	time.AfterFunc(after, func() { cmd.Process.Kill() })
	for lines.Scan() {
		if n, err := strconv.ParseUint(lines.Text(), 10, 64); err == nil && n > flushed {
			flushed = n
		}
	}
	cmd.Wait()
	return flushed
}

// TestKill kills a collector at random instants, then the recovery as well, and looks for every event in the end.
func TestKill(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	if n, err := strconv.Atoi(os.Getenv("MSMEMSCOPE_TEST_KILLS")); err == nil {
		rounds = n
	}
	var total, closed uint64
	interrupted := 0
	for i := range rounds {
		dir := t.TempDir()
		pause := 300 * time.Microsecond // the rendering keeps up
		if i%3 == 0 {
			pause = 0 // it lags
		}
		flushed := killedCollector(t, dir, rand.N(120*time.Millisecond), pause)
		for range rand.IntN(4) {
			cmd := child(t, "recover", dir)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(rand.N(60 * time.Millisecond))
			cmd.Process.Kill()
			if cmd.Wait() != nil {
				interrupted++
			}
		}
		_, err := Recover(dir, Options{})
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		got, shadows, unowned := look(t, dir, true)
		if got < flushed {
			t.Fatalf("round %d: rows up to event %d, but %d had been flushed", i, got, flushed)
		}
		if unowned < got && got-unowned >= later {
			t.Fatalf("round %d: of %d events, number %d has not got its owner", i, got, unowned)
		}
		total, closed = total+got, closed+shadows
		again, err := Recover(dir, Options{})
		if err != nil || len(again) != 0 {
			t.Fatalf("round %d: a second recovery found %v, %v", i, again, err)
		}
	}
	t.Logf("%d collectors killed, %d recoveries killed; %d events, all there once; %d blocks closed", rounds, interrupted, total, closed)
}

// check looks through the one project in dir: its files hold the rows of the events 1 to n, each exactly once, in order and
// numbered without a gap, and then a shadow FREE for each block that lives.
func check(t *testing.T, dir string) (n, shadows uint64) {
	t.Helper()
	n, shadows, _ = look(t, dir, true)
	return n, shadows
}

// look is check, where blocks may also be open at the end. unowned is the first event with an owner of which its row knows nothing.
func look(t *testing.T, dir string, closed bool) (n, shadows, unowned uint64) {
	t.Helper()
	projects, _ := filepath.Glob(filepath.Join(dir, "msmemscope_*_ascend"))
	if len(projects) != 1 {
		t.Fatalf("projects: %v", projects)
	}
	if _, err := os.Lstat(filepath.Join(projects[0], spool.Dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the spool is still there: %v", err)
	}
	files, _ := filepath.Glob(filepath.Join(projects[0], "device_*", "dump", "*"))
	byDevice := make(map[string]bool)
	ids := make(map[string]string)  // ID → row, which is the same in each file
	seen := make(map[uint64]string) // event → ID
	open := make(map[uint64]bool)   // allocation ids
	unowned = math.MaxUint64
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		device := strings.TrimPrefix(strings.Split(strings.TrimPrefix(name, projects[0]), "/")[1], "device_")
		if byDevice[device] {
			t.Errorf("two files for device %s", device)
		}
		byDevice[device] = true
		rows := bytes.SplitAfter(text, []byte{'\n'})
		if last := rows[len(rows)-1]; len(last) > 0 || string(rows[0]) != csvfile.Header+"\n" {
			t.Fatalf("%s: torn: begins %q, ends %q", name, rows[0], last)
		}
		stamp, id := int64(0), int64(-1)
		for _, row := range rows[1 : len(rows)-1] {
			f := strings.SplitN(string(row), ",", 10) // no comma in the names of this test
			if len(f) != 10 {
				t.Fatalf("%s: %q", name, row)
			}
			s, _ := strconv.ParseInt(f[4], 10, 64)
			i, _ := strconv.ParseInt(f[0], 10, 64)
			if s < stamp || i <= id {
				t.Fatalf("%s: row %q behind stamp %d and id %d", name, row, stamp, id)
			}
			stamp, id = s, i
			if f[7] != device && f[7] != "N/A" {
				t.Fatalf("%s: row of device %s", name, f[7])
			}
			if old, ok := ids[f[0]]; ok && (old != string(row) || f[7] != "N/A") {
				t.Fatalf("%s: id %s again: %q and %q", name, f[0], old, row)
			}
			ids[f[0]] = string(row)
			seq, _ := strconv.ParseUint(f[6], 10, 64)
			if strings.Contains(f[9], "shadow:true") {
				if f[1] != "FREE" || !open[seq] {
					t.Fatalf("%s: %q closes a block that is not open", name, row)
				}
				delete(open, seq)
				shadows++
				continue
			}
			ev := made(seq)
			if owner(&ev) != "" && !strings.Contains(f[9], "owner:") {
				unowned = min(unowned, seq)
			} else {
				ev.Owner = owner(&ev)
			}
			if want := csvfile.AppendRow(nil, &ev, uint64(i), nil); !bytes.Equal(want, row) {
				t.Fatalf("%s: row\n%s, want\n%s", name, row, want)
			}
			if i != int64(seq)-1 {
				t.Fatalf("%s: event %d has the id %d", name, seq, i)
			}
			if old, ok := seen[seq]; ok && old != f[0] {
				t.Fatalf("event %d has the ids %s and %s", seq, old, f[0])
			}
			seen[seq] = f[0]
			switch ev.Kind {
			case event.Malloc:
				open[ev.AllocID] = true
			case event.Free:
				delete(open, ev.AllocID)
			}
		}
	}
	n = uint64(len(seen))
	for i := uint64(1); i <= n; i++ {
		if seen[i] == "" {
			t.Fatalf("%d events have rows, but not event %d", n, i)
		}
	}
	for i := range len(ids) {
		if ids[strconv.Itoa(i)] == "" {
			t.Fatalf("%d rows, but none with id %d", len(ids), i)
		}
	}
	if closed && len(open) > 0 {
		t.Fatalf("%d blocks have no FREE", len(open))
	}
	// Rows without a device are in every file, from its beginning on.
	for _, name := range files {
		text, _ := os.ReadFile(name)
		got := bytes.Count(text, []byte("ACL_INIT"))
		if want := int((n + 95) / 97); got != want {
			t.Errorf("%s has %d of %d rows without a device", name, got, want)
		}
	}
	return n, shadows, unowned
}

// TestWhole: without a death nothing is left to recover, and the rows are the same.
func TestWhole(t *testing.T) {
	dir := t.TempDir()
	cmd := child(t, "collect", dir, "RECOVER_TEST_EVENTS=100000")
	if out, err := cmd.Output(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	projects, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(projects) != 1 {
		t.Fatal(projects)
	}
	done, err := Recover(dir, Options{})
	if err != nil || len(done) != 0 {
		t.Fatalf("%v, %v", done, err)
	}
}
