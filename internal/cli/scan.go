package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"memscope/internal/config"
	"memscope/internal/output"
)

// action is what a command line asks for.
type action uint8

const (
	run action = iota
	compareDumps
	askDump
	attach
	showHelp
	serveShell
	releaseShell
	showVersion
	showCompletion
)

// maxValue is the length in bytes that a value may have.
const maxValue = 4096

// request is a command line, understood.
type request struct {
	action  action
	config  config.Config // derived; for run and compareDumps
	program []string      // for run: the program and its arguments, untouched and in order; for askDump: the words after dump
	inputs  []string      // for compareDumps
	text    string        // for showCompletion: the shell; for releaseShell: the session
	pid     int           // for attach and serveShell
	command *string       // for attach: nil for a prompt
	notices []string      // lines for the user, without prefix
}

// parser is the state of one scan.
type parser struct {
	req request

	events     config.Events // as typed
	outputPath string        // as typed
	programs   []string      // that analyse, as typed
	logLevel   *config.LogLevel
	analyses   bool // --analysis was given
	verbose    bool
	quiet      bool
	host       []string // options of the host heap that were given
	behind     []string // words behind the program that were taken
}

// noDirectoryError says that a path is relative and the working directory cannot be named, mostly because it is gone.
type noDirectoryError struct {
	path  string
	cause error
}

func (e *noDirectoryError) Error() string {
	cause := e.cause.Error()
	if errors.Is(e.cause, fs.ErrNotExist) {
		cause = "it has been deleted"
	}
	return fmt.Sprintf("the output path %q is relative, and the working directory cannot be used: %s; an absolute --output-path works",
		e.path, cause)
}

// parse understands a command line (contract 1.1): options before the program are ours; after the program only words
// --name=value with an exact name of ours; after -- none. It stops at help and version. The word dump in the place of
// the program is ours. An error is one line that names the word.
//
// dir tells the working directory, for a relative output path; it is not asked for an absolute one.
func parse(words []string, dir func() (string, error)) (*request, error) {
	p := &parser{req: request{config: config.Default()}, events: config.Default().DumpEvents, outputPath: defaultOutput}
	rest, err := p.options(words)
	if err != nil {
		return nil, err
	}
	if p.req.action >= showHelp {
		return &p.req, nil
	}
	if len(rest) > 0 && rest[0] == "dump" {
		if len(rest) < len(words) {
			return nil, errors.New("dump stands in first place, its options come after it; put -- before a program that is called dump")
		}
		p.req.action, p.req.program = askDump, rest[1:]
		return &p.req, nil
	}
	if err := p.pairing(); err != nil {
		return nil, err
	}
	if err := p.programWords(rest); err != nil {
		return nil, err
	}
	if err := cmp.Or(p.pairHost(), p.pairProgram()); err != nil {
		return nil, p.meant(err, p.behind...)
	}
	if p.req.action == attach {
		return &p.req, nil
	}
	p.derive()
	if err := p.resolveOutput(dir); err != nil {
		return nil, err
	}
	if err := p.resolvePrograms(dir); err != nil {
		return nil, err
	}
	return &p.req, nil
}

// pairing refuses options that do not go together.
func (p *parser) pairing() error {
	level := p.req.config.Level
	if p.req.action != compareDumps {
		if len(p.req.inputs) > 0 && p.req.pid == 0 {
			return errors.New("--input-path works only with --compare")
		}
		return nil
	}
	switch {
	case len(p.req.inputs) != 2:
		return fmt.Errorf("--compare takes two dumps, but --input-path names %d; accepted: --compare --input-path=A,B", len(p.req.inputs))
	case level == 0:
		return errors.New("--level names no level; --compare takes op, kernel, or both")
	}
	return nil
}

// pairProgram refuses a program where none is run, and none where one is.
func (p *parser) pairProgram() error {
	switch program := p.req.program; {
	case p.req.action == attach && len(program) > 0:
		return fmt.Errorf("--pid runs no program, but there is %q", shown(program[0]))
	case p.req.action == compareDumps && len(program) > 0:
		return fmt.Errorf("--compare runs no program, but there is %q", shown(program[0]))
	case p.req.action == run && len(program) == 0:
		return errors.New("there is no program to run")
	}
	return nil
}

// meant adds to an error how words behind the program reach it: a program may have options that are called as ours.
func (p *parser) meant(err error, words ...string) error {
	if len(words) == 0 {
		return err
	}
	return fmt.Errorf("%w (put -- before the program to pass %s to it)", err, shown(strings.Join(words, " ")))
}

// resolveOutput makes the output path absolute.
func (p *parser) resolveOutput(dir func() (string, error)) error {
	path, err := expandHome(p.outputPath)
	if err != nil {
		return fmt.Errorf("--output-path: %w", err)
	}
	cwd := "/" // not used
	if !filepath.IsAbs(path) {
		var dirErr error
		if cwd, dirErr = dir(); dirErr != nil {
			return &noDirectoryError{shown(path), dirErr}
		}
	}
	if p.req.config.OutputPath, err = output.Resolve(path, cwd); err != nil {
		return fmt.Errorf("--output-path: %w", err)
	}
	return nil
}

// resolvePrograms makes the paths of analysing programs absolute and looks whether they are programs.
func (p *parser) resolvePrograms(dir func() (string, error)) error {
	for _, program := range p.programs {
		path, err := expandHome(program)
		if err == nil && !filepath.IsAbs(path) {
			var cwd string
			if cwd, err = dir(); err == nil {
				path = filepath.Join(cwd, path)
			}
		}
		var info fs.FileInfo
		if err == nil {
			info, err = os.Stat(path)
		}
		switch {
		case err != nil:
			var pe *fs.PathError
			if errors.As(err, &pe) {
				err = pe.Err
			}
		case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
			err = errors.New("it cannot be executed")
		}
		if err != nil {
			return fmt.Errorf("--analysis=exec:%s: %w; accepted: exec: and the path of a program, without arguments", shown(program), err)
		}
		p.req.config.Programs = append(p.req.config.Programs, filepath.Clean(path))
	}
	return nil
}

// options takes the options before the program and returns the words from there on, with -- where it stands.
func (p *parser) options(words []string) ([]string, error) {
	for len(words) > 0 && p.req.action < showHelp {
		word := words[0]
		if word == "--" || len(word) < 2 || word[0] != '-' {
			break
		}
		var err error
		if strings.HasPrefix(word, "--") {
			words, err = p.long(word[2:], words[1:])
		} else {
			words, err = p.short(word[1:], words[1:])
		}
		if err != nil {
			return nil, err
		}
	}
	return words, nil
}

// long takes one long option, with its value from the next word where it needs one, and returns the words left.
func (p *parser) long(text string, words []string) ([]string, error) {
	name, value, hasValue := strings.Cut(text, "=")
	o, err := findLong(name)
	if err != nil {
		return nil, err
	}
	switch {
	case hasValue && !o.takesValue() && o.group != hidden:
		return nil, fmt.Errorf("--%s takes no value, but has %q", o.name, shown(value))
	case !hasValue && o.takesValue():
		if len(words) == 0 {
			return nil, fmt.Errorf("--%s needs a value", o.name)
		}
		value, words = words[0], words[1:]
	}
	return words, p.apply(o, value)
}

// short takes a word of short options; the rest of the word, or the next word, is the value of one that needs it.
func (p *parser) short(letters string, words []string) ([]string, error) {
	for i := 0; i < len(letters) && p.req.action < showHelp; i++ {
		o, err := findShort(letters[i:])
		if err != nil {
			return nil, err
		}
		if !o.takesValue() {
			if err := p.apply(o, ""); err != nil {
				return nil, err
			}
			continue
		}
		value := letters[i+1:]
		if value == "" {
			if len(words) == 0 {
				return nil, fmt.Errorf("-%c needs a value", letters[i])
			}
			value, words = words[0], words[1:]
		}
		return words, p.apply(o, value)
	}
	return words, nil
}

// programWords takes the program and its arguments. `--analysis=leaks` after the program is still ours, as the
// documentation writes it so; other forms, abbreviations and short options belong to the program.
func (p *parser) programWords(words []string) error {
	if len(words) > 0 && words[0] == "--" {
		p.req.program = words[1:]
		return nil
	}
	for i, word := range words {
		if word == "--" {
			p.req.program = append(p.req.program, words[i:]...)
			return nil
		}
		o, value := ours(word)
		if i == 0 || o == nil {
			p.req.program = append(p.req.program, word)
			continue
		}
		err := p.apply(o, value)
		if err == nil {
			err = p.pairing()
		}
		if err != nil {
			return p.meant(err, word)
		}
		p.behind = append(p.behind, word)
		p.notice("%s is taken as an option of msmemscope; put -- before the program to pass it on", shown(word))
	}
	return nil
}

// ours returns the option and the value when word is --name=value with the exact name of an option that takes one.
func ours(word string) (*option, string) {
	text, long := strings.CutPrefix(word, "--")
	name, value, hasValue := strings.Cut(text, "=")
	if !long || !hasValue {
		return nil, ""
	}
	o := findExact(name)
	if o == nil || !o.takesValue() {
		return nil, ""
	}
	return o, value
}

// apply sets one option.
func (p *parser) apply(o *option, value string) error {
	if len(value) > maxValue {
		return fmt.Errorf("--%s has a value of %d bytes; at most %d are accepted", o.name, len(value), maxValue)
	}
	if o.instead != "" {
		p.deprecate("--"+o.name, "--"+o.instead)
	}
	return o.set(p, value)
}

func (p *parser) notice(format string, args ...any) {
	p.req.notices = append(p.req.notices, fmt.Sprintf(format, args...))
}

func (p *parser) deprecate(old, present string) {
	p.notice("%s is deprecated, please write %s", old, present)
}

// shown is a word of the user for a message: cut to a length that leaves the message a line, and without characters
// that would break the line or drive the terminal.
func shown(word string) string {
	const most = 80
	cut := word
	if len(cut) > most {
		cut = strings.ToValidUTF8(cut[:most], "") + "..."
	}
	quoted := strconv.Quote(cut)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
