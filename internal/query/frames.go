package query

import (
	"path"
	"slices"
	"strings"
)

// runtimeLibraries are the beginnings of the names of libraries through which every request goes: the tool's own and those
// of CANN between a program and the driver. Whether they are on top of a stack says nothing about the program.
var runtimeLibraries = []string{"libruntime", "libascendcl", "libacl_rt", "libascend_", "libdrv", "libleaks_ascend_", "libms_tools_ext"}

// ofRuntime tells whether a frame, such as "/x/libruntime.so(rtMalloc+0xfb) [0x7f00]", lies in one of runtimeLibraries.
func ofRuntime(frame string) bool {
	file, _, native := strings.Cut(frame, "(")
	name := path.Base(file)
	return native && strings.Contains(name, ".so") && slices.ContainsFunc(runtimeLibraries, func(lib string) bool { return strings.HasPrefix(name, lib) })
}

// framesOf are the lines of a call stack that are not empty, from the first on that lies outside of the runtime; all, if there
// is none.
func framesOf(stack string) []string {
	var out []string
	for line := range strings.Lines(stack) {
		if line = strings.TrimSpace(line); line != "" && line != "NA" {
			out = append(out, line)
		}
	}
	for i, frame := range out {
		if !ofRuntime(frame) {
			return out[i:]
		}
	}
	return out
}

const (
	arrow = " <- "
	more  = "…" // there are frames that are not shown
)

// firstFrames is the top of a call stack, n frames at most.
func firstFrames(stack string, n int) string {
	frames := framesOf(stack)
	return strings.Join(frames[:min(n, len(frames))], arrow)
}

// frames is firstFrames for a report, which says in the end that there is more, and where.
func (w *report) frames(stack string, n int) string {
	frames := framesOf(stack)
	if len(frames) <= n {
		return strings.Join(frames, arrow)
	}
	w.cut = true
	return strings.Join(frames[:n], arrow) + arrow + more
}

// distinct is frames for several call stacks that differ: those with the same top go on to where they differ.
func (w *report) distinct(stacks []string, n int) []string {
	frames := make([][]string, len(stacks))
	order := make([]int, len(stacks))
	for i, stack := range stacks {
		frames[i], order[i] = framesOf(stack), i
	}
	slices.SortFunc(order, func(a, b int) int { return slices.Compare(frames[a], frames[b]) })
	depth := make([]int, len(stacks)) // that tells a stack from its neighbours, and so from all
	for k := 1; k < len(order); k++ {
		a, b := order[k-1], order[k]
		same := 0
		for same < min(len(frames[a]), len(frames[b])) && frames[a][same] == frames[b][same] {
			same++
		}
		depth[a], depth[b] = max(depth[a], same+1), max(depth[b], same+1)
	}
	out := make([]string, len(stacks))
	for i, f := range frames {
		show := slices.Clone(f[:min(n, len(f))])
		last := min(depth[i], len(f))
		if last > n+1 {
			show = append(show, more)
		}
		if last > n {
			show = append(show, f[last-1])
		}
		if len(f) > max(last, n) {
			show = append(show, more)
		}
		w.cut = w.cut || slices.Contains(show, more)
		out[i] = strings.Join(show, arrow)
	}
	return out
}
