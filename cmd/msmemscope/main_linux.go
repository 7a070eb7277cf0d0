// Command msmemscope is the whole program: the command line with the launcher, and, under other names, the collector and
// mssanitizer.
package main

import (
	"os"
	"path/filepath"
	"strings"

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
	if strings.HasPrefix(filepath.Base(os.Args[0]), "mssanitizer") {
		program := sanitizer.Program{Stdout: os.Stdout, Stderr: os.Stderr, Version: cli.Version(), Run: launch.Check}
		return program.Main(os.Args[1:])
	}
	program := cli.Program{
		Stdout: os.Stdout, Stderr: os.Stderr, Dir: os.Getwd, Run: launch.Run, Attach: attach.Run,
		ServeShell: launch.ServeShell, ReleaseShell: launch.ReleaseShell, Recover: recoverDump,
	}
	return program.Main(os.Args[1:])
}
