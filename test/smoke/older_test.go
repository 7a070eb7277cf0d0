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
	_ = os.Remove(path) // ATB has a folder of its own
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

// dcmiWithout compiles a DCMI without one of its functions.
func dcmiWithout(function string) string { return "-D" + function + "=dcmi_older vnpu/dcmi/dcmi.c" }

// TestOlderStack: a library below us that is absent, empty or older. The program does what it does without the tool, what can be
// recorded is, and one line says what is not. (libprofapi and the driver: TestKernelOlderStack; libatb: TestATBOlder.)
func TestOlderStack(t *testing.T) {
	const noMark = "marks and pools are not recorded: an mstx here is too old."
	const noUsage = "process_used and device_used are not collected: "
	const noMstx = "marks, ranges and pools (mstx, libms_tools_ext.so)"
	const lacks = noUsage + "libdcmi.so lacks: "
	for name, c := range map[string]struct {
		library, change string
		complaint       string // on the terminal and in the log
		log             string // in the log
		marked          bool   // mstx works
	}{
		"no mstx":                     {"libms_tools_ext.so", "none", "", noMstx, false},
		"empty mstx":                  {"libms_tools_ext.so", "empty", "", noMstx, false},
		"bare mstx":                   {"libms_tools_ext.so", "bare", "", noMstx, false},
		"old mstx":                    {"libms_tools_ext.so", oldMstx, noMark, "", false},
		"no DCMI":                     {"libdcmi.so", "none", "", noUsage + "libdcmi.so cannot be loaded", true},
		"empty DCMI":                  {"libdcmi.so", "empty", "", noUsage + "libdcmi.so cannot be loaded", true},
		"bare DCMI":                   {"libdcmi.so", "bare", "", lacks + "dcmi_init", true},
		"DCMI without initialization": {"libdcmi.so", dcmiWithout("dcmi_init"), "", lacks + "dcmi_init", true},
		"DCMI without cards":          {"libdcmi.so", dcmiWithout("dcmi_get_card_list"), "", lacks + "dcmi_get_card_list", true},
		"DCMI without devices":        {"libdcmi.so", dcmiWithout("dcmi_get_device_num_in_card"), "", lacks + "dcmi_get_device_num_in_card", true},
		"DCMI without numbers":        {"libdcmi.so", dcmiWithout("dcmi_get_device_logic_id"), "", lacks + "dcmi_get_device_logic_id", true},
		"DCMI without memory":         {"libdcmi.so", dcmiWithout("dcmi_get_device_hbm_info"), "", lacks + "dcmi_get_device_hbm_info", true},
		"DCMI without processes": {"libdcmi.so", dcmiWithout("dcmi_get_npu_proc_mem_info"), "",
			"] process_used is not collected: libdcmi.so lacks: dcmi_get_npu_proc_mem_info", true},
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
			used, cards := 0, 0
			for _, f := range columns(t, j) {
				used += strings.Count(f[9], ",process_used:")
				cards += strings.Count(f[9], ",device_used:")
			}
			if strings.Contains(c.log, "process_used") && used > 0 || strings.Contains(c.log, "device_used") && cards > 0 {
				t.Errorf("process_used in %d rows, device_used in %d", used, cards)
			}
			if strings.Contains(name, "without processes") && cards == 0 {
				t.Error("no device_used")
			}
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

// TestBrokenStack: every combination of libraries that are there, absent, empty and without a symbol (level 1: all in the same state). The program launches
// kernels as it does without the tool; each that is not there has one line.
func TestBrokenStack(t *testing.T) {
	states := []string{"there", "none", "empty", "bare"}
	bare := filepath.Join(olderStack(t, "bare.so", "bare"), "bare.so")
	run := func(t *testing.T, dcmi, profapi, mstx string) {
		dir := t.TempDir()
		libraries, _ := filepath.Glob(filepath.Join(build, "vnpu", "lib64", "*.so"))
		for _, path := range libraries {
			name := filepath.Base(path)
			state := map[string]string{"libdcmi.so": dcmi, "libprofapi.so": profapi, "libms_tools_ext.so": mstx}[name]
			switch state {
			case "none":
				continue
			case "empty":
				path = os.DevNull
			case "bare":
				path = bare
			}
			if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		words := []string{target("kernels"), "ways"}
		alone := without(t, words...)
		j := under(t, append([]string{"--level=op,kernel"}, words...)...)
		alone.env, j.env = []string{"LD_LIBRARY_PATH=" + dir}, []string{"LD_LIBRARY_PATH=" + dir, "VNPU_STATE_DIR=" + t.TempDir()}
		alone.run().want(0)
		j.run().want(0)
		launches := toldLaunches(t, j.stdout.String())
		if n := len(toldLaunches(t, alone.stdout.String())); n != 20 || len(launches) != n {
			t.Errorf("%d launches, without the tool %d", len(launches), n)
		}
		j.dumps()
		if profapi == "there" {
			j.noComplaints()
			j.checkLaunches(launches, allKinds...)
		} else {
			j.oneComplaint("kernels are not recorded: libprofapi.so is missing or too old.")
			j.checkLaunches(launches)
		}
		for line, want := range map[string]bool{
			"process_used and device_used are not collected: libdcmi.so ": dcmi != "there",
			"marks, ranges and pools (mstx, libms_tools_ext.so)":          true, // the program makes none
			"operators and kernels of ATB (libatb.so)":                    true,
		} {
			if n := strings.Count(j.log(), line); n != map[bool]int{true: 1}[want] {
				t.Errorf("the log says %d times %q:\n%s", n, line, j.log())
			}
		}
	}
	for _, dcmi := range states {
		for _, profapi := range states {
			for _, mstx := range states {
				if level < 2 && (dcmi != profapi || dcmi != mstx) {
					continue
				}
				t.Run("DCMI "+dcmi+" profapi "+profapi+" mstx "+mstx, func(t *testing.T) {
					t.Parallel()
					run(t, dcmi, profapi, mstx)
				})
			}
		}
	}
}
