package compare

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// textbook is the greedy algorithm as the paper has it, with all frontiers kept and without bounds.
func textbook(a, b []int32) (moves []Move, edits int) {
	n, m := len(a), len(b)
	off := n + m + 1
	v := make([]int, 2*off+1)
	var trace [][]int
	for d := 0; ; d++ {
		trace = append(trace, slices.Clone(v))
		for k := -d; k <= d; k += 2 {
			x := 0
			if d > 0 && (k == -d || k != d && v[off+k-1] < v[off+k+1]) {
				x = v[off+k+1]
			} else if d > 0 {
				x = v[off+k-1] + 1
			}
			for x < n && x-k < m && a[x] == b[x-k] {
				x++
			}
			v[off+k] = x
			if x >= n && x-k >= m {
				return walkBack(trace, off, n, m, d), d
			}
		}
	}
}

func walkBack(trace [][]int, off, x, y, d int) (moves []Move) {
	for ; d > 0; d-- {
		v, k := trace[d], x-y
		prev := k - 1
		if k == -d || k != d && v[off+k-1] < v[off+k+1] {
			prev = k + 1
		}
		px := v[off+prev]
		py := px - prev
		for x > px && y > py && !(prev == k-1 && x == px+1 && y == py || prev == k+1 && x == px && y == py+1) {
			moves = append(moves, Match)
			x, y = x-1, y-1
		}
		if prev == k+1 {
			moves = append(moves, Insert)
		} else {
			moves = append(moves, Delete)
		}
		x, y = px, py
	}
	for ; x > 0; x-- {
		moves = append(moves, Match)
	}
	slices.Reverse(moves)
	return moves
}

// distance is the number of insertions and deletions, by the quadratic table.
func distance(a, b []int32) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j, y := range b {
			best := min(row[j], row[j+1]) + 1
			if x == y {
				best = diagonal
			}
			diagonal, row[j+1] = row[j+1], best
		}
	}
	return row[len(b)]
}

func edits(moves []Move) (n int) {
	for _, m := range moves {
		if m != Match {
			n++
		}
	}
	return n
}

func TestScriptIsMinimalAndThatOfTheTextbook(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range 2000 {
		alphabet := int32(1 + rnd.IntN(6))
		a, b := random(rnd, rnd.IntN(60), alphabet), random(rnd, rnd.IntN(60), alphabet)
		want, d := textbook(a, b)
		if n := distance(a, b); n != d {
			t.Fatalf("the textbook says %d edits, the table %d", d, n)
		}
		for _, c := range []struct{ budget, width int }{{1 << 30, 256}, {4096, 3}, {1, 1}} {
			m := newMyers(a, b, Limits{})
			m.budget, m.width = c.budget, c.width
			steps, err := m.path()
			if err != nil {
				t.Fatal(err)
			}
			if got := m.replay(steps); !slices.Equal(got, want) {
				t.Fatalf("pair %d, %+v: %v and %v:\n got %v\nwant %v", i, c, a, b, got, want)
			}
		}
	}
}

func random(rnd *rand.Rand, n int, alphabet int32) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = rnd.Int32N(alphabet)
	}
	return s
}

func TestScriptOfTheContract(t *testing.T) {
	// base [matmul_v1, matmul_v2] against compare [mul, matmul_v2]: the deletion comes first.
	got, err := Script([]int32{0, 1}, []int32{2, 1}, Limits{})
	if want := []Move{Delete, Insert, Match}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestTimeLimit(t *testing.T) {
	clock := time.Unix(0, 0)
	lim := Limits{Time: time.Second, now: func() time.Time { clock = clock.Add(time.Millisecond * 900); return clock }}
	a, b := make([]int32, 3000), make([]int32, 3000)
	for i := range a {
		a[i], b[i] = 1, 2
	}
	var timeout *TimeoutError
	if _, err := Script(a, b, lim); !errors.As(err, &timeout) || timeout.Back {
		t.Errorf("got %v, want a timeout of the first phase", err)
	}
}

func TestManyEditsInLittleMemory(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	a := random(rnd, 60_000, 12)
	var b []int32
	for i, x := range a {
		switch i % 40 {
		case 7:
		case 27:
			b = append(b, x, 99)
		default:
			b = append(b, x)
		}
	}
	m := newMyers(a, b, Limits{})
	m.budget = 1 << 22
	steps, err := m.path()
	if err != nil {
		t.Fatal(err)
	}
	moves := m.replay(steps) // panics if it is no script from a to b
	whole, err := Script(a, b, Limits{})
	if err != nil || !slices.Equal(moves, whole) {
		t.Errorf("the script in pieces differs from the whole one: %d and %d edits", edits(moves), edits(whole))
	}
	if n := edits(moves); n > 3_000 {
		t.Errorf("%d edits for 3000 changes", n)
	}
}

func BenchmarkScript(b *testing.B) {
	rnd := rand.New(rand.NewPCG(7, 8))
	base := random(rnd, 1_000_000, 400)
	for _, changes := range []int{2000, 8_000} {
		b.Run(fmt.Sprint(changes), func(b *testing.B) {
			other := slices.Clone(base)
			for i := 0; i < len(other); i += len(other) / (changes / 2) {
				other[i] = 1000
			}
			for b.Loop() {
				moves, err := Script(base, other, Limits{})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(edits(moves)), "edits")
			}
		})
	}
}
