package query

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"memscope/internal/dump/read"
	"memscope/internal/event"
)

// env is what a question works with: the shared options, and what was met on the way.
type env struct {
	stderr  io.Writer
	json    bool
	foreign bool
	table   string
	devices []int32  // nil: all
	pid     int64    // -1: all
	pools   *poolSet // asked for; nil: none in particular
	names   read.Pools
	asked   []event.Pool // by a name that is none of event's
	sinceAt instant
	untilAt instant
	since   int64 // sinceAt, ns, once a scan has begun
	until   int64
	outside bool // no row lies between them

	args    []string // the files and directories that were named
	files   []string
	notes   []string
	early   []string // notes from before the first scan
	current *input   // being scanned
	met     bool     // a row that --device and --pid leave in
}

func (e *env) note(format string, args ...any) {
	e.notes = append(e.notes, fmt.Sprintf(format, args...))
}

// shared registers the options that several questions have.
func (q *question) shared(fs *flag.FlagSet, e *env) {
	e.pid, e.sinceAt.ns, e.untilAt.ns = -1, math.MinInt64, math.MaxInt64
	fs.BoolVar(&e.json, "json", false, "print the answer as JSON; sizes in bytes, times in ns")
	fs.BoolVar(&e.foreign, "allow-foreign-files", false, "read files that belong to others or that others can change")
	fs.StringVar(&e.table, "table", "", "`name` of the table in a database, when it is neither memscope_dump nor leaks_dump")
	if q.common&byDevice != 0 {
		fs.Func("device", "only this `card` (0, 1, ..., cpu); several with commas", func(s string) error { return e.setDevices(s) })
		fs.Func("pid", "only this process `id`", func(s string) (err error) {
			e.pid, err = strconv.ParseInt(s, 10, 64)
			if err != nil || e.pid < 0 {
				return fmt.Errorf("%q is no process id", s)
			}
			return nil
		})
	}
	if q.common&byPool != 0 {
		fs.Func("pool", "only this `pool`: "+knownPools+", one that the user named (--pools), or all; several with commas", func(s string) error { return e.setPools(s) })
	}
	if q.common&byTime != 0 {
		fs.Func("since", "only what happens at or after this `time`: "+timeForms, func(s string) (err error) { e.sinceAt, err = parseInstant(s); return err })
		fs.Func("until", "only what happens at or before this `time`", func(s string) (err error) { e.untilAt, err = parseInstant(s); return err })
	}
}

// tokens splits a list at commas, the full-width one too.
func tokens(s string) (out []string) {
	for _, t := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == '，' }) {
		if t = strings.TrimSpace(t); t != "" {
			out = append(out, t)
		}
	}
	return out
}

func (e *env) setDevices(s string) error {
	for _, t := range tokens(s) {
		t = strings.TrimPrefix(t, "npu:")
		if t == "cpu" {
			e.devices = append(e.devices, event.DeviceCPU)
			continue
		}
		v, err := strconv.ParseInt(t, 10, 32)
		if err != nil || v < 0 {
			return fmt.Errorf("%q is no card", t)
		}
		e.devices = append(e.devices, int32(v))
	}
	return nil
}

// poolSet is a set of pools, those of the user's own among them.
type poolSet [math.MaxUint8 + 1]bool

func everyPool() (s poolSet) {
	for i := range s {
		s[i] = true
	}
	return s
}

func (s *poolSet) list() (out []event.Pool) {
	for i, in := range s {
		if in {
			out = append(out, event.Pool(i))
		}
	}
	return out
}

// setPools reads --pool. Which pools of the user's own there are only the rows say: see askedFor.
func (e *env) setPools(s string) error {
	names := tokens(s)
	if e.pools == nil && names != nil {
		e.pools = new(poolSet)
	}
	for _, name := range names {
		if strings.EqualFold(name, "all") {
			*e.pools = everyPool()
			continue
		}
		pool := e.names.Number(name)
		if pool == read.NoPool {
			return fmt.Errorf("unknown pool %q", name)
		}
		if pool > read.NoPool {
			e.asked = append(e.asked, pool)
		}
		e.pools[pool] = true
	}
	return nil
}

// named is how a shell names the files of the question once more, for a next one.
func (e *env) named() string {
	const most = 3
	if len(e.args) > most {
		return "FILE..."
	}
	words := make([]string, len(e.args))
	for i, word := range e.args {
		if words[i] = word; strings.ContainsFunc(word, special) {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// special says that a shell may take a character for more than itself.
func special(r rune) bool {
	return r < utf8.RuneSelf && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+,:@%=", r)
}

// askedFor reports a pool that was asked for by a name that no row has; early: not all rows were read.
func (e *env) askedFor(early bool) error {
	for _, pool := range e.asked {
		name := e.names.Name(pool)
		switch {
		case e.names.Seen(pool):
		case early:
			e.note("no row up to there is of a pool %s", name)
		default:
			own := ""
			if names := e.names.Names(); names != nil {
				own = ", " + strings.Join(names, ", ")
			}
			return usagef("unknown pool %q; accepted: %s%s, all", name, knownPools, own)
		}
	}
	return nil
}

const knownPools = "HAL, PTA, PTA_WORKSPACE, ATB, MINDSPORE, HOST"

// wanted tells whether the options leave the row in, its time and pool aside.
func (e *env) wanted(r *read.Row) bool {
	if e.pid >= 0 && r.PID != uint64(e.pid) || e.devices != nil && !slices.Contains(e.devices, r.Device) {
		return false
	}
	e.met = true
	return true
}

// noteUnmet says that nothing is of the cards or the process that were asked for.
func (e *env) noteUnmet(early bool) {
	if e.met || e.devices == nil && e.pid < 0 {
		return
	}
	var of []string
	for _, d := range e.devices {
		of = append(of, "device "+deviceName(d))
	}
	text := strings.Join(of, " or ")
	if e.pid >= 0 {
		text = strings.TrimPrefix(text+" of process "+strconv.FormatInt(e.pid, 10), " of ")
	}
	where := ""
	if early {
		where = " up to there"
	}
	e.note("no row%s that this question looks at is of %s; `dump stats` lists what there is", where, text)
}

// within tells whether the row lies between --since and --until.
func (e *env) within(r *read.Row) bool { return r.Stamp >= e.since && r.Stamp <= e.until }

// selection says which pools a question looks at while rows stream: the ones asked for, or all.
func (e *env) selection() poolSet {
	if e.pools == nil {
		return everyPool()
	}
	return *e.pools
}

// shown picks the accounts to show: of the pools asked for; else HAL, which holds everything that the frameworks' pools
// reserve, and the user's own pools, of which nobody knows where they lie; without HAL rows, all.
func (e *env) shown(all []account) (out []int) {
	hal := false
	for _, a := range all {
		hal = hal || a.Pool == event.HAL
	}
	for i, a := range all {
		if e.pools != nil || !hal || a.Pool == event.HAL || a.Pool > read.NoPool {
			out = append(out, i)
		}
	}
	if e.pools == nil && !hal && len(all) > 0 {
		e.note("no HAL row tells it; the other pools are shown")
	}
	return out
}

// errEnough is what a visitor returns when the rest of the file does not matter.
var errEnough = errors.New("enough")

// visitor takes the rows of one file after the other.
type visitor func(b *read.Batch) error

// scan streams all files through a visitor, in time order each. begin makes a fresh visitor: it is called again if a file
// turns out not to be in time order, which then is sorted first.
func (e *env) scan(args []string, want read.Want, begin func() visitor) error {
	return e.scanSpan(args, want, func(_, _ int64) visitor { return begin() })
}

// scanSpan is scan for questions that need to know from when to when the rows are (ns), --since and --until considered.
func (e *env) scanSpan(args []string, want read.Want, begin func(first, last int64) visitor) error {
	e.args = args
	inputs, err := e.inputs(args)
	if err != nil {
		return err
	}
	return e.scanInputs(inputs, want, begin)
}

func (e *env) scanInputs(inputs []*input, want read.Want, begin func(first, last int64) visitor) error {
	defer closeInputs(inputs)
	for {
		first, last, err := e.span(inputs)
		if err != nil {
			return err
		}
		err = e.pass(inputs, read.Options{Want: want, Ordered: true}, begin(first, last))
		var unsorted *read.UnsortedError
		if !errors.As(err, &unsorted) {
			return err
		}
		for _, in := range inputs {
			if in.path == unsorted.Path {
				if err := in.reorder(); err != nil {
					return err
				}
			}
		}
	}
}

// span settles --since and --until, and tells from when to when the rows between them are.
func (e *env) span(inputs []*input) (first, last int64, err error) {
	first, last = math.MaxInt64, 0
	for _, in := range inputs {
		a, b, err := in.bounds(e.table)
		if err != nil {
			return 0, 0, err
		}
		if b > 0 {
			first, last = min(first, a), max(last, b)
		}
	}
	e.since, e.until = e.sinceAt.at(first, last), e.untilAt.at(first, last)
	if e.since > e.until {
		return 0, 0, usagef("--since (%d) is later than --until (%d)", e.since, e.until)
	}
	e.outside = last > 0 && (e.since > last || e.until < first)
	return max(first, e.since), min(last, e.until), nil
}

// scanAsItIs streams all files through a visitor in whatever order their rows have.
func (e *env) scanAsItIs(args []string, want read.Want, visit visitor) error {
	inputs, err := e.inputs(args)
	if err != nil {
		return err
	}
	defer closeInputs(inputs)
	if _, _, err := e.span(inputs); err != nil {
		return err
	}
	return e.pass(inputs, read.Options{Want: want}, visit)
}

func closeInputs(inputs []*input) {
	for _, in := range inputs {
		in.close()
	}
}

func (e *env) pass(inputs []*input, opt read.Options, visit visitor) error {
	e.files, e.notes, e.met = nil, slices.Clone(e.early), false
	opt.Pools = &e.names
	early := false
	for _, in := range inputs {
		e.current = in
		sum, err := in.scan(opt, e.table, visit)
		if errors.Is(err, errEnough) {
			early, err = true, nil
		}
		if err != nil {
			return err
		}
		e.files = append(e.files, in.path)
		if in.sort && in.data == "" {
			e.note("%s is not in time order: its rows were sorted first; `dump sort --overwrite` spares that", in.path)
		}
		e.tell(in, sum)
	}
	e.noteUnmet(early)
	if e.outside {
		e.note("no row lies between --since and --until")
	}
	return e.askedFor(early)
}

// tell notes what was passed over in a file.
func (e *env) tell(in *input, sum *read.Summary) {
	bad := sum.Bad
	if sum.Truncated {
		e.note("%s: the last row is cut off and was passed over", in.path)
		bad--
	}
	if bad > 0 {
		e.note("%s: %d rows are damaged and were passed over, the first %s", in.path, bad, in.where(sum.Faults[0]))
	}
	if sum.Rows == 0 {
		e.note("%s has no rows", in.path)
	}
}
