package cli

import (
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"
)

// option is one long option; a short letter is another name for it.
type option struct {
	name  string
	short byte
	arg   string // what the value is called in the help; empty for a flag
	group group
	help  []string // lines

	// instead names the present spelling of a deprecated one. It works like that, with a note, and is not shown.
	instead string
	set     func(p *parser, value string) error

	internal bool // the front says it, nobody else: it cannot be abbreviated
}

// takesValue tells whether the option has a value; options without arg are flags.
func (o *option) takesValue() bool { return o.arg != "" }

// group is a heading of the help.
type group uint8

const (
	hidden group = iota
	collection
	analysis
	hostHeap
	attaching
	comparison
	inputOutput
	general
	groups
)

var groupTitles = [groups]string{
	collection:  "Collection",
	analysis:    "Analysis",
	hostHeap:    "Host heap, with --analysis=host-leaks",
	attaching:   "A process that runs already, without a program",
	comparison:  "Comparison, without a program",
	inputOutput: "Output",
	general:     "General",
}

// options is every long option, in the order of the help.
var options = []*option{
	{name: "events", arg: "LIST", group: collection, set: (*parser).setEvents, help: []string{
		"what to record: alloc, free, launch, access; none for",
		"nothing (default alloc,free,launch)"}},
	{name: "device", arg: "LIST", group: collection, set: (*parser).setDevice, help: []string{
		"whose memory: npu (all cards), npu:<id> with id 0-31,",
		"cpu (pinned host memory) (default npu)"}},
	{name: "collect-mode", arg: "MODE", group: collection, set: (*parser).setCollectMode, help: []string{
		"immediate, or deferred: only between the calls of",
		"ms_start and ms_stop (msmemscope.h) that the program",
		"makes (default immediate)"}},
	{name: "steps", arg: "LIST", group: collection, set: (*parser).setSteps, help: []string{
		"only what happens in these steps, mstx ranges named",
		"\"step start\" and counted from 1; up to 5 numbers;",
		"the analyses are off then"}},
	{name: "level", arg: "LIST", group: collection, set: (*parser).setLevel, help: []string{
		"which launches: op, kernel (with when they run on the",
		"card), or both (default op); also for --compare"}},
	{name: "call-stack", arg: "LIST", group: collection, set: (*parser).setCallStack, help: []string{
		"call stacks in every row: c, python, each with the",
		"number of frames as c:<n>, 0-1000 (default 50)"}},
	{name: "pools", arg: "LIST", group: collection, set: (*parser).setPools, help: []string{
		"names of mstx domains by which allocators of your own",
		"report their blocks (msmemscope.h); up to 10"}},
	{name: "analysis", arg: "LIST", group: analysis, set: (*parser).setAnalysis, help: []string{
		"leaks: memory that outlives its step; decompose: what",
		"memory is for, as owner in MALLOC rows; inefficient: what",
		"is allocated too early, freed too late or left idle, as",
		"inefficient_type there; oom[:K]: when a card runs out of",
		"memory, the K youngest and largest blocks (1 to 1000,",
		"default 10); exec:PROGRAM: a program of your own, which",
		"gets the events as lines of JSON on its standard input and",
		"prints its part of the report; host-leaks: the host heap",
		"instead of the cards, alone; none (default leaks). With",
		"decompose and inefficient, rows wait until the blocks",
		"before are freed"}},
	{name: "watch", arg: "RANGE", group: analysis, set: (*parser).setWatch, help: []string{
		"[START[:N],]END[,full-content]: from operator START on its",
		"outputs, or the one of number N, are dumped around every",
		"operator, up to END; a checksum of each, or its contents,",
		"in watch_dump of the output path"}},
	{name: "host-leak-mode", arg: "MODE", group: hostHeap, set: (*parser).setHostLeakMode, help: []string{
		"summary, or event: also a list of all unfreed blocks",
		"(default summary)"}},
	{name: "block-size-threshold", arg: "BYTES", group: hostHeap, set: (*parser).setBlockThreshold, help: []string{
		"track blocks of this size and up (default 0: all)"}},
	{name: "sample-rate", arg: "N", group: hostHeap, set: (*parser).setSampleRate, help: []string{
		"track one block in N, a power of two; others are",
		"rounded up, at most 2^30 (default 1: all)"}},
	{name: "pid", arg: "PID", group: attaching, set: (*parser).setPID, help: []string{
		"control a process that runs with our libraries: a",
		"prompt for start, stop, display host_leak summary,",
		"display status, flush, quit"}},
	{name: "command", arg: "WORDS", group: attaching, set: (*parser).setCommand, help: []string{
		"only this command, without a prompt"}},
	{name: "compare", group: comparison, set: (*parser).setCompare, help: []string{
		"tell how the memory of two dumps differs, launch by",
		"launch; runs no program, needs --input-path"}},
	{name: "input-path", short: 'i', arg: "A,B", group: comparison, set: (*parser).setInputPath, help: []string{
		"the two dumps, each a file or a directory"}},
	{name: "format", arg: "FORMAT", group: inputOutput, set: (*parser).setFormat, help: []string{
		"form of the dump: csv, or db for MindStudio Insight", "(default csv)"}},
	{name: "output-path", short: 'o', arg: "DIR", group: inputOutput, set: (*parser).setOutputPath, help: []string{
		"where the output tree goes; made when missing; ~/ in",
		"front is $HOME (default ./memscopeDumpResults)"}},
	{name: "log-level", arg: "LEVEL", group: inputOutput, set: (*parser).setLogLevel, help: []string{
		"debug, info, warning, error (default info);",
		"beats the three shortcuts below"}},
	{name: "verbose", short: 'v', group: inputOutput, set: (*parser).setVerbose, help: []string{
		"the same as --log-level=debug"}},
	{name: "debug", group: inputOutput, set: (*parser).setVerbose, help: []string{
		"the same as --log-level=debug"}},
	{name: "quiet", short: 'q', group: inputOutput, set: (*parser).setQuiet, help: []string{
		"the same as --log-level=error"}},
	{name: "help", short: 'h', group: general, set: (*parser).setHelp, help: []string{
		"show this text"}},
	{name: "completion", arg: "SHELL", group: general, set: (*parser).setCompletion, help: []string{
		"print a script that completes our options in bash, zsh",
		"or fish: source <(msmemscope --completion=bash)"}},
	{name: "version", short: 'V', group: general, set: (*parser).setVersion, help: []string{
		"show name and version"}},

	{name: "output", arg: "DIR", instead: "output-path", set: (*parser).setOutputPath},
	{name: "input", arg: "A,B", instead: "input-path", set: (*parser).setInputPath},
	{name: "data-format", arg: "FORMAT", instead: "format", set: (*parser).setFormat},

	{name: "load-api-env", set: sourcedOnly("load-api-env")},
	{name: "unload-api-env", set: sourcedOnly("unload-api-env")},
	// What the front does for --load-api-env=host and after it.
	{name: "serve-shell", arg: "PID", set: (*parser).setServeShell, internal: true},
	{name: "release-shell", arg: "SESSION", set: (*parser).setReleaseShell, internal: true},
}

// sourcedOnly is for the sub-commands that the shell front answers when it is sourced with them in first place.
func sourcedOnly(name string) func(*parser, string) error {
	return func(*parser, string) error {
		return fmt.Errorf("--%s works only when sourced and in first place: source msmemscope --%s", name, name)
	}
}

// findExact returns the long option of that name, or nil.
func findExact(name string) *option {
	for _, o := range options {
		if o.name == name {
			return o
		}
	}
	return nil
}

// findLong returns the long option that name is, or is the only one to begin with.
func findLong(name string) (*option, error) {
	if o := findExact(name); o != nil {
		return o, nil
	}
	var found *option
	var names []string
	for _, o := range options {
		if strings.HasPrefix(o.name, name) && !o.internal {
			found = o
			names = append(names, "--"+o.name)
		}
	}
	switch len(names) {
	case 0:
		return nil, fmt.Errorf("--%s is not an option; --help shows all", shown(name))
	case 1:
		return found, nil
	}
	sort.Strings(names)
	return nil, fmt.Errorf("--%s is ambiguous: %s", name, strings.Join(names, ", "))
}

// findShort returns the option of the letter that begins letters.
func findShort(letters string) (*option, error) {
	for _, o := range options {
		if o.short != 0 && o.short == letters[0] {
			return o, nil
		}
	}
	_, size := utf8.DecodeRuneInString(letters)
	return nil, fmt.Errorf("-%s is not an option; --help shows all", shown(letters[:size]))
}
