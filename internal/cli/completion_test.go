package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"memscope/internal/query"
)

// TestBashCompletion asks a real bash what it offers.
func TestBashCompletion(t *testing.T) {
	script := filepath.Join(t.TempDir(), "completion")
	if err := os.WriteFile(script, []byte(completion("bash", query.Names())), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"msmemscope --ev":                     "--events=",
		"msmemscope --analysis=le":            "leaks",
		"msmemscope --analysis=leaks,oo":      "leaks,oom",
		"msmemscope --format=":                "csv db",
		"msmemscope dump pe":                  "peak",
		"msmemscope --format=db --log":        "--log-level=",
		"msmemscope -- python3 --ev":          "",
		"msmemscope python3 --ev":             "",
		"msmemscope --output-path=/etc/passw": "/etc/passwd*",
	} {
		out, err := exec.Command("bash", "--norc", "-c", `source "$1"; COMP_LINE=$2; COMP_POINT=${#2}; compopt() { :; }; _msmemscope; echo "${COMPREPLY[*]}"`,
			"bash", script, line).CombinedOutput()
		got := strings.TrimSpace(string(out))
		if prefix, any := strings.CutSuffix(want, "*"); err != nil || got != want && !(any && strings.HasPrefix(got, prefix)) {
			t.Errorf("%s: %q (%v), want %q", line, got, err, want)
		}
	}
}

// TestCompletionSyntax: each shell that is here reads its script.
func TestCompletionSyntax(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s: SKIPPED, it is not installed", shell)
			continue
		}
		cmd := exec.Command(shell, "-n")
		cmd.Stdin = strings.NewReader(completion(shell, query.Names()))
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
	}
	for _, o := range shownOptions() {
		for _, shell := range []string{"bash", "zsh", "fish"} {
			if !strings.Contains(completion(shell, query.Names()), o.name) {
				t.Errorf("%s does not know --%s", shell, o.name)
			}
		}
	}
}
