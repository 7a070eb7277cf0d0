package smoke

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
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

	hostreport "memscope/internal/hostheap/report"
)

// fastBeats makes seconds of a tenth.
const fastBeats = "MSMEMSCOPE_HEAP_BEAT_MS=50"

// overviews reads the reports of a run: by stage of the only process that has any.
func (j *job) overviews() map[int]*hostreport.Overview {
	j.t.Helper()
	files, _ := filepath.Glob(filepath.Join(j.out, "*", "host_leak", "leak_overview_*.json"))
	all := map[int]*hostreport.Overview{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			j.t.Fatal(err)
		}
		var o hostreport.Overview
		if err := json.Unmarshal(text, &o); err != nil {
			j.t.Fatalf("%s: %v", file, err)
		}
		printed, err := os.ReadFile(strings.TrimSuffix(file, ".json") + ".txt")
		var again bytes.Buffer
		if o.WriteText(&again); err != nil || again.String() != string(printed) {
			j.t.Errorf("%s says something else than its twin (%v)", file, err)
		}
		all[o.Stage] = &o
	}
	return all
}

var plantedPlace = regexp.MustCompile(`(?m)^(\w+) (\d+) blocks (\d+) bytes$`)

// TestHostLeakExample: exactly the planted places are suspected, with file and line and to the byte; the list of blocks adds up.
func TestHostLeakExample(t *testing.T) {
	t.Parallel()
	j := under(t, "--analysis=host-leaks", "--host-leak-mode=event", example("hostleak"), "8", "20")
	j.env = []string{fastBeats, "MSMEMSCOPE_HEAP_TOP=4"}
	j.run().want(0).noComplaints()
	o := j.overviews()[1]
	if o == nil {
		t.Fatalf("no report\n%s", j.stdout.String())
	}
	if len(o.Top) != 4 || o.Others == 0 {
		t.Errorf("%d sites listed, and %d others, of which 4 were asked for", len(o.Top), o.Others)
	}
	if !o.Health.Usable || o.Health.How != hostreport.ClosedExit {
		t.Errorf("data health %+v", o.Health)
	}
	wanted := map[string]string{}
	for _, m := range plantedPlace.FindAllStringSubmatch(j.stdout.String(), -1) {
		wanted[m[1]] = m[2] + " blocks, " + m[3] + " bytes"
	}
	if len(wanted) != 4 {
		t.Fatalf("the program says %q", j.stdout.String())
	}
	for _, site := range o.Top {
		if site.Class != "suspected_leak" {
			continue
		}
		all := strings.Join(site.C, "\n")
		found := ""
		for place := range wanted {
			if regexp.MustCompile(`::` + place + `\(.*\) \[0x[0-9a-f]+\] at \S*examples/hostleak\.cpp:\d+`).MatchString(all) {
				found = place
			}
		}
		if got := fmt.Sprintf("%d blocks, %d bytes", site.Unfreed.Blocks, site.Unfreed.Bytes); found == "" || got != wanted[found] {
			t.Errorf("suspected: %s of %s, want %s\n%s", got, found, wanted[found], all)
		}
		delete(wanted, found)
	}
	if len(wanted) > 0 || o.Suspected != 4 {
		t.Errorf("%d suspected; not found: %v", o.Suspected, wanted)
	}
	details, _ := filepath.Glob(filepath.Join(j.out, "*", "host_leak", "block_detail_1.csv"))
	text, err := os.ReadFile(strings.Join(details, ""))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	sum := uint64(0)
	for _, row := range rows[1:] {
		size, _ := strconv.ParseUint(row[1], 10, 64)
		sum += size
	}
	if sum != o.Unfreed.Bytes || uint64(len(rows)-1) != o.Unfreed.Blocks {
		t.Errorf("%d rows of %d bytes together; the overview has %v", len(rows)-1, sum, o.Unfreed)
	}
	profiles, _ := filepath.Glob(filepath.Join(j.out, "*", "host_leak", "live_stacks_1.pb.gz"))
	top, err := exec.Command("go", "tool", "pprof", "-symbolize=none", "-top", strings.Join(profiles, "")).CombinedOutput()
	if err != nil || !strings.Contains(string(top), "error_path") {
		t.Errorf("go tool pprof: %v\n%s", err, top)
	}
}

// TestHostLeakComplaint20Killed: a process that is killed has a report all the same, with its blocks.
func TestHostLeakComplaint20Killed(t *testing.T) {
	t.Parallel()
	j := under(t, "--analysis=host-leaks", example("hostleak"), "60", "5")
	j.env = []string{fastBeats}
	j.start()
	time.Sleep(6 * time.Second)
	pid := childNamed(j.cmd.Process.Pid, "hostleak")
	if pid == 0 || syscall.Kill(pid, syscall.SIGKILL) != nil {
		t.Fatalf("process %d", pid)
	}
	j.wait().want(128 + 9)
	o := j.overviews()[1]
	if o == nil || o.Health.How != hostreport.ClosedKilled || !o.Health.Usable {
		t.Fatalf("report %+v", o)
	}
	// How many of them are suspected by then depends on how busy the machine is.
	for _, place := range []string{"forgotten_request", "callback_registry", "error_path", "growing_log"} {
		if unfreed(t, j.out, place) == 0 {
			t.Errorf("no blocks of %s", place)
		}
	}
}

// control is `msmemscope --pid` with one command, or with those on its standard input.
func control(t *testing.T, pid int, command, input string) (stdout, stderr string, status int) {
	t.Helper()
	words := []string{"--pid=" + strconv.Itoa(pid)}
	if command != "" {
		words = append(words, "--command="+command)
	}
	cmd := exec.Command(tool, words...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	_ = cmd.Run()
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// prompted runs a session on a terminal, types keys at its prompt and answers what the terminal shows.
func prompted(t *testing.T, pid int, keys string) string {
	t.Helper()
	const session = `
import os, pty, select, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:3])
shown, typed = b"", False
while True:
    if not select.select([terminal], [], [], 30)[0]: # it waits for keys: a mistake
        os.kill(pid, 9)
    try:
        shown += os.read(terminal, 4096)
    except OSError: # the end
        break
    if not typed and b"> " in shown:
        typed = os.write(terminal, sys.argv[3].encode()) > 0
sys.stdout.buffer.write(shown)
sys.exit(os.waitpid(pid, 0)[1] != 0)`
	out, err := exec.Command("python3", "-c", session, tool, "--pid="+strconv.Itoa(pid), keys).CombinedOutput()
	if err != nil {
		t.Errorf("the session: %v: %s", err, out)
	}
	return string(out)
}

// TestControlPrompt: a session on a terminal has a prompt that completes words, and ends with the word for it.
func TestControlPrompt(t *testing.T) {
	t.Parallel()
	j := under(t, "--analysis=host-leaks", "sleep", "100").start()
	var pid int
	waitFor(t, "the program", func() bool {
		pid = childNamed(j.cmd.Process.Pid, "sleep")
		out, _, _ := control(t, max(pid, 1), "display status", "")
		return pid != 0 && strings.Contains(out, "window 1 open for")
	})
	text := prompted(t, pid, "disp\tst\t\rquit\r")
	if !strings.Contains(text, "msmemscope> ") || !strings.Contains(text, "display status") || !strings.Contains(text, "window 1 open for") {
		t.Errorf("on a terminal:\n%s", text)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	j.wait().want(128 + int(syscall.SIGKILL))
}

// TestControlSession: windows of a running process are opened, looked into and closed from outside, also by several at once.
func TestControlSession(t *testing.T) {
	t.Parallel()
	j := under(t, "--analysis=host-leaks", example("hostleak"), "8", "10")
	j.env = []string{fastBeats}
	j.start()
	var pid int
	waitFor(t, "the program", func() bool {
		pid = childNamed(j.cmd.Process.Pid, "hostleak")
		out, _, _ := control(t, max(pid, 1), "display status", "")
		return pid != 0 && strings.Contains(out, "window 1 open for")
	})
	expect := func(command, input string, status int, parts ...string) {
		t.Helper()
		stdout, stderr, got := control(t, pid, command, input)
		for _, part := range parts {
			if !strings.Contains(stdout+stderr, part) {
				t.Errorf("%q %q: %q is not in\n%s%s", command, input, part, stdout, stderr)
			}
		}
		if got != status {
			t.Errorf("%q %q: status %d, want %d\n%s%s", command, input, got, status, stdout, stderr)
		}
	}
	expect("start", "", 1, "a window is open")
	looks := make(chan bool)
	for range 8 {
		go func() {
			out, _, _ := control(t, pid, "display host_leak summary", "")
			looks <- strings.HasPrefix(out, fmt.Sprintf("====== Host Leak Overview (interim snapshot): stage=1, pid=%d ======", pid))
		}()
	}
	for range 8 {
		if !<-looks {
			t.Error("one of several looks at once has failed")
		}
	}
	expect("stop", "", 0, "window 1:", "leak_overview_1.txt")
	expect("display host_leak summary", "", 0, "no active window\n")
	expect("stop", "", 1, "no active window")
	if out, complaints, status := control(t, pid, "start --sample-rate=2 --block-size-threshold=100", ""); out != "[msmemscope] Info: window 2 is open.\n" || complaints != "" || status != 0 {
		t.Errorf("start: status %d, %q, %q", status, out, complaints)
	}
	expect("", "display status\nhelp\ndisplay host_leak summary --json\nquit\nstop\n", 0, "window 2 open", "close it and write its report", `"sample_rate": 2`)
	expect("", "bogus\n", 1, `"bogus" is not a command; accepted: start, stop, display host_leak summary, display status, flush, quit`)
	expect("display host_leak summary --top=0", "", 1, "--top=0 is not accepted here")
	expect("flush", "", 1, "nothing of device memory is recorded")
	j.wait().want(0)
	_, stderr, status := control(t, pid, "stop", "")
	if status != 1 || !strings.Contains(stderr, fmt.Sprintf("there is no process %d", pid)) {
		t.Errorf("after the end: status %d, %q", status, stderr)
	}
	reports := j.overviews()
	if len(reports) != 2 || reports[2].Health.SampleRate != 2 || reports[2].Health.Threshold != 100 || reports[1].Health.How != hostreport.ClosedStop {
		t.Errorf("%d reports: %+v", len(reports), reports)
	}
	_, stderr, status = control(t, os.Getpid(), "stop", "")
	if status != 1 || !strings.Contains(stderr, "has no library of msmemscope loaded") {
		t.Errorf("a process without our libraries: status %d, %q", status, stderr)
	}
}

// TestHostLeakComplaint19DiskFull: a report that does not fit on the disk is told, and the program is unharmed.
func TestHostLeakComplaint19DiskFull(t *testing.T) {
	t.Parallel()
	needRoot(t)
	j := under(t, "--analysis=host-leaks", "--host-leak-mode=event", example("hostleak"), "2", "1")
	j.mount = "mkdir " + j.out + " && mount -t tmpfs -o size=32k,mode=755 none " + j.out
	j.run().want(0)
	if got := strings.Join(j.complaints(), "\n"); !strings.Contains(got, "no space left on device") {
		t.Errorf("the tool says %q", got)
	}
}

// TestHostLeakPython: what is suspected is the two planted lines of Python and nothing else, with as many blocks as the program counts;
// and the keys that leak with the second, but for those that Python has made at its start.
func TestHostLeakPython(t *testing.T) {
	t.Parallel()
	const python = "/usr/bin/python3" // no wrapper of a version manager
	if _, err := os.Stat(python); err != nil {
		t.Skip(err)
	}
	j := under(t, "--analysis=host-leaks", python, example("hostleak.py"), "8", "20")
	j.env = []string{fastBeats, "PYTHONMALLOC=malloc"}
	j.run().want(0).noComplaints()
	o := j.overviews()[1]
	var registered, remembered, table uint64
	_, err := fmt.Sscanf(strings.SplitN(j.stdout.String(), "\n", 2)[0], "register %d blocks, remember %d blocks, table %d blocks", &registered, &remembered, &table)
	if o == nil || err != nil {
		t.Fatalf("%v\n%s", err, j.stdout.String())
	}
	wanted := map[string]uint64{"register": registered, "remember": remembered}
	for _, site := range o.Top {
		if site.Class != "suspected_leak" {
			continue
		}
		m := regexp.MustCompile(`hostleak\.py\(\d+\): (register|remember|main)$`).FindStringSubmatch(append(site.Python, "")[0])
		if m == nil {
			t.Errorf("suspected: %v %v", site.Python, site.C)
			continue
		}
		if n := site.Unfreed.Blocks; m[1] == "main" && (n > remembered || n+300 < remembered) {
			t.Errorf("%d blocks of main are suspected, %d keys stay: %v", n, remembered, site.Python)
		}
		if site.Unfreed.Blocks == wanted[m[1]] {
			wanted[m[1]] = 0
		}
	}
	if wanted["register"]+wanted["remember"] > 0 {
		t.Errorf("not found with their number of blocks: %v, in %d suspected", wanted, o.Suspected)
	}
}
