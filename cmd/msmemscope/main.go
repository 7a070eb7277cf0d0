// Command msmemscope is the whole program: the command line with the launcher, and, under another name, the collector.
package main

import (
	"fmt"
	"os"

	"memscope/internal/cli"
	"memscope/internal/launch"
	"memscope/internal/session"
)

func main() { os.Exit(run()) }

func run() int {
	if os.Args[0] == session.ProcessName {
		return session.Main()
	}
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintf(os.Stderr, "[msmemscope] Error: the working directory: %v.\n", err)
		return 1
	}
	program := cli.Program{
		Stdout: os.Stdout, Stderr: os.Stderr, Dir: dir, Run: launch.Run, Recover: recoverDump,
	}
	return program.Main(os.Args[1:])
}
