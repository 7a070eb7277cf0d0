package control

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// start runs a shell script that carries a session's name.
func start(t *testing.T, session, script string, args ...string) *exec.Cmd {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), EnvSession+"="+session)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// A process that becomes one program after another carries the name all the time, also between two of them, where it has no environment.
func TestCarriesThroughExec(t *testing.T) {
	cmd := start(t, "execs", `[ $1 = 0 ] || exec "$0" $(($1 - 1))`, "300")
	defer cmd.Wait()
	looks := 0
	for Carries("execs", cmd.Process.Pid) {
		looks++
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/stat")
	if err != nil || !bytes.Contains(stat, []byte(") Z ")) {
		t.Errorf("not seen after %d looks, while it is %s", looks, stat)
	}
}

// A name that goes from parent to child is found though every process that carries it lives for a moment only.
func TestCarriersOfADaemon(t *testing.T) {
	for range 50 {
		cmd := start(t, "daemon", `sh -c 'sleep 0.3 & exit' & exit`)
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		if len(Carriers("daemon", cmd.Process.Pid, cmd.Process.Pid)) == 0 {
			t.Fatal("nobody is seen")
		}
	}
}

// Somebody is seen as long as each process of a chain starts the next one and ends at once.
func TestCarriersOfAChain(t *testing.T) {
	for range 20 {
		cmd := start(t, "chain", `hop() { [ $1 = 0 ] && exec sleep 1; hop $(($1 - 1)) & exit; }; hop 100`)
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		if len(Carriers("chain", cmd.Process.Pid, cmd.Process.Pid)) == 0 {
			t.Fatal("nobody is seen")
		}
	}
}

// What carries another name, or none, is nobody's.
func TestCarriersOfOthers(t *testing.T) {
	cmd := start(t, "theirs", "exec sleep 60")
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if !Carries("theirs", cmd.Process.Pid) {
		t.Error("its own is not seen")
	}
	for _, name := range []string{"their", "theirs2", "ours"} {
		if Carries(name, cmd.Process.Pid) || len(Carriers(name, 0, cmd.Process.Pid)) != 0 {
			t.Errorf("%q is carried", name)
		}
	}
}
