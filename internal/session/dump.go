package session

import (
	"bytes"
	"strings"
	"sync/atomic"
	"time"

	"memscope/internal/config"
	"memscope/internal/dump/csvfile"
	"memscope/internal/dump/dbfile"
	"memscope/internal/dump/feed"
	"memscope/internal/dump/render"
	"memscope/internal/dump/spool"
	"memscope/internal/dump/stacks"
	"memscope/internal/event"
	"memscope/internal/output"
)

// renderPause is how much later than an event its row may be rendered: opening and writing files for each few rows costs more than the
// rows do.
const renderPause = 100 * time.Millisecond

// dump is the files of one client. Nothing exists before open. A write error ends the writing, not the collection.
type dump struct {
	session *session
	cfg     *config.Config // of the client
	log     *log
	pid     uint64
	start   int64 // wall-clock ns

	closing  func() // called when the dump is complete and its files are closed, may be nil
	project  *output.Project
	file     *output.Log
	spool    *spool.Writer // nil when there is none
	stacks   *stacks.Table
	renderer atomic.Pointer[render.Renderer]

	told     bool      // that rows are missing
	events   uint64    // to be stored
	missing  uint64    // of these, those that are not
	end      spool.Pos // as last given to the renderer
	advanced time.Time // when
	hold     hold
	feeds    []*feed.Feed
}

// open makes the project directory and what is in it.
func (d *dump) open() {
	cfg := d.cfg
	var err error
	if d.project, err = output.Create(cfg.OutputPath, int(d.pid), d.session.talk.line); err != nil {
		d.fail(err)
		return
	}
	if err := d.project.WriteConfig(cfg); err != nil {
		d.complain("config.json: %v", err)
	}
	d.file = d.project.NewLog(cfg.LogLevel)
	d.log.use(d.file)
	d.log.Logf(config.Info, "Msmemscope starts executing commands")
	const pair = config.Alloc | config.Free
	writer, err := spool.Create(d.project.Root, spool.Dir, spool.Meta{
		PID: d.pid, Start: d.start, Paired: cfg.DumpEvents&pair == pair, DB: cfg.Format == config.DB,
	})
	if err != nil {
		d.fail(err)
		return
	}
	reader, err := spool.Open(d.project.Root, spool.Dir)
	if err != nil {
		d.fail(err)
		_ = writer.Remove()
		return
	}
	d.spool = writer
	if err := d.stacks.Create(reader.Root()); err != nil {
		d.fail(err)
	}
	opener := csvfile.Opener(d.project, d.stacks, nil)
	if cfg.Format == config.DB {
		opener = dbfile.Opener(d.project, d.stacks)
	}
	for _, program := range cfg.Programs {
		d.feed(program)
	}
	d.renderer.Store(render.New(reader, opener, render.Options{Log: d.log, Whole: cfg.Format == config.DB, Keep: d.needed}))
}

// feed starts a program of the user's own.
func (d *dump) feed(program string) {
	reader, err := spool.Open(d.project.Root, spool.Dir)
	if err == nil {
		var f *feed.Feed
		if f, err = feed.Start(reader, program); err == nil {
			d.feeds = append(d.feeds, f)
			return
		}
	}
	d.complain("%v", err)
}

// needed is where the part of the spool begins that a feed has not read.
func (d *dump) needed() spool.Pos {
	at := spool.End
	for _, f := range d.feeds {
		at = min(at, f.Needed())
	}
	return at
}

// reconfigured notes that the options have changed.
func (d *dump) reconfigured() {
	if d.project == nil {
		return
	}
	if err := d.project.WriteConfig(d.cfg); err != nil {
		d.log.Logf(config.Error, "config.json: %v", err)
	}
}

// append stores an event that becomes a row.
func (d *dump) append(ev *event.Event) {
	d.events++
	if d.spool == nil {
		d.missing++
		return
	}
	if err := d.spool.Append(ev); err != nil {
		d.fail(err)
	}
}

// flush makes what was appended safe from the end of this process, and lets its rows go out, or later: rows take most of the time
// that an event costs, and what waits on disk holds nobody up.
func (d *dump) flush(later bool) {
	if d.spool == nil {
		return
	}
	if err := d.stacks.Flush(); err != nil { // before the events that mean them
		d.fail(err)
	}
	end, err := d.spool.Flush()
	if err != nil {
		d.fail(err)
	}
	if end = d.hold.horizon(end); !later && end != d.end {
		d.end, d.advanced = end, time.Now()
		d.renderer.Load().Advance(end)
		for _, f := range d.feeds {
			f.Advance(end)
		}
	}
}

// SetOwner and SetWaste implement analysis.Late. A row that may be out already stays as it is.
func (d *dump) SetOwner(id uint64, owner string) {
	if d.spool != nil && d.hold.changeable(id) {
		if err := d.spool.SetOwner(id, owner); err != nil {
			d.fail(err)
		}
	}
}

func (d *dump) SetWaste(id uint64, waste event.Waste) {
	if d.spool != nil && d.hold.changeable(id) {
		if err := d.spool.SetWaste(id, waste); err != nil {
			d.fail(err)
		}
	}
}

// fail tells the user, once, that rows are missing.
func (d *dump) fail(err error) {
	if d.told {
		return
	}
	d.told = true
	d.complain("%v; the analysis goes on", err)
}

// complain tells the user, and the log: of what goes on in the background nobody reads more than that.
func (d *dump) complain(format string, args ...any) {
	d.log.Logf(config.Error, format, args...)
	d.session.talk.process("Error", d.pid, format, args...)
}

// finish writes every row that can be written and closes the files. What feeds have to say goes to report.
func (d *dump) finish(report *bytes.Buffer) {
	if d.spool != nil {
		d.hold.lift()
		d.flush(false)
		d.missing += d.spool.Lost()
		r := d.renderer.Load()
		err := r.Finish(d.end)
		for _, f := range d.feeds {
			text, err := f.Finish(d.end)
			if report.WriteString(text); err != nil {
				d.complain("%v", err)
			}
		}
		if err != nil {
			d.complain("%v", err)
			_ = d.spool.Close()
		} else if err := d.spool.Remove(); err != nil { // and the stacks with it
			d.log.Logf(config.Warning, "remove the spool: %v", err)
		}
		if r.Stats().Homeless > 0 {
			d.session.talk.process("Info", d.pid, "no event belongs to a card that the options select, so there is no dump")
		}
		d.spool = nil
	}
	if d.session.talk.over() { // nobody else reads it
		for line := range strings.Lines(report.String()) {
			d.log.Logf(config.Info, "%s", strings.TrimSuffix(line, "\n"))
		}
	}
	_ = d.stacks.Close()
	if d.missing > 0 {
		d.complain("%d event(s) could not be stored and have no row", d.missing)
	}
	if d.closing != nil {
		d.closing()
	}
	if d.file != nil {
		_ = d.file.Close()
	}
	if d.project != nil {
		_ = d.project.Close()
	}
}

// abandon leaves everything as a killed collector would: what was appended is in the spool. It stays locked, and the rendering
// may go on, until this process ends; then a recovery can complete the dump.
func (d *dump) abandon() {
	d.flush(true)
	for _, f := range d.feeds {
		f.Abandon()
	}
}

// stored says, at the end, that not everything there was to be stored has failed.
func (d *dump) stored() bool { return d.missing == 0 || d.events > d.missing }

// progress says how many bytes of how many have become rows. Any goroutine may ask.
func (d *dump) progress() (done, total int64) {
	if r := d.renderer.Load(); r != nil {
		return r.Progress()
	}
	return 0, 0
}
