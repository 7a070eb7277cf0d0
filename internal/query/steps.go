package query

import (
	"slices"

	"memscope/internal/dump/read"
	"memscope/internal/event"
)

// mostStepBins bounds the figures of an account: of more steps, each stands for two, four, ...
const mostStepBins = 256

// leastSteps is the number of steps on a card from which on floors are taken by step: the time of a run is not spread evenly over them.
const leastSteps = 8

// stepFloors takes the use of each account step by step: training goes back to the same base in every step, however long each takes, and what
// comes before the first and behind the last step (loading, tearing down) says nothing about leaks. Steps are the mstx ranges "step start"
// or the STEP rows of a card.
type stepFloors struct {
	cards map[device]*cardSteps
	used  []stepUse // by account
}

type cardSteps struct {
	begun  int               // steps
	inside bool              // of one
	ranges map[uint64][]bool // open ranges by thread, whether each is a step
}

type stepUse struct {
	first int   // steps of the card that had begun when the account was first used
	per   int   // steps of a bin
	bins  []bin // from the first on
	held  int64 // the newest figure
}

func newStepFloors() *stepFloors { return &stepFloors{cards: make(map[device]*cardSteps)} }

// mark takes a row that may begin or end a step.
func (s *stepFloors) mark(b *read.Batch, r *read.Row) {
	if r.Kind != event.Mstx && (r.Kind != event.System || r.Sub != event.Step) {
		return
	}
	key := device{r.PID, r.Device}
	c := s.cards[key]
	if c == nil {
		c = &cardSteps{ranges: make(map[uint64][]bool)}
		s.cards[key] = c
	}
	switch r.Sub {
	case event.Step: // ends one and begins the next
		c.begun++
		c.inside = true
	case event.RangeStart:
		step := string(b.Text(r.Name)) == "step start"
		if open := c.ranges[r.TID]; len(open) < mostOpenRanges {
			c.ranges[r.TID] = append(open, step)
		}
		if step {
			c.begun++
			c.inside = true
		}
	case event.RangeEnd:
		if open := c.ranges[r.TID]; len(open) > 0 {
			c.inside = c.inside && !open[len(open)-1]
			c.ranges[r.TID] = slices.Delete(open, len(open)-1, len(open))
		}
	}
}

// mostOpenRanges bounds the ranges of a thread that a file can open and never end.
const mostOpenRanges = 1024

// add takes the use of an account, whose number is i.
func (s *stepFloors) add(i int, r *read.Row) {
	c := s.cards[device{r.PID, r.Device}]
	begun := 0
	if c != nil {
		begun = c.begun
	}
	for len(s.used) <= i {
		s.used = append(s.used, stepUse{first: max(begun, 1), per: 1, held: r.Used})
	}
	u := &s.used[i]
	if begun > 0 {
		u.grow(begun)
		if c.inside {
			u.bins[(begun-u.first)/u.per].add(r.Used)
		}
	}
	u.held = r.Used
}

// grow begins the steps that have begun, each with the figure that it found.
func (u *stepUse) grow(begun int) {
	for len(u.bins) <= (begun-u.first)/u.per {
		if len(u.bins) == mostStepBins {
			u.fold()
			continue
		}
		u.bins = append(u.bins, bin{})
		u.bins[len(u.bins)-1].add(u.held)
	}
}

// fold makes one bin of two.
func (u *stepUse) fold() {
	for i := 0; i < len(u.bins); i += 2 {
		a, b := u.bins[i], u.bins[i+1]
		u.bins[i/2] = bin{First: a.First, Last: b.Last, Min: min(a.Min, b.Min), Max: max(a.Max, b.Max), Points: a.Points + b.Points}
	}
	u.bins = u.bins[:len(u.bins)/2]
	u.per *= 2
}

// bins answers the steps of an account, each bin of per steps but the last, which may have fewer, from the first on in which it was used; nil
// when they are too few to judge by.
func (s *stepFloors) bins(i int, a account) (bins []bin, per, steps int) {
	c := s.cards[device{a.PID, a.Device}]
	if i >= len(s.used) || c == nil || c.begun-s.used[i].first+1 < leastSteps {
		return nil, 0, 0
	}
	u := &s.used[i]
	u.grow(c.begun)
	return u.bins, u.per, c.begun - u.first + 1
}
