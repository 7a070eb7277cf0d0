package query

import (
	"flag"

	"memscope/internal/dump/read"
	"memscope/internal/event"
)

var peakQuestion = &question{
	name: "peak", args: "FILE...", common: allCommon,
	summary: "when memory use was highest; the time serves `dump at`",
	help: `
Figures: used is what the pool has handed out (HAL: what the process holds), process_used and device_used are the driver's
figures of the process and of the whole card, total is what a pool has reserved. The earliest moment wins a tie.`,
	setup: func(fs *flag.FlagSet) func(*env, []string) (result, error) {
		var key meter
		key.flag(fs)
		return func(e *env, args []string) (result, error) {
			var p *peak
			err := e.scan(args, read.PID|read.Device|read.Name|meterWants|read.ID, func() visitor {
				p = &peak{env: e, key: key, pools: e.selection(), launch: make(map[device]launchAt)}
				return p.visit
			})
			if err != nil {
				return nil, err
			}
			return p.result(), nil
		}
	},
}

// device is one card as one process sees it.
type device struct {
	pid uint64
	id  int32
}

// launchAt is the launch of an operator or kernel.
type launchAt struct {
	name string
	at   int64
}

type peak struct {
	accounts
	env    *env
	key    meter
	pools  poolSet
	tops   []peakAt
	launch map[device]launchAt // the latest launch; name is empty until it is asked for
	cached device
	latest launchAt
}

type peakAt struct {
	Process string `json:"process"`
	Device  string `json:"device"`
	Pool    string `json:"pool"`
	Key     meter  `json:"key"`
	Peak    int64  `json:"peak_bytes"`
	At      int64  `json:"at_ns"`
	ID      int64  `json:"row_id"`
	Last    int64  `json:"last_bytes"` // of the file
	Launch  string `json:"launch_before"`
	Since   int64  `json:"launch_before_ns"`
}

func (p *peak) visit(b *read.Batch) error {
	for i := range b.Rows {
		r := &b.Rows[i]
		switch r.Kind {
		case event.OpLaunch, event.KernelLaunch:
			if r.Sub != event.AtenEnd && r.Sub != event.AtbEnd && r.Sub != event.ExecuteEnd {
				p.launched(b, r)
			}
		case event.Malloc, event.Free:
			if v := p.key.of(r); v >= 0 && p.pools[r.Pool] && p.env.wanted(r) && p.env.within(r) {
				p.point(r, v)
			}
		}
	}
	return nil
}

// launched remembers the name of a launch; names repeat, so a string is made only when it changes.
func (p *peak) launched(b *read.Batch, r *read.Row) {
	d := device{r.PID, r.Device}
	if d != p.cached {
		p.launch[p.cached] = p.latest
		p.cached, p.latest = d, p.launch[d]
	}
	if name := b.Text(r.Name); p.latest.name != string(name) {
		p.latest.name = string(name)
	}
	p.latest.at = r.Stamp
}

func (p *peak) point(r *read.Row, v int64) {
	i := p.of(r)
	if i == len(p.tops) {
		p.tops = append(p.tops, peakAt{Peak: -1})
	}
	top := &p.tops[i]
	top.Last = v
	if v <= top.Peak {
		return
	}
	d := device{r.PID, r.Device}
	l := p.latest
	if d != p.cached {
		l = p.launch[d]
	}
	*top = peakAt{Peak: v, At: r.Stamp, ID: r.ID, Last: v, Launch: l.name, Since: l.at}
}

type peakResult struct {
	Peaks []peakAt `json:"peaks"`
	files string   // for the next question
}

func (p *peak) result() *peakResult {
	res := &peakResult{Peaks: []peakAt{}, files: p.env.named()}
	for _, i := range p.env.shown(p.all) {
		top, a := p.tops[i], p.all[i]
		top.Process, top.Device, top.Pool, top.Key = pidName(a.PID), deviceName(a.Device), p.env.names.Name(a.Pool), p.key
		res.Peaks = append(res.Peaks, top)
	}
	if len(res.Peaks) == 0 {
		p.env.note("no row tells %s", p.key)
	}
	return res
}

func (p *peakResult) Text(w *report) {
	for _, top := range p.Peaks {
		w.line("process %s, device %s, %s: %s peaked at %s", top.Process, top.Device, top.Pool, top.Key, size(top.Peak))
		w.line("  at %d ns (row %d); at the end of the file %s", top.At, top.ID, size(top.Last))
		if top.Launch != "" {
			w.line("  the launch before: %s, %s earlier", top.Launch, since(top.Since, top.At))
		}
		w.line("  next: msmemscope dump at %d %s --pool %s", top.At, p.files, top.Pool)
	}
}
