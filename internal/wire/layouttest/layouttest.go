// Package layouttest compares a C header with its generated Go twin, for the packages that have one.
package layouttest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	comments   = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	directives = regexp.MustCompile(`(?m)^#.*$`)
	structs    = regexp.MustCompile(`(?s)struct (\w+) \{(.*?)\n\}`)
	fields     = regexp.MustCompile(`(\w+)(?:\[[^\]]*\])?;`)
	enums      = regexp.MustCompile(`(?s)enum ?\w* ?\{(.*?)\}`)
	enumerator = regexp.MustCompile(`(\w+) *=[^,]*,?`)
)

// Layout asks a C compiler for the size of every struct, the offset and size of every field and the value of every
// enumerator that the text of the header has, and compares them with the Go twin.
func Layout(t *testing.T, header, generated string, twins map[string]reflect.Type) {
	t.Helper()
	text, err := os.ReadFile(header)
	if err != nil {
		t.Fatal(err)
	}
	clean := directives.ReplaceAllString(comments.ReplaceAllString(string(text), ""), "")
	var program strings.Builder
	fmt.Fprintf(&program, "#include <stdio.h>\n#include <stddef.h>\n#include \"%s\"\nint main(void) {\n", filepath.Base(header))
	order := map[string][]string{}
	for _, m := range structs.FindAllStringSubmatch(clean, -1) {
		fmt.Fprintf(&program, "printf(\"struct %s %%zu\\n\", sizeof(struct %s));\n", m[1], m[1])
		for _, f := range fields.FindAllStringSubmatch(m[2], -1) {
			order[m[1]] = append(order[m[1]], f[1])
			fmt.Fprintf(&program, "printf(\"field %s.%s %%zu %%zu\\n\", offsetof(struct %s, %s), sizeof(((struct %s *)0)->%s));\n",
				m[1], f[1], m[1], f[1], m[1], f[1])
		}
	}
	if len(order) == 0 {
		t.Fatal("no struct found in the header")
	}
	for _, m := range enums.FindAllStringSubmatch(clean, -1) {
		for _, e := range enumerator.FindAllStringSubmatch(m[1], -1) {
			fmt.Fprintf(&program, "printf(\"enum %s %%lld\\n\", (long long)%s);\n", e[1], e[1])
		}
	}
	program.WriteString("return 0;\n}\n")

	constants := goConstants(t, generated)
	seen := map[string]int{}
	for line := range strings.Lines(compileAndRun(t, filepath.Dir(header), program.String())) {
		words := strings.Fields(line)
		seen[words[0]]++
		number := func(i int) int64 {
			v, err := strconv.ParseInt(words[i], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		switch words[0] {
		case "struct":
			twin, ok := twins[words[1]]
			if !ok {
				t.Errorf("struct %s has no Go twin", words[1])
			} else if int64(twin.Size()) != number(2) || twin.NumField() != len(order[words[1]]) {
				t.Errorf("%s: %d bytes and %d fields in C, %d and %d in Go", words[1], number(2), len(order[words[1]]),
					twin.Size(), twin.NumField())
			}
		case "field":
			owner, name, _ := strings.Cut(words[1], ".")
			checkField(t, twins, owner, name, order[owner], number(2), number(3))
		case "enum":
			if v, ok := constants[words[1]]; !ok {
				t.Errorf("%s has no Go twin", words[1])
			} else if v != number(2) {
				t.Errorf("%s is %d in C, %d in Go", words[1], number(2), v)
			}
		}
	}
	if seen["struct"] != len(twins) || seen["enum"] != len(constants) || seen["field"] == 0 {
		t.Errorf("compared %v; the Go side has %d structs and %d constants", seen, len(twins), len(constants))
	}
}

func checkField(t *testing.T, twins map[string]reflect.Type, owner, name string, order []string, offset, size int64) {
	t.Helper()
	twin, ok := twins[owner]
	if !ok {
		return // reported with its struct
	}
	for i, n := range order {
		if n != name || i >= twin.NumField() {
			continue
		}
		f := twin.Field(i)
		// godefs may cut a common prefix of neighbouring names
		if low := strings.ToLower(f.Name); name != low && !strings.HasSuffix(name, "_"+low) {
			t.Errorf("%s.%s is called %s in Go", owner, name, f.Name)
		}
		if int64(f.Offset) != offset || int64(f.Type.Size()) != size {
			t.Errorf("%s.%s: offset %d, %d bytes in C; %d, %d in Go", owner, name, offset, size, f.Offset, f.Type.Size())
		}
		return
	}
	t.Errorf("%s.%s has no Go twin", owner, name)
}

func compileAndRun(t *testing.T, include, program string) string {
	t.Helper()
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-I", include, "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	out, err := exec.Command(binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// goConstants maps the C name of each constant to the value that the generated file gives it: godefs.go has the names.
func goConstants(t *testing.T, generated string) map[string]int64 {
	t.Helper()
	files := token.NewFileSet()
	twin, err := parser.ParseFile(files, generated, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := new(types.Config).Check("twin", files, []*ast.File{twin}, nil)
	if err != nil {
		t.Fatal(err)
	}
	input, err := parser.ParseFile(files, "godefs.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]int64{}
	ast.Inspect(input, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		object, ok := pkg.Scope().Lookup(spec.Names[0].Name).(*types.Const)
		if !ok {
			t.Errorf("%s lacks %s: generate it anew", generated, spec.Names[0].Name)
			return false
		}
		v, _ := constant.Int64Val(object.Val())
		values[spec.Values[0].(*ast.SelectorExpr).Sel.Name] = v
		return false
	})
	return values
}

// Generated: the committed twin is what the header gives now.
func Generated(t *testing.T, generated string) {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command("go", "tool", "cgo", "-objdir", dir, "-godefs", "godefs.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	format := exec.Command("gofmt")
	format.Stdin = bytes.NewReader(out)
	want, err := format.Output()
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(generated)
	if err != nil {
		t.Fatal(err)
	}
	body := func(b []byte) string { return string(b[bytes.Index(b, []byte("package")):]) }
	if body(have) != body(want) {
		t.Errorf("%s is stale: run make generate", generated)
	}
}
