// Command dump is `msmemscope dump` alone, for benchmarks.
package main

import (
	"os"

	"memscope/internal/query"
)

func main() { os.Exit(query.Main(os.Args[1:], os.Stdout, os.Stderr)) }
