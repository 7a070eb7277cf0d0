package report

import (
	"cmp"
	"iter"
	"slices"

	"memscope/internal/hostheap"
	"memscope/internal/hostheap/lsi"
)

// freeList is a kind of objects, or tables, of which CPython keeps freed ones and gives them out again.
type freeList struct {
	least, most uint64 // bytes of one
	room        uint64 // how many freed ones are kept at most
}

var (
	floats   = freeList{24, 24, 100}
	tuples   = freeList{40 + 8, 40 + 20*8, 2000} // a header for the collector, one of the tuple, and 1 to 20 items; so many of each length
	lists    = freeList{56, 56, 80}
	dicts    = freeList{64, 64, 80}
	keys     = freeList{112, 200, 80} // for eight keys, which is the least
	contexts = freeList{64, 64, 255}  // asyncio makes one for each call-back
)

// freeLists are by the functions of CPython (3.8 to 3.14) that make such objects. Other blocks of these functions, as the items of a list,
// go back to malloc.
var freeLists = map[string]freeList{
	"PyFloat_FromDouble": floats,
	"PyTuple_New":        tuples, "PyTuple_Pack": tuples, "PyTuple_FromArray": tuples, "_PyTuple_FromArray": tuples,
	"_PyTuple_FromArraySteal": tuples, "tuple_alloc": tuples, "tuplesubscript": tuples, "tupleconcat": tuples, "tuple_concat": tuples,
	"tuplerepeat": tuples, "tuple_repeat": tuples, "PyTuple_GetSlice": tuples,
	"PyList_New": lists, "_PyList_FromArraySteal": lists, "list_vectorcall": lists,
	"PyDict_New": dicts, "new_dict": dicts, "dict_vectorcall": dicts, "dict_new_presized": dicts, "_PyDict_NewPresized": dicts,
	"_PyDict_FromItems": dicts, "PyDict_Copy": dicts, "new_dict_with_shared_keys": dicts,
	"new_keys_object":       keys,
	"PyContext_CopyCurrent": contexts, "context_copy": contexts,
}

// holderGrowth is the Growth from which on a site may hold what grows; a table that grows by large steps has little more.
const (
	holderGrowth = 0.2
	pointerBytes = 8
)

// roomShare is how many times as many blocks as a free list has room for a site must have, lest what fills that list at last look like growth
// that goes on: an eighth of the time then, about what lsi asks for where growth has stopped.
const roomShare = 8

// freeListFrames are the innermost frames in which such a function is looked for: behind it are only those that ask for memory.
const freeListFrames = 3

// attributeNames is a function of CPython that makes a string of a C text to look an attribute up by; its method cache keeps such strings, each in
// a place of its own, of which there are 4096.
const attributeNames = "PyObject_GetAttrString"

// makers gives the native functions in which a block of Python is made, innermost first; none for a site of anything else.
func makers(in Input, s *hostheap.Site) iter.Seq[string] {
	return func(yield func(string) bool) {
		frames, ok := in.Tables.Stack(s.Stack)
		if !ok || len(frames.Python) == 0 {
			return
		}
		for _, f := range frames.Native[:min(freeListFrames, len(frames.Native))] {
			if !yield(in.Texts.Place(f).Function) {
				return
			}
		}
	}
}

// cached says that a site's blocks are kept by the interpreter's method cache.
func cached(in Input, s *hostheap.Site) bool {
	for function := range makers(in, s) {
		if function == attributeNames {
			return true
		}
	}
	return false
}

// freeListed says that a site's blocks are of a kind that CPython passes on by itself, and whether they are many more than it keeps. Such a block
// stays with the line that first had it, whoever has it now, so that lines are named which have lost nothing.
func freeListed(in Input, s *hostheap.Site) (is, more bool) {
	if s.Unfreed.Count == 0 {
		return false, false
	}
	size := s.Unfreed.Bytes / s.Unfreed.Count
	for function := range makers(in, s) {
		if of, ok := freeLists[function]; ok {
			return of.least <= size && size <= of.most, s.Unfreed.Count > roomShare*of.room
		}
	}
	return false, false
}

// explain gives the sites, most suspicious first, when suspects are taken back that the interpreter explains. Their index is halved, lest they
// stand before what names the right line. Strings of the method cache are nobody's leak. Objects of a free list are taken back beside another
// suspect, and also where the free list may have a good part of them, or where nothing has grown that could hold them: whoever holds them has memory
// of its own for it, a pointer each. Else they are what there is to go by.
func explain(in Input) (sites []hostheap.Site, passed map[uint32]bool) {
	sites, passed = slices.Clone(in.Snapshot.Sites), map[uint32]bool{}
	others, growing := false, uint64(0) // growing: bytes of what may hold them
	held := map[uint32]uint64{}         // by site that is passed on, the blocks, where the free list has room for few of them
	for i := range sites {
		s := &sites[i]
		suspect := s.Verdict.Class == lsi.SuspectedLeak
		if !suspect && (s.Verdict.Growth < holderGrowth || s.Verdict.Neutral || s.Verdict.Saturating) {
			continue
		}
		listed, more := freeListed(in, s)
		switch {
		case suspect && cached(in, s):
			s.Verdict.Class, s.Verdict.LSI = lsi.GrowthWatch, s.Verdict.LSI/2
		case suspect && listed:
			passed[s.Stack] = true
			if more {
				held[s.Stack] = s.Unfreed.Count
			}
		case suspect:
			others = true
		case !listed:
			growing += s.Unfreed.Bytes
		}
	}
	for stack, n := range held {
		if !others && growing >= pointerBytes*n/2 { // the free list may have some of them
			delete(passed, stack)
		}
	}
	for i := range sites {
		if v := &sites[i].Verdict; passed[sites[i].Stack] {
			v.Class, v.LSI = lsi.GrowthWatch, v.LSI/2
		}
	}
	slices.SortStableFunc(sites, func(a, b hostheap.Site) int { return cmp.Compare(b.Verdict.LSI, a.Verdict.LSI) })
	return sites, passed
}
