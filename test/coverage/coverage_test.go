// Package coverage checks docs/coverage.md: every row of the checklist is there, and every test that it names exists.
package coverage

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const rows = 120 // of contract 10

var (
	tableRow = regexp.MustCompile(`(?m)^\| (\d+) \| .+ \| (done|partly|not there yet) \| (.+) \|$`)
	named    = regexp.MustCompile("`([^`:]+):([^`]+)`")
)

func TestEveryNamedTestExists(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "coverage.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := tableRow.FindAllStringSubmatch(string(page), -1)
	if len(found) != rows {
		t.Errorf("%d rows, not %d", len(found), rows)
	}
	for _, row := range found {
		tests := named.FindAllStringSubmatch(row[3], -1)
		if row[2] == "done" && len(tests) == 0 && !strings.Contains(row[3], "tools/test.sh") {
			t.Errorf("row %s is done and has no test", row[1])
		}
		for _, test := range tests {
			if !exists(filepath.Join(root, test[1]), test[2]) {
				t.Errorf("row %s: %s has no %s", row[1], test[1], test[2])
			}
		}
	}
}

// exists looks for a test in a Go package, in a file of Python tests (as CLASS.METHOD) or of native tests, or for a file in a folder.
func exists(place, name string) bool {
	switch filepath.Ext(place) {
	case ".py":
		class, method, _ := strings.Cut(name, ".")
		_, body, ok := strings.Cut(read(place), "\nclass "+class+"(")
		body, _, _ = strings.Cut(body, "\nclass ")
		return ok && strings.Contains(body, "def "+method+"(")
	case ".c":
		return regexp.MustCompile(`cmocka_unit_test\(` + regexp.QuoteMeta(name) + `\)`).MatchString(read(place))
	}
	if filepath.Ext(name) != "" {
		_, err := os.Stat(filepath.Join(place, name))
		return err == nil
	}
	files, _ := filepath.Glob(filepath.Join(place, "*_test.go"))
	for _, file := range files {
		if strings.Contains(read(file), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}

// read is the text of a file, empty where there is none.
func read(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}
