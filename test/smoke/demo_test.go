package smoke

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// planted reads what the demo programs say they have forgotten: bytes and number of blocks for each card.
func planted(t testing.TB, stdout string) map[int][2]int64 {
	t.Helper()
	found := map[int][2]int64{}
	for _, m := range regexp.MustCompile(`(?m)^card (\d+): leaked (\d+) bytes in (\d+) allocations$`).FindAllStringSubmatch(stdout, -1) {
		card, _ := strconv.Atoi(m[1])
		bytes, _ := strconv.ParseInt(m[2], 10, 64)
		n, _ := strconv.ParseInt(m[3], 10, 64)
		found[card] = [2]int64{bytes, n}
	}
	if len(found) == 0 {
		t.Fatalf("the program does not say what it has planted:\n%s", stdout)
	}
	return found
}

// cards is the leak report of each card.
type cards map[int]struct {
	direct []string // its lines
	summed string   // its SUMMARY
}

// leakReport takes the leak report apart.
func leakReport(stdout string) cards {
	found := cards{}
	head := regexp.MustCompile(`^====== ERROR: Detected memory leaks on device (\d+) ======$`)
	card := -1
	for line := range strings.Lines(stdout) {
		line = strings.TrimSuffix(line, "\n")
		c := found[card]
		switch m := head.FindStringSubmatch(line); {
		case m != nil:
			card, _ = strconv.Atoi(m[1])
			c = found[card]
		case strings.HasPrefix(line, "Direct "):
			c.direct = append(c.direct, line)
		case strings.HasPrefix(line, "====== SUMMARY: "):
			c.summed = line
		default:
			continue
		}
		found[card] = c
	}
	return found
}

var direct = regexp.MustCompile(`^Direct Pytorch Caching memory pool leak of (\d+\.\d{6}) Mb\(s\) at 0x[1-9a-f][0-9a-f]* in kernel_\d+ at step (\d+)\.$`)

// checkDemo compares the report with what was planted.
func checkDemo(t *testing.T, j *job) {
	t.Helper()
	stdout := j.stdout.String()
	want, got := planted(t, stdout), leakReport(stdout)
	if len(got) != len(want) {
		t.Errorf("reports of %d cards, want %d", len(got), len(want))
	}
	for card, leak := range want {
		report := got[card]
		if int64(len(report.direct)) != leak[1] {
			t.Errorf("card %d: %d lines, want %d", card, len(report.direct), leak[1])
		}
		step := -1
		for _, line := range report.direct {
			m := direct.FindStringSubmatch(line)
			if m == nil {
				t.Errorf("card %d: line %q", card, line)
				continue
			}
			if mb := fmt.Sprintf("%f", float64(leak[0]/leak[1])/(1<<20)); m[1] != mb {
				t.Errorf("card %d: %s Mb, want %s", card, m[1], mb)
			}
			if s, _ := strconv.Atoi(m[2]); s <= step || s < 2 {
				t.Errorf("card %d: step %d after %d", card, s, step)
			} else {
				step = s
			}
		}
		summary := fmt.Sprintf("====== SUMMARY: %.6g Mb(s) leaked in %d allocation(s) ======", float64(leak[0])/(1<<20), leak[1])
		if report.summed != summary {
			t.Errorf("card %d: %q, want %q", card, report.summed, summary)
		}
		gap := fmt.Sprintf("======= Pytorch Caching memory pool Gap Analysis of Device %d =======\n\tMinAlloc/MaxAlloc(%%)     MinAllocMem(MB)          StepId                   \nMinGap\t", card)
		if !strings.Contains(stdout, gap) {
			t.Errorf("card %d: no fluctuation table", card)
		}
	}
	dumps := j.dumps()
	if len(dumps) < len(want) {
		t.Errorf("%d dumps for %d cards", len(dumps), len(want))
	}
	for _, d := range dumps {
		card := filepath.Base(filepath.Dir(filepath.Dir(d.path)))
		id, err := strconv.Atoi(strings.TrimPrefix(card, "device_"))
		if err != nil {
			continue
		}
		leaked := d.count(func(r row) bool { return r.event == "FREE" && r.kind == "PTA" && r.shadow })
		if int64(leaked) != want[id][1] {
			t.Errorf("%s: %d blocks of the pool were never freed, want %d", card, leaked, want[id][1])
		}
	}
}

func TestDemoC(t *testing.T) {
	checkDemo(t, under(t, example("train")).run().want(0).noComplaints())
}

func TestDemoPython(t *testing.T) {
	checkDemo(t, under(t, "python3", example("train.py")).run().want(0).noComplaints())
}

func TestDemoReportsAgree(t *testing.T) {
	strip := func(j *job) string {
		lines, _ := ours(j.stdout.String())
		var report []string
		for _, line := range lines {
			if !strings.HasPrefix(line, "[msmemscope]") {
				report = append(report, regexp.MustCompile(`0x[0-9a-f]+`).ReplaceAllString(line, "ADDRESS"))
			}
		}
		return strings.Join(report, "\n")
	}
	c, py := strip(under(t, example("train")).run()), strip(under(t, "python3", example("train.py")).run())
	if c != py {
		t.Errorf("C:\n%s\nPython:\n%s", c, py)
	}
}

// A leak of another size on one card, and none at all.
func TestDemoOtherLeaks(t *testing.T) {
	checkDemo(t, under(t, example("train"), "--devices", "1", "--leak-bytes", "12345", "--steps", "4").run().want(0))
	j := under(t, example("train"), "--leak-bytes", "0").run().want(0).noComplaints()
	if strings.Contains(j.stdout.String(), "ERROR") {
		t.Errorf("leaks where there are none:\n%s", j.stdout.String())
	}
	j.dumps()
}

// The tree works after it was moved as a whole, from any directory, through a symbolic link, and with a blank in its path.
func TestTreeMoved(t *testing.T) {
	needLevel(t, 1)
	for _, name := range []string{"moved", "with blank"} {
		t.Run(name, func(t *testing.T) {
			tree := filepath.Join(t.TempDir(), name)
			if out, err := exec.Command("mkdir", "-p", tree).CombinedOutput(); err != nil {
				t.Fatal(string(out))
			}
			for _, part := range []string{"bin", "lib64", "vnpu", "examples"} {
				if out, err := exec.Command("cp", "-R", filepath.Join(build, part), tree).CombinedOutput(); err != nil {
					t.Fatal(string(out))
				}
			}
			link := filepath.Join(t.TempDir(), "msmemscope")
			if err := os.Symlink(filepath.Join(tree, "bin", "msmemscope"), link); err != nil {
				t.Fatal(err)
			}
			j := under(t)
			j.bare, j.words = true, []string{link, "--output-path=" + j.out, filepath.Join(tree, "examples", "train")}
			j.run()
			if strings.Contains(name, " ") && j.status() == 2 && strings.Contains(j.stderr.String(), "blank") {
				return // LD_PRELOAD cannot express it, and the tool says so
			}
			checkDemo(t, j.want(0))
		})
	}
}
