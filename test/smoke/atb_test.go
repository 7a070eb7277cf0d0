package smoke

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var atbABIs = []string{"cxx_abi_0", "cxx_abi_1"}

// withoutRows is what a program prints beside the rows that it tells.
func withoutRows(stdout string) string {
	return regexp.MustCompile(`(?m)^ROW.*\n`).ReplaceAllString(stdout, "")
}

// TestATB: operators, kernels and tensors of ATB, in both C++ ABIs, as the options want them.
func TestATB(t *testing.T) {
	for _, abi := range atbABIs {
		for options, tells := range map[string]string{
			"--events=launch": "op",
			"--events=access": "access",
			"--events=alloc,free,launch,access --level=op,kernel": "op access kernel",
			"--events=launch --level=kernel":                      "kernel",
		} {
			t.Run(abi+" "+tells, func(t *testing.T) {
				t.Parallel()
				words := append(strings.Fields(options), target("atb_"+abi), "3")
				j := under(t, append(words, strings.Fields(tells)...)...).run().want(0).noComplaints()
				checkTold(t, j, "SYSTEM", "MALLOC", "FREE")
				if got := withoutRows(j.stdout.String()); !strings.HasPrefix(got, "last 39 saved 0\n") {
					t.Errorf("the program says %q", got)
				}
			})
		}
	}
}

// TestATBQuiet: without a reason to record them, and while paused, operators and kernels run as ever and have no row.
func TestATBQuiet(t *testing.T) {
	for _, abi := range atbABIs {
		for _, options := range []string{"--events=alloc,free", "--collect-mode=deferred --events=launch,access --level=op,kernel"} {
			j := under(t, append(strings.Fields(options), target("atb_"+abi), "1")...).run().want(0)
			if got := j.stdout.String(); !strings.Contains(got, "last 7 saved 0\n") {
				t.Errorf("the program says %q", got)
			}
			for _, row := range columns(t, j) {
				if row[1] == "OP_LAUNCH" || row[1] == "KERNEL_LAUNCH" || row[1] == "ACCESS" {
					t.Errorf("%s: row %v", options, row)
				}
			}
		}
	}
}

// TestATBSaves: what the program itself has ATB save is saved also under the tool.
func TestATBSaves(t *testing.T) {
	for _, abi := range atbABIs {
		alone := without(t, target("atb_"+abi), "2")
		alone.env = []string{"VNPU_ATB_SAVE=1"}
		want := alone.run().want(0).stdout.String()
		if !strings.HasPrefix(want, "last 23 saved ") || strings.HasSuffix(want, " 0\n") {
			t.Fatalf("the program alone says %q", want)
		}
		j := under(t, "--level=op,kernel", target("atb_"+abi), "2", "op", "kernel")
		j.env = alone.env
		j.run().want(0).noComplaints()
		checkTold(t, j, "SYSTEM", "MALLOC", "FREE")
		if got := withoutRows(j.stdout.String()); !strings.HasPrefix(got, want) {
			t.Errorf("under the tool the program says %q, alone %q", got, want)
		}
	}
}

// TestATBOlder: a libatb.so that lacks functions. The program runs as ever, what can be recorded is, and one line says what is not.
func TestATBOlder(t *testing.T) {
	const noNames = "operators of ATB are not recorded: this libatb.so does not tell their names."
	older := func(t *testing.T, renamed string) string {
		dir := t.TempDir()
		cmd := exec.Command("sh", "-ec", "cd "+root+" && ${CXX:-g++} -std=c++17 -O1 -Ivnpu/include -D_GLIBCXX_USE_CXX11_ABI=1 -D"+renamed+"=Older"+renamed+
			" -fPIC -shared -Wl,-soname,libatb.so -o "+dir+"/libatb.so vnpu/atb/atb.cpp -L"+build+"/vnpu/lib64 -Wl,-rpath,"+build+"/vnpu/lib64 -lascendcl")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return dir
	}
	for name, c := range map[string]struct {
		renamed string // empty: the library that tells nothing
		line    string
		tells   string // what is recorded all the same
	}{
		"nothing":      {"", noNames, ""},
		"no names":     {"GetOperationName", noNames, ""},
		"no directory": {"GetSaveTensorDir", noNames, ""},
		"no kernels":   {"SaveLaunchParam", "kernels of ATB are not recorded: this libatb.so does not tell them.", "op access"},
		"no tensors":   {"GetInTensors", "tensors of ATB's kernels are not recorded: this libatb.so does not tell them.", "op kernel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := []string{"--events=launch,alloc,free", "--level=op,kernel"}
			switch {
			case strings.Contains(c.tells, "kernel"):
				options[0] = "--events=launch,alloc,free,access"
			case c.tells != "":
				options[0] = "--events=launch,alloc,free,access"
			default:
				options[1] = "--level=op"
			}
			j := under(t, append(append(options, target("atb_cxx_abi_1"), "2"), strings.Fields(c.tells)...)...)
			dir := filepath.Join(build, "vnpu", "atb", "older", "lib")
			if c.renamed != "" {
				dir = older(t, c.renamed)
			}
			j.env = []string{"LD_LIBRARY_PATH=" + dir + ":" + filepath.Join(build, "vnpu", "lib64")}
			j.run().want(0)
			if got := withoutRows(j.stdout.String()); !strings.HasPrefix(got, "last 23 saved 0\n") {
				t.Errorf("the program says %q", got)
			}
			j.oneComplaint(c.line)
			if c.tells == "" {
				for _, row := range columns(t, j) {
					if row[1] == "OP_LAUNCH" || row[1] == "ACCESS" {
						t.Errorf("row %v", row)
					}
				}
			} else if strings.Contains(c.tells, "access") {
				checkTold(t, j, "SYSTEM", "MALLOC", "FREE")
			} else {
				checkTold(t, j, "SYSTEM", "MALLOC", "FREE", "ACCESS")
			}
		})
	}
}

// TestATBBroken: a libatb.so with which the program cannot run at all. Under the tool it fails in the same way.
func TestATBBroken(t *testing.T) {
	for _, change := range []string{"none", "empty", "bare"} {
		dir := olderStack(t, "libatb.so", change)
		program := filepath.Join(t.TempDir(), "atb") // without the path of the library in it
		if err := os.Symlink(target("atb_cxx_abi_1"), program); err != nil {
			t.Fatal(err)
		}
		words := []string{"env", "LD_LIBRARY_PATH=" + dir, "sh", "-c", `exec -a atb "$0"`, program}
		alone, j := without(t, words...).run(), under(t, words...).run()
		if alone.status() != j.status() || alone.stderr.String() != j.stderr.String() {
			t.Errorf("%s: status %d, without the tool %d: %s%s", change, j.status(), alone.status(), j.stderr.String(), alone.stderr.String())
		}
		if alone.status() == 0 {
			t.Errorf("%s: it runs", change)
		}
	}
}
