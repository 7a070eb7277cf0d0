package smoke

import (
	"fmt"
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

// TestATBOlder: a libatb.so that does not say who an operator is. The program runs as ever, and one line says what is missing.
func TestATBOlder(t *testing.T) {
	j := under(t, "--events=launch,access,alloc,free", target("atb_cxx_abi_1"), "2")
	j.env = []string{"LD_LIBRARY_PATH=" + filepath.Join(build, "vnpu", "atb", "older", "lib")}
	j.run().want(0)
	if got := j.stdout.String(); !strings.Contains(got, "last 23 saved 0\n") {
		t.Errorf("the program says %q", got)
	}
	const line = "operators of ATB are not recorded: this libatb.so does not tell their names"
	if n := strings.Count(fmt.Sprint(j.stdout.String(), j.stderr.String()), line); n != 1 {
		t.Errorf("said %d times:\n%s%s", n, j.stdout.String(), j.stderr.String())
	}
	for _, row := range columns(t, j) {
		if row[1] == "OP_LAUNCH" || row[1] == "ACCESS" {
			t.Errorf("row %v", row)
		}
	}
}
