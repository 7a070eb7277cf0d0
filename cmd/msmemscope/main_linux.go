// Command msmemscope is the whole program: the command lines of msmemscope and mssanitizer with the launcher, and, under
// another name, the collector.
package main

import (
	"os"

	"memscope/internal/attach"
	"memscope/internal/cli"
	"memscope/internal/config"
	"memscope/internal/control"
	"memscope/internal/launch"
	"memscope/internal/leakcheck"
	"memscope/internal/query"
	"memscope/internal/sanitizer"
	"memscope/internal/session"
)

func main() { os.Exit(run()) }

func run() int {
	if os.Args[0] == control.ProcessName {
		return session.Main(cli.API, os.Args[1:])
	}
	if len(os.Args) > 1 && os.Args[1] == "--as=mssanitizer" { // from the front script, called by that name
		program := sanitizer.Program{Stdout: os.Stdout, Stderr: os.Stderr, Version: cli.Version(), Run: check}
		return program.Main(os.Args[2:])
	}
	program := cli.Program{
		Stdout: os.Stdout, Stderr: os.Stderr, Dir: os.Getwd, Run: launchProgram, Attach: attach.Run,
		Questions:  cli.Questions{Names: query.Names(), Main: query.Main},
		ServeShell: launch.ServeShell, ReleaseShell: attach.ReleaseShell, Recover: recoverDump,
	}
	return program.Main(os.Args[1:])
}

func launchProgram(cfg config.Config, words []string) int { return launch.Run(cfg, words, launch.Self) }

func check(cfg config.Config, words []string) (int, *leakcheck.Report) {
	return launch.Check(cfg, words, launch.Self)
}
