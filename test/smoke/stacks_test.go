package smoke

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var cFrame = regexp.MustCompile(`^(.*)\((\w*)\+0x[0-9a-f]+\) \[0x[0-9a-f]+\](?: at (.*):(\d+))?$`)

// toldChain is what the target "stacks" said: "function line" from the innermost on, by size.
func toldChain(t *testing.T, out string) map[string][]string {
	t.Helper()
	chains := map[string][]string{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 3 || f[1] != "inner" {
			continue // of the report
		}
		var chain []string
		for i := 1; i+1 < len(f); i += 2 {
			chain = append(chain, f[i]+" "+f[i+1])
		}
		chains[f[0]] = chain
	}
	if len(chains) != 6 {
		t.Fatalf("the program said %q", out)
	}
	return chains
}

// checkChains compares the C column of every MALLOC row with what the program said, up to a depth, and answers how many frames of
// the program there were and how many had a file and a line.
func checkChains(t *testing.T, rows [][]string, chains map[string][]string, depth int) (frames, lines int) {
	t.Helper()
	checked := 0
	for _, f := range rows {
		if f[1] != "MALLOC" {
			continue
		}
		_, rest, _ := strings.Cut(f[9], ",size:")
		size, _, _ := strings.Cut(rest, ",")
		var got []string
		all := strings.Split(strings.TrimSuffix(f[11], "\n"), "\n")
		if len(all) > depth {
			t.Errorf("%d frames, at most %d are wanted", len(all), depth)
		}
		for _, frame := range all {
			m := cFrame.FindStringSubmatch(frame)
			if m == nil {
				t.Errorf("frame %q", frame)
				continue
			}
			if filepath.Base(m[1]) != "stacks" || m[2] == "_start" {
				continue
			}
			frames++
			if m[4] != "" {
				lines++
			}
			got = append(got, m[2]+" "+m[4])
		}
		want := chains[size]
		if len(got) < len(want) && len(all) == depth {
			want = want[:len(got)]
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("block of %s bytes:\n%q, want\n%q", size, got, want)
		}
		checked++
	}
	if checked == 0 {
		t.Error("no block")
	}
	return frames, lines
}

// TestCStacks: every frame of the program with its function and its line, to the depth that is wanted; without Python, NA.
func TestCStacks(t *testing.T) {
	j := under(t, "--call-stack=c,python", target("stacks")).run().want(0).noComplaints()
	rows := columns(t, j)
	frames, lines := checkChains(t, rows, toldChain(t, j.stdout.String()), 50)
	t.Logf("%d of %d frames with file and line", lines, frames)
	if lines*100 < frames*99 {
		t.Errorf("%d of %d frames have file and line", lines, frames)
	}
	for _, f := range rows {
		if f[1] == "MALLOC" && f[10] != "NA" {
			t.Errorf("Python column %q", f[10])
		}
	}
	j = under(t, "--call-stack=c:6", target("stacks")).run().want(0)
	checkChains(t, columns(t, j), toldChain(t, j.stdout.String()), 6)
	for _, f := range columns(t, j) {
		if f[10] != "" {
			t.Errorf("Python column %q", f[10])
		}
	}
}

// TestLaunchStacks: the stack of a launch begins with the program's line that launches, though the record is made in a callback far below;
// also where no hook of ours is on the way.
func TestLaunchStacks(t *testing.T) {
	text, err := os.ReadFile("../targets/kernels.c")
	if err != nil {
		t.Fatal(err)
	}
	source := strings.Split(string(text), "\n")
	want := []string{
		"rtKernelLaunch", "rtKernelLaunchWithFlagV2", "rtKernelLaunchWithHandleV2", "rtAicpuKernelLaunchExWithArgs",
		"rtLaunchKernelByFuncHandle", "rtLaunchKernelByFuncHandleV2", "aclrtLaunchKernel", "aclrtLaunchKernelV2",
		"aclrtLaunchKernelWithConfig", "aclrtLaunchKernelWithHostArgs", "real",
	}
	j := under(t, "--level=kernel", "--call-stack=c,python", target("kernels"), "direct").run().want(0).noComplaints()
	launches := 0
	for _, f := range columns(t, j) {
		if f[2] != "KERNEL_LAUNCH" || launches == len(want) {
			continue
		}
		frames := strings.Split(f[11], "\n")
		m := cFrame.FindStringSubmatch(frames[0])
		if m == nil || filepath.Base(m[1]) != "kernels" || filepath.Base(m[3]) != "kernels.c" {
			t.Fatalf("launch %d begins with %q", launches, frames[0])
		}
		line, _ := strconv.Atoi(m[4])
		if line < 1 || line > len(source) || !strings.Contains(source[line-1], want[launches]+"(") {
			t.Errorf("launch %d begins with %q, want a call of %s", launches, frames[0], want[launches])
		}
		if !strings.Contains(f[11], "kernels(main+") {
			t.Errorf("launch %d: no main in %q", launches, f[11])
		}
		launches++
	}
	if launches != len(want) {
		t.Errorf("%d launches, want %d", launches, len(want))
	}
}

// TestStacksOfKilledCollector: what the rows of a recovered dump say.
func TestStacksOfKilledCollector(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	j := under(t, "--call-stack=c", target("stacks"), "wait")
	j.stdin = r
	j.start()
	for deadline := time.Now().Add(patience); len(j.projects()) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing was recorded")
		}
	}
	time.Sleep(200 * time.Millisecond)
	if err := syscall.Kill(j.collector(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	_ = j.cmd.Wait()
	j.timer.Stop()
	if out, err := exec.Command(tool, "dump", "recover", j.out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checkChains(t, columns(t, j), toldChain(t, j.stdout.String()), 50)
}

const pythonScript = `
import ctypes, sys, threading, traceback
free, held = ctypes.CDLL(None), ctypes.PyDLL(None)
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
flag = 1 << 14 | 3 << 56
lock = threading.Lock()
def allocate(library, size):
    block = ctypes.c_void_p()
    def told(): return "|".join("%s(%d): %s" % (f.filename, f.lineno, f.name) for f in reversed(traceback.extract_stack()[:-1]))
    say, result = told(), library.halMemAlloc(ctypes.byref(block), ctypes.c_ulonglong(size), ctypes.c_ulonglong(flag)); assert result == 0
    with lock: print("%d %s" % (size, say))
def deeper(n, library, size):
    if n: deeper(n - 1, library, size)
    else: allocate(library, size)
class Größe:
    def метод(self, size): return [allocate(free, size) for _ in range(1)]
for i, library in enumerate((free, held)):
    allocate(library, 4096 + i)
    deeper(5, library, 8192 + i)
    t = threading.Thread(target=deeper, args=(7, library, 12288 + i)); t.start(); t.join()
Größe().метод(20480)
`

// TestPythonStacks: the frames that Python itself tells, with and without the GIL, on several threads, under every Python there is.
func TestPythonStacks(t *testing.T) {
	pythons, _ := filepath.Glob(filepath.Join(os.Getenv("HOME"), ".pyenv/versions/*/bin/python3"))
	tried := 0
	for _, python := range append(pythons, "/usr/bin/python3") {
		if exec.Command(python, "-c", "import sys; assert sys.version_info >= (3, 8)").Run() != nil {
			continue
		}
		tried++
		script := filepath.Join(t.TempDir(), "script.py")
		if err := os.WriteFile(script, []byte(pythonScript), 0o644); err != nil {
			t.Fatal(err)
		}
		j := under(t, "--call-stack=python,c:5", python, script, filepath.Join(build, "vnpu", "lib64", "libascend_hal.so"))
		j.env = append(j.env, "PYTHONIOENCODING=utf-8")
		j.run().want(0).noComplaints()
		told := map[string]string{}
		for line := range strings.Lines(j.stdout.String()) {
			if size, frames, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok && strings.Contains(frames, script) {
				told[size] = frames
			}
		}
		seen := 0
		for _, f := range columns(t, j) {
			if f[1] != "MALLOC" {
				continue
			}
			_, rest, _ := strings.Cut(f[9], ",size:")
			size, _, _ := strings.Cut(rest, ",")
			if got := strings.ReplaceAll(strings.TrimSuffix(f[10], "\n"), "\n", "|"); got != told[size] {
				t.Errorf("%s: block of %s bytes\n%q, want\n%q", python, size, got, told[size])
			}
			seen++
		}
		if seen != 7 {
			t.Errorf("%s: %d blocks; the program said\n%s%s", python, seen, j.stdout.String(), j.stderr.String())
		}
	}
	if tried == 0 {
		t.Skip("there is no Python")
	}
}
