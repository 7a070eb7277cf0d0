// Command msmemscope is the whole program: the command lines of msmemscope and mssanitizer with the launcher, and, under
// another name, the collector.
package main

import (
	"os"

	"memscope/internal/attach"
	"memscope/internal/cli"
	"memscope/internal/launch"
	"memscope/internal/sanitizer"
	"memscope/internal/session"
)

func main() { os.Exit(run()) }

func run() int {
	if os.Args[0] == session.ProcessName {
		return session.Main(cli.API, os.Args[1:])
	}
	if len(os.Args) > 1 && os.Args[1] == "--as=mssanitizer" { // from the front script, called by that name
		program := sanitizer.Program{Stdout: os.Stdout, Stderr: os.Stderr, Version: cli.Version(), Run: launch.Check}
		return program.Main(os.Args[2:])
	}
	program := cli.Program{
		Stdout: os.Stdout, Stderr: os.Stderr, Dir: os.Getwd, Run: launch.Run, Attach: attach.Run,
		ServeShell: launch.ServeShell, ReleaseShell: launch.ReleaseShell, Recover: recoverDump,
	}
	return program.Main(os.Args[1:])
}
