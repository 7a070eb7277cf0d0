package guide

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const english, chinese = "docs/guide", "docs/guide/zh"

func isTwin(page string) bool { return strings.HasPrefix(page, chinese+"/") }

// TestTwins: a page in Chinese shows the same blocks as the English page of the same name.
func TestTwins(t *testing.T) {
	for _, page := range pages(t, chinese) {
		original := strings.Replace(page, chinese, english, 1)
		mine, theirs := blocks(t, page), blocks(t, original)
		if len(mine) != len(theirs) {
			t.Errorf("%s has %d blocks, %s %d", page, len(mine), original, len(theirs))
			continue
		}
		for i, b := range mine {
			if b.info != theirs[i].info || !slices.Equal(b.lines, theirs[i].lines) {
				t.Errorf("%s and %s differ", b, theirs[i])
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks: what a page links to exists, headings included.
func TestLinks(t *testing.T) {
	all := append(pages(t, english, "skills"), "README.md", "README.zh.md", "vnpu/README.md", "docs/design.md")
	for _, page := range all {
		for _, m := range link.FindAllStringSubmatch(readPage(t, page), -1) {
			path, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if anchor != "" && !slices.Contains(anchors(readPage(t, target)), anchor) {
				t.Errorf("%s links to %s, but %s has no such heading", page, m[1], target)
			}
		}
	}
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchors are the names that a viewer gives to the headings of a page.
func anchors(text string) (found []string) {
	for _, line := range strings.Split(text, "\n") {
		if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
			name := notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			found = append(found, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return found
}

// TestReadmeReport: the report that the READMEs explain is what the demo prints.
func TestReadmeReport(t *testing.T) {
	cmd := exec.Command(filepath.Join(build, "bin", "msmemscope"), "build/examples/train")
	cmd.Dir, cmd.Env = scratch(t), append(environment(), "VNPU_DEVICES=2")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	printed := normal(strings.Split(string(out), "\n"))
	report := regexp.MustCompile(`(?m)^    (====.*|Direct .*|\s*Min.*|Max.*)$`)
	for _, page := range []string{"README.md", "README.zh.md"} {
		lines := report.FindAllStringSubmatch(readPage(t, page), -1)
		if len(lines) < 6 {
			t.Errorf("%s shows no report", page)
		}
		for _, line := range lines {
			if want := normal(line[1:]); !slices.Contains(printed, want[0]) {
				t.Errorf("%s says %q, the demo does not", page, line[1])
			}
		}
	}
}

// TestSamples: make.py writes the samples that are there.
func TestSamples(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	source := filepath.Join(root, english, "samples")
	script, err := os.ReadFile(filepath.Join(source, "make.py"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "make.py"), script, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(python, filepath.Join(dir, "make.py")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made, _ := filepath.Glob(filepath.Join(dir, "*.csv"))
	there, _ := filepath.Glob(filepath.Join(source, "*.csv"))
	if len(made) == 0 || len(made) != len(there) {
		t.Errorf("make.py writes %d samples, there are %d", len(made), len(there))
	}
	for _, file := range made {
		mine, _ := os.ReadFile(file)
		theirs, _ := os.ReadFile(filepath.Join(source, filepath.Base(file)))
		if string(mine) != string(theirs) {
			t.Errorf("%s is not what make.py writes", filepath.Base(file))
		}
	}
}
