package smoke

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// olderStack is a folder with the libraries of the virtual NPU, of which one is changed: "none" it is not there, "empty" a file
// of no bytes, "bare" a library without a symbol; anything else is how to compile it, behind the usual flags.
func olderStack(t *testing.T, library, change string) string {
	t.Helper()
	dir := t.TempDir()
	libraries, _ := filepath.Glob(filepath.Join(build, "vnpu", "lib64", "*.so"))
	for _, path := range libraries {
		if err := os.Symlink(path, filepath.Join(dir, filepath.Base(path))); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, library)
	remove(t, path)
	switch change {
	case "none":
	case "empty":
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	default:
		if change == "bare" {
			change = "-x c /dev/null"
		}
		cmd := exec.Command("sh", "-ec", "cd "+root+" && gcc -std=gnu17 -O1 -fvisibility=hidden -Ivnpu/include -fPIC -shared -pthread -o "+path+" "+change)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	return dir
}

// oldMstx compiles an mstx without the functions for memory.
const oldMstx = "-Ivnpu/mstx -x c - <<END\n$(sed -E 's/(> |<= )MSTX_API_MODULE_CORE_MEM/\\1MSTX_API_MODULE_CORE_DOMAIN/' vnpu/mstx/mstx.c)\nEND"

// TestOlderStack: a library below us that is absent, empty or older. The program does what it does without the tool, what can be
// recorded is, and one line says what is not. (libprofapi and the driver: TestKernelOlderStack.)
func TestOlderStack(t *testing.T) {
	const noMark = "marks and pools are not recorded: an mstx here is too old."
	const noUsage = "process_used and device_used are not collected: "
	for name, c := range map[string]struct {
		library, change string
		complaint       string // on the terminal and in the log
		log             string // in the log
		marked          bool   // mstx works
	}{
		"no mstx":    {"libms_tools_ext.so", "none", "", "", false},
		"empty mstx": {"libms_tools_ext.so", "empty", "", "", false},
		"bare mstx":  {"libms_tools_ext.so", "bare", "", "", false},
		"old mstx":   {"libms_tools_ext.so", oldMstx, noMark, "", false},
		"no DCMI":    {"libdcmi.so", "none", "", noUsage + "libdcmi.so cannot be loaded", true},
		"empty DCMI": {"libdcmi.so", "empty", "", noUsage + "libdcmi.so cannot be loaded", true},
		"bare DCMI":  {"libdcmi.so", "bare", "", noUsage + "libdcmi.so lacks: dcmi_init", true},
		"old DCMI":   {"libdcmi.so", "-Ddcmi_get_device_hbm_info=dcmi_older vnpu/dcmi/dcmi.c", "", noUsage + "libdcmi.so lacks: dcmi_get_device_hbm_info", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := olderStack(t, c.library, c.change)
			words := []string{target("older"), filepath.Join(dir, "libms_tools_ext.so")}
			if c.marked {
				words = append(words, "told")
			}
			plain := without(t, words...)
			plain.env = []string{"LD_LIBRARY_PATH=" + dir}
			plain.run().want(0)

			j := under(t, words...)
			j.env = []string{"LD_LIBRARY_PATH=" + dir, "VNPU_STATE_DIR=" + t.TempDir()}
			j.run().want(0)
			if with, alone := mstxLine(j), mstxLine(plain); with != alone {
				t.Errorf("mstx: %q under the tool, %q without it", with, alone)
			}
			if c.complaint != "" {
				j.oneComplaint(c.complaint)
			} else {
				j.noComplaints()
			}
			if c.log != "" && strings.Count(j.log(), c.log) != 1 {
				t.Errorf("the log does not say once %q:\n%s", c.log, j.log())
			}
			checkTold(t, j, "SYSTEM")
		})
	}
}

// mstxLine is what the target says of mstx.
func mstxLine(j *job) string {
	for line := range strings.Lines(j.stdout.String()) {
		if strings.HasPrefix(line, "mstx: ") {
			return line
		}
	}
	return ""
}
