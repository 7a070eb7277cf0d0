// Package guide keeps docs/guide, skills and the READMEs true: it runs the commands that the pages show, on the built tree
// and the virtual NPU, and compares what comes out with what the pages say.
//
// The language of a fenced block says what is done with it:
//
//	console   lines behind "$ " are run, in one shell for each page (so variables and files stay), in a scratch directory
//	          with build/, examples/, vnpu/ and docs/guide/samples/ below it. Behind a command stands its whole output; a line "..." stands
//	          for any number of lines. What differs from run to run (addresses, times, process ids, durations, the width of
//	          columns) is not compared. A command must succeed unless `echo $?` follows.
//	sh        for the reader's own program, not run; but the program must accept the options of every msmemscope command.
//	sh later  the same for what the program does not do yet: it must refuse. When it does no longer, drop the word.
//	python    must compile.
//
// MSMEMSCOPE_BUILD names the tree to test, default build/.
package guide

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	root  string // of the source tree
	build string // the built tree
)

func TestMain(m *testing.M) {
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, "guide:", err)
		os.Exit(1)
	}
	root = filepath.Dir(filepath.Dir(dir))
	build = os.Getenv("MSMEMSCOPE_BUILD")
	if build == "" {
		build = filepath.Join(root, "build")
		if _, err := os.Stat(filepath.Join(build, "bin", "msmemscope")); err != nil {
			fmt.Println("guide: SKIPPED, there is no build/ (make build)")
			return
		}
	}
	os.Exit(m.Run())
}

// block is a fenced block of a page.
type block struct {
	page  string // path from the root
	line  int    // of the opening fence, from 1
	info  string // the words behind the fence
	lines []string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// pages finds the Markdown files below the directories, as paths from the root.
func pages(t *testing.T, dirs ...string) (found []string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() && strings.HasSuffix(path, ".md") {
				rel, _ := filepath.Rel(root, path)
				found = append(found, rel)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no pages below %v", dirs)
	}
	return found
}

func readPage(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks takes the fenced blocks out of a page.
func blocks(t *testing.T, page string) (found []block) {
	t.Helper()
	var open *block
	for i, line := range strings.Split(readPage(t, page), "\n") {
		fence, info, _ := strings.Cut(line, "```")
		switch {
		case !strings.Contains(line, "```") || strings.TrimSpace(fence) != "":
			if open != nil {
				open.lines = append(open.lines, line)
			}
		case open != nil:
			found, open = append(found, *open), nil
		default:
			open = &block{page: page, line: i + 1, info: strings.TrimSpace(info)}
		}
	}
	if open != nil {
		t.Fatalf("%s: block without end", open)
	}
	return found
}

// scratch makes the directory that the commands run in, laid out as the root of the source tree is.
func scratch(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(build, filepath.Join(dir, "build")); err != nil {
		t.Fatal(err)
	}
	for _, sources := range []string{"examples", "vnpu"} {
		if err := os.Symlink(filepath.Join(root, sources), filepath.Join(dir, sources)); err != nil {
			t.Fatal(err)
		}
	}
	samples := filepath.Join("docs", "guide", "samples")
	if err := os.MkdirAll(filepath.Join(dir, samples), 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, samples, "*.csv"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, file := range files { // copies: the program takes no file that others can write, and a checkout may have such
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, samples, filepath.Base(file)), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var ours = regexp.MustCompile(`^(MSMEMSCOPE|VNPU|LD_PRELOAD|ASCEND|MSTX)`)

// environment is that of the test without what would steer the program, and with the built tree in PATH.
func environment() (env []string) {
	for _, v := range os.Environ() {
		if !ours.MatchString(v) && !strings.HasPrefix(v, "PATH=") {
			env = append(env, v)
		}
	}
	return append(env, "PATH="+filepath.Join(build, "bin")+":"+os.Getenv("PATH"))
}
