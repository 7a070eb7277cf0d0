// Package query answers questions about dumps: `msmemscope dump QUESTION FILE…`. Each question is one file of this
// package: a struct that collects while rows stream by, a result that is printed as text or as JSON. Blocks are told apart
// by process, device, pool and address, so that a pool's block at the address of the segment that it lies in is no
// surprise.
package query

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"runtime/debug"
	"strings"
)

// Exit statuses.
const (
	statusOK      = 0
	statusFailure = 1
	statusUsage   = 2
)

// question is one sub-command.
type question struct {
	name    string
	args    string // for the usage line
	summary string // one line
	help    string // what the answer says and how it is reckoned
	common  common // the shared options that it has
	// setup registers own flags and returns what answers the question.
	setup func(fs *flag.FlagSet) func(e *env, args []string) (result, error)
}

// common is a set of shared options.
type common int

const (
	byDevice  common = 1 << iota // --device, --pid
	byPool                       // --pool
	byTime                       // --since, --until
	noFilter  common = 0
	allCommon        = byDevice | byPool | byTime
)

// result is an answer: JSON by its fields, text by its method.
type result interface {
	Text(w *report)
}

// failing is a result that makes the command fail although it could be given.
type failing interface{ Failed() bool }

var questions = []*question{
	statsQuestion, checkQuestion, sortQuestion, curveQuestion, peakQuestion, atQuestion, windowQuestion, groupQuestion,
	leakQuestion, trendQuestion, oomQuestion, fragmentationQuestion, segmentsQuestion, kernelsQuestion, convertQuestion,
	compareQuestion, checkLeaksQuestion, inefficientQuestion,
	diagnoseQuestion,
}

func find(name string) *question {
	for _, q := range questions {
		if q.name == name {
			return q
		}
	}
	return nil
}

// Main answers `msmemscope dump ARGS…` and returns the exit status: 0 answered, 1 failed, 2 not understood.
func Main(args []string, stdout, stderr io.Writer) int {
	fail := func(status int, err error) int {
		fmt.Fprintf(stderr, "[msmemscope] Error: %v\n", err)
		return status
	}
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		if len(args) > 1 {
			if q := find(args[1]); q != nil {
				return q.main([]string{"--help"}, stdout, stderr)
			}
		}
		io.WriteString(stdout, overview())
		return statusOK
	}
	// Answers allocate little but what they keep: to collect twice as often costs next to nothing and saves a quarter of the memory.
	debug.SetGCPercent(50)
	q := find(args[0])
	if q == nil {
		return fail(statusUsage, fmt.Errorf("dump: unknown question %q; `msmemscope dump --help` lists them", args[0]))
	}
	return q.main(args[1:], stdout, stderr)
}

func (q *question) main(args []string, stdout, stderr io.Writer) int {
	e := &env{stderr: stderr}
	fs := flag.NewFlagSet(q.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	q.shared(fs, e)
	answer := q.setup(fs)
	words, err := parse(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		io.WriteString(stdout, q.usage(fs))
		return statusOK
	}
	if err != nil {
		if name, unknown := strings.CutPrefix(err.Error(), undefined); unknown {
			err = fmt.Errorf("there is no option --%s", name)
		}
		fmt.Fprintf(stderr, "[msmemscope] Error: dump %s: %v; see `msmemscope dump %s --help`\n", q.name, err, q.name)
		return statusUsage
	}
	res, err := answer(e, words)
	var usage usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "[msmemscope] Error: dump %s: %v; see `msmemscope dump %s --help`\n", q.name, err, q.name)
		return statusUsage
	case err != nil:
		fmt.Fprintf(stderr, "[msmemscope] Error: %v\n", err)
		return statusFailure
	}
	if err := e.print(q.name, res, stdout); err != nil {
		fmt.Fprintf(stderr, "[msmemscope] Error: %v\n", err)
		return statusFailure
	}
	if f, ok := res.(failing); ok && f.Failed() {
		return statusFailure
	}
	return statusOK
}

// usageError is a mistake in the command line that shows after the flags are read.
type usageError struct{ text string }

func (u usageError) Error() string { return u.text }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// undefined is how the flags begin to say that there is no option of a name.
const undefined = "flag provided but not defined: -"

// negative is what the flags say of a word like -500ms, a time from the end.
var negative = regexp.MustCompile("^" + undefined + "[0-9]")

// parse reads flags wherever they stand between the words; behind -- everything is a word.
func parse(fs *flag.FlagSet, args []string) (words []string, err error) {
	for {
		err := fs.Parse(args)
		rest := fs.Args()
		if err != nil && negative.MatchString(err.Error()) {
			words = append(words, args[len(args)-len(rest)-1])
			args = rest
			continue
		}
		if err != nil {
			return nil, err
		}
		if taken := len(args) - len(rest); len(rest) == 0 || taken > 0 && args[taken-1] == "--" {
			return append(words, rest...), nil
		}
		words = append(words, rest[0])
		args = rest[1:]
	}
}

func (e *env) print(name string, res result, w io.Writer) error {
	if res == nil {
		return nil
	}
	if e.json {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			Question string   `json:"question"`
			Files    []string `json:"files"`
			Notes    []string `json:"notes"`
			Result   result   `json:"result"`
		}{name, nonNil(e.files), nonNil(e.notes), res})
	}
	out := &report{w: bufio.NewWriter(w)}
	res.Text(out)
	notes := e.notes
	if out.cut {
		notes = append(notes, more+" stands for more frames; --json has the whole call stacks")
	}
	for i, note := range notes {
		if i == 0 {
			out.line("")
		}
		out.line("note: %s", note)
	}
	return out.w.Flush()
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func overview() string {
	var s strings.Builder
	s.WriteString("usage: msmemscope dump QUESTION [options] FILE...\n\n" +
		"Answers questions about memory dumps: memscope_dump_*.csv or *.db files, or directories that hold them\n(sort, convert, check-leaks and check-inefficient: one dump).\n\n")
	for _, q := range questions {
		fmt.Fprintf(&s, "  %-18s %s\n", q.name, q.summary)
	}
	s.WriteString("\nEvery question has --json and --help.\n")
	return s.String()
}

func (q *question) usage(fs *flag.FlagSet) string {
	var s strings.Builder
	fmt.Fprintf(&s, "usage: msmemscope dump %s [options] %s\n\n%s.\n", q.name, q.args, strings.ToUpper(q.summary[:1])+q.summary[1:])
	if q.help != "" {
		s.WriteString("\n" + strings.TrimSpace(q.help) + "\n")
	}
	s.WriteString("\noptions:\n")
	fs.VisitAll(func(f *flag.Flag) {
		value, text := flag.UnquoteUsage(f)
		if value != "" {
			value = " " + strings.ToUpper(value)
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
			text += " (" + f.DefValue + ")"
		}
		fmt.Fprintf(&s, "  --%-24s %s\n", f.Name+value, text)
	})
	return s.String()
}

// Names are the words of the questions.
func Names() (out []string) {
	for _, q := range questions {
		out = append(out, q.name)
	}
	return out
}
