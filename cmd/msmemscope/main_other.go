//go:build !linux

// Command msmemscope answers questions about dumps; recording them is for Linux, where the cards are.
package main

import (
	"fmt"
	"os"

	"memscope/internal/query"
)

func main() { os.Exit(run()) }

func run() int {
	if len(os.Args) > 1 && os.Args[1] == "dump" {
		return query.Main(os.Args[2:], os.Stdout, os.Stderr)
	}
	fmt.Fprintln(os.Stderr, "[msmemscope] Error: on this system msmemscope only answers questions about dumps: `msmemscope dump --help`; it records on Linux")
	return 2
}
