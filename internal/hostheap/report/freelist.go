package report

import (
	"cmp"
	"slices"

	"memscope/internal/hostheap"
	"memscope/internal/hostheap/lsi"
)

// freeLists are the functions of CPython (3.8 to 3.14) that make objects of the types of which it keeps freed ones and gives them out again,
// and the sizes that an object or table can have, bytes. Other blocks of these functions, as the items of a list, go back to malloc.
var freeLists = map[string][2]uint64{
	"PyFloat_FromDouble": {24, 24},
	"PyTuple_New":        tuples, "PyTuple_Pack": tuples, "PyTuple_FromArray": tuples, "_PyTuple_FromArray": tuples,
	"_PyTuple_FromArraySteal": tuples, "tuple_alloc": tuples,
	"PyList_New": {56, 56}, "_PyList_FromArraySteal": {56, 56},
	"PyDict_New": {64, 64}, "new_dict": {64, 64},
	"new_keys_object": {112, 200}, // for eight keys, which is the least
}

// tuples is a header for the garbage collector, one of the tuple, and 1 to 20 items.
var tuples = [2]uint64{40 + 8, 40 + 20*8}

// freeListFrames are the innermost frames in which such a function is looked for: behind it are only those that ask for memory.
const freeListFrames = 3

// freeListed says that a site's blocks are of a kind that CPython passes on by itself. Such a block stays with the line that first had it,
// whoever has it now, so that lines are named which have lost nothing.
func freeListed(in Input, s *hostheap.Site) bool {
	frames, ok := in.Tables.Stack(s.Stack)
	if !ok || len(frames.Python) == 0 || s.Unfreed.Count == 0 {
		return false
	}
	size := s.Unfreed.Bytes / s.Unfreed.Count
	for _, f := range frames.Native[:min(freeListFrames, len(frames.Native))] {
		if sizes, ok := freeLists[in.Texts.Place(f).Function]; ok {
			return sizes[0] <= size && size <= sizes[1]
		}
	}
	return false
}

// explain gives the sites, most suspicious first, when suspects are taken back that another one explains: whoever holds objects of a free
// list has memory of its own that grows, as a table. Their index is halved, lest they stand before what names the right line. Where nothing
// else is suspected they are what there is to go by.
func explain(in Input) (sites []hostheap.Site, passed map[uint32]bool) {
	sites, passed = slices.Clone(in.Snapshot.Sites), map[uint32]bool{}
	others := false
	for i := range sites {
		switch {
		case sites[i].Verdict.Class != lsi.SuspectedLeak:
		case freeListed(in, &sites[i]):
			passed[sites[i].Stack] = true
		default:
			others = true
		}
	}
	if !others {
		return sites, nil
	}
	for i := range sites {
		if v := &sites[i].Verdict; passed[sites[i].Stack] {
			v.Class, v.LSI = lsi.GrowthWatch, v.LSI/2
		}
	}
	slices.SortStableFunc(sites, func(a, b hostheap.Site) int { return cmp.Compare(b.Verdict.LSI, a.Verdict.LSI) })
	return sites, passed
}
