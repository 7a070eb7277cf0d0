// Package scripts tests the front script in the shells that it is made for.
package scripts

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// install makes an installation with the named libraries; its programs print their arguments and end with 7.
func install(t *testing.T, name string, libraries ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root = filepath.Join(root, name)
	for _, dir := range []string{"bin", "lib64"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	front, err := os.ReadFile("msmemscope")
	if err != nil {
		t.Fatal(err)
	}
	write := func(path string, text []byte, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(root, path), text, mode); err != nil {
			t.Fatal(err)
		}
	}
	write("bin/msmemscope", front, 0o755)
	write("bin/msmemscope.start", start(t), 0o755)
	program := []byte("#!/bin/sh\ncase $1 in\n--serve-shell=*) echo the-session; exit 0 ;;\n--release-shell=*) echo \"released $1\" >&2; exit 0 ;;\nesac\nfor word; do printf '<%s>' \"$word\"; done\necho\nexit 7\n")
	write("bin/msmemscope.run", program, 0o755)
	write("bin/msmemscope.bin", program, 0o755)
	for _, l := range libraries {
		write("lib64/"+l, nil, 0o644)
	}
	return root
}

// TestAddressSpace: where a program in Go cannot even start, one line says so.
func TestAddressSpace(t *testing.T) {
	root := install(t, "limited", npu...)
	limited := func(kib string) (string, int) {
		_, stderr, status := sh(t, root, "sh", "-c", "ulimit -v "+kib+"; exec bin/msmemscope x")
		return stderr, status
	}
	if stderr, status := limited("786431"); status != 126 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "ulimit -v") {
		t.Errorf("status %d, %s", status, stderr)
	}
	if stderr, status := limited("786432"); status != 7 || stderr != "" {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// start is the program msmemscope.start.
func start(t *testing.T) []byte {
	t.Helper()
	program := filepath.Join(t.TempDir(), "start")
	if out, err := exec.Command("gcc", "-O2", "-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-nostdlib", "-static", "-o", program,
		"../native/start/start.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var npu = []string{"libleaks_ascend_hal_hook.so", "libascend_mstx_hook.so", "libascend_kernel_hook.so"}

// sh runs words in dir and returns stdout, stderr and the exit status. The loader's complaints about our empty
// libraries are left out of stderr.
func sh(t *testing.T, dir string, words ...string) (string, string, int) {
	t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	var lines []string
	for _, l := range strings.SplitAfter(stderr.String(), "\n") {
		if !strings.Contains(l, "ERROR: ld.so:") {
			lines = append(lines, l)
		}
	}
	return stdout.String(), strings.Join(lines, ""), cmd.ProcessState.ExitCode()
}

// eachShell runs the test in the shells from which the script can be sourced, also with strict options.
func eachShell(t *testing.T, test func(t *testing.T, shell ...string)) {
	for _, shell := range [][]string{
		{"bash", "--norc"}, {"bash", "--norc", "-eu"}, {"bash", "--posix"}, {"zsh", "-f"}, {"zsh", "-f", "-eu"}, {"zsh", "-f", "-o", "kshglob"},
	} {
		t.Run(strings.Join(shell, ""), func(t *testing.T) {
			if _, err := exec.LookPath(shell[0]); err != nil {
				t.Skip(err)
			}
			test(t, shell...)
		})
	}
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s\n%s\nwant\n%s", what, got, want)
	}
}

func TestExecuted(t *testing.T) {
	root := install(t, "tool of mine") // a blank in the path is no obstacle to being executed
	away := t.TempDir()
	if err := os.Symlink(filepath.Join(root, "bin", "msmemscope"), filepath.Join(away, "first")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("first", filepath.Join(away, "mms")); err != nil {
		t.Fatal(err)
	}
	words := []string{"-q", "", "two  words", "--", `*`, "--load-api-env"}
	const passed = "<-q><><two  words><--><*><--load-api-env>\n"
	front := filepath.Join(root, "bin", "msmemscope")
	for _, c := range []struct {
		dir  string
		line []string
	}{
		{away, []string{front}},
		{root, []string{"bin/msmemscope"}},
		{away, []string{"./mms"}},
		{away, []string{"dash", front}},
		{away, []string{"bash", front}},
		{away, []string{"zsh", front}},
		{filepath.Join(root, "bin"), []string{"dash", "msmemscope"}},
		{filepath.Join(root, "bin"), []string{"bash", "msmemscope"}},
		{away, []string{"env", "PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH"), "msmemscope"}},
		{away, []string{"env", "PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH"), "bash", "msmemscope"}},
	} {
		if _, err := exec.LookPath(c.line[0]); err != nil && !strings.Contains(c.line[0], "/") {
			continue
		}
		stdout, stderr, status := sh(t, c.dir, append(c.line, words...)...)
		if stdout != passed || stderr != "" || status != 7 {
			t.Errorf("%q: status %d, stdout %q, stderr %q", c.line, status, stdout, stderr)
		}
	}
}

// TestEnvironment: the program gets what the caller gave, to the byte and in order, and one variable of ours.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{"plain", "a b", "ä\"$x'", "a=b", "old bash"} {
		root := install(t, name)
		if name == "old bash" {
			rewrite(t, filepath.Join(root, "bin/msmemscope"), "case ${BASH_VERSION-}:", "case 4.2.46:")
			rewrite(t, filepath.Join(root, "bin/msmemscope"), "case $BASH_VERSION in", "case 4.2.46 in")
		}
		bin := filepath.Join(root, "bin/msmemscope.run")
		if err := os.Remove(bin); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/usr/bin/env", bin); err != nil { // -0 shows what it has
			t.Fatal(err)
		}
		mark := filepath.Join(t.TempDir(), "mark")
		hook := filepath.Join(filepath.Dir(mark), "hook")
		if err := os.WriteFile(hook, []byte(": >"+mark+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, env := range [][]string{
			{},
			{"PATH=/nowhere"},
			{
				"BASH_FUNC_f%%=() {  echo \"a\nb\"\n}", "BASH_FUNC_exec%%=() { echo stolen; }", "foo.bar=1", "1a=2", "IFS=x", "OPTIND=7", "PPID=3", "SHLVL=5", "_=u",
				"PWD=/nonexistent", "OLDPWD=/gone", "UID=4", "BASHOPTS=extglob", "SHELLOPTS=noexec", "BASH_ENV=" + hook, "ENV=" + hook,
				"RANDOM=3", "PS4=+", "GLOBIGNORE=*", "CDPATH=/", "EMPTY=", "LINES=a\nb=c", "-i=1", "POSIXLY_CORRECT=", "LC_ALL=C", "raw=\xff\x01",
			},
		} {
			cmd := exec.Command(filepath.Join(root, "bin/msmemscope"), "-0")
			cmd.Env = env
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
			last := got[len(got)-1]
			if !strings.HasPrefix(last, "MSMEMSCOPE_SIGIGN=0") || !slices.Equal(got[:len(got)-1], env) {
				t.Errorf("%s: got\n%q, want\n%q", name, got, env)
			}
		}
		if _, err := os.Stat(mark); err == nil {
			t.Error("BASH_ENV was run")
		}
	}
}

// rewrite replaces old, which must be there, in a file.
func rewrite(t *testing.T, path, old, text string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(before, []byte(old)) {
		t.Fatalf("%s: no %q (%v)", path, old, err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(before, []byte(old), []byte(text)), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestIgnoredSignals: the program is told what the caller ignores, and nothing that a shell ignores on its own.
func TestIgnoredSignals(t *testing.T) {
	root := install(t, "tool")
	if err := os.WriteFile(filepath.Join(root, "bin/msmemscope.run"), []byte("#!/bin/sh\necho $MSMEMSCOPE_SIGIGN\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	front := root + "/bin/msmemscope"
	for _, words := range [][]string{{front}, {"dash", front}, {"bash", front}, {"zsh", front}} {
		if _, err := exec.LookPath(words[0]); err != nil {
			continue
		}
		for _, ignored := range []string{"", "QUIT", "INT QUIT", "INT", "HUP TERM PIPE 34 64"} {
			trap := ""
			if ignored != "" {
				trap = "trap '' " + ignored + "; "
			}
			status, _, _ := sh(t, root, "bash", "-c", trap+"exec grep SigIgn /proc/self/status")
			got, stderr, _ := sh(t, root, append([]string{"bash", "-c", trap + `exec "$@"`, "bash"}, words...)...)
			if strings.TrimPrefix(status, "SigIgn:\t") != got || stderr != "" {
				t.Errorf("%q, ignoring %q: got %q, want %q; %s", words, ignored, got, status, stderr)
			}
		}
	}
}

func TestMustBeSourced(t *testing.T) {
	root := install(t, "tool", npu...)
	for _, word := range []string{"--load-api-env", "--load-api-env=npu", "--unload-api-env"} {
		stdout, stderr, status := sh(t, root, "bin/msmemscope", word)
		want(t, word, stderr, `[msmemscope] ERROR: This command must be sourced so that environment
[msmemscope]        variable changes apply to the current shell.
[msmemscope]
[msmemscope] Usage:  source msmemscope `+word+"\n")
		if stdout != "" || status != 1 {
			t.Errorf("%s: status %d, stdout %q", word, status, stdout)
		}
	}
}

func TestIncompleteInstallation(t *testing.T) {
	root := install(t, "tool")
	if err := os.Remove(filepath.Join(root, "lib64")); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := sh(t, root, "bin/msmemscope", "prog")
	want(t, "without lib64", stderr, "[msmemscope] ERROR: lib64 directory not found (expected: "+root+
		"/lib64).\n[msmemscope] Please verify your msmemscope installation.\n")
	if status != 1 {
		t.Errorf("without lib64: status %d", status)
	}
	for _, program := range []string{"msmemscope.run", "msmemscope.bin", "msmemscope.start"} {
		root = install(t, "tool")
		if err := os.Remove(filepath.Join(root, "bin", program)); err != nil {
			t.Fatal(err)
		}
		_, stderr, status = sh(t, root, "bin/msmemscope", "prog")
		if status != 1 || !strings.Contains(stderr, "bin/"+program+" is not there") {
			t.Errorf("without %s: status %d, stderr %q", program, status, stderr)
		}
	}
}

// show prints the three variables, or that they are not set.
const show = `printf '%s\n' "$?" "lib ${LD_LIBRARY_PATH-unset}" "pre ${LD_PRELOAD-unset}" "own ${MSMEMSCOPE_LIB_PATH-unset}"` + "\n"

func TestLoadAndUnload(t *testing.T) {
	root := install(t, "tool", append([]string{"libascend_atb_hook.so"}, npu...)...)
	lib := root + "/lib64"
	hal, mstx, kernel, atb := lib+"/"+npu[0], lib+"/"+npu[1], lib+"/"+npu[2], lib+"/libascend_atb_hook.so"
	pre := "pre " + atb + ":" + kernel + ":" + mstx + ":" + hal
	eachShell(t, func(t *testing.T, shell ...string) {
		stdout, stderr, status := sh(t, root, append(shell, "-c",
			". ./bin/msmemscope --load-api-env\n"+show+". bin/msmemscope --load-api-env=npu\n"+show+
				"cd /\n. "+root+"/bin/msmemscope --unload-api-env\n"+show+". "+root+"/bin/msmemscope --unload-api-env\n"+show)...)
		want(t, "stdout", stdout, `[msmemscope] LD_LIBRARY_PATH + `+lib+`
[msmemscope] LD_PRELOAD   + `+hal+`
[msmemscope] LD_PRELOAD   + `+mstx+`
[msmemscope] LD_PRELOAD   + `+kernel+`
[msmemscope] LD_PRELOAD   + `+atb+`
[msmemscope] Environment setup completed (LD_PRELOAD: 4 .so(s) added).
0
lib `+lib+`
`+pre+`
own `+lib+`
[msmemscope] LD_LIBRARY_PATH already contains `+lib+` -- skipped
[msmemscope] LD_PRELOAD   already contains `+hal+` -- skipped
[msmemscope] LD_PRELOAD   already contains `+mstx+` -- skipped
[msmemscope] LD_PRELOAD   already contains `+kernel+` -- skipped
[msmemscope] LD_PRELOAD   already contains `+atb+` -- skipped
[msmemscope] Environment already set up -- nothing to do.
0
lib `+lib+`
`+pre+`
own `+lib+`
[msmemscope] LD_LIBRARY_PATH unset (was only `+lib+`)
[msmemscope] LD_PRELOAD unset (all entries were from `+lib+`)
[msmemscope] Environment cleanup completed.
0
lib unset
pre unset
own unset
[msmemscope] No msmemscope entries found in LD_PRELOAD or LD_LIBRARY_PATH -- nothing to unset.
0
lib unset
pre unset
own unset
`)
		if stderr != "" || status != 0 {
			t.Errorf("status %d, stderr %q", status, stderr)
		}
	})
}

// TestForeignEntries: what others have put into the variables stays, in its order.
func TestForeignEntries(t *testing.T) {
	root := install(t, "tool", npu...)
	lib := root + "/lib64"
	eachShell(t, func(t *testing.T, shell ...string) {
		stdout, stderr, _ := sh(t, root, append(shell, "-c", `
export LD_LIBRARY_PATH=/a::`+lib+`2:/b LD_PRELOAD=/x/one.so
. bin/msmemscope --load-api-env >/dev/null
`+show+`
LD_PRELOAD="$LD_PRELOAD /x/two.so:`+lib+`2/three.so"
. bin/msmemscope --unload-api-env
`+show)...)
		want(t, "stdout", stdout, `0
lib `+lib+`:/a::`+lib+`2:/b
pre `+lib+`/`+npu[2]+`:`+lib+`/`+npu[1]+`:`+lib+`/`+npu[0]+`:/x/one.so
own `+lib+`
[msmemscope] LD_LIBRARY_PATH removed `+lib+`
[msmemscope] LD_PRELOAD removed 3 entry/entries from `+lib+`
[msmemscope] Environment cleanup completed.
0
lib /a::`+lib+`2:/b
pre /x/one.so:/x/two.so:`+lib+`2/three.so
own unset
`)
		want(t, "stderr", stderr, "")
	})
}

func TestMissingHooks(t *testing.T) {
	some, none := install(t, "tool", npu[0]), install(t, "tool")
	eachShell(t, func(t *testing.T, shell ...string) {
		lib := some + "/lib64"
		stdout, stderr, _ := sh(t, some, append(shell, "-c", ". bin/msmemscope --load-api-env\n"+show)...)
		want(t, "stderr", stderr, `[msmemscope] LD_PRELOAD   WARNING: `+lib+`/`+npu[1]+` not found -- skipped
[msmemscope] LD_PRELOAD   WARNING: `+lib+`/`+npu[2]+" not found -- skipped\n")
		want(t, "stdout", stdout, `[msmemscope] LD_LIBRARY_PATH + `+lib+`
[msmemscope] LD_PRELOAD   + `+lib+`/`+npu[0]+`
[msmemscope] Environment setup completed (LD_PRELOAD: 1 .so(s) added).
0
lib `+lib+`
pre `+lib+`/`+npu[0]+`
own `+lib+"\n")

		lib = none + "/lib64"
		for _, word := range []string{"--load-api-env", "--load-api-env=npu"} {
			stdout, stderr, _ = sh(t, none, append(shell, "-c", ". bin/msmemscope "+word+"\n"+show)...)
			want(t, "stderr", stderr, "[msmemscope] WARNING: No hook .so files found in "+lib+`
[msmemscope] LD_PRELOAD will not be set. Please verify your installation.
`)
			want(t, "stdout", stdout, `[msmemscope] LD_LIBRARY_PATH + `+lib+`
[msmemscope] Environment setup completed (LD_PRELOAD skipped).
0
lib `+lib+`
pre unset
own unset
`)
		}
	})
}

// TestHostFlavour: one library, a session for what is started from the shell, and nothing is left of either.
func TestHostFlavour(t *testing.T) {
	const library = "libmsmemscope_host_mem_hook.so"
	root := install(t, "tool", append([]string{library}, npu...)...)
	lib := root + "/lib64"
	eachShell(t, func(t *testing.T, shell ...string) {
		stdout, stderr, _ := sh(t, root, append(shell, "-c", `. bin/msmemscope --load-api-env=host || echo "failed $?"
printf '%s\n' "pre ${LD_PRELOAD-unset}" "session ${MSMEMSCOPE_SESSION-unset}"
. bin/msmemscope --load-api-env=host
. bin/msmemscope --unload-api-env >/dev/null
printf '%s\n' "pre ${LD_PRELOAD-unset}" "session ${MSMEMSCOPE_SESSION-unset} ${MSMEMSCOPE_SHELL-unset}"
MSMEMSCOPE_SESSION=of-a-launcher
. bin/msmemscope --unload-api-env >/dev/null
printf '%s\n' "session ${MSMEMSCOPE_SESSION-unset}"
`)...)
		want(t, "stdout", stdout, `[msmemscope] LD_LIBRARY_PATH + `+lib+`
[msmemscope] LD_PRELOAD   + `+lib+`/`+library+`
[msmemscope] Environment setup completed (LD_PRELOAD: 1 .so(s) added).
pre `+lib+`/`+library+`
session the-session
[msmemscope] LD_LIBRARY_PATH already contains `+lib+` -- skipped
[msmemscope] LD_PRELOAD   already contains `+lib+`/`+library+` -- skipped
[msmemscope] Environment already set up -- nothing to do.
pre unset
session unset unset
session of-a-launcher
`)
		want(t, "stderr", stderr, "released --release-shell=the-session\n")
	})
}

// TestNoDirectory: the script needs no working directory. Some shells complain of it on their own, before they read a line.
func TestNoDirectory(t *testing.T) {
	root := install(t, "tool")
	for _, shell := range []string{"dash", "bash", "zsh"} {
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		gone := t.TempDir()
		stdout, stderr, status := sh(t, gone, "sh", "-c", `rmdir "$1" && exec "$2" "$3" -q prog`, "sh", gone, shell, root+"/bin/msmemscope")
		if stdout != "<-q><prog>\n" || status != 7 || strings.Contains(stderr, "[msmemscope]") {
			t.Errorf("%s: status %d, stdout %q, stderr %q", shell, status, stdout, stderr)
		}
	}
}

// TestSourcedOtherwise: other words run the program beside, as a child: the shell lives on.
func TestSourcedOtherwise(t *testing.T) {
	root := install(t, "tool", npu...)
	blank := install(t, "a tool", npu...)
	eachShell(t, func(t *testing.T, shell ...string) {
		stdout, stderr, status := sh(t, root, append(shell, "-c", ". bin/msmemscope -q prog || echo $?\n"+
			". bin/msmemscope --load-api-env=gpu || echo $?\n. '"+blank+"/bin/msmemscope' --load-api-env || echo $?\n")...)
		want(t, "stdout", stdout, "<-q><prog>\n7\n2\n1\n")
		want(t, "stderr", stderr, `[msmemscope] ERROR: --load-api-env=gpu is not known; accepted: --load-api-env=npu, --load-api-env=host.
[msmemscope] ERROR: `+blank+`/lib64 contains a blank or a colon, which LD_PRELOAD cannot express.
`)
		if status != 0 {
			t.Errorf("status %d", status)
		}
	})
}

// TestSourcedThroughPath, from a function, by a user who has made cd and ls his own.
func TestSourcedThroughPath(t *testing.T) {
	root := install(t, "tool", npu...)
	away := t.TempDir()
	if err := os.Symlink(root+"/bin/msmemscope", away+"/msmemscope"); err != nil {
		t.Fatal(err)
	}
	eachShell(t, func(t *testing.T, shell ...string) {
		stdout, stderr, _ := sh(t, "/", append(shell, "-c", "PATH="+away+`:$PATH
cd() { echo went; builtin cd "$@"; }
ls() { echo listed; }
use() { . msmemscope --load-api-env >/dev/null; }
use
`+show)...)
		lib := root + "/lib64"
		want(t, "stdout", stdout, "0\nlib "+lib+"\npre "+lib+"/"+npu[2]+":"+lib+"/"+npu[1]+":"+lib+"/"+npu[0]+"\nown "+lib+"\n")
		want(t, "stderr", stderr, "")
	})
}

// TestNothingIsLeftBehind: no function and no variable of the script outlives it.
func TestNothingIsLeftBehind(t *testing.T) {
	root := install(t, "tool", npu...)
	eachShell(t, func(t *testing.T, shell ...string) {
		stdout, _, _ := sh(t, root, append(shell, "-c", `
. bin/msmemscope --load-api-env >/dev/null
. bin/msmemscope --unload-api-env >/dev/null
{ set; typeset -f; } | grep -i '^_\?msmemscope' || echo none left
`)...)
		want(t, "left behind", stdout, "none left\n")
	})
}

func TestDashCannotSource(t *testing.T) {
	root := install(t, "tool", npu...)
	stdout, stderr, status := sh(t, root, "dash", "-c", ". bin/msmemscope --load-api-env || echo alive")
	want(t, "stderr", stderr, "[msmemscope] ERROR: This shell cannot source msmemscope; please use bash or zsh.\n")
	if stdout != "alive\n" || status != 0 {
		t.Errorf("status %d, stdout %q", status, stdout)
	}
}

// TestPrograms: a run is the launcher's, everything else that the front can tell at once is the whole program's.
func TestPrograms(t *testing.T) {
	root := install(t, "tool")
	for program, text := range map[string]string{"run": "launcher", "bin": "whole"} {
		if err := os.WriteFile(filepath.Join(root, "bin/msmemscope."+program), []byte("#!/bin/sh\necho "+text+" \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("msmemscope", filepath.Join(root, "bin/mssanitizer")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("msmemscope", filepath.Join(root, "bin/mms")); err != nil {
		t.Fatal(err)
	}
	for line, answer := range map[string]string{
		"bin/msmemscope x dump":       "launcher x dump\n",
		"bin/msmemscope":              "launcher\n",
		"bin/mms x":                   "launcher x\n",
		"bin/msmemscope dump --help":  "whole dump --help\n",
		"bin/mms dump":                "whole dump\n",
		"bin/mssanitizer x":           "whole --as=mssanitizer x\n",
		"dash bin/msmemscope x":       "launcher x\n",
		"dash bin/msmemscope dump":    "whole dump\n",
		"bash bin/msmemscope -- dump": "launcher -- dump\n",
	} {
		stdout, stderr, _ := sh(t, root, strings.Fields(line)...)
		want(t, line, stdout+stderr, answer)
	}
}
