// Package cli is the command line: it understands the words, shows help, and says what is wrong with them. What the
// options do is not its business; it hands a config.Config on.
package cli

import (
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

// Program is what a command line works with.
type Program struct {
	Stdout, Stderr io.Writer
	Dir            string // working directory, for relative paths

	// Run starts a program under collection and returns the status to exit with.
	Run func(cfg config.Config, program []string) int
	// Recover finishes the dump files of a run that was cut off, in a project directory, and tells on w what it did.
	Recover func(dir string, w io.Writer) error
}

// Main does what the words after the program name ask for and returns the exit status.
func (p *Program) Main(words []string) int {
	if question := dumpQuestion(words); question != nil {
		return question(p, words[2:])
	}
	req, err := parse(words, p.Dir)
	if err != nil {
		return p.usageError(err)
	}
	switch req.action {
	case showHelp:
		return p.print(help())
	case showVersion:
		return p.print(fmt.Sprintf("msmemscope %s\n", version))
	}
	for _, notice := range req.notices {
		p.warn(notice)
	}
	// Said before the work begins, but no reason to refuse it: the report needs no disk.
	if err := output.Check(req.config.OutputPath); err != nil {
		p.fail(fmt.Errorf("%w; the program is run, there will be a report but no dump", err))
	}
	for _, risk := range output.Risks(req.config.OutputPath) {
		p.warn(risk)
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

func (p *Program) usageError(err error) int {
	io.WriteString(p.Stderr, usage)
	p.fail(err)
	return statusUsage
}

func (p *Program) fail(err error) { fmt.Fprintf(p.Stderr, "[msmemscope] Error: %v\n", err) }

func (p *Program) warn(text string) { fmt.Fprintf(p.Stderr, "[msmemscope] Warn: %s\n", text) }

// dumpQuestions are the offline commands: `msmemscope dump QUESTION …`.
var dumpQuestions = map[string]func(*Program, []string) int{
	"recover": (*Program).recover,
}

// dumpQuestion returns the offline command that the words ask for, or nil: `dump` without a question of ours is a
// program of the user's like any other.
func dumpQuestion(words []string) func(*Program, []string) int {
	if len(words) < 2 || words[0] != "dump" {
		return nil
	}
	return dumpQuestions[words[1]]
}

func (p *Program) recover(args []string) int {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) != 1 {
		return p.usageError(fmt.Errorf("dump recover takes one directory, but has %d words", len(args)))
	}
	if err := p.Recover(args[0], p.Stdout); err != nil {
		p.fail(err)
		return statusFailure
	}
	return statusOK
}
