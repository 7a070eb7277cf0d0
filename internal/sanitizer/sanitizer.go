// Package sanitizer is the command line of mssanitizer: the leak check of seed 001 on top of the launcher, the collector and the ledger
// of msmemscope.
package sanitizer

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"memscope/internal/config"
	"memscope/internal/leakcheck"
)

const (
	statusFailure = 1
	statusUsage   = 2
)

const usage = `Usage: mssanitizer --check-device-heap=yes|--check-cann-heap=yes [options] [--] <program> [arguments]
       mssanitizer --help shows all options.
`

const help = `Usage: mssanitizer --check-device-heap=yes [options] [--] <program> [arguments]
       mssanitizer --check-cann-heap=yes [options] [--] <program> [arguments]

Runs a program and reports memory of Ascend NPUs that it has not given back when it ends:
nothing when there is none.

  --check-device-heap=yes|no  what the driver hands out (default no)
  --check-cann-heap=yes|no    what AscendCL hands out: aclrtMalloc and its kin (default no)
                              One of the two must be yes.
  --leak-check=yes|no         no: only run the program (default yes)
  --tool=memcheck, -t         for compatibility; there is no other tool here
  --error-exitcode=N          exit with N, 1 to 255, when something has leaked
  --log-file=FILE             write the report to FILE, not to standard error
  --json                      write it as JSON, also when nothing has leaked
  --suppressions=FILE         do not report what a line of FILE describes:
                                file:PATTERN          allocated in such a file
                                line:PATTERN:NUMBER   ... in this line of it
                                function:PATTERN      allocated below such a function
                              * stands for any characters; a pattern of a file also
                              matches what follows a slash; # begins a comment
  --help, -h
  --version, -v

Where a block was allocated is told as file:line when the debug information of the program
has it, or when the program was built with the acl/acl.h in tools/mssanitizer/include and
linked with tools/mssanitizer/lib64/libascend_acl_hook.so; else as <unknown>:0.

Exit status: that of the program, 128 + signal when it was killed, or the N of
--error-exitcode; 127 when the program was not found, 126 when it could not be executed; 2
for a wrong command line, 1 when the report cannot be written.
`

// stackDepth is how many frames of C and of Python are looked at for the place of an allocation.
const stackDepth = 32

// Program is what a command line works with.
type Program struct {
	Stdout, Stderr io.Writer
	Version        string
	// Run runs a program under a check and returns its status, and what was found, nil when the check did not come to its end.
	Run func(cfg config.Config, program []string) (status int, found *leakcheck.Report)
}

// request is a command line, understood.
type request struct {
	config   config.Config
	heap     string
	leaks    bool
	exitCode int // 0: that of the program
	logFile  string
	json     bool
	print    string // instead of all else
	program  []string
}

// Main does what the words after the program name ask for and returns the exit status.
func (p *Program) Main(words []string) int {
	req, err := p.parse(words)
	if err != nil {
		io.WriteString(p.Stderr, usage)
		return p.fail(statusUsage, err)
	}
	if req.print != "" {
		if _, err := io.WriteString(p.Stdout, req.print); err != nil {
			return p.fail(statusFailure, err)
		}
		return 0
	}
	out := p.Stderr
	if req.logFile != "" {
		file, err := os.Create(req.logFile)
		if err != nil {
			return p.fail(statusUsage, fmt.Errorf("--log-file: %w", err))
		}
		defer file.Close()
		out = file
	}
	status, found := p.Run(req.config, req.program)
	if found == nil || !req.leaks {
		return status
	}
	found.Heap = req.heap
	write := found.Text
	if req.json {
		write = found.JSON
	}
	if err := write(out); err != nil {
		return p.fail(statusFailure, fmt.Errorf("cannot write the report: %w", err))
	}
	if req.exitCode != 0 && found.Leaked().Allocations > 0 {
		return req.exitCode
	}
	return status
}

func (p *Program) fail(status int, err error) int {
	fmt.Fprintf(p.Stderr, "[mssanitizer] Error: %v\n", err)
	return status
}

// parse understands a command line: options, then the program and its words.
func (p *Program) parse(words []string) (*request, error) {
	req := &request{config: config.Default(), leaks: true}
	var device, cann bool
	for len(words) > 0 && len(words[0]) > 1 && words[0][0] == '-' && words[0] != "--" {
		name, value, hasValue := strings.Cut(words[0], "=")
		words = words[1:]
		switch name {
		case "--help", "-h":
			req.print = help
			return req, nil
		case "--version", "-v":
			req.print = "mssanitizer " + p.Version + "\n"
			return req, nil
		case "--json":
			if hasValue {
				return nil, fmt.Errorf("--json takes no value; --log-file=FILE says where the report goes")
			}
			req.json = true
			continue
		}
		if !takesValue(name) {
			return nil, fmt.Errorf("%.80q is no option of mssanitizer; --help lists them", name)
		}
		if !hasValue {
			if len(words) == 0 {
				return nil, fmt.Errorf("%s needs a value", name)
			}
			value, words = words[0], words[1:]
		}
		if err := req.set(name, value, &device, &cann); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	switch {
	case device && cann:
		return nil, fmt.Errorf("--check-device-heap and --check-cann-heap exclude each other: what AscendCL hands out comes from the driver")
	case !device && !cann:
		return nil, fmt.Errorf("there is nothing to check; accepted: --check-device-heap=yes or --check-cann-heap=yes")
	case len(words) == 0:
		return nil, fmt.Errorf("there is no program to run")
	}
	req.program = words
	req.derive(device)
	return req, nil
}

func takesValue(name string) bool {
	switch name {
	case "--check-device-heap", "--check-cann-heap", "--leak-check", "--tool", "-t", "--error-exitcode", "--log-file", "--suppressions":
		return true
	}
	return false
}

func (r *request) set(name, value string, device, cann *bool) (err error) {
	switch name {
	case "--check-device-heap":
		*device, err = yes(value)
	case "--check-cann-heap":
		*cann, err = yes(value)
	case "--leak-check":
		r.leaks, err = yes(value)
	case "--tool", "-t":
		if value != "memcheck" {
			err = fmt.Errorf("%.80q is not here; accepted: memcheck", value)
		}
	case "--error-exitcode":
		if r.exitCode, err = strconv.Atoi(value); err != nil || r.exitCode < 1 || r.exitCode > 255 {
			err = fmt.Errorf("%.80q: a number from 1 to 255 is accepted", value)
		}
	case "--log-file":
		if r.logFile = value; value == "" {
			err = fmt.Errorf("a file has no empty name")
		}
	case "--suppressions":
		var text []byte
		if text, err = os.ReadFile(value); err != nil {
			return err
		}
		lines := strings.Split(string(text), "\n")
		if _, err = leakcheck.Parse(lines); err != nil {
			return fmt.Errorf("%s: %w", value, err)
		}
		r.config.Suppressions = append(r.config.Suppressions, lines...)
	}
	return err
}

func yes(value string) (bool, error) {
	switch value {
	case "yes":
		return true, nil
	case "no":
		return false, nil
	}
	return false, fmt.Errorf("%.80q: yes or no is accepted", value)
}

// derive makes the options of the collector.
func (r *request) derive(device bool) {
	c := &r.config
	r.heap, c.Analysis, c.Events, c.DumpEvents = "cann", config.CheckCANNHeap, 0, 0
	if device {
		r.heap, c.Analysis, c.Events = "device", config.CheckDeviceHeap, config.Alloc|config.Free
	}
	c.CPU = true
	c.CStack, c.CStackDepth = true, stackDepth
	c.PyStack, c.PyStackDepth = true, stackDepth
}
