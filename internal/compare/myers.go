package compare

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Move is one step of an edit script.
type Move uint8

// Moves.
const (
	Match  Move = iota // an element of both
	Delete             // an element of the base only
	Insert             // an element of the other only
)

// Limits of one comparison.
type Limits struct {
	Time     time.Duration           // for each of the two phases; 0: none
	Progress func(done, total int64) // called now and then; may be nil
	now      func() time.Time        // nil: time.Now
}

// TimeoutError says that a comparison took longer than it may.
type TimeoutError struct{ Back bool } // Back: while the script was put together

func (e *TimeoutError) Error() string {
	if e.Back {
		return "Memory compare build diff failed! Reaching maximum loop time limit!"
	}
	return "Memory comparison build path failed! Reaching maximum loop time limit!"
}

// Script gives the shortest edit script from a to b: that of the greedy forward algorithm of Myers ("An O(ND) difference
// algorithm and its variations", 1986), with x along a, k = x − y, and on a tie the step to the right (a deletion).
//
// Of what the textbook does, the half is left out that cannot lead to the goal: a detour in a narrow band finds a script,
// not always the shortest, whose length bounds what is worth a look. Every step of the shortest script, and what its ties
// are decided against, lies within.
//
// The textbook keeps every frontier for the way back, which is quadratic in the number of edits. To go back, one needs to
// know of each frontier only which way it was entered, one bit for a diagonal; the matches between follow by walking
// forward. The bits are kept as long as they take no more memory than a fixed multiple of the input. When they would,
// frontiers are kept at a few places, and the bits between two of them are reckoned again, the last piece first.
func Script(a, b []int32, lim Limits) ([]Move, error) {
	// The search jumps to and fro in both lists: the narrower their elements, the more of them are in the cache.
	top := int32(0)
	for _, list := range [][]int32{a, b} {
		for _, e := range list {
			top = max(top, e)
		}
	}
	switch {
	case top <= math.MaxUint8:
		return script(narrow[uint8](a), narrow[uint8](b), lim)
	case top <= math.MaxUint16:
		return script(narrow[uint16](a), narrow[uint16](b), lim)
	}
	return script(a, b, lim)
}

func narrow[T element](list []int32) []T {
	out := make([]T, len(list))
	for i, e := range list {
		out[i] = T(e)
	}
	return out
}

func script[T element](a, b []T, lim Limits) ([]Move, error) {
	m := newMyers(a, b, lim)
	steps, err := m.path()
	if err != nil {
		return nil, err
	}
	return m.replay(steps), nil
}

type element interface{ uint8 | uint16 | int32 }

func newMyers[T element](a, b []T, lim Limits) *myers[T] {
	if lim.now == nil {
		lim.now = time.Now
	}
	m := &myers[T]{a: a, b: b, n: len(a), m: len(b), lim: lim, budget: 320 * (len(a) + len(b) + 1<<17), width: 256}
	m.v = make([]int32, m.n+m.m+3)
	return m
}

type myers[T element] struct {
	a, b     []T
	n, m     int // elements
	lim      Limits
	budget   int // bits that may be kept
	width    int // how far the detour that finds the bound may go beyond the diagonals of start and goal
	deadline time.Time
	phase    phase

	// The frontier: the furthest x on each diagonal that d edits reach, v[offset+k], with one place more at both ends.
	d         int
	v         []int32
	low, high int // the band: no diagonal outside is looked at
	most      int // so many edits are enough
}

type phase uint8

const (
	bounding phase = iota // a bound is being found
	searching
	goingBack
)

// checkpoint is a frontier that was kept: the x of the diagonals that it has.
type checkpoint struct {
	d int
	v []int32
}

func (m *myers[T]) offset() int { return m.m + 1 }

// bounds gives the diagonals, in steps of 2, that d edits can reach, that lie in the band, and from which the goal can be
// reached with the edits that are left.
func (m *myers[T]) bounds(d int) (low, high int) {
	low, high = -d+2*max(0, d-m.m), d-2*max(0, d-m.n)
	goal, left := m.n-m.m, m.most-d
	low, high = max(low, goal-left), min(high, goal+left)
	// The two above have the parity of d; the ends of the band need not.
	if low < m.low {
		low = m.low + (m.low+d)&1
	}
	if high > m.high {
		high = m.high - (m.high+d)&1
	}
	return low, high
}

// bound finds how many edits are enough.
func (m *myers[T]) bound() error {
	goal := m.n - m.m
	m.low, m.high, m.most = max(-m.m, min(0, goal)-m.width), min(m.n, max(0, goal)+m.width), m.n+m.m
	for m.start(); int(m.v[m.offset()+goal]) < m.n; m.advance(nil) {
		if err := m.check(); err != nil {
			return err
		}
	}
	m.low, m.high, m.most = max(-m.m, -m.d), min(m.n, m.d), m.d
	return nil
}

// start sets the frontier before the first edit.
func (m *myers[T]) start() {
	m.d = 0
	m.clear()
	m.v[m.offset()] = m.slide(0, 0)
}

func (m *myers[T]) clear() {
	band := m.v[m.offset()+m.low-1 : m.offset()+m.high+2]
	for i := range band {
		band[i] = -1
	}
}

func (m *myers[T]) save() checkpoint {
	low, high := m.bounds(m.d)
	c := checkpoint{m.d, make([]int32, 0, (high-low)/2+1)}
	for k := low; k <= high; k += 2 {
		c.v = append(c.v, m.v[m.offset()+k])
	}
	return c
}

func (m *myers[T]) load(c checkpoint) {
	m.clear()
	m.d = c.d
	low, _ := m.bounds(c.d)
	for i, x := range c.v {
		m.v[m.offset()+low+2*i] = x
	}
}

// slide follows the diagonal from x, y as long as elements match.
func (m *myers[T]) slide(x, y int) int32 {
	a, b := m.a[x:], m.b[y:]
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return int32(x + i)
}

// advance makes the frontier of one more edit. down, if not nil, gets a bit for each diagonal from the lowest on: whether
// it was entered by an insertion, which is when the neighbour above reaches further than the one below.
func (m *myers[T]) advance(down []uint64) {
	m.d++
	low, high := m.bounds(m.d)
	v := m.v[m.offset()+low-1 : m.offset()+high+2]
	a, b := m.a, m.b
	y := -low
	for i := 0; i+2 < len(v); i += 2 {
		below, above := v[i], v[i+2]
		x := max(below+1, above)
		if down != nil {
			down[i>>7] |= uint64(uint32(below-above)>>31) << (i >> 1 & 63)
		}
		if x, y := int(x), int(x)+y-i; x < len(a) && y < len(b) && a[x] == b[y] {
			v[i+1] = m.slide(x+1, y+1)
			continue
		}
		v[i+1] = x
	}
}

// words is the number of words that the bits of frontier d take.
func (m *myers[T]) words(d int) int {
	low, high := m.bounds(d)
	return ((high-low)/2 + 64) / 64
}

// maxKept bounds the frontiers that are kept on the way.
const maxKept = 64

// path gives the edits of the script in order, without the matches between them.
func (m *myers[T]) path() ([]Move, error) {
	m.deadline = m.lim.now().Add(m.lim.Time)
	if err := m.bound(); err != nil {
		return nil, err
	}
	m.phase = searching
	goal := m.n - m.m
	m.start()
	var bits [][]uint64
	spent := 0 // bits; -1: too many, they are not kept
	kept, every := []checkpoint{m.save()}, 64
	for int(m.v[m.offset()+goal]) < m.n {
		if err := m.check(); err != nil {
			return nil, err
		}
		var down []uint64
		if spent >= 0 {
			down = make([]uint64, m.words(m.d+1))
			bits = append(bits, down)
			if spent += 64 * len(down); spent > m.budget {
				bits, down, spent = nil, nil, -1
			}
		}
		m.advance(down)
		if m.d%every == 0 {
			if kept = append(kept, m.save()); len(kept) > maxKept {
				every *= 2
				kept = slices.DeleteFunc(kept, func(c checkpoint) bool { return c.d%every != 0 })
			}
		}
	}
	m.phase, m.deadline = goingBack, m.lim.now().Add(m.lim.Time)
	steps := make([]Move, m.d)
	if spent >= 0 {
		m.backtrack(steps, 1, bits, goal)
		return steps, nil
	}
	_, err := m.solve(kept, m.d, goal, steps)
	return steps, err
}

// check minds the clock and tells of the progress, once in a while.
func (m *myers[T]) check() error {
	if m.d&255 != 0 {
		return nil
	}
	if m.lim.Time > 0 && m.lim.now().After(m.deadline) {
		return &TimeoutError{m.phase == goingBack}
	}
	if m.lim.Progress != nil && m.phase == searching {
		best := 0
		low, high := m.bounds(m.d)
		for k := low; k <= high; k += 2 {
			best = max(best, 2*int(m.v[m.offset()+k])-k)
		}
		m.lim.Progress(int64(best), int64(m.n+m.m))
	}
	return nil
}

// backtrack goes back from diagonal k over the frontiers first, first+1, … whose bits are given, and puts the edits into
// steps, which has one place for each frontier from 1 on. It answers the diagonal of frontier first−1.
func (m *myers[T]) backtrack(steps []Move, first int, bits [][]uint64, k int) int {
	for d := first + len(bits) - 1; d >= first; d-- {
		low, _ := m.bounds(d)
		bit := (k - low) / 2
		if bits[d-first][bit>>6]>>(bit&63)&1 != 0 {
			steps[d-1] = Insert
			k++
		} else {
			steps[d-1] = Delete
			k--
		}
	}
	return k
}

// solve finds the edits up to diagonal k of frontier last, from the first of the frontiers that were kept on, and the
// diagonal of that one.
func (m *myers[T]) solve(kept []checkpoint, last, k int, steps []Move) (int, error) {
	for i := len(kept) - 1; i >= 0; i-- {
		var err error
		if k, err = m.piece(kept[i], last, k, steps); err != nil {
			return 0, err
		}
		last = kept[i].d
		kept[i].v = nil
	}
	return k, nil
}

// piece is solve for the piece between two kept frontiers. One that is still too much for the budget is cut again.
func (m *myers[T]) piece(from checkpoint, last, k int, steps []Move) (int, error) {
	need := 0
	for d := from.d + 1; d <= last && need <= m.budget; d++ {
		need += 64 * m.words(d)
	}
	m.load(from)
	if need > m.budget && last-from.d > 1 {
		kept := []checkpoint{from}
		for every := (last - from.d + 7) / 8; m.d < last; {
			if err := m.check(); err != nil {
				return 0, err
			}
			if m.advance(nil); (m.d-from.d)%every == 0 && m.d < last {
				kept = append(kept, m.save())
			}
		}
		return m.solve(kept, last, k, steps)
	}
	var bits [][]uint64
	for m.d < last {
		if err := m.check(); err != nil {
			return 0, err
		}
		bits = append(bits, make([]uint64, m.words(m.d+1)))
		m.advance(bits[len(bits)-1])
	}
	return m.backtrack(steps, from.d+1, bits, k), nil
}

// replay puts the matches between the edits: as many as there are, before each edit and behind the last.
func (m *myers[T]) replay(steps []Move) []Move {
	out := make([]Move, 0, max(m.n, m.m)+len(steps)/2)
	x, y := 0, 0
	slide := func() {
		for x < m.n && y < m.m && m.a[x] == m.b[y] {
			out = append(out, Match)
			x, y = x+1, y+1
		}
	}
	slide()
	for _, s := range steps {
		if s == Delete {
			x++
		} else {
			y++
		}
		out = append(out, s)
		slide()
	}
	if x != m.n || y != m.m {
		panic(fmt.Sprintf("compare: the script ends at %d, %d of %d, %d", x, y, m.n, m.m))
	}
	return out
}
