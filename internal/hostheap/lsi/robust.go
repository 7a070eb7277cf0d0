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

// lasting is the growth that is never given back: by how much the least of what comes later rises, after each value but the last one.
func lasting(y []float64) []float64 {
	if len(y) == 0 {
		return nil
	}
	growth, least := make([]float64, len(y)-1), y[len(y)-1]
	for i := len(y) - 2; i >= 0; i-- {
		if d := least - y[i]; d > 0 {
			growth[i] = d
			least = y[i]
		}
	}
	return growth
}

// merged adds up values to so many parts, at most.
func merged(x []float64, parts int) []float64 {
	if len(x) <= parts {
		return x
	}
	sums := make([]float64, parts)
	for i, v := range x {
		sums[i*parts/len(x)] += v
	}
	return sums
}

// steps is how many steps of equal size the growth is worth: n equal ones are n.
func steps(growth []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, d := range growth {
		sum += d
		squares += d * d
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / squares
}

// pauses are for how long the growth has come to an end, and its longest pause before.
func pauses(growth []float64) (last, longest int) {
	for _, d := range growth {
		if d == 0 {
			last++
			continue
		}
		longest = max(longest, last)
		last = 0
	}
	return last, longest
}

// clustering is how much less regular the growth is than by independent steps, 1 or more: the variance of the growth over parts of the
// time, against that of so many steps which come by chance.
func clustering(growth []float64, parts int) float64 {
	parts = min(parts, len(growth))
	sum, squares := 0.0, 0.0
	for _, d := range merged(growth, parts) {
		sum += d
		squares += d * d
	}
	if parts < 2 || sum == 0 {
		return 1
	}
	n := float64(parts)
	mean := sum / n
	variance := (squares - n*mean*mean) / (n - 1)
	return max(1, variance/(mean*mean)*steps(growth)/n)
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
