package report_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"memscope/internal/hostheap"
	"memscope/internal/hostheap/heaptest"
	"memscope/internal/hostheap/report"
)

// places is a symbolizer that knows functions by address.
type places map[uint64]string

func (p places) Place(_ *hostheap.Library, _ uint32, pc uint64) (string, string, int) {
	if name := p[pc]; name != "" {
		return name, name + ".cpp", int(pc & 0xff)
	}
	return "", "", 0
}

// scene is a made-up process with a window.
type scene struct {
	t        *testing.T
	tables   *hostheap.Tables
	p        *heaptest.Process
	recorder *hostheap.Recorder
	lib      uint32
	leak     uint32
	cache    uint32
	python   uint32
}

const beat = 20 * time.Millisecond

func newScene(t *testing.T, limits hostheap.Limits) *scene {
	t.Helper()
	limits.ArenaBytes, limits.TextBytes, limits.Slots, limits.Modules = 64<<20, 1<<20, 16, 64
	tables, err := hostheap.NewTables(limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tables.Close() })
	s := &scene{t: t, tables: tables, p: heaptest.New(tables), recorder: hostheap.NewRecorder(tables, beat)}
	tables.Header().Attached = 1
	s.lib = s.p.Library("/lib/libuser.so", 0x400000, 0x500000, 0x400000, []byte{1, 2, 3})
	python := s.p.Library("/usr/lib/libpython3.11.so.1.0", 0x600000, 0x700000, 0x600000, nil)
	s.leak = s.p.Stack([]hostheap.NativeFrame{{PC: 0x400110, Module: s.lib}, {PC: 0x400120, Module: s.lib}}, nil)
	s.cache = s.p.Stack([]hostheap.NativeFrame{{PC: 0x400220, Module: s.lib}}, nil)
	s.python = s.p.Stack([]hostheap.NativeFrame{{PC: 0x400330, Module: s.lib}, {PC: 0x600010, Module: python}},
		[]hostheap.PythonFrame{{Function: "load", File: "/src/data;loader.py", Line: 12}, {Function: "<module>", File: "/src/main.py", Line: 3}})
	return s
}

func (s *scene) open(o hostheap.Options) {
	s.t.Helper()
	if _, err := s.recorder.Open(o); err != nil {
		s.t.Fatal(err)
	}
}

// input closes the window, or looks into it, and is what a report is made from.
func (s *scene) input(close func() (*hostheap.Snapshot, error)) report.Input {
	s.t.Helper()
	snapshot, err := close()
	if err != nil {
		s.t.Fatal(err)
	}
	names := places{0x400110: "leak::grow", 0x400120: "main", 0x400220: "cache_put"}
	return report.Input{Snapshot: snapshot, Tables: s.tables, Texts: report.NewTexts(s.tables, "/bin/program", names, time.Now().Add(time.Minute))}
}

func (s *scene) close() (*hostheap.Snapshot, error) { return s.recorder.Close(false) }

func text(t *testing.T, o *report.Overview) string {
	t.Helper()
	var b bytes.Buffer
	if err := o.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// inOrder fails unless the parts occur one after the other.
func inOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Fatalf("%q is not there, or not in its place, in\n%s", part, text)
		}
		rest = after
	}
}

// TestLeakAndCache: a site that grows all the time is the suspected leak, one that was filled at the start a baseline; totals are exact.
func TestLeakAndCache(t *testing.T) {
	s := newScene(t, hostheap.Limits{})
	s.open(hostheap.Options{Detail: true})
	addr := uint64(0x7f0000000000)
	next := func(stack uint32, size uint64) uint64 {
		addr += (size + 31) &^ 15
		s.p.Malloc(1, addr, size, stack)
		return addr
	}
	for range 200 {
		next(s.cache, 1000)
	}
	for i := range 80 {
		for range 3 {
			next(s.leak, 5000)
		}
		s.p.Free(1, next(s.python, 300), 0)
		if i == 40 {
			interim := report.Make(s.input(s.recorder.Interim))
			inOrder(t, text(t, interim), "====== Host Leak Overview (interim snapshot): stage=1, pid=4711 ======\n", "(interim snapshot, window open)",
				"Total Unfreed", "TOP N Leak Sites")
			if want := uint64(200*1000 + 41*3*5000); interim.Unfreed.Bytes != want {
				t.Errorf("interim: %d bytes unfreed, want %d", interim.Unfreed.Bytes, want)
			}
		}
		time.Sleep(beat)
	}
	next(s.python, 3<<20)
	s.p.Free(2, 0x1234560, 70000)
	in := s.input(s.close)
	o := report.Make(in)
	out := text(t, o)
	inOrder(t, out, "====== Host Leak Overview: stage=1, pid=4711 ======\n", "\nData Health Analysis\n", "Window ", "(stopped)", "Report mode", "event",
		"key depth K=20, class = same top-K frames", "Truncation flags        : 0", "Pre-window frees        : 1 blocks, 70000 bytes",
		"Sample rate             : 1\n", "Symbolization coverage", "Data                    : complete",
		"\nTotal Unfreed\n", "441 blocks, 4545728 bytes (4.34 MiB)", "\nUnfreed Block Size Distribution\n", "4kB~32kB", "240 blocks", ">=1MB", "1 blocks",
		"\nPre-Window Free Size Distribution\n", "32kB~256kB", "1 blocks", "\nTOP N Leak Sites\n", "top-k=256, max-stacks=1024, ticks=",
		"#1 [suspected_leak]", "unfreed: 240 blocks, 1200000 bytes", "C  #0  /lib/libuser.so(leak::grow) [0x400110] at leak::grow.cpp:16",
		"\nResident Baselines\n", "[resident/early]", "unfreed: 200 blocks, 200000 bytes")
	if o.Suspected != 1 || !o.Health.Usable || o.Turnover {
		t.Errorf("%d suspected, usable %v, turnover %v\n%s", o.Suspected, o.Health.Usable, o.Turnover, out)
	}

	var twin report.Overview
	var b bytes.Buffer
	if err := o.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b.Bytes(), &twin); err != nil || text(t, &twin) != out {
		t.Errorf("the JSON says something else than the text (%v)", err)
	}
	s.checkDetail(in)
	s.checkExports(in)
}

func (s *scene) checkDetail(in report.Input) {
	s.t.Helper()
	var all []string
	for _, most := range []int{0, 100, 1} { // however many fit into memory, the file is the same
		var b bytes.Buffer
		rows, err := report.WriteDetail(&b, in, most)
		if err != nil || rows != 441 {
			s.t.Fatalf("%d rows, %v", rows, err)
		}
		all = append(all, b.String())
	}
	if all[0] != all[1] || all[0] != all[2] {
		s.t.Error("the order of rows depends on how many are sorted at a time")
	}
	if !strings.HasPrefix(all[0], "addr,size,alloc_ts,Call Stack(C),Call Stack(Python)\n0x") {
		s.t.Errorf("the file begins with %.80q", all[0])
	}
	records, err := csv.NewReader(strings.NewReader(all[0])).ReadAll()
	if err != nil || len(records) != 442 {
		s.t.Fatalf("%d records, %v", len(records), err)
	}
	sizes := 0
	last := 1 << 40
	for _, r := range records[1:] {
		size, err := strconv.Atoi(r[1])
		if err != nil || size > last {
			s.t.Fatalf("size %s after %d (%v)", r[1], last, err)
		}
		last = size
		sizes += size
		stamp, err := strconv.ParseInt(r[2], 10, 64)
		if at := time.Unix(0, stamp); err != nil || at.Before(in.Snapshot.Opened) || at.After(in.Snapshot.Ended) {
			s.t.Fatalf("alloc_ts %s", r[2])
		}
	}
	if sizes != 4545728 || records[1][4] != "/src/data;loader.py(12): load\n/src/main.py(3): <module>" || len(records[1][0]) != 18 {
		s.t.Errorf("%d bytes in all; first row %q", sizes, records[1])
	}
}

func (s *scene) checkExports(in report.Input) {
	s.t.Helper()
	var folded, packed bytes.Buffer
	if err := report.WriteFolded(&folded, in); err != nil {
		s.t.Fatal(err)
	}
	want := []string{
		"<module> (main.py:3);load (data:loader.py:12);libuser.so+0x330 3145728", "main;leak::grow 1200000", "cache_put 200000",
	}
	if got := strings.Split(strings.TrimSpace(folded.String()), "\n"); !slices.Equal(got, want) {
		s.t.Errorf("collapsed stacks %q, want %q", got, want)
	}
	if err := report.WritePprof(&packed, in); err != nil {
		s.t.Fatal(err)
	}
	p, err := profile.Parse(&packed)
	if err != nil {
		s.t.Fatal(err)
	}
	got := ""
	for _, sample := range p.Sample {
		got += fmt.Sprint(sample.Value, len(sample.Location), " ")
	}
	if got != "[1 3145728] 3 [240 1200000] 2 [200 200000] 1 " {
		s.t.Errorf("profile %s", got)
	}
}

// TestHonesty: what the window lacks is said.
func TestHonesty(t *testing.T) {
	s := newScene(t, hostheap.Limits{})
	s.open(hostheap.Options{Threshold: 100, Sample: 4})
	slot := s.p.Slot(1)
	slot.Below = hostheap.Size{Count: 7, Bytes: 70}
	slot.Unsampled = hostheap.Size{Count: 3, Bytes: 900}
	slot.Unseen = hostheap.Size{Count: 2, Bytes: 20}
	s.tables.Header().Truncated = hostheap.TruncBlocks | hostheap.TruncStacks | hostheap.TruncStopped
	s.p.Malloc(1, 0x7f0000000040, 128, hostheap.StackUnknown)
	s.p.Malloc(1, 0x7f0000000140, 256, hostheap.StackOverflow)
	s.p.Malloc(1, 0x7f0000000440, 512, 4711) // an id without a record
	s.tables.Header().Stack_next = 5000
	s.p.Free(1, 0x99990, 1<<20)
	slot.Turn = 1
	in := s.input(func() (*hostheap.Snapshot, error) { return s.recorder.Close(true) })
	o := report.Make(in)
	inOrder(t, text(t, o), "(the process was killed)", "128 bytes allocated in the unknown bucket", "Truncation flags        : 7 (bit0:", "bit1:", "bit2:",
		"Overflow channel        : 1 blocks, 256 bytes allocated, 1 blocks, 256 bytes unfreed", "1/4 (sampling view", "3 blocks, 900 bytes left out",
		"Block threshold         : 100 bytes, untracked below it: 7 blocks, 70 bytes", "Frees not seen          : 2 blocks",
		"Snapshot degraded       : 1 thread(s) died within a call", "incomplete, not usable as leak conclusion",
		"3 blocks, 896 bytes", "(unresolved stack 4711)", "unknown bucket", "\nNOTE: ")
	for _, site := range o.Top {
		if site.Growth != nil || site.Degraded != "insufficient_series" || site.Class == "suspected_leak" {
			t.Errorf("site without a series: %+v", site)
		}
	}
	var b bytes.Buffer
	if rows, err := report.WriteDetail(&b, in, 0); err != nil || rows != 2 { // without the overflow channel
		t.Errorf("%d rows, %v", rows, err)
	}

	const nothing = "not usable as leak conclusion: the allocator of the program is found before ours and has passed nothing on"
	front := newScene(t, hostheap.Limits{})
	front.tables.Header().Flags |= hostheap.InFront
	front.open(hostheap.Options{Threshold: 100})
	if out := text(t, report.Make(front.input(front.close))); !strings.Contains(out, nothing) {
		t.Errorf("nothing was passed on, and the report says\n%s", out)
	}
	front.open(hostheap.Options{Threshold: 100})
	front.p.Slot(1).Below = hostheap.Size{Count: 7, Bytes: 70}
	if out := text(t, report.Make(front.input(front.close))); strings.Contains(out, nothing) {
		t.Errorf("small blocks were passed on, and the report says\n%s", out)
	}

	early := newScene(t, hostheap.Limits{})
	early.open(hostheap.Options{})
	early.tables.Header().Attached = 0
	out := text(t, report.Make(early.input(func() (*hostheap.Snapshot, error) { return early.recorder.Close(true) })))
	inOrder(t, out, "Snapshot                : unavailable", "not usable as leak conclusion", "Total Unfreed")
}

// TestComplaint22Deadline: a symbolizer that hangs costs no more than the deadline, and the report says so.
func TestComplaint22Deadline(t *testing.T) {
	s := newScene(t, hostheap.Limits{})
	s.open(hostheap.Options{})
	s.p.Malloc(1, 0x7f0000000040, 128, s.leak)
	in := s.input(s.close)
	in.Texts = report.NewTexts(s.tables, "/bin/program", hanging{}, time.Now().Add(50*time.Millisecond))
	begin := time.Now()
	inOrder(t, text(t, report.Make(in)), "0 of 2 frames", "not finished in", "/lib/libuser.so(+0x110) [0x400110]")
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the report took %v", took)
	}
}

// TestEmptyLists: a list in the JSON is a list also when nothing is in it; null is for figures that are unknown.
func TestEmptyLists(t *testing.T) {
	s := newScene(t, hostheap.Limits{})
	for _, stack := range []uint32{0, hostheap.StackUnknown, s.leak} {
		s.open(hostheap.Options{})
		if stack != 0 {
			s.p.Malloc(1, 0x7f0000000040+uint64(stack)<<8, 128, stack)
		}
		var b bytes.Buffer
		if err := report.Make(s.input(s.close)).WriteJSON(&b); err != nil {
			t.Fatal(err)
		}
		if lists := regexp.MustCompile(`"(top_leak_sites|resident_baselines|incomplete_because|snapshot_degraded|c_stack|python_stack)": null`).FindAllString(b.String(), -1); lists != nil {
			t.Errorf("%q", lists)
		}
		inOrder(t, b.String(), `"incomplete_because": []`, `"resident_baselines": []`)
	}
}

type hanging struct{}

func (hanging) Place(*hostheap.Library, uint32, uint64) (string, string, int) { select {} }

// TestWindows: stages count up, each window has its own numbers, and the words for what cannot be done are right.
func TestWindows(t *testing.T) {
	s := newScene(t, hostheap.Limits{})
	if _, err := s.recorder.Interim(); err != hostheap.ErrClosed {
		t.Errorf("a look without a window: %v", err)
	}
	for stage := 1; stage <= 3; stage++ {
		got, err := s.recorder.Open(hostheap.Options{})
		if err != nil || got != stage {
			t.Fatalf("stage %d, %v", got, err)
		}
		if _, err := s.recorder.Open(hostheap.Options{}); err != hostheap.ErrOpen {
			t.Errorf("a second window: %v", err)
		}
		for i := range stage {
			s.p.Malloc(0, 0x10000+uint64(stage)<<20+uint64(i)*64, 40, s.leak)
		}
		o := report.Make(s.input(s.close))
		if o.Stage != stage || o.Unfreed.Blocks != uint64(stage) || o.Health.Allocs.Blocks != uint64(stage) {
			t.Errorf("stage %d: %+v", stage, o)
		}
	}
	if _, err := s.close(); err != hostheap.ErrClosed {
		t.Errorf("closing twice: %v", err)
	}
}
