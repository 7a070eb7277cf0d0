package session

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestScriptOf: what an interpreter runs is found behind its options.
func TestScriptOf(t *testing.T) {
	for line, want := range map[string]string{
		"python3 train.py --lr 1":                 "train.py",
		"/usr/bin/python3.11 -u -X dev /a/b/c.py": "c.py",
		"python -Wignore -uW error x.py":          "x.py",
		"python3 -m torch.distributed.run x.py":   "-m torch.distributed.run",
		"python3 -um pytest":                      "-m pytest",
		"python3 -mpytest":                        "-m pytest",
		"python3 -m":                              "-m ",
		"python3 -c pass train.py":                "",
		"python3 -Ic pass":                        "",
		"python3 - train.py":                      "",
		"python3":                                 "",
		"python3 --check-hash-based-pycs=never x": "x",
		"bash -x -o pipefail run.sh":              "run.sh",
		"bash -euo pipefail -- run.sh":            "run.sh",
		"sh -c ./app":                             "",
		"sh -s run.sh":                            "",
		"./app train.py":                          "",
		"":                                        "",
		"python3: worker 3":                       "worker",
		"python3 \xff\xfe":                        "\xff\xfe",
	} {
		if got := scriptOf(strings.Split(line, " ")); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestTitle: the script stands behind the interpreter, once; other programs have their name.
func TestTitle(t *testing.T) {
	script := filepath.Join(t.TempDir(), "a_name_of_many_letters.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nread -r line\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"sh", script}, "sh a_name_of_many_letters.sh"},
		{[]string{script}, "a_name_of_many_letters.sh"},
		{[]string{"cat"}, "cat"},
	} {
		cmd := exec.Command(c.words[0], c.words[1:]...)
		if _, err := cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		proc, err := watch(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, c.want, func() bool { return proc.title() == c.want })
		proc.close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
