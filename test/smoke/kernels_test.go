package smoke

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// launch is what test/targets/kernels says of one launch. Times are ns since the epoch.
type launch struct {
	name                         string
	card, stream, task, pid, tid string
	before, after, done          int64
	ns                           int64 // that the kernel takes
}

func (l *launch) key() string { return l.pid + ":" + l.card + "/" + l.stream + "/" + l.task }

// toldLaunches reads the target's lines.
func toldLaunches(t *testing.T, text string) []launch {
	t.Helper()
	var told []launch
	_, rest := ours(text)
	for line := range strings.Lines(rest) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 10 {
			t.Fatalf("the target says %q", line)
		}
		var n [4]int64
		for i := range n {
			var err error
			if n[i], err = strconv.ParseInt(f[6+i], 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		told = append(told, launch{f[0], f[1], f[2], f[3], f[4], f[5], n[0], n[1], n[2], n[3]})
	}
	return told
}

// kernelRows are the KERNEL_LAUNCH rows of every dump of the run, all columns, by kind of row and by process, card, stream and task, in their order.
func (j *job) kernelRows() map[string]map[string][][]string {
	j.t.Helper()
	rows := map[string]map[string][][]string{}
	paths, _ := filepath.Glob(filepath.Join(j.out, "msmemscope_*_ascend", "device_*", "dump", "*.csv"))
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			j.t.Fatal(err)
		}
		all, err := csv.NewReader(file).ReadAll()
		file.Close()
		if err != nil {
			j.t.Fatal(err)
		}
		_, pid, _ := strings.Cut(filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(path)))), "_")
		pid, _, _ = strings.Cut(pid, "_")
		device := strings.TrimPrefix(filepath.Base(filepath.Dir(filepath.Dir(path))), "device_")
		for _, row := range all {
			if row[1] != "KERNEL_LAUNCH" {
				continue
			}
			if row[7] != device {
				j.t.Errorf("%s: a row of card %s", path, row[7])
			}
			attr := strings.TrimSuffix(strings.TrimPrefix(row[9], "{streamId:"), "}")
			stream, task, ok := strings.Cut(attr, ",taskId:")
			if !ok {
				j.t.Fatalf("Attr %q", row[9])
			}
			if rows[row[2]] == nil {
				rows[row[2]] = map[string][][]string{}
			}
			key := pid + ":" + row[7] + "/" + stream + "/" + task
			rows[row[2]][key] = append(rows[row[2]][key], row)
		}
	}
	return rows
}

// checkLaunches demands a row of each kind for each launch, column by column, with times inside of what the target has measured, and no
// other. kinds are the last of KERNEL_LAUNCH, KERNEL_EXECUTE_START, KERNEL_EXECUTE_END.
func (j *job) checkLaunches(told []launch, kinds ...string) {
	j.t.Helper()
	rows := j.kernelRows()
	ppm := int64(0)
	for _, kv := range j.env {
		if value, ok := strings.CutPrefix(kv, "VNPU_CLOCK_PPM="); ok {
			ppm, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	late := j.late()
	wrong := 0
	complain := func(format string, args ...any) {
		j.t.Helper()
		if wrong++; wrong <= 10 {
			j.t.Errorf(format, args...)
		}
	}
	place := map[string]int{} // how many launches of a key were before
	for i := range told {
		l := &told[i]
		at := place[l.key()]
		place[l.key()]++
		var stamps []int64
		for _, kind := range kinds {
			have := rows[kind][l.key()]
			if at >= len(have) {
				complain("%s %s, the %d. of %s: no row of kind %s", l.name, l.key(), at, l.tid, kind)
				continue
			}
			row := have[at]
			pid, tid, last := "N/A", "N/A", l.done
			if kind == "KERNEL_LAUNCH" {
				pid, tid, last = l.pid, l.tid, l.after
			}
			want := fmt.Sprintf("%q", []string{"KERNEL_LAUNCH", kind, l.name, pid, tid, l.card, "N/A", fmt.Sprintf("{streamId:%s,taskId:%s}", l.stream, l.task), "", ""})
			if got := fmt.Sprintf("%q", append(append([]string{}, row[1:4]...), row[5:]...)); got != want {
				complain("a row is\n%s, not\n%s", got, want)
			}
			stamp, err := strconv.ParseInt(row[4], 10, 64)
			if err != nil || !late && (stamp < l.before || stamp > last) {
				complain("%s %s %s at %s, not in %d to %d", kind, l.name, l.key(), row[4], l.before, last)
			}
			stamps = append(stamps, stamp)
		}
		if len(stamps) == 3 {
			// How fast a card counts is known after a while; until then a new reading tells how far it has gone astray since the last.
			slack := clockError + (l.done-told[0].before)*ppm/1e6
			if took := stamps[2] - stamps[1]; !late && (took < l.ns-slack || took > l.ns+slack) {
				complain("%s %s took %d ns, not %d", l.name, l.key(), took, l.ns)
			}
		}
	}
	for kind, byKey := range rows {
		n := 0
		for _, have := range byKey {
			n += len(have)
		}
		want := 0
		for _, k := range kinds {
			if k == kind {
				want = len(told)
			}
		}
		if n != want {
			complain("%d rows of kind %s, not %d", n, kind, want)
		}
	}
	if wrong > 10 {
		j.t.Errorf("%d things are wrong", wrong)
	}
}

// clockError is how wrong the length of a kernel may be, ns: between its two ends the card's clock may have been read anew.
const clockError = 3000

var allKinds = []string{"KERNEL_LAUNCH", "KERNEL_EXECUTE_START", "KERNEL_EXECUTE_END"}

// Every way to launch, both formats of the driver's records, both widths of stream ids, task ids that wrap, threads, a second life after
// aclFinalize, processes after a fork: a row for each launch, and when it ran.
func TestKernelRows(t *testing.T) {
	for name, c := range map[string]struct {
		words []string
		env   []string
	}{
		"ways":          {words: []string{"ways", "3"}},
		"ways on A5":    {words: []string{"ways", "3"}, env: []string{"VNPU_SOC=Ascend950PR"}},
		"ways expanded": {words: []string{"ways", "3"}, env: []string{"VNPU_STREAM_EXPAND=1", "VNPU_CLOCK_PPM=100"}},
		"wrap":          {words: []string{"streams", "67000", "1"}},
		"wrap on A5":    {words: []string{"streams", "67000", "1"}, env: []string{"VNPU_SOC=Ascend960"}},
		"wrap expanded": {words: []string{"streams", "67000", "1"}, env: []string{"VNPU_STREAM_EXPAND=1"}},
		"two streams":   {words: []string{"streams", "3000"}},
		"threads":       {words: []string{"threads", "5000"}},
		"finalize":      {words: []string{"finalize"}},
		"fork":          {words: []string{"fork"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := under(t, append([]string{"--level=kernel", target("kernels")}, c.words...)...)
			j.env = c.env
			j.run().want(0).noComplaints()
			j.dumps()
			j.checkLaunches(toldLaunches(t, j.stdout.String()), allKinds...)
			j.noWarnings()
		})
	}
}

// late says whether the tool itself has said that rows of cards stand later than they should. Under a sanitizer it may: on a busy machine the
// target's thread comes to nothing for seconds. What there has to be then is every row.
func (j *job) late() bool {
	if os.Getenv("SMOKE_PRELOAD") == "" {
		return false
	}
	for _, path := range j.logs() {
		if text, _ := os.ReadFile(path); bytes.Contains(text, []byte(tooLate)) {
			j.t.Logf("%s: rows stand later than they should", path)
			return true
		}
	}
	return false
}

const tooLate = "their rows stand later than they should"

func (j *job) logs() []string {
	logs, _ := filepath.Glob(filepath.Join(j.out, "msmemscope_*_ascend", "msmemscope_logs", "*.log"))
	return logs
}

// noWarnings demands a log without a warning: the run was a healthy one.
func (j *job) noWarnings() {
	j.t.Helper()
	logs, late := j.logs(), j.late()
	if len(logs) == 0 {
		j.t.Error("no log")
	}
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			j.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "[WARN]") || strings.Contains(line, "[ERROR]") || strings.Contains(line, tooLate) && !late {
				j.t.Errorf("%s: %s", path, line)
			}
		}
	}
}

// Nothing of what is launched while the collection is paused.
func TestKernelPause(t *testing.T) {
	t.Parallel()
	j := under(t, "--level=kernel", target("kernels"), "pause").run().want(0).noComplaints()
	told := toldLaunches(t, j.stdout.String())
	if len(told) != 30 {
		t.Fatalf("%d launches", len(told))
	}
	j.dumps()
	j.checkLaunches(append(told[:10:10], told[20:]...), allKinds...)
}

// Cards are the physical ones, and only those that are asked for.
func TestKernelCards(t *testing.T) {
	t.Parallel()
	j := under(t, "--level=op,kernel", target("kernels"), "ways")
	j.env = []string{"ASCEND_RT_VISIBLE_DEVICES=1,0"}
	j.run().want(0).noComplaints()
	told := toldLaunches(t, j.stdout.String())
	for i := range told {
		told[i].card = map[string]string{"0": "1", "1": "0"}[told[i].card]
	}
	j.checkLaunches(told, allKinds...)

	j = under(t, "--level=kernel", "--device=npu:1", target("kernels"), "ways").run().want(0).noComplaints()
	told = toldLaunches(t, j.stdout.String())
	j.checkLaunches(told[len(told)/2:], allKinds...)
}

// Without the kernel level, or without launches, nobody listens.
func TestKernelNotWanted(t *testing.T) {
	t.Parallel()
	for _, option := range []string{"--level=op", "--events=alloc,free"} {
		words := []string{option, target("kernels"), "ways"}
		if option != "--level=op" {
			words = append([]string{"--level=kernel"}, words...)
		}
		j := under(t, words...).run().want(0).noComplaints()
		if rows := j.kernelRows(); len(rows) != 0 {
			t.Errorf("%s: rows of %d kinds", option, len(rows))
		}
	}
}

// Where another profiler holds the channel, launches have rows all the same, and one line says what is missing.
func TestKernelChannelHeld(t *testing.T) {
	t.Parallel()
	j := under(t, "--level=kernel", target("kernels"), "held").run().want(0)
	j.oneComplaint("card 0: when kernels run is not recorded: the driver's channel is not to be had, perhaps another profiler holds it (-3).")
	j.dumps()
	j.checkLaunches(toldLaunches(t, j.stdout.String()), "KERNEL_LAUNCH")
}

// A library below us that is absent, empty or older: the program runs as without the tool, and one line says what is not collected.
func TestKernelOlderStack(t *testing.T) {
	t.Parallel()
	compile := func(t *testing.T, out, flags, sources string) {
		t.Helper()
		cmd := exec.Command("sh", "-ec", "cd "+root+" && gcc -std=gnu17 -O1 -fvisibility=hidden -Ivnpu/include -fPIC -shared -pthread "+flags+" -o "+out+" "+sources)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	const noProfapi = "kernels are not recorded: libprofapi.so is missing or too old."
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		env    []string
		line   string
		kinds  []string
	}{
		"no libprofapi": {change: func(t *testing.T, dir string) { remove(t, dir+"/libprofapi.so") }, line: noProfapi},
		"empty libprofapi": {change: func(t *testing.T, dir string) {
			remove(t, dir+"/libprofapi.so")
			if err := os.WriteFile(dir+"/libprofapi.so", nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}, line: noProfapi},
		"old libprofapi": {change: func(t *testing.T, dir string) {
			remove(t, dir+"/libprofapi.so")
			compile(t, dir+"/libprofapi.so", "-DprofSetProfCommand=profOlderCommand", "vnpu/profapi/profapi.c")
		}, line: noProfapi},
		"old driver": {change: func(t *testing.T, dir string) {
			remove(t, dir+"/libascend_hal.so")
			compile(t, dir+"/libascend_hal.so", "-Wl,-soname,libascend_hal.so -Dprof_drv_start=prof_older_start", "vnpu/hal/*.c vnpu/common/slab.c")
		}, line: "card 0: when kernels run is not recorded: the driver has no profiling channel.", kinds: allKinds[:1]},
		"msprof": {change: func(*testing.T, string) {}, env: []string{"PROFILER_SAMPLECONFIG={}"}, line: "kernels are not recorded: msprof is at work."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			libraries, _ := filepath.Glob(filepath.Join(build, "vnpu", "lib64", "*.so"))
			for _, library := range libraries {
				if err := os.Symlink(library, filepath.Join(dir, filepath.Base(library))); err != nil {
					t.Fatal(err)
				}
			}
			c.change(t, dir)
			j := under(t, "--level=kernel", target("kernels"), "finalize")
			j.env = append(c.env, "LD_LIBRARY_PATH="+dir)
			j.run().want(0)
			j.oneComplaint(c.line)
			told := toldLaunches(t, j.stdout.String())
			if len(told) != 20 {
				t.Errorf("%d launches", len(told))
			}
			j.dumps()
			j.checkLaunches(told, c.kinds...)
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// oneComplaint demands that the tool has complained in one line, which ends so.
func (j *job) oneComplaint(end string) {
	j.t.Helper()
	if lines := j.complaints(); len(lines) != 1 || !strings.HasPrefix(lines[0], "[msmemscope] Warn: process ") || !strings.HasSuffix(lines[0], ": "+end) {
		j.t.Errorf("the tool complains:\n%s\nnot: %s", strings.Join(lines, "\n"), end)
	}
}
