//go:build linux

// Command msmemscope-run is the launcher and nothing else, because every run waits for its start: it runs programs, and becomes
// msmemscope.bin, the whole program beside it, for everything else that a command line asks for. The collector is msmemscope.bin.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"memscope/internal/cli"
	"memscope/internal/config"
	"memscope/internal/launch"
)

const failure = 2

func main() { os.Exit(run()) }

func run() int {
	runtime.GOMAXPROCS(1) // threads that look for work would take the time of the program that is run
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	whole := filepath.Join(filepath.Dir(self), "msmemscope.bin")
	// Kept open, so that the collector, which may start much later, is that of this installation, whatever has replaced the file since.
	fd, err := unix.Open(whole, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(fmt.Errorf("%s: %w; the installation is incomplete", whole, err))
	}
	// Seen from a child, too: by the number alone it would be another file there.
	collector := "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(fd)
	program := cli.Program{
		Stdout: os.Stdout, Stderr: os.Stderr, Dir: os.Getwd,
		Run:  func(cfg config.Config, words []string) int { return launch.Run(cfg, words, collector) },
		Else: func() int { return fail(fmt.Errorf("%s: %w", whole, syscall.Exec(whole, os.Args, os.Environ()))) },
	}
	return program.Main(os.Args[1:])
}

func fail(err error) int {
	fmt.Fprintf(os.Stderr, "[msmemscope] Error: %v.\n", err)
	return failure
}
