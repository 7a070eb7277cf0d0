package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"memscope/internal/config"
	"memscope/internal/event"
)

func TestResolve(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"out", "/work dir/out"},
		{"  ./out/ \t", "/work dir/out"},
		{"../a//b/./c/..", "/a/b"},
		{"/", ""},
		{"..", ""}, // the root directory, from here
		{"../..", ""},
		{"", ""},
		{" \t ", ""},
		{"/tmp/数据_1-2~x y", "/tmp/数据_1-2~x y"},
		{"/tmp/\u4e00\u9fa5", "/tmp/\u4e00\u9fa5"},
		{"/tmp/\u9fa6", ""},
		{"a\nb", ""}, {"a\rb", ""}, {"a\vb", ""}, {"a\fb", ""}, {"out\n", ""}, {"\n", ""}, {"a\tb c", "/work dir/a\tb c"},
		{"=x", ""}, {"+x", ""}, {"-x", ""}, {"@x", ""}, {" =x", ""},
		{"/tmp/-x", "/tmp/-x"},
		{"a?b", ""}, {"a*b", ""}, {"a|b", ""}, {"a:b", ""}, {"a😀", ""}, {"a\x00b", ""}, {"a\xffb", ""}, {"a=b", ""},
		{"/" + strings.Repeat("c", 255), "/" + strings.Repeat("c", 255)},
		{"/" + strings.Repeat("c", 256), ""},
		{"/" + strings.Repeat("文", 86), ""},                                                                  // 258 bytes
		{strings.Repeat("/a", 33), strings.Repeat("/a", 33)},                                                 // too deep, which Check tells
		{strings.Repeat("/"+strings.Repeat("d", 128), 32), strings.Repeat("/"+strings.Repeat("d", 128), 32)}, // 4096 bytes
		{strings.Repeat("/"+strings.Repeat("d", 129), 32), ""},
	} {
		got, err := Resolve(c.in, "/work dir")
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: %q, %v", c.in, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: more than one line: %v", c.in, err)
		}
	}
	if got, err := Resolve("/tmp/ok:no", "/"); err == nil || !strings.Contains(err.Error(), "/tmp/ok:no") || !strings.Contains(err.Error(), "letters") {
		t.Errorf("%q: the message does not say what and what is accepted: %v", got, err)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	mk := func(name string, mode fs.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.Mkdir(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	plain := mk("plain", 0o755)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	link, dangling := filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
	if err := errors.Join(os.Symlink(plain, link), os.Symlink("nowhere", dangling)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{plain, ""},
		{filepath.Join(plain, "new", "deep"), ""},
		{filepath.Join(link, "new"), ""}, // a link on the way is fine
		{link, "symbolic link"},
		{dangling, "symbolic link"},
		{filepath.Join(dangling, "new"), "link to nowhere"},
		{file, "not a directory"},
		{filepath.Join(file, "new"), "not a directory"},
		{strings.Repeat("/a", 32), ""},
		{strings.Repeat("/a", 33), "33 directories deep; at most 32"},
	} {
		err := Check(c.path)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path)) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(plain, "new")); err == nil {
		t.Error("Check has made the directory")
	}
	if p, err := Create(dir+strings.Repeat("/a", 32), 1, nil); err == nil || !strings.Contains(err.Error(), "at most 32") {
		t.Errorf("made %v, %v", p, err)
	}
}

// TestCheckUnwritable needs a user whom permissions bind.
func TestCheckUnwritable(t *testing.T) {
	if os.Getenv("OUTPUT_TEST_CHECK") != "" {
		for _, p := range strings.Split(os.Getenv("OUTPUT_TEST_CHECK"), ":") {
			fmt.Println(Check(p))
		}
		return
	}
	dir, err := os.MkdirTemp("/tmp", "output")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	closed, unreadable := filepath.Join(dir, "closed"), filepath.Join(dir, "unreadable")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(closed, 0o555), os.Mkdir(unreadable, 0o333)); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "self") // the test's own place may be closed to others
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^TestCheckUnwritable$")
	cmd.Dir = dir
	cmd.Env = []string{"OUTPUT_TEST_CHECK=" + strings.Join([]string{closed, closed + "/a/b", unreadable, dir + "/c"}, ":")}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	lines := strings.Split(string(out), "\n")
	for i, want := range []string{
		"the output path " + strconv.Quote(closed) + " is not readable and writable",
		strconv.Quote(closed) + " is not writable",
		"the output path " + strconv.Quote(unreadable) + " is not readable and writable",
	} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("got %q, want %q", lines[i], want)
		}
	}
	if os.Geteuid() == 0 && !strings.Contains(lines[3], "is not writable") { // the directory is root's
		t.Errorf("got %q", lines[3])
	}
}

func TestRisks(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if r := Risks(dir); len(r) != 0 {
		t.Errorf("%v", r)
	}
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if r := Risks(dir); len(r) != 1 || !strings.Contains(r[0], dir) {
		t.Errorf("%v", r)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if r := Risks(dir); len(r) != 2 {
			t.Errorf("%v", r)
		}
	}
	if r := Risks(filepath.Join(dir, "none")); len(r) != 0 {
		t.Errorf("%v", r)
	}
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// TestTree makes a whole tree under the umasks that would matter.
func TestTree(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077, 0o277} {
		base := filepath.Join(t.TempDir(), "a", "b")
		old := syscall.Umask(umask)
		var notices []string
		p, err := Create(base, 4711, func(line string) { notices = append(notices, line) })
		var names []string
		for _, d := range []int32{0, 31, event.DeviceCPU, 0} {
			f, name, e := p.CreateDump(d, "csv")
			if e != nil {
				t.Fatal(e)
			}
			f.Close()
			names = append(names, name)
		}
		cfg := config.Default()
		err = errors.Join(err, p.WriteConfig(&cfg), p.WriteConfig(&cfg))
		log := p.NewLog(config.Info)
		log.Line(config.Info, "x.go:1", "hello")
		err = errors.Join(err, log.Close(), p.Close())
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		if ok, _ := regexp.MatchString(`^`+regexp.QuoteMeta(base)+`/msmemscope_4711_\d{14}_ascend$`, p.Path); !ok {
			t.Errorf("path %s", p.Path)
		}
		for i, want := range []string{`device_0`, `device_31`, `device_cpu`, `device_0`} {
			if ok, _ := regexp.MatchString(`^`+want+`/dump/memscope_dump_\d{14}\.csv$`, names[i]); !ok {
				t.Errorf("dump %s", names[i])
			}
		}
		if names[0] == names[3] {
			t.Error("two files of one name")
		}
		files := 0
		filepath.WalkDir(filepath.Dir(base), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				t.Error(err)
				return nil
			}
			want := fs.FileMode(0o640)
			if d.IsDir() {
				want = 0o750
			} else {
				files++
			}
			if got := mode(t, path); got != want {
				t.Errorf("umask %04o: %s is %04o, want %04o", umask, path, got, want)
			}
			return nil
		})
		if files != 6 {
			t.Errorf("%d files", files)
		}
		want := []string{"create file " + p.Path + "/" + names[0] + ".", "Config into file " + p.Path + "/config.json", "logging into file " + p.Path + "/msmemscope_logs/msmemscope_"}
		for _, w := range want {
			if !strings.Contains(strings.Join(notices, "\n"), "[msmemscope] Info: "+w) {
				t.Errorf("no notice %q in %q", w, notices)
			}
		}
	}
}

// TestSamePID: exec within a second is a new process of the same id, and gets a directory of its own.
func TestSamePID(t *testing.T) {
	base := t.TempDir()
	seen := make(map[string]bool)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			p, err := Create(base, 1, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Close()
			mu.Lock()
			defer mu.Unlock()
			if seen[p.Path] {
				t.Errorf("%s twice", p.Path)
			}
			seen[p.Path] = true
		})
	}
	all.Wait()
	for path := range seen {
		ts := strings.Split(filepath.Base(path), "_")[2]
		at, err := time.ParseInLocation("20060102150405", ts, time.Local)
		if d := time.Since(at); err != nil || d < -20*time.Second || d > 20*time.Second {
			t.Errorf("%s: %v from now, %v", path, d, err)
		}
	}
}

// TestSymlinks: a link in place of a directory of ours is an error, whenever it comes, and nothing is written behind it.
func TestSymlinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	link := func(name string) {
		if err := os.Symlink(outside, name); err != nil {
			t.Fatal(err)
		}
	}
	base := filepath.Join(dir, "out")
	link(base)
	if _, err := Create(base, 1, nil); err == nil {
		t.Error("created through a link")
	}
	os.Remove(base)
	p, err := Create(base, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	link(filepath.Join(p.Path, "device_0"))
	link(filepath.Join(p.Path, "msmemscope_logs"))
	if _, _, err := p.CreateDump(0, "csv"); err == nil || !strings.Contains(err.Error(), "device_0") {
		t.Errorf("dump through a link: %v", err)
	}
	log := p.NewLog(config.Info)
	log.Line(config.Info, "x.go:1", "hello")
	log.Close()
	// The project directory itself is swapped while the run goes on.
	moved := filepath.Join(dir, "moved")
	if err := os.Rename(p.Path, moved); err != nil {
		t.Fatal(err)
	}
	link(p.Path)
	f, name, err := p.CreateDump(1, "csv")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := os.Stat(filepath.Join(moved, name)); err != nil {
		t.Error(err)
	}
	if got, _ := os.ReadDir(outside); len(got) != 0 {
		t.Errorf("written outside: %v", got)
	}
}

func TestCreateFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, base := range []string{file, filepath.Join(file, "x"), filepath.Join(dir, strings.Repeat("n", 256)), "/proc/x"} {
		if _, err := Create(base, 1, nil); err == nil || !strings.Contains(err.Error(), base) {
			t.Errorf("%s: %v", base, err)
		}
	}
}

func TestConfigJSON(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"default": func(*config.Config) {},
		"full": func(c *config.Config) {
			*c = config.Config{
				Events: 15, DumpEvents: 4, Analysis: config.Leaks | config.OOM, Level: config.LevelOp | config.LevelKernel,
				NPUSlots: 1<<31 | 5, CPU: true, Mode: config.Deferred, Format: config.DB, LogLevel: config.Error, OutputPath: "/tmp/数 据&<x>",
				OOMTopK: 1000, CStack: true, CStackDepth: 7, PyStack: true, Steps: []uint32{1, 4294967295, 3},
				HostLeakDetail: true, BlockThreshold: 1024, SampleRate: 4,
			}
		},
	} {
		c := config.Default()
		c.OutputPath = "/tmp/memscopeDumpResults"
		change(&c)
		golden := filepath.Join("testdata", "config_"+name+".json")
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got := ConfigJSON(&c); string(got) != string(want) {
			t.Errorf("%s:\n%s", golden, got)
		}
		p, err := Create(t.TempDir(), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(p.WriteConfig(&config.Config{}), p.WriteConfig(&c), p.Close()); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(filepath.Join(p.Path, "config.json")); string(got) != string(want) {
			t.Errorf("%s is not what is in the file:\n%s", golden, got)
		}
	}
}

func logText(t *testing.T, p *Project) string {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(p.Path, "msmemscope_logs", "*"))
	if len(names) == 0 {
		return ""
	}
	if ok, _ := regexp.MatchString(`/msmemscope_\d{14}\.log$`, names[0]); !ok || len(names) > 1 {
		t.Errorf("log files %v", names)
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestLog(t *testing.T) {
	var notices []string
	p, err := Create(t.TempDir(), 1, func(line string) { notices = append(notices, line) })
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	log := p.NewLog(config.Info)
	log.Line(config.Debug, "a.go:1", "not wanted")
	if logText(t, p) != "" || len(notices) != 0 {
		t.Error("a file without a line")
	}
	log.Line(config.Info, "a.go:12", "started")
	log.Line(config.Warning, "b.c:3", "two\nlines\tand é")
	log.Line(config.Error, "b.c:4", "")
	text := logText(t, p)
	stamp := `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`
	want := "^" + stamp + ` \[INFO\]  \[a\.go:12\] started` + "\n" +
		stamp + ` \[WARN\]  \[b\.c:3\] two lines and é` + "\n" +
		stamp + ` \[ERROR\] \[b\.c:4\] ` + "\n$"
	if ok, _ := regexp.MatchString(want, text); !ok {
		t.Errorf("log:\n%s", text)
	}
	// A big log is told once per doubling.
	log.limit = log.size + 100
	for range 40 {
		log.Line(config.Info, "a.go:1", "more and more and more and more")
	}
	large := 0
	for _, n := range notices {
		if strings.HasPrefix(n, "[msmemscope] Warn: Log file size is too large, please check: "+p.Path+"/msmemscope_logs/") {
			large++
		}
	}
	if want := 4; large != want { // limit about 220, then doubled: size ends at about 2800
		t.Errorf("%d warnings for %d bytes, want %d", large, log.size, want)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	before := logText(t, p)
	log.Line(config.Error, "a.go:1", "too late")
	if logText(t, p) != before {
		t.Error("a line after Close")
	}
}

// TestLogFull: a log that cannot be written stays whole and disturbs nobody.
func TestLogFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small tmpfs takes root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount a tmpfs here: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	p, err := Create(dir, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	log := p.NewLog(config.Info)
	for range 1000 {
		log.Line(config.Info, "a.go:1", strings.Repeat("x", 150))
	}
	text := logText(t, p)
	if !strings.HasSuffix(text, "x\n") || len(text) > 64<<10 || len(text) < 50<<10 {
		t.Errorf("%d bytes, end %q", len(text), text[max(0, len(text)-20):])
	}
	cfg := config.Default()
	if err := p.WriteConfig(&cfg); err == nil { // it was full before
		t.Error("config.json on a full disk")
	}
	if _, err := os.Stat(filepath.Join(p.Path, "config.json.new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a file is left: %v", err)
	}
	log.Close()
}
