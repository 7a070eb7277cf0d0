package query

import (
	"cmp"
	"flag"
	"slices"

	"memscope/internal/compare"
	"memscope/internal/dump/read"
	"memscope/internal/event"
)

var kernelsQuestion = &question{
	name: "kernels", args: "FILE...", common: byDevice | byPool | byTime,
	summary: "by how much each kernel or operator changed memory; the top growers",
	help: `
The net of a launch is what its framework's pool (PTA or MINDSPORE; --pool chooses another) grew by: for an operator,
between its start and its end on its thread; for a kernel, since the launch before on its card. Level kernel is looked at
where the dump has KERNEL_LAUNCH rows, level op otherwise.`,
	setup: func(fs *flag.FlagSet) func(*env, []string) (result, error) {
		level := fs.String("level", "", "op or kernel")
		top := fs.Int("top", 20, "names to list")
		return func(e *env, args []string) (result, error) {
			var levels compare.Level
			if *level != "" {
				var err error
				if levels, err = parseLevel(*level); err != nil {
					return nil, err
				}
			}
			pool := read.NoPool
			if e.pools != nil {
				list := e.pools.list()
				if len(list) > 1 {
					return nil, usagef("one --pool is expected")
				}
				pool = list[0]
			}
			var k *kernels
			err := e.scan(args, compare.Wants, func() visitor {
				k = newKernels(e, pool)
				return k.visit
			})
			if err != nil {
				return nil, err
			}
			return k.result(levels, *top), nil
		}
	},
}

type kernels struct {
	env      *env
	pool     event.Pool
	names    compare.Names
	launches *compare.Launches
	file     *input
	sums     map[launchName]*launchSum
}

type launchName struct {
	name   int32
	kernel bool
	device int32
}

type launchSum struct {
	Event    string `json:"event"`
	Name     string `json:"name"`
	Device   string `json:"device"`
	Launches int64  `json:"launches"`
	Net      int64  `json:"net_bytes"`
	Grown    int64  `json:"launches_that_grew"`
	Largest  int64  `json:"largest_net_bytes"`
	At       int64  `json:"largest_at_ns"`
}

func newKernels(e *env, pool event.Pool) *kernels {
	return &kernels{env: e, pool: pool, sums: make(map[launchName]*launchSum)}
}

func (k *kernels) visit(b *read.Batch) error {
	if k.file != k.env.current {
		k.file = k.env.current
		k.launches = compare.NewLaunches(compare.Op|compare.Kernel, &k.names, func() (event.Pool, bool) { return k.pool, k.pool != read.NoPool }, k.add)
	}
	for i := range b.Rows {
		r := &b.Rows[i]
		if !k.env.wanted(r) {
			continue
		}
		if k.pool == read.NoPool && (r.Pool == event.PTA || r.Pool == event.MindSpore) {
			k.pool = r.Pool
		}
		k.launches.Row(b, r)
	}
	return nil
}

func (k *kernels) add(dev int32, at int64, e compare.Element) {
	if at < k.env.since || at > k.env.until {
		return
	}
	key := launchName{e.Name, e.Kernel, dev}
	s := k.sums[key]
	if s == nil {
		s = &launchSum{Event: "OP_LAUNCH", Name: k.names.All[e.Name], Device: deviceName(dev), Largest: e.Net, At: at}
		if e.Kernel {
			s.Event = "KERNEL_LAUNCH"
		}
		k.sums[key] = s
	}
	s.Launches++
	s.Net += e.Net
	if e.Net > 0 {
		s.Grown++
	}
	if e.Net > s.Largest {
		s.Largest, s.At = e.Net, at
	}
}

type kernelsResult struct {
	Pool     string      `json:"pool"`
	Level    string      `json:"level"`
	Launches int64       `json:"launches"`
	Net      int64       `json:"net_bytes"` // level op: nested operators count twice
	Top      []launchSum `json:"top"`
	More     int         `json:"more"`
}

func (k *kernels) result(levels compare.Level, top int) *kernelsResult {
	res := &kernelsResult{Pool: k.env.names.Name(k.pool), Level: "op", Top: []launchSum{}}
	kernel := levels&compare.Kernel != 0
	if levels == 0 {
		for key := range k.sums {
			kernel = kernel || key.kernel
		}
	}
	if kernel {
		res.Level = "kernel"
	}
	for key, s := range k.sums {
		if key.kernel == kernel {
			res.Launches += s.Launches
			res.Net += s.Net
			res.Top = append(res.Top, *s)
		}
	}
	slices.SortFunc(res.Top, func(a, b launchSum) int {
		return cmp.Or(cmp.Compare(b.Net, a.Net), cmp.Compare(b.Largest, a.Largest), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Device, b.Device))
	})
	if n := max(top, 0); len(res.Top) > n {
		res.More = len(res.Top) - n
		res.Top = res.Top[:n]
	}
	if res.Launches == 0 {
		what := "operators are those of PyTorch and ATB"
		if kernel {
			what = "it takes --level=kernel, and a program that launches kernels"
		}
		k.env.note("there are no launches of level %s: %s; --events has to name launch, alloc and free, as it does by default", res.Level, what)
	}
	return res
}

func (k *kernelsResult) Text(w *report) {
	w.line("%d launches of level %s, pool %s", k.Launches, k.Level, k.Pool)
	var rows [][]string
	for _, s := range k.Top {
		rows = append(rows, []string{s.Name, s.Device, count(s.Launches), size(s.Net), count(s.Grown), short(s.Largest), count(s.At)})
	}
	if rows != nil {
		w.table([]string{"name", "device", ">launches", ">net", ">grew", ">largest", ">at (ns)"}, rows)
	}
	if k.More > 0 {
		w.line("  and %d more", k.More)
	}
}
