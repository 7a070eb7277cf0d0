// Command names writes the operators of two dumps as text files, one name a line, and says how long the comparison itself
// takes with the names in memory, on the clock and on the CPU.
//
//	names BASE.csv OTHER.csv BASE.txt OTHER.txt
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"memscope/internal/compare"
	"memscope/internal/dump/read"
)

func main() {
	if len(os.Args) != 5 {
		fatal("four files are expected")
	}
	names := &compare.Names{}
	var sides [2]*compare.Side
	for i, path := range os.Args[1:3] {
		rd := compare.NewReader(compare.Op, names, read.NoPool)
		if _, err := read.CSV(path, read.Options{Want: compare.Wants}, func(b *read.Batch) error { return rd.Visit(path, b) }); err != nil {
			fatal(err)
		}
		var err error
		if sides[i], err = rd.Side(); err != nil {
			fatal(err)
		}
		if err := list(os.Args[3+i], sides[i].Lists[0], names); err != nil {
			fatal(err)
		}
	}
	runtime.GC() // what was read is no part of it
	begun, used := time.Now(), cpu()
	c, err := compare.Compare(sides[0], sides[1], names, compare.Limits{}, func(string) {})
	took, used := time.Since(begun), cpu()-used
	if err != nil {
		fatal(err)
	}
	edits := 0
	for _, m := range c.Devices[0].Script {
		if m != compare.Match {
			edits++
		}
	}
	fmt.Printf("  comparison alone     %.3f s, %.3f s of CPU: %d and %d launches, %d edits\n", took.Seconds(), used.Seconds(), len(sides[0].Lists[0]), len(sides[1].Lists[0]), edits)
}

// cpu is the CPU time of this process so far.
func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func list(path string, elements []compare.Element, names *compare.Names) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for _, e := range elements {
		fmt.Fprintln(w, names.All[e.Name])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

func fatal(v any) {
	fmt.Fprintln(os.Stderr, "names:", v)
	os.Exit(1)
}
