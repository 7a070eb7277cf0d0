package lsi

import (
	"math"
	"slices"
)

func clamp(x float64) float64 {
	if !(x > 0) { // also for a NaN
		return 0
	}
	return min(x, 1)
}

func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	sorted := slices.Clone(x)
	slices.Sort(sorted)
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// theilSen is the median slope per step over the pairs that lie half the length apart.
func theilSen(y []float64) float64 {
	h := len(y) / 2
	if h == 0 {
		return 0
	}
	slopes := make([]float64, 0, len(y)-h)
	for i := 0; i+h < len(y); i++ {
		slopes = append(slopes, (y[i+h]-y[i])/float64(h))
	}
	return median(slopes)
}

// spread is the robust standard deviation around a line of a slope.
func spread(y []float64, slope float64) float64 {
	rest := make([]float64, len(y))
	for i := range y {
		rest[i] = y[i] - slope*float64(i)
	}
	level := median(rest)
	for i := range rest {
		rest[i] = math.Abs(rest[i] - level)
	}
	return 1.4826 * median(rest)
}

// kendall is the rank correlation with time; equal values count as neither.
func kendall(y []float64) float64 {
	sum, pairs := 0, 0
	for i := range y {
		for j := i + 1; j < len(y); j++ {
			pairs++
			switch {
			case y[j] > y[i]:
				sum++
			case y[j] < y[i]:
				sum--
			}
		}
	}
	if pairs == 0 {
		return 0
	}
	return float64(sum) / float64(pairs)
}

// steps is how many steps of equal size the lasting growth is worth, that which is never given back: n equal ones are n.
func steps(y []float64) float64 {
	if len(y) == 0 {
		return 0
	}
	sum, squares, least := 0.0, 0.0, y[len(y)-1] // least: of what comes later
	for i := len(y) - 2; i >= 0; i-- {
		if d := least - y[i]; d > 0 {
			sum += d
			squares += d * d
			least = y[i]
		}
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / squares
}

// pauses are for how long the lasting growth has come to an end, and its longest pause before.
func pauses(y []float64) (last, longest int) {
	step, least := len(y), y[len(y)-1] // step: the earliest later moment with growth, the end at first
	first := true
	for i := len(y) - 2; i >= 0; i-- {
		if y[i] >= least {
			continue
		}
		least = y[i]
		if first {
			last, first = step-i-2, false
		} else {
			longest = max(longest, step-i-2)
		}
		step = i + 1
	}
	return last, longest
}

// direction is the share of ups over downs among the increments, by their sums: from -1 to 1.
func direction(y []float64) float64 {
	up, down := 0.0, 0.0
	for i := 1; i < len(y); i++ {
		if d := y[i] - y[i-1]; d > 0 {
			up += d
		} else {
			down -= d
		}
	}
	if up+down == 0 {
		return 0
	}
	return (up - down) / (up + down)
}
