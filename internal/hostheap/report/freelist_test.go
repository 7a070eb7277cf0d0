package report_test

import (
	"slices"
	"testing"
	"time"

	"memscope/internal/hostheap"
	"memscope/internal/hostheap/lsi"
	"memscope/internal/hostheap/report"
)

// TestFreeLists: what CPython passes on by itself is no suspect beside one that explains it, and one where there is nothing else. Blocks
// of the same functions that are no such objects, and those of a program without Python, are what they are.
func TestFreeLists(t *testing.T) {
	s := newScene(t, hostheap.Limits{})
	names := places{0x600100: "_PyObject_GC_NewVar", 0x600200: "_PyTuple_FromArray", 0x600300: "PyList_New", 0x600400: "list_resize"}
	stack := func(python bool, pcs ...uint64) uint32 {
		var native []hostheap.NativeFrame
		for _, pc := range pcs {
			native = append(native, hostheap.NativeFrame{PC: pc, Module: s.lib + 1})
		}
		if !python {
			return s.p.Stack(native, nil)
		}
		return s.p.Stack(native, []hostheap.PythonFrame{{Function: "f", File: "/f.py", Line: 1}})
	}
	tuples, items := stack(true, 0x600100, 0x600200), stack(true, 0x600300)
	holder, other := stack(true, 0x600400), stack(false, 0x600100, 0x600200)
	s.open(hostheap.Options{})
	in := s.input(s.close)
	in.Texts = report.NewTexts(s.tables, "/bin/program", names, time.Now().Add(time.Minute))
	for _, c := range []struct {
		name      string
		sites     map[uint32]uint64 // the size of a block of each
		suspected []uint32
	}{
		{"tuples and what holds them", map[uint32]uint64{tuples: 56, holder: 4000}, []uint32{holder}},
		{"tuples", map[uint32]uint64{tuples: 56}, []uint32{tuples}},
		{"items of lists", map[uint32]uint64{items: 80, holder: 4000}, []uint32{items, holder}},
		{"lists", map[uint32]uint64{items: 56, holder: 4000}, []uint32{holder}},
		{"no Python", map[uint32]uint64{other: 56, holder: 4000}, []uint32{holder, other}},
	} {
		in.Snapshot.Sites = nil
		for id, size := range c.sites {
			in.Snapshot.Sites = append(in.Snapshot.Sites, hostheap.Site{Stack: id, Unfreed: hostheap.Size{Count: 100, Bytes: 100 * size},
				Verdict: lsi.Verdict{LSI: 80, Class: lsi.SuspectedLeak}})
		}
		o := report.Make(in)
		var suspected []uint32
		for _, site := range o.Top {
			switch passed := slices.Contains(site.Notes, "free list"); {
			case site.Class == "suspected_leak" && !passed:
				suspected = append(suspected, site.Stack)
			case site.Class != "growth_watch" || !passed:
				t.Errorf("%s: stack %d is %s, %v", c.name, site.Stack, site.Class, site.Notes)
			}
		}
		slices.Sort(suspected)
		slices.Sort(c.suspected)
		if !slices.Equal(suspected, c.suspected) || o.Suspected != len(c.suspected) || len(o.Top) != len(c.sites) {
			t.Errorf("%s: %v are suspected, of %d, and %d by the sum; not %v", c.name, suspected, len(o.Top), o.Suspected, c.suspected)
		}
	}
}
