package smoke

import (
	"debug/elf"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestLinesEverywhere: of the frames in code that has debug information, 99 % have file and line, and these are addr2line's. The sample is
// thousands of places all over an interpreter of Python that was built with -g, and its libraries.
func TestLinesEverywhere(t *testing.T) {
	needLevel(t, 2)
	shim := target("libeverywhere.so")
	var j *job
	for _, version := range []string{"3.11", "3.12", "3.13", "3.10", "3.9", "3.8"} {
		if python := debugged(t, version); python != "" {
			j = under(t, "--call-stack=c:64", python, filepath.Join(root, "test", "smoke", "testdata", "everywhere.py"), shim)
			break
		}
	}
	if j == nil {
		t.Skip("no Python with debug information is installed")
	}
	j.env = []string{"LD_PRELOAD=" + shim, "PYTHONMALLOC=malloc"}
	j.run().want(0).noComplaints()
	libraries := toldLibraries(t, j.stdout.String())

	type frame struct {
		addr     uint64
		at, text string
	}
	seen, frames := map[string]bool{}, map[string][]frame{}
	for _, f := range columns(t, j) {
		if f[1] != "MALLOC" {
			continue
		}
		for text := range strings.Lines(f[11]) {
			text = strings.TrimSpace(text)
			place, at, _ := strings.Cut(text, " at ")
			path, rest, _ := strings.Cut(place, "(")
			if seen[place] {
				continue
			}
			seen[place] = true
			_, hex, _ := strings.Cut(rest, "[0x")
			addr, err := strconv.ParseUint(strings.TrimSuffix(hex, "]"), 16, 64)
			if err != nil {
				t.Fatalf("frame %q", text)
			}
			if real, err := filepath.EvalSymlinks(path); err == nil {
				path = real
			}
			frames[path] = append(frames[path], frame{addr, at, text})
		}
	}
	all, lines, same := 0, 0, 0
	for path, list := range frames {
		bias, known := libraries[path]
		if !known {
			continue // the kernel's own, in memory
		}
		has, fixed := debugInfo(t, path)
		if !has {
			continue
		}
		if fixed {
			bias = 0
		}
		var ask strings.Builder
		for _, f := range list {
			fmt.Fprintf(&ask, "%#x\n", f.addr-1-bias) // of the call, not of where it returns to
		}
		cmd := exec.Command("addr2line", "-e", path)
		cmd.Stdin = strings.NewReader(ask.String())
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("addr2line: %v", err)
		}
		answers := strings.Split(string(out), "\n")
		for i, f := range list {
			all++
			if f.at == "" {
				t.Logf("no line: %s", f.text)
				continue
			}
			lines++
			want, _, _ := strings.Cut(answers[i], " (discriminator")
			if filepath.Base(f.at) == filepath.Base(want) {
				same++
			} else {
				t.Logf("%s, by addr2line at %s", f.text, want)
			}
		}
	}
	t.Logf("of %d frames %d have file and line (%.2f %%), %d those of addr2line", all, lines, 100*float64(lines)/float64(all), same)
	if all < 2000 || lines*100 < all*99 || same*100 < all*99 {
		t.Errorf("of %d frames %d have file and line, %d those of addr2line", all, lines, same)
	}
}

// debugged is the interpreter of a version of Python if that, or the library that it is made of, has debug information; "" otherwise.
func debugged(t *testing.T, version string) string {
	t.Helper()
	python, err := exec.Command(filepath.Join(root, "tools", "python.sh"), version).Output()
	if err != nil {
		return ""
	}
	const ask = "import sys; print(sys.executable); [print(m.split()[5]) for m in open('/proc/self/maps') if '/libpython' in m]"
	out, err := exec.Command(strings.TrimSpace(string(python)), "-c", ask).Output()
	if err != nil {
		return ""
	}
	files := strings.Fields(string(out))
	if !slices.ContainsFunc(files, func(path string) bool { has, _ := debugInfo(t, path); return has }) {
		return ""
	}
	return files[0]
}

// debugInfo says whether a file has debug information, and whether it is loaded where it says.
func debugInfo(t *testing.T, path string) (has, fixed bool) {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	return file.Section(".debug_info") != nil, file.Type == elf.ET_EXEC
}

// toldLibraries is where everywhere.py said that its libraries lie, by their paths.
func toldLibraries(t *testing.T, out string) map[string]uint64 {
	t.Helper()
	libraries := map[string]uint64{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != "library" {
			continue
		}
		bias, err := strconv.ParseUint(f[1], 16, 64)
		if err != nil {
			t.Fatalf("line %q", line)
		}
		libraries[f[2]] = bias
	}
	return libraries
}
