package smoke

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const header = "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)"

// row is one row of a dump, with the keys of Attr that the checks need.
type row struct {
	id, stamp        int64
	event, kind      string
	name             string
	pid, tid, device string
	ptr              uint64
	block            int64 // allocation_id, 0 without
	size, used       int64 // used -1 without
	shadow           bool
}

// dump is one file. The files here are read independently of the product's own readers, on purpose.
type dump struct {
	path string
	rows []row
}

// readProject reads and checks the dumps of one process.
func readProject(t testing.TB, dir string) []*dump {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "device_*", "dump", "memscope_dump_*.csv"))
	if err != nil {
		t.Fatal(err)
	}
	var dumps []*dump
	ids := map[int64]bool{}
	for _, path := range paths {
		d, err := readDump(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if err := d.check(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for _, r := range d.rows {
			if len(paths) > 1 && r.device != "N/A" {
				if ids[r.id] {
					t.Errorf("%s: ID %d is in another file of the process, too", path, r.id)
					break
				}
				ids[r.id] = true
			}
		}
		if info, err := os.Stat(path); err == nil && info.Size() < 100<<10 {
			checkConvert(t, path)
		}
		dumps = append(dumps, d)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*spool*")); len(left) > 0 {
		t.Errorf("%s is left over", left)
	}
	return dumps
}

// checkConvert turns a dump into a database and back: not a byte may change. What makes dumps of many kinds makes small
// ones; the big ones have the same rows many times over.
func checkConvert(t testing.TB, path string) {
	t.Helper()
	dir := t.TempDir()
	db, back := filepath.Join(dir, "memscope_dump_1.db"), filepath.Join(dir, "memscope_dump_1.csv")
	for _, words := range [][]string{{path, "--output", db}, {db, "--output", back}} {
		if out, err := exec.Command(tool, append([]string{"dump", "convert"}, words...)...).CombinedOutput(); err != nil {
			t.Errorf("convert %v: %v: %s", words, err, out)
			return
		}
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(back); err != nil || !bytes.Equal(before, after) {
		t.Errorf("%s is not the same after csv to db to csv (%v)", path, err)
	}
}

func readDump(path string) (*dump, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 1<<20)
	first, err := in.ReadString('\n')
	if err != nil || first != header+"\n" {
		return nil, fmt.Errorf("header %q", first)
	}
	d := &dump{path: path}
	table := csv.NewReader(in)
	table.FieldsPerRecord = 12
	table.ReuseRecord = true
	words := map[string]string{}
	for {
		fields, err := table.Read()
		if err == io.EOF {
			return d, nil
		}
		if err != nil {
			return nil, err // a torn row is one
		}
		r, err := parseRow(fields, words)
		if err != nil {
			return nil, fmt.Errorf("row %d: %w: %q", len(d.rows)+1, err, fields)
		}
		d.rows = append(d.rows, r)
	}
}

// parseRow takes the fields of a row apart. words holds the texts that come again and again, so that a row needs none of its own.
func parseRow(f []string, words map[string]string) (row, error) {
	word := func(i int) string {
		w, ok := words[f[i]]
		if !ok {
			w = strings.Clone(f[i])
			words[w] = w
		}
		return w
	}
	r := row{event: word(1), kind: word(2), name: word(3), pid: word(5), tid: word(6), device: word(7), used: -1}
	var err error
	if r.id, err = strconv.ParseInt(f[0], 10, 64); err != nil {
		return r, err
	}
	if r.stamp, err = strconv.ParseInt(f[4], 10, 64); err != nil {
		return r, err
	}
	if r.event != "MALLOC" && r.event != "FREE" {
		return r, nil
	}
	if r.ptr, err = strconv.ParseUint(f[8], 0, 64); err != nil || len(f[8]) != 18 {
		return r, fmt.Errorf("ptr %q", f[8])
	}
	attr, ok := strings.CutPrefix(f[9], "{")
	attr, ok2 := strings.CutSuffix(attr, "}")
	if !ok || !ok2 {
		return r, fmt.Errorf("attr %q", f[9])
	}
	for pair := range strings.SplitSeq(attr, ",") {
		key, value, _ := strings.Cut(pair, ":")
		var to *int64
		switch key {
		case "allocation_id":
			to = &r.block
		case "size":
			to = &r.size
		case "used":
			to = &r.used
		case "shadow":
			r.shadow = value == "true"
		case "addr":
			if value != f[8] {
				return r, fmt.Errorf("addr %s beside Ptr %s", value, f[8])
			}
		}
		if to != nil {
			if *to, err = strconv.ParseInt(value, 10, 64); err != nil {
				return r, err
			}
		}
	}
	if r.block < 1 || r.size < 0 || !r.shadow && r.used < 0 || r.shadow && r.used >= 0 {
		return r, fmt.Errorf("allocation_id %d, size %d, used %d, shadow %v", r.block, r.size, r.used, r.shadow)
	}
	return r, nil
}

// check demands what holds for every dump: time and IDs ascend, every allocation_id has one MALLOC and one FREE behind
// it of the same size and place, and `used` is the sum of what lives after the row. (Pools report their own `used`; the
// pools of our targets report the same sum.)
func (d *dump) check() error {
	type key struct{ pid, kind string }
	type block struct{ malloc, free int32 } // indices of its rows, free -1 before it
	blocks := map[int64]block{}
	sums := map[key]int64{}
	last := row{id: -1}
	var used error // the first wrong one; it does not hide what else is wrong
	wrong := 0
	for i, r := range d.rows {
		at := func(format string, args ...any) error {
			return fmt.Errorf("line %d (%s %s, ID %d): %s", i+2, r.event, r.kind, r.id, fmt.Sprintf(format, args...))
		}
		if r.stamp < last.stamp {
			return at("stamp %d after %d", r.stamp, last.stamp)
		}
		if r.id <= last.id {
			return at("ID after %d", last.id)
		}
		last = r
		k := key{r.pid, r.kind}
		b, known := blocks[r.block]
		switch r.event {
		case "MALLOC":
			if known {
				return at("allocation_id %d has a MALLOC already", r.block)
			}
			blocks[r.block] = block{int32(i), -1}
			sums[k] += r.size
		case "FREE":
			if !known {
				return at("allocation_id %d has no MALLOC before it", r.block)
			}
			if b.free >= 0 {
				return at("allocation_id %d has a FREE already", r.block)
			}
			if m := d.rows[b.malloc]; m.size != r.size || m.ptr != r.ptr || m.kind != r.kind {
				return at("MALLOC of %s %#x %d bytes", m.kind, m.ptr, m.size)
			}
			blocks[r.block] = block{b.malloc, int32(i)}
			sums[k] -= r.size
		default:
			continue
		}
		if r.used >= 0 && r.used != sums[k] {
			if wrong++; used == nil {
				used = at("used %d, the rows so far sum up to %d", r.used, sums[k])
			}
		}
	}
	for id, b := range blocks {
		if m := d.rows[b.malloc]; b.free < 0 {
			return fmt.Errorf("allocation_id %d (%s %#x, %d bytes) has no FREE", id, m.kind, m.ptr, m.size)
		}
	}
	if used != nil {
		return fmt.Errorf("%w (%d of %d rows are wrong in this)", used, wrong, len(d.rows))
	}
	return nil
}

// count counts rows.
func (d *dump) count(match func(row) bool) (n int) {
	for _, r := range d.rows {
		if match(r) {
			n++
		}
	}
	return n
}
