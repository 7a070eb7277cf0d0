package query

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOneDumpOfDirectory: what takes a single dump takes a directory that holds one, and says which there are if it holds several.
func TestOneDumpOfDirectory(t *testing.T) {
	for question, sample := range map[string]string{"check-leaks --mstx-info test": "marks.csv", "check-inefficient": "tensors.csv", "sort --overwrite": "older.csv", "convert --to db": "nested.csv"} {
		text, err := os.ReadFile(filepath.Join("testdata", sample))
		if err != nil {
			t.Fatal(err)
		}
		run := func(arg string) (int, string) {
			var out bytes.Buffer
			return Main(append(strings.Fields(question), arg), &out, &out), out.String()
		}
		dir := t.TempDir()
		if status, out := run(dir); status != statusFailure || out != "[msmemscope] Error: there is no memscope_dump_*.csv or *.db below "+dir+"\n" {
			t.Errorf("%s of an empty directory: status %d: %s", question, status, out)
		}
		sub := filepath.Join(dir, "device_0", "dump")
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		first, second := filepath.Join(sub, "memscope_dump_1.csv"), filepath.Join(dir, "memscope_dump_2.csv")
		if err := os.WriteFile(first, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if status, out := run(dir); status != statusOK {
			t.Errorf("%s of one dump: status %d: %s", question, status, out)
		}
		if err := os.WriteFile(second, text, 0o644); err != nil {
			t.Fatal(err)
		}
		status, out := run(dir)
		if status != statusFailure || strings.Count(out, "\n") != 1 || !strings.Contains(out, "holds 2 dumps; name one of them: "+first+", "+second) {
			t.Errorf("%s of two: status %d: %s", question, status, out)
		}
	}
}
