package guide

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// accepted asks the program whether it takes a command of a page: "" or why not. Nothing of the reader's is run.
func accepted(t *testing.T, line string) string {
	t.Helper()
	words := strings.Fields(line)
	for len(words) > 0 && strings.Contains(words[0], "=") && !strings.HasPrefix(words[0], "-") {
		words = words[1:] // NAME=value in front
	}
	ask := func(name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = scratch(t), environment()
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	tool := filepath.Join(build, "bin", "msmemscope")
	switch {
	case len(words) > 1 && words[0] == "source" && words[1] == "msmemscope":
		if out, err := ask("bash", "-c", "source "+tool+" "+strings.Join(words[2:], " ")); err != nil {
			return out
		}
		return ""
	case len(words) < 2 || words[0] != "msmemscope":
		return ""
	case words[1] == "dump" && len(words) > 2 && words[2] != "--help":
		help, err := ask(tool, "dump", words[2], "--help")
		if err != nil {
			return help
		}
		return unknown(help, words[3:])
	}
	options := words[1:]
	for i, word := range options {
		if !strings.HasPrefix(word, "-") || word == "--" {
			options = options[:i]
			break
		}
	}
	for _, o := range options {
		if o == "--compare" || o == "--help" || o == "--version" || strings.HasPrefix(o, "--pid") {
			help, _ := ask(tool, "--help")
			return unknown(strings.Split(help, "Not in this version yet")[0], options)
		}
	}
	if out, err := ask(tool, append(options, "--", "true")...); err != nil {
		return out
	}
	return ""
}

// unknown names the first option that a help text does not have.
func unknown(help string, words []string) string {
	for _, word := range words {
		if name, _, _ := strings.Cut(word, "="); strings.HasPrefix(name, "--") && name != "--" && !strings.Contains(help+" ", name) {
			return fmt.Sprintf("%s is not in the help", name)
		}
	}
	return ""
}

func TestAcceptedTellsWrongOptions(t *testing.T) {
	for line, want := range map[string]bool{
		"msmemscope --analysis=leaks python3 train.py":   true,
		"msmemscope --analysis=no-such python3 train.py": false,
		"A=1 msmemscope --no-such=1 -- ./a":              false,
		"msmemscope dump peak --pool PTA FILE":           true,
		"msmemscope dump peak --no-such FILE":            false,
		"msmemscope dump no-such FILE":                   false,
		"msmemscope --compare --input-path=a,b":          true,
		"source msmemscope --load-api-env":               true,
		"source msmemscope --load-api-env=no-such":       false,
		"export A=b": true,
	} {
		if why := accepted(t, line); (why == "") != want {
			t.Errorf("%s: %q", line, why)
		}
	}
}

// TestOptions: the program takes the commands that the pages tell the reader to run, and refuses those for later.
func TestOptions(t *testing.T) {
	for _, page := range pages(t, english, "skills") {
		if isTwin(page) {
			continue
		}
		for _, b := range blocks(t, page) {
			language, later, _ := strings.Cut(b.info, " ")
			if language != "sh" {
				continue
			}
			refused := 0
			for _, line := range strings.Split(strings.ReplaceAll(strings.Join(b.lines, "\n"), "\\\n", " "), "\n") {
				line, _, _ = strings.Cut(line, " #")
				why := accepted(t, line)
				if why != "" && later == "" {
					t.Errorf("%s: %s\nis refused: %s", b, line, why)
				} else if why != "" {
					refused++
				}
			}
			if later != "" && refused == 0 {
				t.Errorf("%s: the program does this now: drop the word %q behind the fence, and mend what the page says of it", b, later)
			}
		}
	}
}

// TestPython: the Python that the pages show compiles.
func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	for _, page := range pages(t, english, "skills") {
		for _, b := range blocks(t, page) {
			if strings.Fields(b.info + " -")[0] != "python" {
				continue
			}
			cmd := exec.Command(python, "-c", "import sys; compile(sys.stdin.read(), 'block', 'exec')")
			cmd.Stdin = strings.NewReader(strings.Join(b.lines, "\n"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", b, err, out)
			}
		}
	}
}
