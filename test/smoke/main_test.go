// Package smoke runs the built tree end to end: the real msmemscope over real programs on the virtual NPU.
//
// Each file is a suite, each case a test of its own, so any of them can be selected (go test ./test/smoke -run Kill) and a
// failing one stops no other. Environment:
//
//	SMOKE_LEVEL       1: minutes, gates every change; 2: everything. Without it nothing runs (`go test ./...`).
//	MSMEMSCOPE_BUILD  the tree to test, default build/
//	SMOKE_KILLS       instants at which the kill tests kill, default 200
//	SMOKE_PRELOAD     a sanitizer that programs under the tool preload behind our library (make smoke-asan)
//	SOAK              with a value: 2,000 instants
//
// Every dump of every run is checked on top of what the case is about: see dump_test.go.
package smoke

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

var (
	root  string // of the source tree
	build string // the built tree
	tool  string // the front script
	level int
)

func TestMain(m *testing.M) {
	level, _ = strconv.Atoi(os.Getenv("SMOKE_LEVEL"))
	if level == 0 {
		fmt.Println("smoke: SKIPPED, SMOKE_LEVEL is not set (make smoke)")
		return
	}
	// Many cases wait more than they work; how many run at a time is for each suite to say.
	flag.Parse()
	if err := errors.Join(flag.Set("test.parallel", "16"), prepare()); err != nil {
		fmt.Fprintf(os.Stderr, "smoke: %v\n", err)
		os.Exit(1)
	}
	// Whoever runs the suites may ignore signals (nohup, a background job of a script); the programs under test begin without that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	os.Exit(m.Run())
}

// prepare finds the tree and builds the target programs.
func prepare() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	root = filepath.Dir(filepath.Dir(dir))
	if build = os.Getenv("MSMEMSCOPE_BUILD"); build == "" {
		build = filepath.Join(root, "build")
	}
	tool = filepath.Join(build, "bin", "msmemscope")
	if _, err := os.Stat(tool); err != nil {
		return fmt.Errorf("%w; run make build first", err)
	}
	cmd := exec.Command("make", "-s", "-C", root, "-f", "test/test.mk", "targets")
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make targets: %w\n%s", err, out)
	}
	return nil
}

// target is the path of a program of test/targets.
func target(name string) string { return filepath.Join(root, "build", "targets", name) }

// example is the path of a program of examples/.
func example(name string) string { return filepath.Join(build, "examples", name) }

// needLevel skips a case that belongs to a higher level.
func needLevel(t *testing.T, n int) {
	t.Helper()
	if level < n {
		t.Skipf("level %d", n)
	}
}

// needRoot skips a case that must mount file systems.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for a mount namespace")
	}
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("no mount namespace here: %s", out)
	}
}
