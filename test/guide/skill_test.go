package guide

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const skill = "skills/msmemscope"

// Front matter of an agent skill (https://agentskills.io/specification).
var (
	skillName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	allowed   = map[string]int{"name": 64, "description": 1024, "license": 200, "compatibility": 500} // characters
)

// frontMatter reads the part between the two lines "---": plain scalars of one line, which is the YAML that it needs.
func frontMatter(t *testing.T, text string) map[string]string {
	t.Helper()
	rest, ok := strings.CutPrefix(text, "---\n")
	head, _, closed := strings.Cut(rest, "\n---\n")
	if !ok || !closed {
		t.Fatal("SKILL.md does not begin with front matter")
	}
	found := map[string]string{}
	for _, line := range strings.Split(head, "\n") {
		key, value, ok := strings.Cut(line, ": ")
		if _, twice := found[key]; !ok || twice {
			t.Errorf("front matter: line %q", line)
			continue
		}
		// What would not be a plain scalar in YAML.
		if strings.Contains(value, ": ") || strings.Contains(value, " #") || strings.ContainsAny(value[:1], "!&*-?|>@`\"'%[]{},# ") {
			t.Errorf("front matter: %s has to be quoted", key)
		}
		found[key] = value
	}
	return found
}

func TestSkillFrontMatter(t *testing.T) {
	fields := frontMatter(t, readPage(t, skill+"/SKILL.md"))
	for _, required := range []string{"name", "description"} {
		if fields[required] == "" {
			t.Errorf("no %s", required)
		}
	}
	for key, value := range fields {
		if limit, ok := allowed[key]; !ok {
			t.Errorf("unknown field %s", key)
		} else if n := utf8.RuneCountInString(value); n == 0 || n > limit {
			t.Errorf("%s has %d characters, 1 to %d are allowed", key, n, limit)
		}
	}
	if name := fields["name"]; !skillName.MatchString(name) || name != filepath.Base(skill) {
		t.Errorf("name %q is not that of the directory, or not of lower-case letters, digits and single hyphens", name)
	}
	if lines := strings.Count(readPage(t, skill+"/SKILL.md"), "\n"); lines > 500 {
		t.Errorf("SKILL.md has %d lines; 500 at most are recommended", lines)
	}
}

// TestSkillFiles: SKILL.md leads to every file of the skill. (That links lead somewhere is TestLinks.)
func TestSkillFiles(t *testing.T) {
	text := readPage(t, skill+"/SKILL.md")
	files, _ := filepath.Glob(filepath.Join(root, skill, "*", "*"))
	if len(files) < 8 {
		t.Fatalf("only %d files", len(files))
	}
	for _, file := range files {
		if rel, _ := filepath.Rel(filepath.Join(root, skill), file); !strings.Contains(text, "]("+rel+")") && !strings.Contains(rel, "__pycache__") {
			t.Errorf("SKILL.md does not link to %s", rel)
		}
	}
}

// module stands for the Python module and writes down how it is called.
const module = `
import contextlib, sys, types

def note(name):
    def call(*args, **options):
        print(name, *args, *("%s=%s" % pair for pair in sorted(options.items())))
        return contextlib.nullcontext()
    return call

config, start, stop, step, take_snapshot = map(note, ["config", "start", "stop", "step", "take_snapshot"])
describe = sys.modules["msmemscope.describe"] = types.SimpleNamespace(describer=note("describer"))
`

// TestTemplate runs the template without the module, and with one that tells how it was called, without torch_npu and with it.
func TestTemplate(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	template := func(path string) (stdout string) {
		cmd := exec.Command(python, filepath.Join(root, skill, "assets", "collection_template.py"))
		cmd.Env = append(environment(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+path)
		cmd.Dir = t.TempDir()
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if out := template(""); out != "" {
		t.Errorf("without the module it prints %q", out)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "msmemscope.py"), []byte(module), 0o600); err != nil {
		t.Fatal(err)
	}
	label := "describer owner=forward\n"
	loop := strings.Repeat(label, 3) + "start\n" + strings.Repeat(label+"step\n", 6) + "stop\n" + label
	const config = "config events=alloc,free output_path=./memscopeDumpResults\n"
	if out, want := template(dir), config+loop; out != want {
		t.Errorf("without torch_npu it calls\n%s\nwant\n%s", out, want)
	}
	if err := os.WriteFile(filepath.Join(dir, "torch_npu.py"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, want := template(dir), config+"take_snapshot name=after loading\n"+loop+"take_snapshot name=at the end\n"; out != want {
		t.Errorf("it calls\n%s\nwant\n%s", out, want)
	}
}
