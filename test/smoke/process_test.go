package smoke

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Pauses, forks and execs in one run: the program lists what its dumps must show (family.c).
func TestFamily(t *testing.T) {
	j := under(t, target("family")).run().want(0).noComplaints()
	type block struct {
		pid  string
		size int64
	}
	fates := map[block]string{}
	pids := map[string]bool{}
	_, listed := ours(j.stdout.String())
	for line := range strings.Lines(listed) {
		var b block
		var fate string
		if _, err := fmt.Sscanf(line, "%s %d %s", &b.pid, &b.size, &fate); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		fates[b], pids[b.pid] = fate, true
	}
	type rows struct{ malloc, free *row }
	seen := map[block]rows{}
	dumps := j.dumps()
	for _, d := range dumps {
		for i := range d.rows {
			r := &d.rows[i]
			if r.kind != "HAL" {
				continue
			}
			b := block{r.pid, r.size}
			have := seen[b]
			if r.event == "MALLOC" {
				have.malloc = r
			} else {
				have.free = r
			}
			seen[b] = have
		}
	}
	for b, fate := range fates {
		have, ok := seen[b]
		delete(seen, b)
		if fate == "hidden" {
			if ok {
				t.Errorf("process %s, block %d: rows of a block that nobody should see", b.pid, b.size)
			}
			continue
		}
		if have.malloc == nil || have.free == nil {
			t.Errorf("process %s, block %d (%s): no rows", b.pid, b.size, fate)
			continue
		}
		wantMalloc, wantFree := fate == "promoted", fate == "leaked"
		if fate == "paused" {
			wantFree = have.free.shadow // contract 3.3 leaves it open
		}
		if have.malloc.shadow != wantMalloc || have.free.shadow != wantFree {
			t.Errorf("process %s, block %d (%s): MALLOC shadow %v, FREE shadow %v", b.pid, b.size, fate, have.malloc.shadow, have.free.shadow)
		}
	}
	for b := range seen {
		t.Errorf("process %s, block %d: nobody has allocated it", b.pid, b.size)
	}
	// One project for each process, and one more for the program that took the place of another by exec.
	if got := len(j.projects()); got != len(pids)+1 {
		t.Errorf("%d projects for %d processes and one exec: %v", got, len(pids), j.projects())
	}
	for pid := range pids {
		if found, _ := filepath.Glob(filepath.Join(j.out, "msmemscope_"+pid+"_*_ascend")); len(found) == 0 {
			t.Errorf("process %s has no project", pid)
		}
	}
}

// Several processes at once: each has its own files and its own report.
func TestManyProcesses(t *testing.T) {
	const n, count = 12, 2000
	j := under(t, "sh", "-c", fmt.Sprintf("for i in $(seq %d); do %s %d %d & done; wait", n, target("numbered"), killThreads, count)).run().want(0).noComplaints()
	projects := j.projects()
	if len(projects) != n {
		t.Fatalf("%d projects, want %d", len(projects), n)
	}
	for _, dir := range projects {
		if err := checkNumbers(readProject(t, dir), [killThreads]int64{count, count, count, count}); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
	two := under(t, "sh", "-c", example("train")+"; "+example("train")+" --steps 3").run().want(0)
	if got := strings.Count(two.stdout.String(), "Detected memory leaks on device 0"); got != 2 {
		t.Errorf("%d reports of card 0, want 2", got)
	}
	if got := strings.Count(two.stdout.String(), "====== Process "); got != 2 {
		t.Errorf("%d reports with a name, want 2", got)
	}
	two.dumps()
}

// 5,000 threads that have used the device and sleep, and 64 that are busy, on the smallest ring.
func TestCrowd(t *testing.T) {
	const idle, busy, events = 5000, 64, 500
	j := under(t, target("crowd"), fmt.Sprint(idle), fmt.Sprint(busy), fmt.Sprint(events))
	smallRing(j)
	j.run().want(0).noComplaints()
	dumps := j.dumps()
	if len(dumps) != 1 {
		t.Fatalf("%d dumps", len(dumps))
	}
	if n := dumps[0].count(func(r row) bool { return r.event == "FREE" && !r.shadow }); n != idle+busy*events {
		t.Errorf("%d real FREE rows, want %d", n, idle+busy*events)
	}
}

// Forks while other threads of the process are in the midst of their calls: parent and children, each has all its rows.
func TestForker(t *testing.T) {
	const children, blocks = 40, 10
	j := under(t, target("forker"), fmt.Sprint(children), fmt.Sprint(blocks)).run().want(0).noComplaints()
	var total int
	if _, err := fmt.Sscan(j.stdout.String(), &total); err != nil || total == 0 {
		t.Fatalf("%v: %q", err, j.stdout.String())
	}
	projects := j.projects()
	if len(projects) != children+1 {
		t.Errorf("%d projects, want %d", len(projects), children+1)
	}
	for _, dir := range projects {
		n := map[int64]int{}
		for _, d := range readProject(t, dir) {
			for _, r := range d.rows {
				if r.event == "FREE" && !r.shadow {
					n[r.size]++
				}
			}
		}
		if n[8192] > 0 && (n[8192] != blocks || n[4096] != 0) || n[8192] == 0 && n[4096] != total {
			t.Errorf("%s: %v, want %d of a child or %d of the parent", dir, n, blocks, total)
		}
	}
}

// A container has process ids of its own: the rows show those, and the end of the process is seen all the same.
func TestPidNamespace(t *testing.T) {
	needRoot(t)
	const count = 3000
	j := under(t, "--", "unshare", "--pid", "--fork", "--kill-child", target("numbered"), fmt.Sprint(killThreads), fmt.Sprint(count))
	j.run().want(0).noComplaints()
	dumps := j.dumps()
	if err := checkNumbers(dumps, [killThreads]int64{count, count, count, count}); err != nil {
		t.Error(err)
	}
	for _, d := range dumps {
		if d.rows[0].pid != "1" {
			t.Errorf("process id %s, want 1", d.rows[0].pid)
		}
	}
}

// 16 processes of 8 threads storm: 0.6 million events, 20 million on level 2.
func TestStorm(t *testing.T) {
	const processes, threads = 16, 8
	each := 5000
	if level >= 2 {
		each = 20000000 / processes / threads
	}
	j := under(t, "sh", "-c", fmt.Sprintf("for i in $(seq %d); do %s --threads %d --events %d --devices 2 & done; wait", processes,
		example("storm"), threads, each)).run().want(0).noComplaints()
	calls, rows := 0, 0
	for line := range strings.Lines(j.stdout.String()) {
		var n, c, failed int
		if _, err := fmt.Sscanf(line, "storm: %d threads, %d calls, %d failed", &n, &c, &failed); err == nil {
			calls += c
		}
	}
	for _, dir := range j.projects() {
		for _, d := range readProject(t, dir) {
			rows += d.count(func(r row) bool { return r.kind == "HAL" && !r.shadow })
		}
	}
	if calls < processes*threads*each || rows != calls {
		t.Errorf("%d calls, %d rows", calls, rows)
	}
}

// Deferred collection: nothing until the program asks for it, which this one never does; one line says so.
func TestDeferred(t *testing.T) {
	j := under(t, "--collect-mode=deferred", target("numbered"), "2", "100").run().want(0)
	if lines := j.complaints(); len(lines) != 1 || !strings.Contains(lines[0], "--collect-mode=deferred") {
		t.Errorf("complaints: %q", lines)
	}
	for _, d := range j.dumps() {
		if n := d.count(func(r row) bool { return r.kind == "HAL" }); n > 0 {
			t.Errorf("%d rows", n)
		}
	}
}

// Only what was asked for: one card of two, and only one class of events.
func TestSelection(t *testing.T) {
	j := under(t, "--device=npu:1", example("train")).run().want(0)
	for _, d := range j.dumps() {
		if !strings.Contains(d.path, "device_1") {
			t.Errorf("%s, although only card 1 was asked for", d.path)
		}
	}
	if strings.Contains(j.stdout.String(), "leaks on device 0") || !strings.Contains(j.stdout.String(), "leaks on device 1") {
		t.Errorf("report:\n%s", j.stdout.String())
	}
	j = under(t, "--events=launch", example("train")).run().want(0)
	for _, d := range readUnchecked(t, j) {
		if n := d.count(func(r row) bool { return r.event == "MALLOC" || r.event == "FREE" }); n > 0 {
			t.Errorf("%d rows of memory, although only launches are to be written", n)
		}
	}
	if !strings.Contains(j.stdout.String(), "leaks on device 0") {
		t.Errorf("the analysis needs the events, written or not:\n%s", j.stdout.String())
	}
	j = under(t, "--device=npu,cpu", example("train")).run().want(0)
	cpu := 0
	for _, d := range j.dumps() {
		if strings.Contains(d.path, "device_cpu") {
			cpu += d.count(func(r row) bool { return r.event == "MALLOC" })
		}
	}
	if cpu == 0 {
		t.Errorf("no pinned host memory with --device=npu,cpu")
	}
}

// readUnchecked reads dumps of runs in which blocks need not pair.
func readUnchecked(t *testing.T, j *job) []*dump {
	t.Helper()
	var all []*dump
	paths, _ := filepath.Glob(filepath.Join(j.out, "*", "device_*", "dump", "memscope_dump_*.csv"))
	for _, path := range paths {
		d, err := readDump(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		all = append(all, d)
	}
	return all
}

// Permissions of the output tree: directories 0750, files at most 0640.
func TestPermissions(t *testing.T) {
	j := under(t, example("train"), "--steps", "2").run().want(0)
	err := filepath.WalkDir(j.out, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if most := map[bool]os.FileMode{true: 0o750, false: 0o640}[d.IsDir()]; info.Mode().Perm()&^most != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
