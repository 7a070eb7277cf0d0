package report_test

import (
	"slices"
	"testing"
	"time"

	"memscope/internal/hostheap"
	"memscope/internal/hostheap/lsi"
	"memscope/internal/hostheap/report"
)

// TestFreeLists: what CPython passes on by itself is no suspect beside one that explains it, nor where it may all be in the free list or nothing grows
// that could hold it, and one where there is more and a table grows. Blocks of the same functions that are no such objects, and those of a program without Python, are what
// they are. What the method cache keeps is never a suspect.
func TestFreeLists(t *testing.T) {
	s := newScene(t, hostheap.Limits{})
	names := places{0x600100: "_PyObject_GC_NewVar", 0x600200: "_PyTuple_FromArray", 0x600300: "PyList_New", 0x600400: "list_resize",
		0x600500: "unicode_decode_utf8", 0x600700: "_PyDict_FromItems", 0x600600: "PyObject_GetAttrString"}
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
	attribute, dicts := stack(true, 0x600500, 0x600600), stack(true, 0x600100, 0x600700)
	s.open(hostheap.Options{})
	in := s.input(s.close)
	in.Texts = report.NewTexts(s.tables, "/bin/program", names, time.Now().Add(time.Minute))
	const many = 700 // more than eight times what the free list of lists keeps
	for _, c := range []struct {
		name      string
		count     uint64
		sites     map[uint32]uint64 // the size of a block of each
		table     uint64            // bytes of the holder, where it grows by large steps and so is no suspect
		suspected []uint32
		passed    []uint32
	}{
		{"tuples and what holds them", many, map[uint32]uint64{tuples: 56, holder: 4000}, 0, []uint32{holder}, []uint32{tuples}},
		{"tuples and a table", many, map[uint32]uint64{tuples: 56}, 8 * many, nil, []uint32{tuples}}, // the free list has room for 2000
		{"lists and a table", many, map[uint32]uint64{items: 56}, 4 * many, []uint32{items}, nil},
		{"some lists and a table", 100, map[uint32]uint64{items: 56}, 800, nil, []uint32{items}},
		{"lists and too small a table", many, map[uint32]uint64{items: 56}, 2 * many, nil, []uint32{items}},
		{"lists alone", many, map[uint32]uint64{items: 56}, 0, nil, []uint32{items}},
		{"items of lists", many, map[uint32]uint64{items: 80, holder: 4000}, 0, []uint32{items, holder}, nil},
		{"lists", many, map[uint32]uint64{items: 56, holder: 4000}, 0, []uint32{holder}, []uint32{items}},
		{"dicts of a display", many, map[uint32]uint64{dicts: 64, holder: 4000}, 0, []uint32{holder}, []uint32{dicts}},
		{"no Python", many, map[uint32]uint64{other: 56, holder: 4000}, 0, []uint32{holder, other}, nil},
		{"names of attributes", many, map[uint32]uint64{attribute: 55}, 0, nil, nil},
	} {
		in.Snapshot.Sites = nil
		for id, size := range c.sites {
			in.Snapshot.Sites = append(in.Snapshot.Sites, hostheap.Site{Stack: id, Unfreed: hostheap.Size{Count: c.count, Bytes: c.count * size},
				Verdict: lsi.Verdict{LSI: 80, Class: lsi.SuspectedLeak}})
		}
		if c.table > 0 {
			in.Snapshot.Sites = append(in.Snapshot.Sites, hostheap.Site{Stack: holder, Unfreed: hostheap.Size{Count: 1, Bytes: c.table},
				Verdict: lsi.Verdict{LSI: 50, Class: lsi.GrowthWatch, Growth: 0.5, FewSteps: true}})
		}
		o := report.Make(in)
		var suspected, passed []uint32
		for _, site := range o.Top {
			switch {
			case site.Class == "suspected_leak":
				suspected = append(suspected, site.Stack)
			case slices.Contains(site.Notes, "free list"):
				passed = append(passed, site.Stack)
			case c.sites[site.Stack] > 0 && site.Stack != attribute:
				t.Errorf("%s: stack %d is %s, %v", c.name, site.Stack, site.Class, site.Notes)
			}
		}
		slices.Sort(suspected)
		slices.Sort(c.suspected)
		if !slices.Equal(suspected, c.suspected) || !slices.Equal(passed, c.passed) || o.Suspected != len(c.suspected) {
			t.Errorf("%s: %v are suspected, and %d by the sum, %v are passed on; not %v, %v", c.name, suspected, o.Suspected, passed,
				c.suspected, c.passed)
		}
	}
}
