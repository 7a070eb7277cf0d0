package cli

import (
	"bytes"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"memscope/internal/config"
)

const notice = " is taken as an option of msmemscope; put -- before the program to pass it on"

// nowhere is a working directory.
func nowhere() (string, error) { return "/nowhere", nil }

func TestProgramWords(t *testing.T) {
	words := func(text string) []string { return strings.Fields(text) }
	for _, c := range []struct{ line, program, notices string }{
		{"prog", "prog", ""},
		{"python train.py --lr 1", "python train.py --lr 1", ""},
		{"--events alloc,free python train.py --lr=1 -o x -v", "python train.py --lr=1 -o x -v", ""},
		{"-- python train.py --steps 3", "python train.py --steps 3", ""},
		{"-- python train.py --events=none", "python train.py --events=none", ""},
		{"-q -- --events=none --", "--events=none --", ""},
		{"prog a --analysis=leaks b", "prog a b", "--analysis=leaks" + notice},
		{"prog --analysis leaks --anal=leaks --help --quiet --verbose=1", "prog --analysis leaks --anal=leaks --help --quiet --verbose=1", ""},
		{"prog --device=npu:1 --format=csv x", "prog x", "--device=npu:1" + notice + "\n--format=csv" + notice},
		{"prog -- --events=none -h", "prog -- --events=none -h", ""},
		{"prog --events=alloc -- --events=none", "prog -- --events=none", "--events=alloc" + notice},
		{"- --events=alloc", "-", "--events=alloc" + notice},
		{"-vq prog -x", "prog -x", ""},
		{"-o here prog", "prog", ""},
		{"-qohere prog", "prog", ""},
		{"--output here --data-format=csv prog", "prog",
			"--output is deprecated, please write --output-path\n--data-format is deprecated, please write --format"},
		{"--log-level=warn prog", "prog", "--log-level=warn is deprecated, please write --log-level=warning"},
		{"--level=0,op prog", "prog", "--level=0 is deprecated, please write --level=op"},
	} {
		req, err := parse(words(c.line), nowhere)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		if got := strings.Join(req.program, " "); got != c.program {
			t.Errorf("%s: program %q, want %q", c.line, got, c.program)
		}
		if got := strings.Join(req.notices, "\n"); got != c.notices {
			t.Errorf("%s: notices %q, want %q", c.line, got, c.notices)
		}
	}
}

func TestConfig(t *testing.T) {
	const all = config.Alloc | config.Free | config.Launch
	with := func(change func(*config.Config)) config.Config {
		c := config.Default()
		c.OutputPath = "/nowhere/memscopeDumpResults"
		if change != nil {
			change(&c)
		}
		return c
	}
	level := func(l config.LogLevel) config.Config { return with(func(c *config.Config) { c.LogLevel = l }) }
	events := func(collected, written config.Events) config.Config {
		return with(func(c *config.Config) { c.Events, c.DumpEvents = collected, written })
	}
	noAnalysis := func(collected, written config.Events) config.Config {
		return with(func(c *config.Config) { c.Events, c.DumpEvents, c.Analysis = collected, written, 0 })
	}
	device := func(all bool, slots uint32, cpu bool) config.Config {
		return with(func(c *config.Config) { c.AllNPU, c.NPUSlots, c.CPU = all, slots, cpu })
	}
	output := func(path string) config.Config { return with(func(c *config.Config) { c.OutputPath = path }) }
	for _, c := range []struct {
		words []string
		want  config.Config
	}{
		{nil, with(nil)},
		{[]string{"--events=alloc,free,launch", "--analysis=leaks", "--level=op", "--device=npu", "--format=csv"}, with(nil)},
		{[]string{"--events=launch"}, events(all, config.Launch)}, // leaks needs the pairs, the user did not ask for rows
		{[]string{"--events=none"}, events(config.Alloc|config.Free, 0)},
		{[]string{"--events=none，"}, events(config.Alloc|config.Free, 0)},
		{[]string{"--events="}, events(config.Alloc|config.Free, 0)},
		{[]string{"--events=,alloc，，free,"}, events(config.Alloc|config.Free, config.Alloc|config.Free)},
		{[]string{"--events=none", "--analysis=none"}, noAnalysis(0, 0)},
		{[]string{"--events=launch", "--analysis=none"}, noAnalysis(config.Launch, config.Launch)},
		{[]string{"--events=alloc", "--analysis=none"}, noAnalysis(config.Alloc|config.Free, config.Alloc)},
		{[]string{"--events=free", "--analysis="}, noAnalysis(config.Alloc|config.Free, config.Free)},
		{[]string{"--events=access", "--analysis=none"}, noAnalysis(config.Alloc|config.Free|config.Access, config.Access)},
		{[]string{"--events=none", "--analysis=decompose"}, with(func(c *config.Config) {
			c.Events, c.DumpEvents, c.Analysis = config.Alloc|config.Free|config.Access, 0, config.Decompose
		})},
		{[]string{"--events=alloc,free", "--analysis=inefficient,leaks"}, with(func(c *config.Config) {
			c.Events, c.DumpEvents, c.Analysis = all|config.Access, config.Alloc|config.Free, config.Inefficient|config.Leaks
		})},
		{[]string{"--analysis=exec:/bin/../bin/sh，leaks,exec:/bin/cat"}, with(func(c *config.Config) { c.Programs = []string{"/bin/sh", "/bin/cat"} })},
		{[]string{"--analysis=exec:/bin/cat"}, with(func(c *config.Config) { c.Analysis, c.Programs = 0, []string{"/bin/cat"} })},
		{[]string{"--analysis=exec:/nowhere/x", "--analysis=leaks"}, with(nil)},
		{[]string{"--analysis=none", "--analysis=leaks"}, with(nil)}, // the last counts
		{[]string{"--anal", "none", "--anal=leaks"}, with(nil)},
		{[]string{"--device=npu:0,npu:2"}, device(false, 5, false)},
		{[]string{"--device=npu:0x1f，npu:010"}, device(false, 1<<31|1<<8, false)},
		{[]string{"--device=npu:3,npu"}, device(true, 0, false)},
		{[]string{"--device=cpu"}, device(false, 0, true)},
		{[]string{"--device=cpu,npu"}, device(true, 0, true)},
		{[]string{"--device=cpu", "--device=npu:1"}, device(false, 2, false)},
		{[]string{"--collect-mode=deferred"}, with(func(c *config.Config) { c.Mode = config.Deferred })},
		{[]string{"--collect-mode=deferred", "--collect-mode", "immediate"}, with(nil)},
		{[]string{"--level="}, with(func(c *config.Config) { c.Level = 0 })},
		{[]string{"-v"}, level(config.Debug)},
		{[]string{"--debug"}, level(config.Debug)},
		{[]string{"-q"}, level(config.Error)},
		{[]string{"-qv"}, level(config.Debug)},
		{[]string{"--log-level=warning", "-v"}, level(config.Warning)},
		{[]string{"--log-level=warn"}, level(config.Warning)},
		{[]string{"--log-level=info", "-q"}, level(config.Info)},
		{[]string{"-o", "sub/../out"}, output("/nowhere/out")},
		{[]string{"--output= /tmp//x/ "}, output("/tmp/x")},
		{[]string{"--output-path=数据"}, output("/nowhere/数据")},
	} {
		req, err := parse(append(c.words, "prog"), nowhere)
		if err != nil {
			t.Errorf("%q: %v", c.words, err)
			continue
		}
		if !reflect.DeepEqual(req.config, c.want) {
			t.Errorf("%q:\n%+v, want\n%+v", c.words, req.config, c.want)
		}
	}
}

func TestHome(t *testing.T) {
	for _, c := range []struct{ home, path, want string }{
		{"/home/me", "~/out", "/home/me/out"},
		{"/home/me/", " ~/out ", "/home/me/out"},
		{"/home/me", "~", "/home/me"},
		{"/home/me", "~/", "/home/me"},
		{"/home/me", "~you/out", "/nowhere/~you/out"},
		{"/home/me", "x/~/out", "/nowhere/x/~/out"},
		{"", "out", "/nowhere/out"},
	} {
		t.Setenv("HOME", c.home)
		req, err := parse([]string{"--output-path=" + c.path, "p"}, nowhere)
		if err != nil || req.config.OutputPath != c.want {
			t.Errorf("%q in %q: %v, %+v", c.path, c.home, err, req)
		}
	}
	t.Setenv("HOME", "/home/me")
	req, err := parse([]string{"--compare", "-i~/a.csv,~/b.csv"}, nowhere)
	if err != nil || !reflect.DeepEqual(req.inputs, []string{"/home/me/a.csv", "/home/me/b.csv"}) {
		t.Errorf("%v, %+v", err, req)
	}
	for _, home := range []string{"", "home/me"} {
		t.Setenv("HOME", home)
		for _, words := range [][]string{{"-o~/x", "p"}, {"--compare", "-i~/a,b"}} {
			if req, err := parse(words, nowhere); err == nil || !strings.Contains(err.Error(), "HOME is \""+home+"\"") {
				t.Errorf("HOME=%s, %q: %v, %+v", home, words, err, req)
			}
		}
	}
}

// TestNoDirectory: without a working directory only an absolute output path works.
func TestNoDirectory(t *testing.T) {
	gone := func() (string, error) { return "", syscall.ENOENT }
	t.Setenv("HOME", "/home/me")
	for _, path := range []string{"/tmp/x", " /tmp/x", "~/x"} {
		if _, err := parse([]string{"-o", path, "p"}, gone); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, words := range [][]string{{"p"}, {"-o", "x", "p"}, {"--compare", "-ia,b"}} {
		var stdout, stderr bytes.Buffer
		p := Program{Stdout: &stdout, Stderr: &stderr, Dir: gone}
		if status := p.Main(words); status != 1 || stdout.Len() > 0 || strings.Count(stderr.String(), "\n") != 1 ||
			!strings.Contains(stderr.String(), "the working directory cannot be used: it has been deleted;") {
			t.Errorf("%q: status %d, stderr %q", words, status, stderr.String())
		}
	}
}

// TestOptionAfterProgram: the option after the program acts like one before it.
func TestOptionAfterProgram(t *testing.T) {
	before, err := parse([]string{"--events=free", "--log-level=error", "prog"}, nowhere)
	if err != nil {
		t.Fatal(err)
	}
	after, err := parse([]string{"--events=alloc", "prog", "--events=free", "--log-level=error"}, nowhere)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before.config, after.config) {
		t.Errorf("after %+v, before %+v", after.config, before.config)
	}
}

// FuzzParse gives the words of a line, separated by NUL.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "--\x00prog", "--events=alloc，free\x00prog\x00--analysis=leaks\x00--\x00--device=cpu", "-vqo\x00x\x00p",
		"--device=npu:0x1f,cpu\x00p\x00--level=0", "--help", "-V", "--inp\x00p", "--output= /a\x00p", "--events\x00\xff\xef\xbc\x00p",
		"--device=npu:1e9\x00p", "-\x00-o", "--=\x00p", "p\x00--steps=3\x00--lr",
		"--compare\x00-i\x00a，b\x00--level=kernel", "dump\x00stats", "-q\x00dump", "-o~/x\x00p",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Split(line, "\x00")
		req, err := parse(words, nowhere)
		if err != nil {
			for _, r := range err.Error() {
				if !unicode.IsPrint(r) {
					t.Fatalf("the message breaks the line or drives the terminal: %q", err)
				}
			}
			return
		}
		if req.action != run {
			if req.action == compareDumps && (len(req.inputs) != 2 || len(req.program) > 0) {
				t.Fatalf("compares %q, runs %q", req.inputs, req.program)
			}
			return
		}
		c := req.config
		if c.Events&c.DumpEvents != c.DumpEvents {
			t.Fatalf("written %b, but collected only %b", c.DumpEvents, c.Events)
		}
		if c.AllNPU && c.NPUSlots != 0 || !c.AllNPU && c.NPUSlots == 0 && !c.CPU {
			t.Fatalf("devices %+v", c)
		}
		if c.OutputPath == "" || c.OutputPath[0] != '/' {
			t.Fatalf("output path %q", c.OutputPath)
		}
		checkProgram(t, words, req)
	})
}

// checkProgram: the program is a tail of the words in order, less those that a notice tells of.
func checkProgram(t *testing.T, words []string, req *request) {
	t.Helper()
	if len(req.program) == 0 {
		t.Fatal("no program")
	}
	left := req.program
	taken := 0
	for i := len(words) - 1; len(left) > 0; i-- {
		switch {
		case i < 0:
			t.Fatalf("program %q is not in the words %q", req.program, words)
		case words[i] == left[len(left)-1]:
			left = left[:len(left)-1]
		default:
			if o, _ := ours(words[i]); o == nil {
				t.Fatalf("word %q is neither ours nor passed on in %q", words[i], req.program)
			}
			taken++
		}
	}
	if taken > len(req.notices) {
		t.Fatalf("%d words taken, %d notices", taken, len(req.notices))
	}
	again, err := parse(append([]string{"--"}, req.program...), nowhere)
	if err != nil || !reflect.DeepEqual(again.program, req.program) {
		t.Fatalf("after --: %q, %v, want %q", again.program, err, req.program)
	}
}
