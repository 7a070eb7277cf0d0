package symbol

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"
)

// The program says where it is loaded, and from each of its calls the return address and what it knows of itself:
// "address function file line".
const source = `
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <link.h>
#include <stdio.h>
#define NOINLINE __attribute__((noinline))
#ifdef __cplusplus
#define NAME __PRETTY_FUNCTION__
extern "C"
#else
#define NAME __func__
#endif
int visit(struct dl_phdr_info *info, size_t size, void *arg) { (void)size; *(unsigned long *)arg = info->dlpi_addr; return 1; }
NOINLINE void *here(void) { __asm__ volatile(""); return __builtin_return_address(0); }
#define TELL(...) do { void *pc = here(); printf("%lx|%s|%d\n", (unsigned long)pc, NAME, __LINE__); } while (0)
static NOINLINE void hidden(int n) {
    TELL();
    if (n)
        hidden(n - 1);
    __asm__ volatile("");
}
#ifdef __cplusplus
namespace space {
template <class T> struct box {
    NOINLINE T open(T x) {
        TELL();
        return x + 1;
    }
};
}
#endif
NOINLINE int middle(int n) {
    TELL();
    hidden(n);
#include "part.h"
    return n;
}
int main(void) {
    unsigned long bias = 0;
    dl_iterate_phdr(visit, &bias);
    printf("%lx\n", bias);
    TELL();
    middle(2);
#ifdef __cplusplus
    space::box<long>().open(3);
#endif
    return 0;
}
`

const part = `
TELL(
  );
`

type told struct {
	pc       uint64
	function string
	line     int
}

// build compiles the program with the flags, and runs it.
func build(t *testing.T, compiler, suffix string, flags ...string) (m *Module, lines []told) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"program" + suffix: source, "part.h": part} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	do(t, dir, compiler, append(flags, "-Wl,--build-id", "-o", "program", "program"+suffix)...)
	path := filepath.Join(dir, "program")
	out, err := exec.Command(path).Output()
	if err != nil {
		t.Fatal(err)
	}
	m = &Module{Path: path, BuildID: buildID(t, path)}
	s := bufio.NewScanner(bytes.NewReader(out))
	s.Scan()
	m.Bias = number(t, s.Text())
	for s.Scan() {
		f := strings.Split(s.Text(), "|")
		line, err := strconv.Atoi(f[2])
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, told{number(t, f[0]), f[1], line})
	}
	if len(lines) < 5 {
		t.Fatalf("the program said %q", out)
	}
	return m, lines
}

func do(t *testing.T, dir, name string, words ...string) {
	t.Helper()
	cmd := exec.Command(name, words...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, words, err, out)
	}
}

func number(t *testing.T, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func buildID(t *testing.T, path string) []byte {
	t.Helper()
	out, err := exec.Command("readelf", "-n", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(out), "Build ID: ")
	id, err := hex.DecodeString(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]))
	if err != nil || len(id) == 0 {
		t.Fatalf("no build id in\n%s", out)
	}
	return id
}

// symbolOf is the readable symbol of a function, as C and C++ compilers call it in the program.
func symbolOf(function string) string {
	switch {
	case strings.Contains(function, "space::box"): // with all that g++ knows of it
		return "space::box<long>::open(long)"
	case strings.Contains(function, "main("):
		return "main"
	}
	return strings.TrimPrefix(strings.TrimPrefix(function, "void "), "int ")
}

// check compares frames with what the program said: functions and lines, if they are to be known.
func check(t *testing.T, s *Symbolizer, m *Module, lines []told, functions, numbers bool) {
	t.Helper()
	for _, l := range lines {
		text := s.Frame(m, l.pc)
		if functions && !strings.HasPrefix(text, m.Path+"("+symbolOf(l.function)+"+0x") {
			t.Errorf("%q, of function %s", text, l.function)
		}
		if !functions && strings.Contains(text, l.function+"+0x") {
			t.Errorf("%q knows more than it can", text)
		}
		if !functions && !strings.Contains(text, fmt.Sprintf("(+0x%x)", l.pc-m.Bias)) {
			t.Errorf("%q, want the offset 0x%x in the file", text, l.pc-m.Bias)
		}
		if !strings.Contains(text, fmt.Sprintf(" [0x%x]", l.pc)) {
			t.Errorf("%q, want address %x", text, l.pc)
		}
		_, at, found := strings.Cut(text, " at ")
		if numbers && !strings.HasSuffix(at, ":"+strconv.Itoa(l.line)) || found != numbers {
			t.Errorf("%q, of line %d", text, l.line)
		}
	}
}

func TestFrames(t *testing.T) {
	for name, c := range map[string]struct {
		compiler, suffix string
		flags            []string
		functions, lines bool
	}{
		"plain":               {"gcc", ".c", []string{"-g", "-O0"}, true, true},
		"optimized":           {"gcc", ".c", []string{"-g", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"}, true, true},
		"DWARF 4":             {"gcc", ".c", []string{"-gdwarf-4", "-O1"}, true, true},
		"64-bit DWARF":        {"gcc", ".c", []string{"-gdwarf-5", "-gdwarf64", "-O1"}, true, true},
		"at a fixed place":    {"gcc", ".c", []string{"-g", "-no-pie"}, true, true},
		"compressed":          {"gcc", ".c", []string{"-g", "-gz"}, true, true},
		"no debug":            {"gcc", ".c", []string{"-O0"}, true, false},
		"stripped":            {"gcc", ".c", []string{"-g", "-s"}, false, false},
		"C++":                 {"g++", ".cc", []string{"-g", "-O1", "-std=c++17"}, true, true},
		"functions, sections": {"gcc", ".c", []string{"-g", "-O2", "-ffunction-sections", "-fno-optimize-sibling-calls"}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, lines := build(t, c.compiler, c.suffix, c.flags...)
			s := New()
			defer s.Close()
			check(t, s, m, lines, c.functions, c.lines)
		})
	}
}

// split takes the symbols and the debug information out of a program, into a file of its own.
func split(t *testing.T, path, debug string, link bool) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(debug), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(path)
	do(t, dir, "objcopy", "--only-keep-debug", path, debug)
	do(t, dir, "strip", path)
	if link {
		do(t, dir, "objcopy", "--add-gnu-debuglink="+debug, path)
	}
}

func TestSeparateDebugFile(t *testing.T) {
	t.Run("by build id", func(t *testing.T) {
		m, lines := build(t, "gcc", ".c", "-g", "-O1")
		dir := t.TempDir()
		split(t, m.Path, buildIDFile(dir, m.BuildID), false)
		s := New()
		s.DebugDirs = []string{filepath.Join(dir, "none"), dir}
		check(t, s, m, lines, true, true)
	})
	t.Run("by link", func(t *testing.T) {
		m, lines := build(t, "gcc", ".c", "-g", "-O1")
		split(t, m.Path, filepath.Join(filepath.Dir(m.Path), ".debug", "program.debug"), true)
		check(t, New(), m, lines, true, true)
	})
	t.Run("of another build", func(t *testing.T) {
		m, lines := build(t, "gcc", ".c", "-g", "-O1")
		other, _ := build(t, "gcc", ".c", "-g", "-O2")
		split(t, m.Path, filepath.Join(t.TempDir(), "right"), false)
		dir := t.TempDir()
		split(t, other.Path, buildIDFile(dir, m.BuildID), false)
		s := New()
		s.DebugDirs = []string{dir}
		check(t, s, m, lines, false, false)
	})
}

// TestMiniDebug: only the functions, compressed, as Fedora and openEuler ship them.
func TestMiniDebug(t *testing.T) {
	m, lines := build(t, "gcc", ".c", "-O1")
	dir := filepath.Dir(m.Path)
	do(t, dir, "objcopy", "--only-keep-debug", "program", "mini")
	do(t, dir, "strip", "program")
	data, err := os.ReadFile(filepath.Join(dir, "mini"))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w, err := xz.NewWriter(&packed)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "mini.xz"), packed.Bytes(), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	do(t, dir, "objcopy", "--add-section", ".gnu_debugdata=mini.xz", "program")
	check(t, New(), m, lines, true, false)
}

func TestFileIsNotTheOne(t *testing.T) {
	m, lines := build(t, "gcc", ".c", "-g")
	for _, c := range []struct {
		name   string
		change func()
	}{
		{"another build id", func() { m.BuildID = []byte("no such build id....") }},
		{"damaged", func() {
			m.BuildID = nil
			data, _ := os.ReadFile(m.Path)
			for i := 64; i < len(data); i += 3 {
				data[i] ^= 0x5a
			}
			os.WriteFile(m.Path, data, 0o755)
		}},
		{"cut", func() { os.Truncate(m.Path, 5000) }},
		{"empty", func() { os.Truncate(m.Path, 0) }},
		{"gone", func() { os.Remove(m.Path) }},
		{"a pipe", func() { do(t, filepath.Dir(m.Path), "mkfifo", m.Path) }},
	} {
		c.change()
		s := New()
		for _, l := range lines {
			want := fmt.Sprintf("%s(+0x%x) [0x%x]", m.Path, l.pc-m.Bias, l.pc)
			if text := s.Frame(m, l.pc); text != want {
				t.Errorf("%s: %q, want %q", c.name, text, want)
			}
		}
		s.Close()
	}
}

// TestFileShrinks: the mapping of a file that somebody truncates faults when it is read.
func TestFileShrinks(t *testing.T) {
	m, lines := build(t, "gcc", ".c", "-g")
	s := New()
	s.Frame(m, lines[0].pc)
	if err := os.Truncate(m.Path, 0); err != nil {
		t.Fatal(err)
	}
	for _, l := range lines[1:] {
		if text := s.Frame(m, l.pc); !strings.HasPrefix(text, m.Path+"(") {
			t.Errorf("%q", text)
		}
	}
}

func TestGeneratedCode(t *testing.T) {
	if text := New().Frame(nil, 0x1234); text != "[0x1234]" {
		t.Errorf("%q", text)
	}
}

// TestRoom: however many files are asked about, few stay open.
func TestRoom(t *testing.T) {
	m, lines := build(t, "gcc", ".c", "-g")
	s := New()
	for i := range 50 {
		other := *m
		other.Path = fmt.Sprintf("%s%d", m.Path, i)
		if err := os.Link(m.Path, other.Path); err != nil {
			t.Fatal(err)
		}
		check(t, s, &other, lines, true, true)
		s.cost += 20 << 20 // as if it had been a large one
		for _, o := range s.files {
			if o.used == s.clock {
				o.cost += 20 << 20
			}
		}
		if len(s.files) > 8 {
			t.Fatalf("%d files are open", len(s.files))
		}
	}
}
