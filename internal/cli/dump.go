package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"memscope/internal/config"
	"memscope/internal/query"
)

// dumpUsage precedes an error about the words after dump.
const dumpUsage = `Usage: msmemscope dump <question> [options] <file or directory>...
       msmemscope dump recover <directory>
       msmemscope dump --help shows all questions.
`

// dumpTail follows the questions in the help of dump: recover is no question, it changes files.
const dumpTail = `
  recover DIRECTORY  finish the dump of a run that was cut off, see dump recover --help

A program of yours that is called dump is run as ./dump, or after --.
`

const recoverHelp = `Usage: msmemscope dump recover <directory>

Finishes the CSV files of a run whose collector was killed, whose machine was switched off or
whose disk was full, from what it had recorded (the directory spool). The directory is a
msmemscope_<pid>_<time>_ascend directory, or an output directory: then all those in it are
finished. A run that is still being recorded is left alone. Can be interrupted and run again.

Exit status: 0 when everything is complete, 1 when something could not be finished.
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
		query.Main([]string{"--help"}, &questions, p.Stderr)
		return p.print(questions.String() + dumpTail)
	case word == "recover":
		return p.recover(words[1:])
	case query.Known(word):
		return query.Main(words, p.Stdout, p.Stderr)
	default:
		return p.usageError(dumpUsage, fmt.Errorf("dump does not know the question %q", shown(word)))
	}
}

func (p *Program) recover(words []string) int {
	switch {
	case len(words) > 0 && (words[0] == "--help" || words[0] == "-h"):
		return p.print(recoverHelp)
	case len(words) > 0 && words[0] == "--":
		words = words[1:]
	case len(words) > 0 && strings.HasPrefix(words[0], "-"):
		return p.usageError(dumpUsage, fmt.Errorf("dump recover has no option %s; put -- before a directory of that name", shown(words[0])))
	}
	if len(words) != 1 {
		return p.usageError(dumpUsage, fmt.Errorf("dump recover takes one directory, but has %d words", len(words)))
	}
	if err := p.Recover(words[0], p.Stdout); err != nil {
		p.fail(err)
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
	status := query.Main([]string{"compare", "--level=" + strings.Join(levels, ","), "--output-path=" + req.config.OutputPath,
		"--", req.inputs[0], req.inputs[1]}, p.Stdout, p.Stderr)
	if status != statusOK {
		fmt.Fprintln(p.Stderr, "[msmemscope] ERROR: Memory comparison failed!")
		return statusFailure
	}
	return statusOK
}
