package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// overhead: a loop of calls of the driver and of a pool, some launches among them, that take 5 µs each, with everything of memory and
// kernels recorded and bare, in turn. Of each pair of runs the ratio is taken, so that what else the machine does counts less.
func overhead() {
	const pairs, ns = 7, 5000
	calls := strconv.Itoa(number("BENCH_CALLS", 1000000))
	words := []string{abs("build/targets/mixed"), calls, strconv.Itoa(ns)}
	words = append(words, strconv.FormatFloat(loop(words)[3], 'f', 0, 64))
	recorded := append(append(under(), "--events=alloc,free,launch", "--level=op,kernel"), words...)
	what := [3]string{"processor time of the thread", "processor time of the process", "real time"}
	var ratios [3][]float64
	for range pairs {
		bare, with := loop(words), loop(recorded)
		for i := range what {
			ratios[i] = append(ratios[i], with[i]/bare[i])
		}
	}
	fmt.Printf("  %s calls of %d ns, median and least of %d ratios with and without the tool (target 1.05)\n", calls, ns, pairs)
	for i, name := range what {
		m := median(ratios[i])
		fmt.Printf("  %-30s %.3f %.3f\n", name, m, ratios[i][0])
	}
}

// loop is what mixed says that it took, ns, and how many rounds a call of that time has.
func loop(words []string) (took [4]float64) {
	cmd := exec.Command(words[0], words[1:]...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		fail("%v: %v\n%s", words, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if n, _ := fmt.Sscanf(line, "%f %f %f %f", &took[0], &took[1], &took[2], &took[3]); n == len(took) {
			return took
		}
	}
	fail("%v says %q", words, out)
	return took
}
