package cli

import (
	"fmt"
	"strconv"
	"strings"

	"memscope/internal/config"
	"memscope/internal/output"
)

// action is what a command line asks for.
type action uint8

const (
	run action = iota
	showHelp
	showVersion
)

// maxValue is the length in bytes that a value may have.
const maxValue = 4096

// request is a command line, understood.
type request struct {
	action  action
	config  config.Config // derived; only for run
	program []string      // the program and its arguments, untouched and in order; only for run
	notices []string      // lines for the user, without prefix
}

// parser is the state of one scan.
type parser struct {
	req request

	events     config.Events // as typed
	outputPath string        // as typed
	logLevel   *config.LogLevel
	verbose    bool
	quiet      bool
}

// parse understands a command line (contract 1.1): options before the program are ours; after the program only words
// --name=value with an exact name of ours; after -- none. It stops at help and version. An error is one line that
// names the word.
//
// dir is the working directory, for a relative output path.
func parse(words []string, dir string) (*request, error) {
	p := &parser{req: request{config: config.Default()}, events: config.Default().DumpEvents, outputPath: defaultOutput}
	rest, err := p.options(words)
	if err != nil {
		return nil, err
	}
	if p.req.action != run {
		return &p.req, nil
	}
	if err := p.programWords(rest); err != nil {
		return nil, err
	}
	if len(p.req.program) == 0 {
		return nil, fmt.Errorf("there is no program to run")
	}
	p.derive()
	path, err := output.Resolve(p.outputPath, dir)
	if err != nil {
		return nil, fmt.Errorf("--output-path: %w", err)
	}
	p.req.config.OutputPath = path
	return &p.req, nil
}

// options takes the options before the program and returns the words from there on, with -- where it stands.
func (p *parser) options(words []string) ([]string, error) {
	for len(words) > 0 && p.req.action == run {
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
	case !hasValue && o.takesValue() && !o.later:
		if len(words) == 0 {
			return nil, fmt.Errorf("--%s needs a value", o.name)
		}
		value, words = words[0], words[1:]
	}
	return words, p.apply(o, value)
}

// short takes a word of short options; the rest of the word, or the next word, is the value of one that needs it.
func (p *parser) short(letters string, words []string) ([]string, error) {
	for i := 0; i < len(letters) && p.req.action == run; i++ {
		o, err := findShort(letters[i:])
		if err != nil {
			return nil, err
		}
		if !o.takesValue() || o.later {
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
		if err := p.apply(o, value); err != nil {
			return fmt.Errorf("%w (put -- before the program to pass %s to it)", err, shown(word))
		}
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
	if o.later {
		return fmt.Errorf("--%s is not in this version yet", o.name)
	}
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
