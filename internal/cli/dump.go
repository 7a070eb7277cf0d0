package cli

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"memscope/internal/config"
)

// dumpUsage precedes an error about the words after dump.
const dumpUsage = `Usage: msmemscope dump <question> [options] <file or directory>...
       msmemscope dump recover [--force] <directory>
       msmemscope dump --help shows all questions.
`

// dumpTail follows the questions in the help of dump: recover is no question, it changes files.
const dumpTail = `
  recover DIRECTORY  finish the dump of a run that was cut off, see dump recover --help

A program of yours that is called dump is run as ./dump, or after --.
`

const recoverHelp = `Usage: msmemscope dump recover [--force] <directory>

Finishes the CSV files of a run whose collector was killed, whose machine was switched off or
whose disk was full, from what it had recorded (the directory spool). The directory is a
msmemscope_<pid>_<time>_ascend directory, or an output directory: then all those in it are
finished. A run that is still being recorded is left alone. Can be interrupted and run again.

Where spool does not hold every row that would be written again, as after a loss of power, nothing
is changed and the line says what is wrong.

  --force  goes on all the same: cuts the files back to where they were last known to be right, and
           writes what spool still holds; rows that it does not hold any more are lost

Exit status: 0 when everything is complete, 1 when something is missing.
`

// dump answers the words after dump: questions about dumps, and recover.
func (p *Program) dump(words []string) int {
	if len(words) == 0 {
		return p.usageError(dumpUsage, errors.New("dump needs a question"))
	}
	switch word := words[0]; {
	case word == "help" && len(words) > 1:
		return p.dump([]string{words[1], "--help"})
	case word == "help" || word == "--help" || word == "-h":
		var questions bytes.Buffer
		p.Questions.Main([]string{"--help"}, &questions, p.Stderr)
		return p.print(questions.String() + dumpTail)
	case word == "recover":
		return p.recover(words[1:])
	case slices.Contains(p.Questions.Names, word):
		return p.Questions.Main(words, p.Stdout, p.Stderr)
	default:
		return p.usageError(dumpUsage, fmt.Errorf("dump does not know the question %q", shown(word)))
	}
}

func (p *Program) recover(words []string) int {
	force := false
	switch {
	case len(words) > 0 && (words[0] == "--help" || words[0] == "-h"):
		return p.print(recoverHelp)
	case len(words) > 0 && words[0] == "--force":
		force, words = true, words[1:]
	}
	switch {
	case len(words) > 0 && words[0] == "--":
		words = words[1:]
	case len(words) > 0 && strings.HasPrefix(words[0], "-"):
		return p.usageError(dumpUsage, fmt.Errorf("dump recover has no option %s; put -- before a directory of that name", shown(words[0])))
	}
	if len(words) != 1 {
		return p.usageError(dumpUsage, fmt.Errorf("dump recover takes one directory, but has %d words", len(words)))
	}
	if err := p.Recover(words[0], force, p.Stdout); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") { // one for each dump
			p.fail(errors.New(line))
		}
		return statusFailure
	}
	return statusOK
}

// compare is --compare: the question compare in the words of the documentation.
func (p *Program) compare(req *request) int {
	var levels []string
	if req.config.Level&config.LevelOp != 0 {
		levels = append(levels, "op")
	}
	if req.config.Level&config.LevelKernel != 0 {
		levels = append(levels, "kernel")
	}
	status := p.Questions.Main([]string{"compare", "--level=" + strings.Join(levels, ","), "--output-path=" + req.config.OutputPath,
		"--", req.inputs[0], req.inputs[1]}, p.Stdout, p.Stderr)
	if status != statusOK {
		fmt.Fprintln(p.Stderr, "[msmemscope] ERROR: Memory comparison failed!")
		return statusFailure
	}
	return statusOK
}
