package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"memscope/internal/config"
	"memscope/internal/dump/cells"
	"memscope/internal/event"
)

const defaultOutput = "./memscopeDumpResults"

// fields splits a list at half-width and full-width commas. Empty tokens are dropped, blanks are kept.
func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '，' })
}

// refused is the error for a value of an option; accepted says what would do.
func refused(option, value, accepted string) error {
	return fmt.Errorf("--%s does not know %q; accepted: %s", option, shown(value), accepted)
}

// scriptsOnly is the error for a value that only scripts can choose.
func scriptsOnly(option, value, accepted string) error {
	return fmt.Errorf("--%[1]s=%[2]s is for scripts only: msmemscope.config(%[1]s=%[2]q) in Python; accepted: %[3]s", option, shown(value), accepted)
}

// set is what a list option accepts: words with their bits, and words that only scripts can say.
type set struct {
	option   string
	bits     map[string]uint32
	scripts  func(token string) bool
	none     bool // the word none, alone, is the empty set
	accepted string
}

var eventSet = set{
	option:   "events",
	bits:     map[string]uint32{"alloc": uint32(config.Alloc), "free": uint32(config.Free), "launch": uint32(config.Launch), "access": uint32(config.Access)},
	scripts:  func(t string) bool { return t == "traceback" },
	none:     true,
	accepted: "alloc, free, launch, access, none",
}

var analysisSet = set{
	option: "analysis",
	bits: map[string]uint32{
		"leaks": uint32(config.Leaks), "decompose": uint32(config.Decompose), "inefficient": uint32(config.Inefficient),
		"host-leaks": uint32(config.HostLeaks),
	},
	none:     true,
	accepted: "leaks, decompose, inefficient, oom[:K], exec:PROGRAM, host-leaks, none",
}

var levelSet = set{
	option: "level",
	bits: map[string]uint32{
		"op": uint32(config.LevelOp), "0": uint32(config.LevelOp), "kernel": uint32(config.LevelKernel), "1": uint32(config.LevelKernel),
	},
	accepted: "op, kernel",
}

// parse returns the union of the bits of the tokens.
func (s set) parse(list string) (uint32, error) {
	tokens := fields(list)
	var union uint32
	for _, token := range tokens {
		bit, known := s.bits[token]
		switch {
		case known:
			union |= bit
		case s.none && token == "none":
			for _, other := range tokens {
				if other != "none" {
					return 0, fmt.Errorf("--%s=%s mixes none with other words", s.option, shown(list))
				}
			}
		case s.scripts != nil && s.scripts(token):
			return 0, scriptsOnly(s.option, token, s.accepted)
		default:
			return 0, refused(s.option, token, s.accepted)
		}
	}
	return union, nil
}

func (p *parser) setEvents(list string) error {
	bits, err := eventSet.parse(list)
	p.events = config.Events(bits)
	return err
}

func (p *parser) setAnalysis(list string) error {
	p.analyses = true
	var others []string
	var oom config.Analyses
	p.programs = nil
	typed := list
	for _, token := range fields(list) {
		word, k, hasK := strings.Cut(token, ":")
		if word == "exec" && hasK {
			p.programs = append(p.programs, k)
			continue
		}
		if word != "oom" {
			others = append(others, token)
			continue
		}
		oom = config.OOM
		if hasK {
			n, err := strconv.Atoi(k)
			if err != nil || n < 1 || n > mostOOM || strconv.Itoa(n) != k {
				return fmt.Errorf("--analysis=%s: the number of blocks is %q; accepted: oom or oom:K with K from 1 to %d", shown(token), shown(k), mostOOM)
			}
			p.req.config.OOMTopK = n
		}
	}
	more := oom != 0 || len(p.programs) > 0
	if more && slices.Contains(others, "none") {
		return fmt.Errorf("--analysis=%s mixes none with other words", shown(list))
	}
	if more {
		list = strings.Join(others, ",")
	}
	bits, err := analysisSet.parse(list)
	p.req.config.Analysis = config.Analyses(bits) | oom
	if err == nil && bits&uint32(config.HostLeaks) != 0 && p.req.config.Analysis != config.HostLeaks {
		return fmt.Errorf("--analysis=%s: host-leaks cannot be combined with other analyses; accepted: --analysis=host-leaks", shown(typed))
	}
	return err
}

// mostOOM bounds the blocks that each list of an out-of-memory report has.
const mostOOM = 1000

func (p *parser) setLevel(list string) error {
	bits, err := levelSet.parse(list)
	p.req.config.Level = config.Levels(bits)
	if err != nil {
		return err
	}
	for _, token := range fields(list) {
		switch token {
		case "0":
			p.deprecate("--level=0", "--level=op")
		case "1":
			p.deprecate("--level=1", "--level=kernel")
		}
	}
	return nil
}

// mostSteps bounds the steps that can be picked (contract 1.2).
const mostSteps = 5

func (p *parser) setSteps(list string) error {
	tokens := fields(list)
	var steps []uint32
	for _, token := range tokens {
		n, err := strconv.ParseUint(token, 10, 32)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != token {
			return refused("steps", token, "1 to 5 numbers from 1 to 4294967295")
		}
		steps = append(steps, uint32(n))
	}
	if len(steps) == 0 || len(steps) > mostSteps {
		return fmt.Errorf("--steps names %d steps; accepted: 1 to %d", len(steps), mostSteps)
	}
	p.req.config.Steps = steps
	return nil
}

// setCallStack adds to the languages that were named before; the last word on a language counts. An empty list takes all back.
func (p *parser) setCallStack(list string) error {
	const accepted = "c, python, c:<n>, python:<n> with n 0-1000"
	c := &p.req.config
	tokens := fields(list)
	if len(tokens) == 0 {
		c.CStack, c.PyStack = false, false
	}
	for _, token := range tokens {
		language, digits, deep := strings.Cut(token, ":")
		depth := config.DefaultStackDepth
		if deep {
			var ok bool
			if depth, ok = stackDepth(digits); !ok {
				return refused("call-stack", token, accepted)
			}
		}
		switch language {
		case "c":
			c.CStack, c.CStackDepth = true, depth
		case "python":
			c.PyStack, c.PyStackDepth = true, depth
		default:
			return refused("call-stack", token, accepted)
		}
	}
	return nil
}

// stackDepth reads 0 to 1000 without signs and leading zeros.
func stackDepth(text string) (int, bool) {
	depth, err := strconv.ParseUint(text, 10, 32)
	return int(depth), err == nil && depth <= config.MostStackDepth && strconv.FormatUint(depth, 10) == text
}

// mostPoolName bounds the name of a pool, bytes.
const mostPoolName = 63

// setPools: a name becomes an Event Type, so it must be none of those, and nothing that a CSV or a report could not show. torch_npu asks for
// a domain "test" to find out whether a profiler is there that records domains, which we do not.
func (p *parser) setPools(list string) error {
	names := fields(list)
	seen := map[string]bool{"ptaCaching": true, "msleaks": true, "ptaWorkspace": true, "atb": true, "mindsporeMemPool": true, "test": true, "HOST_PINNED": true}
	taken := map[string]bool{"PTA_CACHING": true, cells.NA: true, "ALL": true} // in any case: dumps are read so, and dump --pool takes "all"
	for pool := range event.Named {
		taken[cells.Pool(pool)] = true
	}
	for _, name := range names {
		switch {
		case len(name) > mostPoolName || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune("\"'{}:", r) }) || strings.TrimSpace(name) != name:
			return fmt.Errorf("--pools: %q cannot be a pool; accepted: up to %d bytes of letters, digits and most signs", shown(name), mostPoolName)
		case seen[name] || taken[strings.ToUpper(name)]:
			return fmt.Errorf("--pools: %q is named twice or is a pool that is known already", name)
		}
		seen[name] = true
	}
	if len(names) == 0 || len(names) > config.MostPools {
		return fmt.Errorf("--pools names %d pools; accepted: 1 to %d", len(names), config.MostPools)
	}
	p.req.config.Pools = names
	return nil
}

func (p *parser) setDevice(list string) error {
	const accepted = "npu, npu:<id> with id 0-31, cpu"
	c := &p.req.config
	c.AllNPU, c.NPUSlots, c.CPU = false, 0, false
	tokens := fields(list)
	if len(tokens) == 0 {
		return fmt.Errorf("--device names no device; accepted: %s", accepted)
	}
	for _, token := range tokens {
		id, isCard := strings.CutPrefix(token, "npu:")
		switch {
		case token == "npu":
			c.AllNPU = true
		case token == "cpu":
			c.CPU = true
		case isCard:
			slot, ok := cardID(id)
			if !ok {
				return refused("device", token, accepted)
			}
			c.NPUSlots |= 1 << slot
		default:
			return refused("device", token, accepted)
		}
	}
	if c.AllNPU {
		c.NPUSlots = 0
	}
	return nil
}

// cardID reads a card id, 0 to 31, as C does: decimal, octal with a leading 0, hexadecimal with 0x.
func cardID(text string) (uint, bool) {
	base := 10
	digits := text
	if rest, hex := strings.CutPrefix(strings.ToLower(text), "0x"); hex {
		base, digits = 16, rest
	} else if len(text) > 1 && text[0] == '0' {
		base = 8
	}
	id, err := strconv.ParseUint(digits, base, 32)
	return uint(id), err == nil && id < 32
}

func (p *parser) setCollectMode(value string) error {
	switch value {
	case "immediate":
		p.req.config.Mode = config.Immediate
	case "deferred":
		p.req.config.Mode = config.Deferred
	default:
		return refused("collect-mode", value, "immediate, deferred")
	}
	return nil
}

func (p *parser) setFormat(value string) error {
	switch value {
	case "csv":
		p.req.config.Format = config.CSV
	case "db":
		p.req.config.Format = config.DB
	default:
		return refused("format", value, "csv, db")
	}
	return nil
}

func (p *parser) setOutputPath(value string) error {
	p.outputPath = value
	return nil
}

func (p *parser) setLogLevel(value string) error {
	level, known := map[string]config.LogLevel{
		"debug": config.Debug, "info": config.Info, "warning": config.Warning, "warn": config.Warning, "error": config.Error,
	}[value]
	if !known {
		return refused("log-level", value, "debug, info, warning, error")
	}
	if value == "warn" {
		p.deprecate("--log-level=warn", "--log-level=warning")
	}
	p.logLevel = &level
	return nil
}

// setInputPath adds to the inputs, as repeats do.
func (p *parser) setInputPath(list string) error {
	for _, token := range fields(list) {
		path, err := expandHome(token)
		if err != nil {
			return fmt.Errorf("--input-path: %w", err)
		}
		p.req.inputs = append(p.req.inputs, path)
	}
	return nil
}

// expandHome takes outer blanks off a path and puts $HOME in place of a leading ~, which a shell leaves alone after =.
func expandHome(path string) (string, error) {
	path = strings.Trim(path, " \t\n\v\f\r")
	if path != "~" && !strings.HasPrefix(path, "~/") {
		return path, nil
	}
	home := os.Getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("%q begins with ~, but HOME is %q, no absolute path", shown(path), shown(home))
	}
	return home + path[1:], nil
}

func (p *parser) setCompare(string) error { p.req.action = compareDumps; return nil }
func (p *parser) setVerbose(string) error { p.verbose = true; return nil }
func (p *parser) setQuiet(string) error   { p.quiet = true; return nil }
func (p *parser) setHelp(string) error    { p.req.action = showHelp; return nil }
func (p *parser) setVersion(string) error { p.req.action = showVersion; return nil }

// derive completes the Config from what was typed (contract 1.6). What analyses and pairing need is collected but not
// written.
func (p *parser) derive() {
	c := &p.req.config
	c.DumpEvents, c.Events = p.events, p.events
	if len(c.Steps) > 0 {
		if p.analyses && c.Analysis != 0 {
			p.notice("--steps records single steps only; the analyses need all of them and are off")
		}
		c.Analysis = 0
	}
	if c.Analysis&(config.Decompose|config.Inefficient) != 0 {
		c.Events |= config.Access
	}
	if c.Analysis&config.Inefficient != 0 {
		c.Events |= config.Launch
	}
	if c.Events&(config.Alloc|config.Free|config.Access) != 0 || c.Analysis&(config.Leaks|config.OOM) != 0 {
		c.Events |= config.Alloc | config.Free
	}
	switch {
	case p.logLevel != nil:
		c.LogLevel = *p.logLevel
	case p.verbose:
		c.LogLevel = config.Debug
	case p.quiet:
		c.LogLevel = config.Error
	}
}
