// Command check lists what MindStudio Insight would refuse, drop or misread in databases: go run ./test/insight/check FILE...
package main

import (
	"fmt"
	"os"

	"memscope/test/insight"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: check memscope_dump_<digits>.db...")
		os.Exit(2)
	}
	bad := false
	for _, path := range os.Args[1:] {
		violations, err := insight.Check(path)
		if err != nil {
			violations = []string{err.Error()}
		}
		for _, v := range violations {
			fmt.Printf("%s: %s\n", path, v)
			bad = true
		}
	}
	if bad {
		os.Exit(1)
	}
}
