package smoke

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	killThreads = 4
	killWindow  = 64 // WINDOW of numbered.c
)

// teller reads what numbered tells.
type teller struct {
	file  *os.File
	first chan struct{} // closed at the first word

	mu   sync.Mutex
	last [killThreads]int64
	done chan struct{}
}

// tellTo gives the job a descriptor 3 to tell on. Call it before start, and listen after it.
func tellTo(j *job) *teller {
	out, in, err := os.Pipe()
	if err != nil {
		j.t.Fatal(err)
	}
	j.files = []*os.File{in}
	return &teller{file: out, first: make(chan struct{}), done: make(chan struct{})}
}

func (t *teller) listen(j *job) {
	j.files[0].Close()
	go func() {
		defer close(t.done)
		defer t.file.Close()
		in := bufio.NewReaderSize(t.file, 1<<16)
		for begun := false; ; begun = true {
			var pair [2]uint32
			if binary.Read(in, binary.NativeEndian, &pair) != nil {
				return
			}
			t.mu.Lock()
			t.last[pair[0]] = int64(pair[1])
			t.mu.Unlock()
			if !begun {
				close(t.first)
			}
		}
	}()
}

// told waits for the end of the telling.
func (t *teller) told() [killThreads]int64 { <-t.done; return t.last }

// victim is the process that runs numbered: the child of the launcher with that name.
func (j *job) victim() int {
	j.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		if pid := childNamed(j.cmd.Process.Pid, "numbered"); pid != 0 {
			return pid
		}
	}
	j.t.Fatal("the program does not start")
	return 0
}

// checkNumbers demands every told number exactly once: a MALLOC row for each, a real FREE row for each that had left the
// window, no gap, and nothing but numbers.
func checkNumbers(dumps []*dump, told [killThreads]int64) error {
	var last [killThreads]int64
	freed := map[int64]bool{}
	hal := func(yield func(*row) bool) {
		for _, d := range dumps {
			for i := range d.rows {
				if r := &d.rows[i]; r.kind == "HAL" && !yield(r) {
					return
				}
			}
		}
	}
	for r := range hal {
		thread, n := (r.size-1)%killThreads, (r.size-1)/killThreads
		switch r.event {
		case "MALLOC":
			// Each thread's rows are in its own order, so exactly once and without a gap is: one more than before.
			if n != last[thread]+1 {
				return fmt.Errorf("thread %d: number %d after %d", thread, n, last[thread])
			}
			last[thread] = n
		case "FREE":
			if !r.shadow {
				freed[r.size] = true
			}
		}
	}
	for thread, n := range told {
		if last[thread] < n {
			return fmt.Errorf("thread %d: told %d, the dump ends at %d", thread, n, last[thread])
		}
		for i := int64(1); i <= n-killWindow; i++ {
			if !freed[i*killThreads+int64(thread)+1] {
				return fmt.Errorf("thread %d: block %d was freed, its FREE row says otherwise", thread, i)
			}
		}
	}
	return nil
}

// kills is the number of random instants.
func kills() int {
	if os.Getenv("SOAK") != "" {
		return 2000
	}
	return env("SMOKE_KILLS", 200)
}

// killAt runs numbered and kills it by SIGKILL after a random delay. during, when given, runs between start and kill.
func killAt(j *job, during func(j *job)) {
	j.t.Helper()
	tell := tellTo(j)
	j.words = append(j.words, target("numbered"), fmt.Sprint(killThreads), "0", "3")
	j.start()
	tell.listen(j)
	pid := j.victim()
	<-tell.first
	if during != nil {
		during(j)
	}
	time.Sleep(time.Duration(rand.IntN(int(15 * time.Millisecond))))
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		j.t.Fatal(err)
	}
	j.wait().want(137)
	told := tell.told()
	for thread, n := range told {
		if n == 0 {
			j.t.Logf("thread %d had told nothing", thread)
		}
	}
	dumps := j.dumps()
	if len(dumps) != 1 {
		j.t.Errorf("%d dumps", len(dumps))
	}
	if err := checkNumbers(dumps, told); err != nil {
		j.t.Error(err)
	}
	if j.t.Failed() {
		keep(j)
	}
}

// keep saves the output of a failing run, which the test's own directory would take with it.
func keep(j *job) {
	to := filepath.Join(os.TempDir(), "smoke-"+strings.ReplaceAll(j.t.Name(), "/", "-"))
	_ = os.RemoveAll(to)
	if err := os.CopyFS(to, os.DirFS(j.out)); err == nil {
		j.t.Logf("the output of this run is in %s", to)
	}
}

// killMany kills at n instants, some at a time.
func killMany(t *testing.T, n, together int, prepare func(j *job), during func(j *job)) {
	gate := make(chan struct{}, together)
	for i := range n {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			gate <- struct{}{}
			defer func() { <-gate }()
			j := under(t)
			if prepare != nil {
				prepare(j)
			}
			killAt(j, during)
		})
	}
}

func smallRing(j *job) { j.env = append(j.env, "MSMEMSCOPE_RING_BYTES=1048576") }

func TestKill(t *testing.T) { killMany(t, kills(), 2, nil, nil) }

func TestKillSmallRing(t *testing.T) { killMany(t, kills(), 2, smallRing, nil) }

func TestKillSmallShm(t *testing.T) {
	needRoot(t)
	killMany(t, kills(), 2, func(j *job) { j.mount = "mount -t tmpfs -o size=64m none /dev/shm" }, nil)
}

// The collector is stopped for 2 s, so that the ring is full and its threads wait, and killed right after it goes on or,
// every other time, while it is stopped.
func TestKillStoppedCollector(t *testing.T) {
	for _, c := range []struct {
		name     string
		prepare  func(*job)
		n        int
		together int
	}{
		{"default ring", nil, kills() / 20, 2}, // what a full one holds is half a million rows
		{"small ring", smallRing, kills(), 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			killMany(t, max(1, c.n), c.together, c.prepare, func(j *job) {
				collector := j.collector()
				if err := syscall.Kill(collector, syscall.SIGSTOP); err != nil {
					j.t.Fatal(err)
				}
				resume := func() { _ = syscall.Kill(collector, syscall.SIGCONT) }
				if rand.IntN(2) == 0 {
					time.Sleep(2 * time.Second)
					resume()
					return
				}
				time.AfterFunc(2*time.Second, resume)
				time.Sleep(1800 * time.Millisecond)
			})
		})
	}
}

// Without a kill, through a small ring and a stopped collector: everything.
func TestNothingIsLost(t *testing.T) {
	const count = 20000
	j := under(t)
	smallRing(j)
	tell := tellTo(j)
	j.words = []string{target("numbered"), fmt.Sprint(killThreads), fmt.Sprint(count), "3"}
	j.start()
	tell.listen(j)
	<-tell.first
	collector := j.collector()
	for range 3 {
		_ = syscall.Kill(collector, syscall.SIGSTOP)
		time.Sleep(200 * time.Millisecond)
		_ = syscall.Kill(collector, syscall.SIGCONT)
		time.Sleep(20 * time.Millisecond)
	}
	j.wait().want(0).noComplaints()
	told := tell.told()
	for thread, n := range told {
		if n != count {
			t.Errorf("thread %d told %d", thread, n)
		}
	}
	dumps := j.dumps()
	if err := checkNumbers(dumps, told); err != nil {
		t.Error(err)
	}
	if n := dumps[0].count(func(r row) bool { return r.event == "FREE" && !r.shadow }); n != killThreads*count {
		t.Errorf("%d real FREE rows, want %d", n, killThreads*count)
	}
}
