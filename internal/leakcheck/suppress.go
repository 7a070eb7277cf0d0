package leakcheck

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Rules say which leaks are not told.
type Rules struct{ rules []rule }

type rule struct {
	kind    string // file, function or line
	pattern string // of the file or function
	line    int
}

// Parse reads suppressions, one a line: `file:PATTERN`, `line:PATTERN:NUMBER` or `function:PATTERN`. In a pattern * stands for any
// characters. That of a file is for the whole path or for what follows a slash in it; file and line are the place that the report tells,
// a function may be anywhere in the stack, and its pattern is for the name with or without what is in parentheses. Empty lines and those
// that begin with # say nothing. An error names the line.
func Parse(lines []string) (Rules, error) {
	var r Rules
	for i, text := range lines {
		text = strings.TrimSpace(text)
		if text == "" || text[0] == '#' {
			continue
		}
		one, err := parse(text)
		if err != nil {
			return Rules{}, fmt.Errorf("line %d, %.80q: %w", i+1, text, err)
		}
		r.rules = append(r.rules, one)
	}
	return r, nil
}

func parse(text string) (rule, error) {
	kind, pattern, _ := strings.Cut(text, ":")
	r := rule{kind: kind, pattern: strings.TrimSpace(pattern)}
	switch {
	case kind != "file" && kind != "function" && kind != "line" || r.pattern == "":
		return r, fmt.Errorf("accepted: file:PATTERN, line:PATTERN:NUMBER, function:PATTERN")
	case kind == "line":
		at := strings.LastIndexByte(r.pattern, ':')
		n, err := strconv.Atoi(r.pattern[at+1:])
		if at <= 0 || err != nil || n < 1 {
			return r, fmt.Errorf("a line is a file and a number from 1, as in line:main.cpp:55")
		}
		r.pattern, r.line = r.pattern[:at], n
	}
	return r, nil
}

// Match says whether blocks from o are not to be told.
func (r Rules) Match(o *Origin) bool {
	for i := range r.rules {
		if r.rules[i].match(o) {
			return true
		}
	}
	return false
}

func (r *rule) match(o *Origin) bool {
	if r.kind != "function" {
		return o.File != "" && (r.line == 0 || r.line == o.Line) && matchFile(r.pattern, o.File)
	}
	for _, f := range o.Functions {
		name, _, _ := strings.Cut(f, "(")
		if glob(r.pattern, f) || glob(r.pattern, name) {
			return true
		}
	}
	return false
}

func matchFile(pattern, file string) bool {
	for rest := path.Clean(file); ; {
		if glob(pattern, rest) {
			return true
		}
		slash := strings.IndexByte(rest, '/')
		if slash < 0 {
			return false
		}
		rest = rest[slash+1:]
	}
}

// glob matches the whole text; * stands for any characters.
func glob(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return text == pattern
	}
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return strings.HasSuffix(text, last)
}
