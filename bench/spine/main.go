// Command spine measures the way of an event from the hook to the row, and prints each figure beside what it is compared
// with: the bare program, the target that was set, or other tracers over the same calls in the same run. It never fails
// because of a figure.
//
//	bench/run [hook|overhead|peers|storm|blocks|startup]...
//
// Environment: BENCH_DIR, where files go (default build/bench, up to 10 GB for storm); BENCH_EVENTS, events of storm in
// millions (default 20); BENCH_CALLS, calls of each loop of overhead (default 1000000).
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	tool  = abs("build/bin/msmemscope")
	storm = abs("build/examples/storm")
	cost  = abs("build/targets/cost")
	dir   = abs(cmp.Or(os.Getenv("BENCH_DIR"), "build/bench"))
)

func main() {
	figures := []struct {
		name string
		run  func()
	}{{"hook", hook}, {"overhead", overhead}, {"peers", peers}, {"storm", storms}, {"blocks", blocks}, {"startup", startup}}
	for _, name := range os.Args[1:] {
		if !slices.ContainsFunc(figures, func(f struct {
			name string
			run  func()
		}) bool {
			return f.name == name
		}) {
			fail("unknown figure %q; there are hook, overhead, peers, storm, blocks, startup", name)
		}
	}
	if _, err := os.Stat(tool); err != nil {
		fail("%v; run make build first", err)
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%d CPUs, %s, load %s\n", runtime.NumCPU(), model(), strings.Join(strings.Fields(string(load))[:3], " "))
	for _, f := range figures {
		if len(os.Args) > 1 && !slices.Contains(os.Args[1:], f.name) {
			continue
		}
		fmt.Printf("\n== %s\n", f.name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			fail("%v", err)
		}
		f.run()
		os.RemoveAll(dir)
	}
}

// hook: nanoseconds of processor time that recording adds to one call, on one thread.
func hook() {
	const calls = 400000 // several laps of the ring
	var bare, traced, bareReal, tracedReal []float64
	for range 9 {
		cpu, real, _ := perCall(nil, calls)
		bare, bareReal = append(bare, cpu), append(bareReal, real)
		cpu, real, _ = perCall(under(), calls)
		traced, tracedReal = append(traced, cpu), append(tracedReal, real)
	}
	b, t := median(bare), median(traced)
	fmt.Printf("  one thread, median of 9: bare %.1f ns per call, recorded %.1f ns: the hook costs %.1f ns of processor time (target 80)\n", b, t, t-b)
	b, t = median(bareReal), median(tracedReal)
	fmt.Printf("  real time: bare %.1f ns per call, recorded %.1f ns\n", b, t)
	var orphaned []float64
	for range 3 {
		orphaned = append(orphaned, afterDeath(20*calls)) // the first ones still fill the ring
	}
	fmt.Printf("  after the death of the collector: %.1f ns of processor time per call, of 8 million\n", median(orphaned))
}

// afterDeath is what a call costs when the collector was killed before.
func afterDeath(calls int) float64 {
	words := append(under(), cost, strconv.Itoa(calls), "1500")
	cmd := exec.Command(words[0], words[1:]...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		fail("%v", err)
	}
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if pid, err := strconv.Atoi(collector(cmd.Process.Pid)); err == nil {
			time.Sleep(300 * time.Millisecond)
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
			break
		}
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), "collector has died") {
		fail("%v: %v\n%s", words, err, said.String())
	}
	var cpu, real float64
	for line := range strings.Lines(said.String()) {
		if n, _ := fmt.Sscanf(line, "%f ns of processor time, %f ns of real time", &cpu, &real); n == 2 {
			return cpu
		}
	}
	fail("%v says %q", words, said.String())
	return 0
}

// peers: the same calls under other tracers of library calls that write one record for each with its time.
func peers() {
	const calls = 200000
	bare, _, _ := perCall(nil, calls)
	fmt.Printf("  bare        %10.1f ns of processor time per call\n", bare)
	for _, p := range []struct {
		name  string
		words []string
		calls int
	}{
		{"msmemscope", under(), calls},
		{"uftrace", []string{"uftrace", "record", "--force", "--no-pager", "-d", filepath.Join(dir, "uftrace")}, calls},
		{"ltrace", []string{"ltrace", "-ttt", "-e", "halMemAlloc+halMemFree", "-o", filepath.Join(dir, "ltrace.txt")}, calls / 20},
	} {
		if _, err := exec.LookPath(p.words[0]); err != nil {
			fmt.Printf("  %-11s SKIPPED, not installed (Debian: apt-get install %s)\n", p.name, p.name)
			continue
		}
		cpu, real, wall := perCall(p.words, p.calls)
		fmt.Printf("  %-11s %10.1f ns of processor time, %10.1f ns of real time; %7.1f x bare; %.2f s until everything is written, for %d calls\n",
			p.name, cpu, real, cpu/bare, wall.Seconds(), p.calls)
	}
}

// storms: many processes and threads through the whole way, into the spool and into the CSV.
func storms() {
	const processes, threads = 16, 8
	millions := number("BENCH_EVENTS", 20)
	each := millions * 1000000 / (processes * threads)
	ended := filepath.Join(dir, "ended")
	script := fmt.Sprintf(`for i in $(seq %d); do %s --threads %d --events %d >/dev/null & done; wait; date +%%s%%N >%s`,
		processes, storm, threads, each, ended)
	out := filepath.Join(dir, "out")
	cmd := exec.Command(tool, "--output-path="+out, "sh", "-c", script)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		fail("%v", err)
	}
	peak := watch(cmd.Process.Pid)
	if err := cmd.Wait(); err != nil {
		fail("storm: %v\n%s", err, said.String())
	}
	wall := time.Since(begin)
	text, err := os.ReadFile(ended)
	if err != nil {
		fail("%v", err)
	}
	stamp, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	spooled := time.Unix(0, stamp).Sub(begin)
	rows, bytes := count(out)
	events := float64(processes * threads * each)
	lost := ""
	// What lives at the end of each thread is freed on top of its events.
	if minimum := processes * threads * each; rows < minimum {
		lost = fmt.Sprintf(" LOST %d", minimum-rows)
	}
	fmt.Printf("  %d processes x %d threads, %.1f million events, %d rows%s\n", processes, threads, events/1e6, rows, lost)
	fmt.Printf("  into the spool %5.2f million events/s (target 2), %v\n", events/spooled.Seconds()/1e6, spooled.Round(time.Millisecond))
	fmt.Printf("  into the CSV   %5.2f million events/s, %v, %.1f GB\n", events/wall.Seconds()/1e6, wall.Round(time.Millisecond), float64(bytes)/1e9)
	fmt.Printf("  collector: RssAnon at most %.1f MB\n", float64(<-peak)/1e6)
}

// blocks: memory of the collector for each block that lives.
func blocks() {
	const threads, live = 4, 500000
	cmd := exec.Command(tool, "--output-path="+filepath.Join(dir, "out"), storm, "--threads", fmt.Sprint(threads),
		"--events", fmt.Sprint(live), "--live", fmt.Sprint(live), "--size", "4096")
	if err := cmd.Start(); err != nil {
		fail("%v", err)
	}
	peak := watch(cmd.Process.Pid)
	if err := cmd.Wait(); err != nil {
		fail("blocks: %v", err)
	}
	most := float64(<-peak)
	const n = threads * live
	fmt.Printf("  %d live blocks: RssAnon of the collector at most %.1f MB; above 64 MB %.0f bytes per block (target 200)\n", n, most/1e6,
		max(0, most-64e6)/n)
}

// startup: 50 helper processes with and without the tool, in one pipeline and in turn. Processor time is what is left of the figure on a
// machine that has other work.
func startup() {
	for _, c := range []struct{ name, script string }{
		{"a pipeline of 50", "true" + strings.Repeat(" | cat", 49)},
		{"25 pipelines of 2", "for i in $(seq 25); do ls / | wc -l; done >/dev/null"},
	} {
		var bare, traced, bareCPU, tracedCPU []float64
		for range 20 {
			for _, run := range []struct {
				words     []string
				real, cpu *[]float64
			}{
				{[]string{"sh", "-c", c.script}, &bare, &bareCPU},
				{append(under(), "--", "sh", "-c", c.script), &traced, &tracedCPU},
			} {
				cmd := exec.Command(run.words[0], run.words[1:]...)
				*run.real = append(*run.real, seconds(cmd))
				*run.cpu = append(*run.cpu, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
			}
		}
		b, t, bc, tc := median(bare)*1e3, median(traced)*1e3, median(bareCPU)*1e3, median(tracedCPU)*1e3
		fmt.Printf("  %s, median of 20: bare %.1f ms, with the tool %.1f ms: %.2f x (target 1.3); processor time %.1f and %.1f ms: %.2f x\n",
			c.name, b, t, t/b, bc, tc, tc/bc)
	}
}

// under is the tool with its output in the bench's folder.
func under() []string { return []string{tool, "--output-path=" + filepath.Join(dir, "out")} }

// perCall runs cost, under words if any, and returns the nanoseconds of one call and the time that all took.
func perCall(words []string, calls int) (cpu, real float64, wall time.Duration) {
	words = append(slices.Clone(words), cost, strconv.Itoa(calls))
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = dir
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		fail("%v: %v\n%s", words, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if n, _ := fmt.Sscanf(line, "%f ns of processor time, %f ns of real time", &cpu, &real); n == 2 {
			return cpu, real, time.Since(begin)
		}
	}
	fail("%v says %q", words, out)
	return 0, 0, 0
}

// watch samples RssAnon of the collector below launcher until it is gone, and then gives the highest, in bytes.
func watch(launcher int) <-chan int64 {
	highest := make(chan int64, 1)
	go func() {
		var most int64
		for pid := ""; ; time.Sleep(5 * time.Millisecond) {
			if pid == "" {
				if _, err := os.Stat(fmt.Sprintf("/proc/%d", launcher)); err != nil {
					break
				}
				pid = collector(launcher)
				continue
			}
			status, err := os.ReadFile("/proc/" + pid + "/status")
			_, rest, found := strings.Cut(string(status), "RssAnon:")
			if err != nil || !found {
				break // gone
			}
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			most = max(most, kb<<10)
		}
		highest <- most
	}()
	return highest
}

// collector is the id of the collector among the children of launcher, "" if there is none yet.
func collector(launcher int) string {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", launcher))
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for _, pid := range strings.Fields(string(children)) {
			if comm, _ := os.ReadFile("/proc/" + pid + "/comm"); strings.HasPrefix(string(comm), "msmemscope-coll") {
				return pid
			}
		}
	}
	return ""
}

// count adds up rows and bytes of every dump below out.
func count(out string) (rows int, size int64) {
	paths, _ := filepath.Glob(filepath.Join(out, "*", "device_*", "dump", "*.csv"))
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			fail("%v", err)
		}
		buffer := make([]byte, 1<<20)
		for {
			n, err := file.Read(buffer)
			rows += bytes.Count(buffer[:n], []byte(",HAL,"))
			size += int64(n)
			if err != nil {
				break
			}
		}
		file.Close()
	}
	return rows, size
}

func seconds(cmd *exec.Cmd) float64 {
	begin := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		fail("%v: %v\n%s", cmd.Args, err, out)
	}
	return time.Since(begin).Seconds()
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

func model() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	_, rest, _ := strings.Cut(string(info), "model name\t: ")
	name, _, _ := strings.Cut(rest, "\n")
	return name
}

func abs(path string) string {
	full, err := filepath.Abs(path)
	if err != nil {
		fail("%v", err)
	}
	return full
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
	os.Exit(1)
}
