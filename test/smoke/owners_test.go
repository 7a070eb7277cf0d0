package smoke

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var withOwners = []string{"--analysis=leaks,decompose,inefficient", "--events=alloc,free,launch,access"}

// TestOwners: labels and accesses are in the owners, waste is in inefficient_type, and messages that are no marks have no row.
func TestOwners(t *testing.T) {
	j := under(t, append(withOwners, target("owners"))...).run().want(0).noComplaints()
	checkTold(t, j, "SYSTEM")
}

// TestOwnersNotAsked: without the analyses, and without the events, nothing of it is in the rows.
func TestOwnersNotAsked(t *testing.T) {
	j := under(t, target("owners")).run().want(0).noComplaints()
	for _, f := range columns(t, j) {
		if strings.Contains(f[9], "owner:") || strings.Contains(f[9], "inefficient_type:") || f[1] == "ACCESS" || f[1] == "MSTX" {
			t.Error(f)
		}
	}
	j = under(t, "--analysis=decompose", "--events=alloc", target("owners")).run().want(0).noComplaints()
	ops := 0
	for _, f := range columns(t, j) {
		if f[1] != "MALLOC" && f[1] != "SYSTEM" {
			t.Error(f)
		}
		ops += strings.Count(f[9], "@ops") // the accesses were collected all the same
	}
	if ops != 2 {
		t.Errorf("%d blocks of operators", ops)
	}
}

var (
	allocation = regexp.MustCompile(`allocation_id:(\d+),`)
	wasteKey   = regexp.MustCompile(`,inefficient_type:[a-z_,]*[a-z]`)
)

// wastes are the kinds of waste that the MALLOC rows of a CSV file name, by allocation id, and whether its owner says that an operator has used it.
func wastes(t testing.TB, text string) (out map[string]string, ops map[string]bool) {
	t.Helper()
	out, ops = map[string]string{}, map[string]bool{}
	for line := range strings.Lines(text) {
		if id := allocation.FindStringSubmatch(line); id != nil && strings.Contains(line, ",MALLOC,") {
			out[id[1]] = wasteKey.FindString(line)
			ops[id[1]] = strings.Contains(line, "owner:PTA@ops")
		}
	}
	return out, ops
}

// checkOwners compares what a run has found out with what its rows say: with the offline question, and access by access. After the
// death of a collector it may know more than the rows.
func checkOwners(t *testing.T, j *job, exact bool) (flagged int) {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(j.out, "*", "device_*", "dump", "memscope_dump_*.csv"))
	if len(paths) != 2 {
		t.Fatalf("files: %v", paths)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		online, ops := wastes(t, string(text))
		plain := filepath.Join(t.TempDir(), "plain.csv")
		if err := os.WriteFile(plain, wasteKey.ReplaceAll(text, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(tool, "dump", "check-inefficient", plain).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		again, err := os.ReadFile(plain)
		if err != nil {
			t.Fatal(err)
		}
		offline, _ := wastes(t, string(again))
		accessed := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			if id := allocation.FindStringSubmatch(line); id != nil && strings.Contains(line, ",ACCESS,") {
				accessed[id[1]] = true
			}
		}
		for id, kinds := range offline {
			if online[id] != "" {
				flagged++
			}
			missing := slices.ContainsFunc(strings.FieldsFunc(kinds, func(r rune) bool { return r == ',' || r == ':' }),
				func(kind string) bool { return !strings.Contains(online[id], kind) })
			if missing || exact && online[id] != kinds {
				t.Errorf("%s: block %s is %q online and %q offline", path, id, online[id], kinds)
			}
			if ops[id] != accessed[id] && (exact || accessed[id]) {
				t.Errorf("%s: block %s was accessed: %v; its owner says %v", path, id, accessed[id], ops[id])
			}
		}
	}
	return flagged
}

// TestOwnersAgree: online and offline say the same.
func TestOwnersAgree(t *testing.T) {
	j := under(t, append(withOwners, target("owners"), "random", fmt.Sprint(rand.IntN(1<<30)), "60000")...).run().want(0).noComplaints()
	j.dumps()
	if n := checkOwners(t, j, true); n < 1000 {
		t.Errorf("only %d blocks are flagged", n)
	}
	text, _ := shell("cat " + j.out + "/*/device_*/dump/*.csv")
	for _, kind := range []string{"early_allocation", "late_deallocation", "temporary_idleness"} {
		if !strings.Contains(string(text), kind) {
			t.Errorf("no %s", kind)
		}
	}
}

// TestOwnersKilled kills the program, and TestOwnersCollectorKilled the collector, while rows wait for the blocks before them.
func TestOwnersKilled(t *testing.T) {
	for range max(1, kills()/20) {
		j := startAtRandom(t)
		if err := syscall.Kill(childNamed(j.cmd.Process.Pid, "owners"), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		j.wait().want(137)
		j.dumps()
		checkOwners(t, j, true)
	}
}

func TestOwnersCollectorKilled(t *testing.T) {
	for range max(1, kills()/20) {
		j := startAtRandom(t)
		if err := syscall.Kill(j.collector(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(childNamed(j.cmd.Process.Pid, "owners"), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		j.wait()
		recovered(t, j)
		checkOwners(t, j, false)
	}
}

// startAtRandom runs the program for ever and returns after a while.
func startAtRandom(t *testing.T) *job {
	t.Helper()
	j := under(t, append(withOwners, target("owners"), "random", fmt.Sprint(rand.IntN(1<<30)), "0")...).start()
	waitFor(t, "events of both cards", func() bool { // among thousands there are
		paths, _ := filepath.Glob(filepath.Join(j.out, "*", "spool", "*.seg"))
		size := int64(0)
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil {
				size += info.Size()
			}
		}
		return size > 100_000
	})
	time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
	return j
}

// TestExec: a program of the user's own gets every row, with what was learned later, and its words join the report; a bad one costs a line.
func TestExec(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	seen := filepath.Join(dir, "seen")
	good := script("good", "cat > "+seen+"; echo my own report")
	bad := script("bad", "echo too bad >&2; exit 3")
	j := under(t, "--analysis=decompose,inefficient,exec:"+good+",exec:"+bad, "--events=alloc,free,launch,access", target("owners")).run().want(0)
	checkTold(t, j, "SYSTEM")
	if !strings.Contains(j.stdout.String()+j.stderr.String(), "\nmy own report\n") {
		t.Errorf("no report: %s", j.stdout.String())
	}
	if got := j.complaints(); len(got) != 1 || !strings.HasSuffix(got[0], "--analysis=exec:"+bad+": exit status 3: too bad.") {
		t.Errorf("complaints: %q", got)
	}
	lines, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	var last int
	owners := 0
	for line := range strings.Lines(string(lines)) {
		var row struct {
			ID    int
			Event string
			Attr  map[string]string
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if row.Attr["owner"] == "PTA@fsdp2@backward@weight@ops" && row.Attr["inefficient_type"] == "late_deallocation" {
			owners++
		}
		last = row.ID
	}
	if rows := columns(t, j); owners != 1 || fmt.Sprint(last) != rows[len(rows)-1][0] {
		t.Errorf("%d blocks with the owner, last id %d", owners, last)
	}
}
