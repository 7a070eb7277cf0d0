package hostheap_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"memscope/internal/hostheap"
	"memscope/internal/wire"
)

// answerJoin sends the tables to the process that asks for them at the socket.
func answerJoin(t *testing.T, listener int, tables *hostheap.Tables) {
	t.Helper()
	fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var hello wire.Hello
	if _, err := unix.Read(fd, unsafe.Slice((*byte)(unsafe.Pointer(&hello)), unsafe.Sizeof(hello))); err != nil || hello.Ask != wire.HeapJoin {
		t.Fatalf("no question for the tables: %+v, %v", hello, err)
	}
	welcome := wire.Welcome{Magic: wire.Magic, Version: wire.Version, Size: tables.Size()}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&welcome)), unsafe.Sizeof(welcome))
	if err := unix.Sendmsg(fd, bytes, unix.UnixRights(int(tables.File().Fd())), nil, 0); err != nil {
		t.Fatal(err)
	}
}

// processTime is the processor time of this process, of all its threads.
func processTime(t testing.TB) time.Duration {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}

// TestInterimStorm: 100 interim snapshots while four threads replace two million blocks, and the account is exact in the end. How long each
// takes is judged on a machine that has nothing else to do. `make bench-host-interim`; it needs the hook and takes minutes.
func TestInterimStorm(t *testing.T) {
	if os.Getenv("SOAK") == "" {
		t.Skip("SKIPPED: only with SOAK=1")
	}
	const snapshots, blocks, limit = 100, 2_000_000, 100 * time.Millisecond
	build, err := filepath.Abs("../../build")
	if err != nil {
		t.Fatal(err)
	}
	var load float64
	average, _ := os.ReadFile("/proc/loadavg")
	fmt.Sscan(string(average), &load)
	tables, err := hostheap.NewTables(hostheap.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	listener, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(listener)
	session := fmt.Sprintf("msmemscope-interim-%d", os.Getpid())
	if err := unix.Bind(listener, &unix.SockaddrUnix{Name: "@" + session}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(listener, 1); err != nil {
		t.Fatal(err)
	}
	r := hostheap.NewRecorder(tables, time.Second)
	if _, err := r.Open(hostheap.Options{}); err != nil {
		t.Fatal(err)
	}
	storm := exec.Command(filepath.Join(build, "native/hostheap-bench/workload"), "storm", fmt.Sprint(blocks))
	storm.Env = append(os.Environ(), "LD_PRELOAD="+filepath.Join(build, "lib64/libmsmemscope_host_mem_hook.so"), "MSMEMSCOPE_SESSION="+session)
	storm.Stderr = os.Stderr
	in, err := storm.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := storm.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := storm.Start(); err != nil {
		t.Fatal(err)
	}
	defer storm.Wait()
	defer storm.Process.Kill()
	answerJoin(t, listener, tables)
	if _, err := io.ReadFull(out, make([]byte, 4)); err != nil { // each thread has filled its places
		t.Fatal(err)
	}

	var took, busy []time.Duration
	degraded, fewest := 0, uint64(blocks)
	for range snapshots {
		start, used := time.Now(), processTime(t)
		s, err := r.Interim()
		if err != nil {
			t.Fatal(err)
		}
		took, busy = append(took, time.Since(start)), append(busy, processTime(t)-used)
		degraded += s.Walk.Degraded
		fewest = min(fewest, s.Unfreed.Count)
		time.Sleep(10 * time.Millisecond)
	}
	slices.Sort(took)
	slices.Sort(busy)
	t.Logf("%d snapshots of %d blocks: median %v, longest %v; of processor time %v, %v; regions not read %d; fewest blocks %d; load %.1f before", snapshots, blocks,
		took[snapshots/2], took[snapshots-1], busy[snapshots/2], busy[snapshots-1], degraded, fewest, load)
	if load > 1 {
		t.Logf("SKIPPED: whether each takes at most %v, for the load", limit)
	} else if took[snapshots-1] > limit {
		t.Errorf("a snapshot took %v, more than %v", took[snapshots-1], limit)
	}

	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	var want, got hostheap.Size
	if _, err := fmt.Fscan(bufio.NewReader(out), &want.Count, &want.Bytes); err != nil {
		t.Fatal(err)
	}
	s, err := r.Close(false)
	if err != nil {
		t.Fatal(err)
	}
	tables.Blocks(s.Window, false, func(b hostheap.Block) {
		if b.Size%16 == 7 {
			got.Count++
			got.Bytes += b.Size
		}
	})
	if got != want || want.Count != blocks {
		t.Errorf("the ledger has %+v, the program %+v", got, want)
	}
	if s.Total.LiveBlocks() != s.Unfreed.Count || s.Total.LiveBytes() != s.Unfreed.Bytes || s.Truncated != 0 {
		t.Errorf("counters say %d blocks of %d bytes, the ledger %+v; flags %d", s.Total.LiveBlocks(), s.Total.LiveBytes(), s.Unfreed, s.Truncated)
	}
}
