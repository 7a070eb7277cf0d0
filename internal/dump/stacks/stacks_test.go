package stacks

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"memscope/internal/symbol"
)

func fill(t *Table) {
	t.Module(7, &symbol.Module{Path: "/no/such/lib.so", Start: 0x1000, End: 0x9000, Bias: 0x1000})
	t.Code(3, "/a/größe.py", "f")
	t.Code(4, "m.py", `say"hi"`)
	t.Stack(1, &Stack{C: []uint64{7<<FrameShift | 0x1234, 0xdead}})
	t.Stack(2, &Stack{Python: Recorded, Lines: []Line{{3, 10}, {4, 20}, {99, 30}}})
	t.Stack(5, &Stack{Python: None, C: []uint64{0xbeef}})
	t.Stack(5, &Stack{}) // again: as another thread may
	t.Stack(6, &Stack{Python: Recorded})
}

var want = map[uint32][2]string{
	0:               {"", ""},
	1:               {"", "\"/no/such/lib.so(+0x234) [0x1234]\n[0xdead]\n\""},
	2:               {"\"/a/größe.py(10): f\nm.py(20): say\"hi\"\n?(30): ?\n\"", ""},
	5:               {`"NA"`, "\"[0xbeef]\n\""},
	6:               {`""`, ""},
	77:              {"", ""}, // never defined
	OnlyEmptyPython: {`""`, ""},
	math.MaxInt32:   {"", ""},
}

func check(t *testing.T, when string, table *Table, want map[uint32][2]string) {
	t.Helper()
	for range 2 { // the second time from what is kept
		for id, w := range want {
			if python, c := table.Columns(id); python != w[0] || c != w[1] {
				t.Errorf("%s: stack %d is %q, %q, want %q", when, id, python, c, w)
			}
		}
	}
}

// TestTable: the texts are the same from memory, from the file, and for who finds the file later.
func TestTable(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	table := New(symbol.New())
	fill(table)
	check(t, "in memory", table, want)
	if err := table.Create(root); err != nil {
		t.Fatal(err)
	}
	check(t, "not flushed", table, want)
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	table.Stack(8, &Stack{C: []uint64{1}})
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	later, err := Open(root, symbol.New())
	if err != nil {
		t.Fatal(err)
	}
	check(t, "from the file", later, want)
	check(t, "from the file", later, map[uint32][2]string{8: {"", "\"[0x1]\n\""}})
	if err := later.Close(); err != nil {
		t.Fatal(err)
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTorn: at whatever place a file ends or is damaged, what lies before is there.
func TestTorn(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	table := New(symbol.New())
	if err := table.Create(root); err != nil {
		t.Fatal(err)
	}
	fill(table)
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	table.Close()
	path := filepath.Join(dir, fileName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for end := range whole {
		for _, damage := range []bool{false, true} {
			text := whole[:end]
			if damage {
				text = append([]byte(nil), whole...)
				text[end] ^= 0x41
			}
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
			table, err := Open(root, symbol.New())
			if err != nil {
				t.Fatal(err)
			}
			for id, w := range want {
				python, c := table.Columns(id)
				if (python != w[0] && python != "" && id != 2) || (c != w[1] && c != "" && id != 1) {
					t.Fatalf("end %d, damage %v: stack %d is %q, %q", end, damage, id, python, c)
				}
			}
			table.Close()
		}
	}
}

// TestDiskFull: a table that cannot be written says so once; rows go on without the stacks that are not stored.
func TestDiskFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	table := New(symbol.New())
	table.file = full
	fill(table)
	if err := table.Flush(); err == nil {
		t.Error("no error")
	}
	fill(table)
	if err := table.Flush(); err != nil {
		t.Errorf("again: %v", err)
	}
	if _, c := table.Columns(1); c != "" {
		t.Errorf("stack 1 is %q", c)
	}
}
