// Package cli is the command line: it understands the words, shows help, and says what is wrong with them. What the
// options do is not its business; it hands a config.Config on.
package cli

import (
	"errors"
	"fmt"
	"io"

	"memscope/internal/config"
	"memscope/internal/output"
)

// Exit statuses of our own (contract 1.3); a launched program's status is passed on as it is.
const (
	statusOK      = 0
	statusFailure = 1
	statusUsage   = 2
)

// version is set by the linker from the file VERSION.
var version = "unversioned"

// Version is that of the whole program.
func Version() string { return version }

// Program is what a command line works with.
type Program struct {
	Stdout, Stderr io.Writer
	Dir            func() (string, error) // tells the working directory, for a relative output path

	// Run starts a program under collection and returns the status to exit with.
	Run func(cfg config.Config, program []string) int
	// Else does whatever is not a run, and then what follows here is not used; nil: this program does it.
	Else func() int
	// Questions are those of `dump`.
	Questions Questions
	// Attach controls a process: one command, or a prompt when that is nil. It returns the status to exit with.
	Attach func(pid int, command *string) int
	// ServeShell starts a collector for what is started from a shell, a process id, and prints its session; ReleaseShell ends it.
	ServeShell   func(pid int) int
	ReleaseShell func(session string) int
	// Recover finishes the dump files of a run that was cut off, in a project directory, and tells on w what it did; force: also where rows
	// that are on disk are lost by it.
	Recover func(dir string, force bool, w io.Writer) error
}

// Questions is what the command line has to know of package query. It does not import that, because the launcher starts faster without.
type Questions struct {
	Names []string
	Main  func(words []string, stdout, stderr io.Writer) int
}

// Main does what the words after the program name ask for and returns the exit status.
func (p *Program) Main(words []string) int {
	req, err := parse(words, p.Dir)
	if noDir := (*noDirectoryError)(nil); errors.As(err, &noDir) {
		p.fail(err)
		return statusFailure
	}
	if err != nil {
		return p.usageError(usage, err)
	}
	if req.action != run && p.Else != nil {
		return p.Else()
	}
	switch req.action {
	case showHelp:
		return p.print(help())
	case showCompletion:
		return p.print(completion(req.text, p.Questions.Names))
	case showVersion:
		return p.print(fmt.Sprintf("msmemscope %s\n", version))
	case serveShell:
		return p.ServeShell(req.pid)
	case releaseShell:
		return p.ReleaseShell(req.text)
	case askDump:
		return p.dump(req.program)
	}
	for _, notice := range req.notices {
		p.warn(notice)
	}
	if req.action == attach {
		return p.Attach(req.pid, req.command)
	}
	outputErr := output.Check(req.config.OutputPath)
	if req.action == compareDumps && outputErr != nil {
		p.fail(outputErr)
		return statusFailure
	}
	// Said before the work begins, but no reason to refuse it: the report needs no disk.
	if outputErr != nil {
		p.fail(fmt.Errorf("%w; the program is run, there will be a report but no dump", outputErr))
	}
	for _, risk := range output.Risks(req.config.OutputPath) {
		p.warn(risk)
	}
	if req.action == compareDumps {
		return p.compare(req)
	}
	return p.Run(req.config, req.program)
}

// print writes text that was asked for; a failure to write it (a full disk behind a redirection) is told by the status.
func (p *Program) print(text string) int {
	if _, err := io.WriteString(p.Stdout, text); err != nil {
		p.fail(err)
		return statusFailure
	}
	return statusOK
}

func (p *Program) usageError(usage string, err error) int {
	io.WriteString(p.Stderr, usage)
	p.fail(err)
	return statusUsage
}

func (p *Program) fail(err error) { fmt.Fprintf(p.Stderr, "[msmemscope] Error: %v\n", err) }

func (p *Program) warn(text string) { fmt.Fprintf(p.Stderr, "[msmemscope] Warn: %s\n", text) }
