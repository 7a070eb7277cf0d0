package query

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// ask runs a question and gives its JSON answer.
func ask(t *testing.T, args ...string) map[string]any {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if status := Main(append(args, "--json"), &stdout, &stderr); status != statusOK {
		t.Fatalf("dump %s: status %d: %s", strings.Join(args, " "), status, stderr.String())
	}
	var answer map[string]any
	if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil {
		t.Fatalf("dump %s: %v in %s", strings.Join(args, " "), err, stdout.String())
	}
	return answer
}

// at follows a path such as views.0.bytes; # is the length of a list.
func at(v any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[step]
		case []any:
			if step == "#" {
				return float64(len(x))
			}
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(x) {
				return fmt.Sprintf("(no %s)", step)
			}
			v = x[i]
		default:
			return fmt.Sprintf("(no %s)", step)
		}
	}
	return v
}

func TestAnswers(t *testing.T) {
	// All answers are reckoned by hand from the rows of testdata.
	for _, c := range []struct {
		args string
		want map[string]any
	}{
		{"stats nested.csv", map[string]any{"rows": 20, "first_ns": 1000, "last_ns": 1132, "sorted": true, "shadow_free_rows": 5,
			"python_stack_rows": 3, "c_stack_rows": 0, "devices.#": 3, "devices.0.rows": 14, "processes.0.rows": 18, "threads": 2,
			"events.2.event": "MALLOC", "events.2.event_type": "HAL", "events.2.rows": 4, "keys.owner": true, "keys.device_used": false}},
		{"stats nested.csv --device 1", map[string]any{"rows": 2}},
		{"stats nested.csv --pid 200 --since 1100", map[string]any{"rows": 1}},
		{"stats empty.csv", map[string]any{"rows": 0, "events.#": 0}},
		{"check nested.csv", map[string]any{"files.0.rows": 20, "files.0.sorted": true, "files.0.malloc_rows": 8, "files.0.free_rows": 8,
			"files.0.unpaired_allocation_ids": 0, "files.0.damaged_rows": 0, "files.0.truncated": false}},
		{"check older.csv", map[string]any{"files.0.sorted": false, "files.0.first_disorder": "line 6: 10 ns before the row above"}},
		{"peak nested.csv", map[string]any{"peaks.#": 3, "peaks.0.peak_bytes": 1500, "peaks.0.at_ns": 1060, "peaks.0.row_id": 6, "peaks.0.last_bytes": 1000,
			"peaks.1.device": "1", "peaks.1.peak_bytes": 700, "peaks.2.process": "200", "peaks.2.peak_bytes": 50}},
		{"peak nested.csv --pool PTA", map[string]any{"peaks.#": 1, "peaks.0.peak_bytes": 500, "peaks.0.at_ns": 1030}},
		{"peak nested.csv --pool PTA --since +40ns", map[string]any{"peaks.0.peak_bytes": 500, "peaks.0.at_ns": 1120}},
		{"peak nested.csv --pool PTA --since -92ns", map[string]any{"peaks.0.peak_bytes": 500, "peaks.0.at_ns": 1120}},
		{"stats nested.csv --pid 200 --since +100ns", map[string]any{"rows": 1}},
		{"stats empty.csv --since +1s --until -1s", map[string]any{"rows": 0}},
		{"at +60ns nested.csv", map[string]any{"views.0.bytes": 1500, "views.0.blocks": 2}},
		{"peak nested.csv --pool PTA --since 1040", map[string]any{"peaks.0.peak_bytes": 500, "peaks.0.at_ns": 1120}},
		{"peak nested.csv --pool PTA --key total", map[string]any{"peaks.0.peak_bytes": 1000, "peaks.0.at_ns": 1020}},
		{"peak launches.csv --pool PTA", map[string]any{"peaks.0.peak_bytes": 157, "peaks.0.launch_before": "inner", "peaks.0.launch_before_ns": 1020}},
		{"peak empty.csv", map[string]any{"peaks.#": 0}},
		{"peak one.csv", map[string]any{"peaks.0.peak_bytes": 64, "peaks.0.at_ns": 5000}},
		{"at 1060 nested.csv", map[string]any{"views.#": 1, "views.0.bytes": 1500, "views.0.blocks": 2, "views.0.used": 1500,
			"views.0.components.0.label": "APP", "views.0.components.0.bytes": 1000, "views.0.components.1.label": "HCCL",
			"views.0.tree.children.0.name": "CANN", "views.0.tree.children.0.children.1.name": "HCCL", "views.0.tree.children.0.children.1.bytes": 500}},
		{"at 1060 nested.csv --pool PTA", map[string]any{"views.0.bytes": 300, "views.0.blocks": 2, "views.0.components.0.label": "model", "views.0.components.0.bytes": 200}},
		{"at 1080 nested.csv --pid 200", map[string]any{"views.#": 1, "views.0.bytes": 50}},
		{"at 1131 nested.csv", map[string]any{"views.0.bytes": 0, "views.1.bytes": 0, "views.2.bytes": 50}},
		{"at 5000 one.csv", map[string]any{"views.0.bytes": 64}},
		{"at 1 empty.csv", map[string]any{"views.#": 0}},
		{"window 1040 1070 nested.csv --pool PTA", map[string]any{"views.0.live_at_start.bytes": 500, "views.0.live_at_start.blocks": 2, "views.0.allocated.bytes": 100,
			"views.0.freed.bytes": 300, "views.0.live_at_end.bytes": 300, "views.0.live_at_end.blocks": 2, "views.0.net_bytes": -200,
			"views.0.allocated_and_still_live.bytes": 100, "views.0.components.0.label": "ops", "views.0.components.1.net_bytes": -300}},
		{"window 1040 1110 nested.csv --device 0 --pid 100", map[string]any{"views.#": 1, "views.0.live_at_start.bytes": 1000, "views.0.allocated.bytes": 500,
			"views.0.freed.bytes": 500, "views.0.live_at_end.bytes": 1000, "views.0.net_bytes": 0, "views.0.allocated_and_still_live.blocks": 0}},
		{"window --device 0 -92ns -22ns nested.csv --pid 100", map[string]any{"views.#": 1, "views.0.allocated.bytes": 500, "views.0.freed.bytes": 500}},
		{"group nested.csv --pool PTA", map[string]any{"views.0.groups.#": 4, "views.0.groups.0.label": "PTA@model@activation", "views.0.groups.0.bytes": 400,
			"views.0.groups.0.share": 0.4, "views.0.groups.1.bytes": 300, "views.0.groups.1.peak_at_ns": 1020, "views.0.groups.3.label": "PTA@ops"}},
		{"group nested.csv --pool PTA --level 1", map[string]any{"views.0.groups.#": 2, "views.0.groups.0.label": "PTA@model", "views.0.groups.0.bytes": 500, "views.0.groups.0.peak_at_ns": 1030}},
		{"group nested.csv --pool PTA --by stack --metric total", map[string]any{"views.0.groups.0.label": "/opt/train.py(10): step\n/opt/main.py(3): main",
			"views.0.groups.0.bytes": 500, "views.0.groups.0.allocations": 2, "views.0.groups.1.label": "(no call stack)", "views.0.groups.2.bytes": 100}},
		{"group nested.csv --by event_type --metric total --pid 100 --device 0", map[string]any{"views.0.pool": "HAL", "views.0.groups.0.bytes": 1500, "views.1.groups.0.bytes": 1000}},
		{"leak-candidates nested.csv", map[string]any{"views.#": 3, "views.0.candidates.bytes": 1000, "views.0.ended_at_exit.blocks": 1, "views.0.allocated.bytes": 1500,
			"views.1.candidates.bytes": 700, "views.2.candidates.blocks": 0}},
		{"leak-candidates nested.csv --pool PTA --detail 2", map[string]any{"views.0.candidates.bytes": 700, "views.0.candidates.blocks": 3, "views.0.share_of_allocated_bytes": 0.7,
			"views.0.ended_at_exit.bytes": 500, "views.0.ended_unseen.bytes": 200, "views.0.no_free_row.blocks": 0,
			"views.0.allocated_in_quarters.0.bytes": 200, "views.0.allocated_in_quarters.1.bytes": 100, "views.0.allocated_in_quarters.2.bytes": 0, "views.0.allocated_in_quarters.3.bytes": 400,
			"views.0.components.0.label": "model", "views.0.components.0.bytes": 600, "views.0.details.#": 2, "views.0.details.0.ptr": "0x000000000000c000",
			"views.0.details.1.ended": "unseen", "views.0.first_frames.0.label": "/opt/train.py(10): step"}},
		{"leak-candidates one.csv", map[string]any{"views.0.no_free_row.bytes": 64, "views.0.details.0.ended": "none"}},
		{"trend rising.csv", map[string]any{"views.0.rising": true, "views.0.floor_growth_bytes": 20 << 20, "views.0.floor_growth_per_bucket_bytes": 2 << 20,
			"views.0.climbing_steps": 14, "views.0.changing_steps": 14, "views.0.total_grows": false, "views.0.buckets.3.floor": 16 << 20}},
		{"trend steady.csv", map[string]any{"views.0.rising": false, "views.0.floor_growth_bytes": 0, "views.0.changing_steps": 0}},
		{"trend one.csv", map[string]any{"views.0.rising": false}},
		{"curve nested.csv --bins 4 --device 0 --pid 100", map[string]any{"curves.#": 1, "curves.0.bins.#": 4, "curves.0.bins.0.last": 1000, "curves.0.bins.1.max": 1500,
			"curves.0.bins.2.points": 0, "curves.0.bins.2.min": 1500, "curves.0.bins.3.first": 1000, "curves.0.bins.1.from_ns": 1034}},
		{"curve nested.csv --limit 0 --device 0 --pid 100", map[string]any{"curves.0.points.#": 3, "curves.0.points.1.used": 1500, "curves.0.points.1.device_used": -1}},
		{"curve rising.csv --limit 8", map[string]any{"curves.0.points.0.used": 10 << 20}},
		{"fragmentation growth.csv", map[string]any{"views.#": 1, "views.0.at_end": 0.4, "views.0.at_peak_use": 0.4, "views.0.peak_use_ns": 1070, "views.0.worst": 0.6, "views.0.worst_ns": 1010,
			"views.0.mean": 0.488889, "views.0.grade": "severe", "views.0.growths": 2, "views.0.grown_bytes": 3000, "views.0.growth.0.used_share_before": 0.4, "views.0.growth.0.hal_segment": 2000,
			"views.0.growth.1.increment": 1000, "views.0.growth.1.hal_segment": 1000, "snapshots.0.fragmentation": 0.4, "snapshots.1.fragmentation": 0.25}},
		{"hal-segments nested.csv --min-size 0.5KB", map[string]any{"segments.#": 2, "segments.0.size": 1000, "segments.0.page_type": "huge", "segments.1.size": 700, "segments.1.device": "1",
			"smaller.blocks": 2, "smaller.bytes": 550, "alloc_type_create": 1}},
		{"hal-segments nested.csv --min-size 500", map[string]any{"segments.2.alloc_type": "create", "segments.2.freed_ns": 1110}},
		{"kernels launches.csv", map[string]any{"level": "kernel", "launches": 2, "net_bytes": 57, "top.0.name": "kernel_a", "top.0.net_bytes": 157, "top.1.net_bytes": -100}},
		{"kernels launches.csv --level op", map[string]any{"launches": 3, "top.0.name": "outer", "top.0.launches": 2, "top.0.net_bytes": 70, "top.0.largest_net_bytes": 50, "top.0.largest_at_ns": 1080, "top.1.net_bytes": -50}},
		{"oom oom.csv", map[string]any{"cases.#": 2, "cases.0.func": "halMemAlloc", "cases.0.req_size": 900, "cases.0.free": 1000, "cases.0.total": 10000, "cases.0.process_used": 6500,
			"cases.0.recent.#": 4, "cases.0.recent.0.size": 512, "cases.0.recent_bytes": 1600, "cases.0.top.0.size": 4096, "cases.0.top_bytes": 4608, "cases.0.top.0.step": "2", "cases.0.hints.#": 4,
			"cases.0.hints.0": "large request: 900 B is 90.0% of the 1000 B that were free",
			"cases.0.hints.2": "repeated stack: 3 of the 4 latest allocations come from /opt/model.py(5): forward",
			"cases.0.hints.3": "accumulation: 3 of the 4 latest allocations that live are of 512 B each",
			"cases.1.hints.#": 1, "cases.1.free": 1000}},
		{"oom nested.csv", map[string]any{"cases.#": 0}},
		{"check-leaks marks.csv --mstx-info test", map[string]any{"leaks.#": 1, "leaks.0.row_id": 3, "leaks.0.size": 2097152}},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := strings.Fields(c.args)
			for i, a := range args {
				if strings.HasSuffix(a, ".csv") {
					args[i] = filepath.Join("testdata", a)
				}
			}
			result := ask(t, args...)["result"]
			for path, want := range c.want {
				got := at(result, path)
				if n, ok := want.(int); ok {
					want = float64(n)
				}
				if f, ok := want.(float64); ok {
					if g, ok := got.(float64); ok && g-f < 1e-6 && f-g < 1e-6 {
						continue
					}
				}
				if got != want {
					t.Errorf("%s is %v, want %v", path, got, want)
				}
			}
		})
	}
}

// sameQuestions are questions whose answer does not depend on the form of the dump.
var sameQuestions = []string{"peak", "peak --pool PTA", "at 1060", "at 1131 --pool all", "window 1040 1110", "group", "group --by stack --pool PTA", "leak-candidates --pool all", "trend",
	"curve --limit 0", "curve --bins 7", "fragmentation", "hal-segments --min-size 1", "kernels --level op", "oom"}

func splitQuestion(q, file string) []string {
	args := strings.Fields(q)
	n := 1
	for n < len(args) && args[n][0] >= '0' && args[n][0] <= '9' {
		n++
	}
	return append(append(append([]string(nil), args[:n]...), file), args[n:]...)
}

// TestForms asks a dump in the order and spelling of the older tool, and in a database, what it asks the original.
func TestForms(t *testing.T) {
	db := filepath.Join(t.TempDir(), "memscope_dump_1.db")
	ask(t, "convert", "testdata/nested.csv", "--to", "db", "--output", db)
	unordered := filepath.Join(t.TempDir(), "leaks_dump_1.db")
	ask(t, "convert", "testdata/older.csv", "--to", "db", "--output", unordered, "--table", "leaks_dump")
	for _, q := range sameQuestions {
		want := ask(t, splitQuestion(q, "testdata/nested.csv")...)["result"]
		for _, file := range []string{"testdata/older.csv", db, unordered} {
			got := ask(t, splitQuestion(q, file)...)["result"]
			a, _ := json.Marshal(want)
			b, _ := json.Marshal(got)
			if !bytes.Equal(a, b) {
				t.Errorf("dump %s of %s:\n got %s\nwant %s", q, filepath.Base(file), b, a)
			}
		}
	}
}

// TestText looks at the text of every question: golden files, made with UPDATE=1 and read by a person.
func TestText(t *testing.T) {
	for _, c := range []string{"stats nested.csv", "check older.csv", "peak nested.csv", "at 1060 nested.csv --pool all", "window 1040 1110 nested.csv", "group nested.csv --pool PTA",
		"group nested.csv --pool PTA --by stack --metric total", "leak-candidates nested.csv --pool PTA", "trend rising.csv --buckets 5", "oom oom.csv", "fragmentation growth.csv",
		"hal-segments nested.csv --min-size 500", "kernels launches.csv", "kernels launches.csv --level op", "curve nested.csv --pool PTA", "curve rising.csv --ascii --bins 40",
		"curve nested.csv --bins 3 --device 1", "check-leaks marks.csv --mstx-info test", "stats empty.csv", "at 1 empty.csv", "--help", "at --help"} {
		t.Run(c, func(t *testing.T) {
			args := strings.Fields(c)
			for i, a := range args {
				if strings.HasSuffix(a, ".csv") {
					args[i] = "testdata/" + a
				}
			}
			var stdout, stderr bytes.Buffer
			if status := Main(args, &stdout, &stderr); status != statusOK || stderr.Len() > 0 {
				t.Fatalf("status %d: %s", status, stderr.String())
			}
			golden(t, strings.NewReplacer(" ", "_", "--", "", ".csv", "").Replace(c), stdout.Bytes())
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".txt")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"nonsense", 2, `unknown question "nonsense"`},
		{"stats", 2, "no file is named"},
		{"stats nowhere.csv", 1, "The file path nowhere.csv do not exist."},
		{"stats query_test.go", 1, "is neither a .csv nor a .db file"},
		{"stats --pool X testdata/nested.csv", 2, "unknown pool"},
		{"stats --device x testdata/nested.csv", 2, `"x" is no card`},
		{"at --since 3 4 testdata/nested.csv", 2, "dump at: there is no option --since; see `msmemscope dump at --help`"},
		{"at testdata/nested.csv", 2, "a timestamp and a file are expected"},
		{"at x testdata/nested.csv", 2, `"x" is no time: ns as in`},
		{"window 5 4 testdata/nested.csv", 2, "END lies before START"},
		{"group --by x testdata/nested.csv", 2, "--by is owner, event_type or stack"},
		{"trend --buckets 1 testdata/nested.csv", 2, "--buckets is a number from 4"},
		{"peak --key x testdata/nested.csv", 2, "used, device_used, process_used, total"},
		{"hal-segments --min-size x testdata/nested.csv", 2, "is no size such as 100MB"},
		{"convert --to csv testdata/nested.csv", 2, "is a csv file already"},
		{"compare testdata/nested.csv", 2, "two dumps are expected, not 1"},
		{"compare --level x a b", 2, `--level is op or kernel, not "x"`},
		{"check-leaks testdata/marks.csv", 2, "mstx_info must not be empty or blank"},
		{"check-leaks testdata/marks.csv --mstx-info test --start-index -1", 2, "start_index must be a non-negative integer"},
		{"check-leaks x.db --mstx-info test", 1, "Unsupported file type: .db. Only files ending with .csv are supported."},
		{"check-inefficient x.txt", 1, "Unsupported file type: .txt.Only files ending with .csv or .db are supported."},
		{"check-inefficient --mem-size -1 x.csv", 2, "Memory size must be a non-negative integer"},
		{"check-inefficient --inefficient-type x x.csv", 2, "Invalid inefficient type: x, valid values are ['early_allocation', 'late_deallocation', 'temporary_idleness']"},
		{"check-inefficient --idle-threshold 0 x.csv", 2, "Idle threshold must be a positive integer"},
	} {
		var stdout, stderr bytes.Buffer
		status := Main(strings.Fields(c.args), &stdout, &stderr)
		if status != c.status || !strings.Contains(stderr.String(), c.want) || stdout.Len() > 0 {
			t.Errorf("dump %s: status %d, %q, %q; want status %d and %q", c.args, status, stdout.String(), stderr.String(), c.status, c.want)
		}
		if strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("dump %s: not one line: %q", c.args, stderr.String())
		}
	}
}

// TestNothing: where there is no answer, a note says why.
func TestNothing(t *testing.T) {
	nowhere := " that this question looks at is of device "
	for args, want := range map[string]string{
		"peak --device 0 testdata/nested.csv":                   "",
		"peak --device 0,7 testdata/nested.csv":                 "",
		"peak --device 7 testdata/nested.csv":                   "no row" + nowhere + "7; ",
		"stats --device 7,cpu --pid 100 testdata/nested.csv":    "no row" + nowhere + "7 or device cpu of process 100; ",
		"stats --pid 5 testdata/nested.csv":                     "no row that this question looks at is of process 5; ",
		"at --device 7 1000 testdata/nested.csv":                "no row up to there" + nowhere + "7; ",
		"kernels --level kernel testdata/nested.csv":            "there are no launches of level kernel: it takes --level=kernel",
		"kernels --level op testdata/growth.csv":                "there are no launches of level op: operators are those of PyTorch and ATB",
		"check-inefficient " + copied(t, "testdata/nested.csv"): "there is no ACCESS row of a tensor",
	} {
		notes := fmt.Sprint(ask(t, strings.Fields(args)...)["notes"])
		if !strings.Contains(notes, want) || want == "" && strings.Contains(notes, "is of") {
			t.Errorf("dump %s: notes %s, want %q", args, notes, want)
		}
	}
}

// copied is a copy of a file, for questions that write.
func copied(t *testing.T, path string) string { return store(t, "x.csv", load(t, path)) }

// TestNextNames: the next question names the files so that a shell takes them.
func TestNextNames(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"out"}, "out"},
		{[]string{"./a-b_1/x.csv", "显存"}, "./a-b_1/x.csv 显存"},
		{[]string{"my run", "it's", "~x"}, `'my run' 'it'\''s' '~x'`},
		{[]string{"a", "b", "c", "d"}, "FILE..."},
	} {
		if got := (&env{args: c.args}).named(); got != c.want {
			t.Errorf("%q: %s, want %s", c.args, got, c.want)
		}
	}
}
