package smoke

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// The whole aarch64 tree, launcher and collector too, runs under qemu-user. For that the kernel must start aarch64 programs
// by itself, so the interpreter is registered for the time of the case. (tools/test-aarch64.sh needs no such help: there only
// the target is emulated.)
func TestAArch64(t *testing.T) {
	needLevel(t, 2)
	tree := filepath.Join(root, "build", "aarch64")
	if _, err := os.Stat(filepath.Join(tree, "bin", "msmemscope")); err != nil {
		t.Skipf("%v; make build-aarch64", err)
	}
	j := under(t)
	if runtime.GOARCH != "arm64" {
		emulate(t)
		j.env = []string{"QEMU_LD_PREFIX=/usr/aarch64-linux-gnu"}
	}
	j.bare = true
	j.words = []string{filepath.Join(tree, "bin", "msmemscope"), "-o", j.out, filepath.Join(tree, "examples", "train")}
	checkDemo(t, j.run().want(0).noComplaints())
}

// emulate registers qemu-user for aarch64 until the end of the case.
func emulate(t *testing.T) {
	const (
		dir  = "/proc/sys/fs/binfmt_misc"
		name = "msmemscope-smoke-aarch64"
		qemu = "/usr/bin/qemu-aarch64-static"
		// An ELF file, 64 bit, little-endian, EXEC or DYN, machine 183. P keeps argv[0], F opens the interpreter at once.
		rule = `:` + name + `:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00` +
			`:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:` + qemu + `:PF`
	)
	if _, err := os.Stat(qemu); err != nil {
		t.Skipf("%v (Debian: qemu-user-static)", err)
	}
	if _, err := os.Stat("/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1"); err != nil {
		t.Skipf("%v (Debian: libc6-arm64-cross)", err)
	}
	if others, _ := filepath.Glob(dir + "/*aarch64*"); len(others) > 0 {
		t.Skipf("%s is registered already; how it treats argv[0] is not ours to change", others[0])
	}
	if err := os.WriteFile(dir+"/register", []byte(rule), 0); err != nil {
		t.Skipf("cannot register an interpreter: %v (needs root and a mounted binfmt_misc)", err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("-1"), 0); err != nil {
			t.Error(err)
		}
	})
}
