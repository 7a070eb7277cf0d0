// Command msmemscope is the whole program: the command line with the launcher, and, under another name, the collector.
package main

import (
	"os"

	"memscope/internal/cli"
	"memscope/internal/launch"
	"memscope/internal/session"
)

func main() { os.Exit(run()) }

func run() int {
	if os.Args[0] == session.ProcessName {
		return session.Main(cli.API, os.Args[1:])
	}
	program := cli.Program{
		Stdout: os.Stdout, Stderr: os.Stderr, Dir: os.Getwd, Run: launch.Run, Recover: recoverDump,
	}
	return program.Main(os.Args[1:])
}
