package smoke

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// recovered finishes the dumps of the run with `msmemscope dump recover` and reads them.
func recovered(t *testing.T, j *job) []*dump {
	t.Helper()
	var dumps []*dump
	for _, dir := range j.projects() {
		out, err := exec.Command(tool, "dump", "recover", dir).CombinedOutput()
		if err != nil {
			t.Errorf("dump recover: %v: %s", err, out)
		}
		dumps = append(dumps, readProject(t, dir)...)
	}
	return dumps
}

// The collector is killed: the program runs to its right end, one line says so, and what was spooled can be recovered, in
// order and without a gap.
func TestCollectorKilled(t *testing.T) {
	const count = 100000
	n := max(1, kills()/20)
	for i := range n {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			j := under(t)
			tell := tellTo(j)
			j.words = []string{target("numbered"), fmt.Sprint(killThreads), fmt.Sprint(count), "3"}
			j.start()
			tell.listen(j)
			<-tell.first
			collector := j.collector()
			waitFor(t, "the dump", func() bool { return len(j.projects()) == 1 })
			time.Sleep(time.Duration(i%10) * 10 * time.Millisecond)
			if err := syscall.Kill(collector, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			j.wait().want(0)
			if _, theirs := ours(j.stdout.String()); theirs != "done\n" {
				t.Errorf("standard output %q", j.stdout.String())
			}
			if lines := j.complaints(); len(lines) != 1 || !strings.Contains(lines[0], "collector") {
				t.Errorf("complaints: %q", lines)
			}
			for thread, n := range tell.told() {
				if n != count {
					t.Errorf("thread %d told %d", thread, n)
				}
			}
			if err := checkNumbers(recovered(t, j), [killThreads]int64{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// The collector is killed while the program waits for it: it goes on within moments, not after the 30 s of a collector that
// does not answer.
func TestCollectorKilledWhileStopped(t *testing.T) {
	j := under(t)
	smallRing(j)
	tell := tellTo(j)
	j.words = []string{target("numbered"), fmt.Sprint(killThreads), "200000", "3"}
	j.start()
	tell.listen(j)
	<-tell.first
	collector := j.collector()
	_ = syscall.Kill(collector, syscall.SIGSTOP)
	time.Sleep(time.Second)
	killed := time.Now()
	_ = syscall.Kill(collector, syscall.SIGKILL)
	j.wait().want(0)
	if took := time.Since(killed); took > 20*time.Second {
		t.Errorf("the end came %v after the death of the collector", took)
	}
	recovered(t, j)
}

// The launcher is killed: the program and its recording go on.
func TestLauncherKilled(t *testing.T) {
	j := under(t)
	tell := tellTo(j)
	j.words = []string{target("numbered"), fmt.Sprint(killThreads), "50000", "3"}
	j.start()
	tell.listen(j)
	<-tell.first
	j.collector()
	if err := j.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	j.wait().want(137)
	told := tell.told()
	waitFor(t, "the end of the spool", func() bool {
		spools, _ := filepath.Glob(filepath.Join(j.out, "*", "*spool*"))
		return len(j.projects()) == 1 && len(spools) == 0
	})
	if err := checkNumbers(j.dumps(), told); err != nil {
		t.Error(err)
	}
	for thread, n := range told {
		if n != 50000 {
			t.Errorf("thread %d told %d", thread, n)
		}
	}
}

// dump recover on what is no project, and on a dump that is complete.
func TestRecoverNothing(t *testing.T) {
	empty := t.TempDir()
	for _, dir := range []string{empty, filepath.Join(empty, "missing"), "/dev/null"} {
		out, err := exec.Command(tool, "dump", "recover", dir).CombinedOutput()
		if err == nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), dir) {
			t.Errorf("%s: %v, %q", dir, err, out)
		}
	}
	j := under(t, target("numbered"), "2", "100").run().want(0)
	for _, dir := range j.projects() {
		before, _ := os.ReadFile(j.dumps()[0].path)
		out, _ := exec.Command(tool, "dump", "recover", dir).CombinedOutput()
		if after, _ := os.ReadFile(j.dumps()[0].path); string(before) != string(after) {
			t.Errorf("recover has changed a complete dump: %s", out)
		}
	}
}
