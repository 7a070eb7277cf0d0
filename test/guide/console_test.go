package guide

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// command is one command of a console block with the output that the page shows.
type command struct {
	block
	text string
	want []string
}

// commands takes a console block apart.
func commands(t *testing.T, b block) (found []command) {
	t.Helper()
	for _, line := range b.lines {
		if text, ok := strings.CutPrefix(line, "$ "); ok {
			found = append(found, command{block: b, text: text})
		} else if len(found) == 0 {
			t.Fatalf("%s: output before the first command", b)
		} else if last := &found[len(found)-1]; len(last.want) == 0 && strings.HasPrefix(line, "> ") {
			last.text += "\n" + line[2:]
		} else {
			last.want = append(last.want, line)
		}
	}
	return found
}

// volatile is what differs from run to run, and from what a reader sees.
var volatile = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`0x[0-9a-f]{8,}`), "0xADDRESS"},
	{regexp.MustCompile(`\b\d{14,}\b`), "TIME"},
	{regexp.MustCompile(`msmemscope_\d+_\d{14}`), "msmemscope_PID_TIME"},
	{regexp.MustCompile(`_\d{14}\b`), "_TIME"},
	{regexp.MustCompile(`\bprocess \d+`), "process PID"},
	{regexp.MustCompile(`\brow \d+`), "row N"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|ms|s)\b`), "DURATION"},
	{regexp.MustCompile(`\s+`), " "},
}

func normal(lines []string) []string {
	out := make([]string, 0, len(lines))
	for _, line := range lines {
		for _, v := range volatile {
			line = v.pattern.ReplaceAllString(line, v.instead)
		}
		out = append(out, strings.TrimSpace(line))
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

// match tells how many lines of want the lines of got satisfy from the beginning on, and whether it is all of both.
func match(want, got []string) (int, bool) {
	switch {
	case len(want) == 0:
		return 0, len(got) == 0
	case want[0] == "...":
		best := 0
		for i := 0; i <= len(got); i++ {
			n, ok := match(want[1:], got[i:])
			if best = max(best, n+1); ok {
				return best, true
			}
		}
		return best, false
	case len(got) == 0 || want[0] != got[0]:
		return 0, false
	}
	n, ok := match(want[1:], got[1:])
	return n + 1, ok
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{"a b", "a  b", true},
		{"a|b", "a", false},
		{"a", "a|b", false},
		{"...|b", "a|b", true},
		{"a|...", "a|b|c", true},
		{"a|...|c|...|e", "a|b|c|d|e", true},
		{"a|...|c", "a|b|d", false},
		{"process 7 at 0x12c048000000", "process 88 at 0x13c048000000", true},
		{"9 Mb(s)", "8 Mb(s)", false},
		{"used 9437184", "used 9437185", false},
	} {
		if _, ok := match(normal(strings.Split(c.want, "|")), normal(strings.Split(c.got, "|"))); ok != c.ok {
			t.Errorf("%q against %q: %v", c.want, c.got, ok)
		}
	}
}

const mark = "\x01guide"

// run runs the commands one after the other in one shell and returns for each its output and its status.
func run(t *testing.T, all []command) (outputs [][]string, statuses []string) {
	t.Helper()
	dir := scratch(t)
	var script strings.Builder
	for _, c := range all {
		fmt.Fprintf(&script, "%s\n__status=$?; printf '%s %%d\\n' $__status; (exit $__status)\n", c.text, mark)
	}
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	shell := exec.CommandContext(ctx, "bash", file)
	shell.Dir, shell.Env, shell.Stdout, shell.Stderr = dir, environment(), &out, &out
	shell.WaitDelay = 10 * time.Second
	err := shell.Run()
	text := strings.ReplaceAll(out.String(), dir+"/", "")
	for i := 0; ; i++ {
		before, rest, found := strings.Cut(text, mark+" ")
		if !found {
			if i != len(all) {
				t.Fatalf("%s: the shell ended in `%s`: %v\n%s", all[i], all[i].text, err, text)
			}
			return outputs, statuses
		}
		status, rest, _ := strings.Cut(rest, "\n")
		outputs, statuses = append(outputs, strings.Split(before, "\n")), append(statuses, status)
		text = rest
	}
}

// TestConsole runs the pages. Those in Chinese have the same blocks (TestTwins) and need no run of their own.
func TestConsole(t *testing.T) {
	for _, page := range pages(t, "docs/guide", "skills") {
		var all []command
		for _, b := range blocks(t, page) {
			if b.info == "console" {
				all = append(all, commands(t, b)...)
			}
		}
		if len(all) == 0 || isTwin(page) {
			continue
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			outputs, statuses := run(t, all)
			for i, c := range all {
				asked := i+1 < len(all) && all[i+1].text == "echo $?"
				want, got := normal(c.want), normal(outputs[i])
				n, ok := match(want, got)
				if !ok {
					t.Errorf("%s: $ %s\nline %d of what the page says is not there, or more is. The page:\n%s\nThe program:\n%s",
						c, c.text, n+1, strings.Join(c.want, "\n"), strings.Join(outputs[i], "\n"))
				}
				if statuses[i] != "0" && !asked {
					t.Errorf("%s: $ %s\nends with status %s", c, c.text, statuses[i])
				}
			}
		})
	}
}
