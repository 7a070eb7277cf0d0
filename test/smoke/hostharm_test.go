package smoke

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	hostreport "memscope/internal/hostheap/report"
)

// These are complaints about profilers of the heap, by the numbers of docs/host-leaks.md. Each program has to print the same with and without
// the tool, and to leave a complete report.

// unharmed runs words without and with the tool, and returns the report.
func unharmed(t *testing.T, env []string, words ...string) *hostreport.Overview {
	t.Helper()
	o, _ := unharmedIn(t, env, words...)
	return o
}

// unharmedIn is unharmed, and the output directory.
func unharmedIn(t *testing.T, env []string, words ...string) (o *hostreport.Overview, out string) {
	t.Helper()
	alone := without(t, words...)
	alone.env = env
	alone.run().want(0)
	j := under(t, append([]string{"--analysis=host-leaks"}, words...)...)
	j.env = env
	j.run().want(0).noComplaints()
	if _, got := ours(j.stdout.String()); got != alone.stdout.String() {
		t.Errorf("%v prints\n%s\nand without the tool\n%s", words, got, alone.stdout.String())
	}
	o = j.overviews()[1]
	if o == nil {
		t.Fatalf("%v: no report\n%s", words, j.stdout.String())
	}
	if !o.Health.Usable || o.Health.Allocs.Blocks == 0 || o.Health.Unseen.Blocks != 0 {
		t.Errorf("%v: %+v", words, o.Health)
	}
	return o, j.out
}

// unfreed are the bytes that the folded stacks in out have below a function, of window 1.
func unfreed(t *testing.T, out, function string) (bytes uint64) {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(out, "*", "host_leak", "live_stacks_1.folded"))
	text, err := os.ReadFile(strings.Join(paths, ""))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if at := strings.LastIndexByte(line, ' '); strings.Contains(line, function) {
			n, _ := strconv.ParseUint(strings.TrimSpace(line[at+1:]), 10, 64)
			bytes += n
		}
	}
	return bytes
}

// sharedLibrary makes a library from C.
func sharedLibrary(t *testing.T, library, source string, flags ...string) string {
	t.Helper()
	words := append([]string{"-shared", "-fPIC", "-O1", "-xc", "-o", library, "-"}, flags...)
	cmd := exec.Command("gcc", words...)
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc %v: %v\n%s", words, err, out)
	}
	return library
}

// TestHostLeakComplaint2Start: the program begins whichever way it is bound.
func TestHostLeakComplaint2Start(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"LD_BIND_NOW=", "LD_BIND_NOW=1"} {
		unharmed(t, []string{env}, target("harm"), "2")
	}
}

// asksEarly allocates by dlsym before anybody is ready, and is in the way of who looks for malloc.
const asksEarly = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
static void *(*next)(size_t);
static int inside;
void *malloc(size_t n) {
	if (!next && !inside) { inside = 1; next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc"); inside = 0; }
	return next ? next(n) : 0;
}
__attribute__((constructor)) static void early(void) { free(malloc(5)); dlclose(dlopen("libm.so.6", RTLD_NOW)); }
`

// TestHostLeakComplaint3Preloads: another preloaded library may stand before ours or behind it.
func TestHostLeakComplaint3Preloads(t *testing.T) {
	t.Parallel()
	others := []string{sharedLibrary(t, filepath.Join(t.TempDir(), "early.so"), asksEarly)}
	for _, pattern := range []string{"libfakeroot/libfakeroot-sysv.so", "libeatmydata.so*", "libjemalloc.so.2", "libtcmalloc.so.4", "libtcmalloc_minimal.so.4"} {
		found, _ := filepath.Glob("/usr/lib/*/" + pattern)
		others = append(others, found[:min(1, len(found))]...)
	}
	for _, other := range others {
		for _, order := range []string{"$LD_PRELOAD:" + other, other + ":$LD_PRELOAD"} {
			alone := without(t, "sh", "-c", `LD_PRELOAD="`+order+`" exec "$0" 7`, target("harm")).run().want(0)
			j := under(t, "--analysis=host-leaks", "sh", "-c", `LD_PRELOAD="`+order+`" exec "$0" 7`, target("harm")).run().want(0)
			if _, got := ours(j.stdout.String()); got != alone.stdout.String() {
				t.Errorf("%s: %q, want %q", order, got, alone.stdout.String())
			}
			o := j.overviews()[1] // empty where an allocator stands before ours, and then it says so
			if o == nil || o.Health.Usable != (o.Health.Allocs.Blocks > 0) || !o.Health.Usable && !o.Health.InFront {
				t.Errorf("%s: %+v", order, o)
			}
		}
	}
	t.Logf("beside %v", others)
}

// TestHostLeakComplaint6Origin: what a library loads by its RUNPATH is found.
func TestHostLeakComplaint6Origin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sharedLibrary(t, filepath.Join(dir, "libsibling.so"), "int number(void) { return 42; }")
	asking := sharedLibrary(t, filepath.Join(dir, "asking.so"), `
		#include <dlfcn.h>
		int sibling(void) {
			void *l = dlopen("libsibling.so", RTLD_NOW);
			return l ? ((int (*)(void))dlsym(l, "number"))() : -1;
		}`, "-Wl,-rpath,$ORIGIN", "-Wl,--enable-new-dtags")
	unharmed(t, nil, target("harm"), "6", asking)
}

// TestHostLeakComplaint7Frames: no frame pointers, garbage in their place, alternate stacks, coroutines.
func TestHostLeakComplaint7Frames(t *testing.T) {
	t.Parallel()
	if o := unharmed(t, nil, target("harm"), "7"); o.Unfreed.Blocks < 3000 {
		t.Errorf("unfreed: %v", o.Unfreed)
	}
}

// TestHostLeakComplaint8Attributes: the C library allocates within the functions that say where a stack is.
func TestHostLeakComplaint8Attributes(t *testing.T) {
	t.Parallel()
	unharmed(t, nil, target("harm"), "8")
}

// TestHostLeakComplaint9Unwinding: exceptions, longjmp and coroutines go their ways.
func TestHostLeakComplaint9Unwinding(t *testing.T) {
	t.Parallel()
	unharmed(t, nil, target("harm"), "9")
}

// TestHostLeakComplaint12ThreadVariables: 30 libraries with variables of threads in the room that is kept for late ones.
func TestHostLeakComplaint12ThreadVariables(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	library := sharedLibrary(t, filepath.Join(dir, "lib-0.so"), `
		static __thread long numbers[5] __attribute__((tls_model("initial-exec"))) = {1, 2, 3, 4, 5};
		long variable(void) { return numbers[2]++ + numbers[4]; }`)
	text, err := os.ReadFile(library)
	for i := 1; i < 30 && err == nil; i++ {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("lib-%d.so", i)), text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	unharmed(t, nil, target("harm"), "12", filepath.Join(dir, "lib-%d.so"))
}

// TestHostLeakComplaint16OwnFrames: the first frame is never ours, also of a program without symbols and of code without a file.
func TestHostLeakComplaint16OwnFrames(t *testing.T) {
	t.Parallel()
	stripped := filepath.Join(t.TempDir(), "stripped")
	if out, err := exec.Command("strip", "-o", stripped, target("harm")).CombinedOutput(); err != nil {
		t.Fatalf("strip: %v\n%s", err, out)
	}
	for _, program := range []string{target("harm"), stripped} {
		o := unharmed(t, nil, program, "16")
		for _, site := range append(o.Top, o.Residents...) {
			if len(site.C) == 0 || strings.Contains(site.C[0], "libmsmemscope") {
				t.Errorf("%s: the stack of %v is %q", program, site.Unfreed, site.C)
			}
			if site.Unfreed.Blocks == 100 && site.Unfreed.Bytes == 70000 && !strings.Contains(site.C[0], program) {
				t.Errorf("%s: allocated by %q", program, site.C[0])
			}
		}
	}
}

// profiled toggles what hooks into the interpreter, in threads, and allocates all the while.
const profiled = `
import sys, threading
def seen(frame, event, arg): return seen
def planted(): return [bytes(600 + i) for i in range(300)]
kept = []
def work():
    for i in range(10):
        (sys.setprofile if i % 2 else sys.settrace)(seen if i % 3 else None)
        kept.append(planted())
threads = [threading.Thread(target=work) for _ in range(8)]
threading.settrace(seen)
for t in threads: t.start()
for t in threads: t.join()
print(len(kept), sum(map(len, kept)))
sys.stdout.flush()
import os
os._exit(0)
`

// TestHostLeakComplaint17And18Profilers: stacks of Python are right while profilers and threads come and go.
func TestHostLeakComplaint17And18Profilers(t *testing.T) {
	t.Parallel()
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip(err)
	}
	_, out := unharmedIn(t, []string{"PYTHONMALLOC=malloc"}, python, "-c", profiled)
	const least = 8 * 10 * 300 * (600 + 299.0/2) // what the objects hold
	if got := unfreed(t, out, ";planted ("); float64(got) < least || float64(got) > least*1.1 {
		t.Errorf("%d bytes of planted(), want a little more than %.0f", got, least)
	}
}

// TestHostLeakComplaint21Reader: what the collector needs does not depend on the number of events.
func TestHostLeakComplaint21Reader(t *testing.T) {
	t.Parallel()
	const most = 300 << 10 // KiB
	j := under(t, "--analysis=host-leaks", target("harm"), "21")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	j.stdin = r
	j.start()
	var collector int
	waitFor(t, "the collector", func() bool {
		collector = childNamed(j.cmd.Process.Pid, "msmemscope-coll")
		return collector != 0 && strings.Contains(j.stdout.String(), "done")
	})
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", collector))
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	peak, _ := strconv.Atoi(strings.Fields(rest + " 0")[0])
	if err != nil || peak == 0 || peak > most {
		t.Errorf("the collector has needed %d KiB (%v)", peak, err)
	}
	w.Close()
	j.wait().want(0)
	if o := j.overviews()[1]; o == nil || o.Health.Allocs.Blocks < 3000000 {
		t.Errorf("report %+v", o)
	}
}

// TestHostLeakComplaint24Unprivileged: nothing is needed but the user's own rights.
func TestHostLeakComplaint24Unprivileged(t *testing.T) {
	t.Parallel()
	needRoot(t)
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out")
	cmd := exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--no-new-privs", tool,
		"--output-path="+out, "--analysis=host-leaks", target("harm"), "2")
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if found, _ := filepath.Glob(filepath.Join(out, "*", "host_leak", "leak_overview_1.txt")); len(found) != 1 {
		t.Errorf("%d reports", len(found))
	}
}

// workers are of both kinds; what each returns must come back.
const workers = `
import multiprocessing, sys, time
def work(n):
    kept = [bytes(2000) for _ in range(n)]
    time.sleep(1.2)
    return sum(map(len, kept))
if __name__ == "__main__":
    for kind in "fork", "spawn":
        with multiprocessing.get_context(kind).Pool(2) as pool:
            print(kind, pool.map(work, [100, 200]))
`

// TestHostLeakComplaint25Workers: forked workers are left alone, spawned ones have reports; growth that is no leak is a row of the report.
func TestHostLeakComplaint25Workers(t *testing.T) {
	t.Parallel()
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip(err)
	}
	script := filepath.Join(t.TempDir(), "workers.py")
	if err := os.WriteFile(script, []byte(workers), 0o644); err != nil {
		t.Fatal(err)
	}
	j := under(t, "--analysis=host-leaks", python, script).run().want(0).noComplaints()
	if _, got := ours(j.stdout.String()); got != "fork [200000, 400000]\nspawn [200000, 400000]\n" {
		t.Errorf("the program prints %q", got)
	}
	reports, _ := filepath.Glob(filepath.Join(j.out, "*", "host_leak", "leak_overview_1.txt"))
	for _, report := range reports {
		text, err := os.ReadFile(report)
		if err != nil || !strings.Contains(string(text), "Resident memory") || !strings.Contains(string(text), "the remainder") {
			t.Errorf("%s (%v):\n%s", report, err, text)
		}
	}
	if len(reports) < 3 || len(reports) > 4 { // the program, two workers, perhaps the tracker of resources
		t.Errorf("%d reports", len(reports))
	}
}
