package query

import (
	"strings"

	"memscope/internal/dump/read"
	"memscope/internal/event"
)

// account is whose memory it is.
type account struct {
	PID    uint64
	Device int32
	Pool   event.Pool
}

// accounts numbers accounts in the order in which they are met.
type accounts struct {
	all   []account
	index map[account]int
	last  int // rows of one account come in runs
}

func (t *accounts) of(r *read.Row) int {
	a := account{r.PID, r.Device, r.Pool}
	if t.last < len(t.all) && t.all[t.last] == a {
		return t.last
	}
	i, ok := t.index[a]
	if !ok {
		if t.index == nil {
			t.index = make(map[account]int)
		}
		i = len(t.all)
		t.all = append(t.all, a)
		t.index[a] = i
	}
	t.last = i
	return i
}

// interner numbers texts.
type interner struct {
	all   []string
	index map[string]int32
}

func (n *interner) of(b []byte) int32 {
	if i, ok := n.index[string(b)]; ok {
		return i
	}
	if n.index == nil {
		n.index = make(map[string]int32)
	}
	s := string(b)
	i := int32(len(n.all))
	n.all = append(n.all, s)
	n.index[s] = i
	return i
}

// block is memory between its MALLOC and its FREE.
type block struct {
	size  int64 // bytes
	born  int64 // ns
	id    uint64
	owner int32 // in tracker.owners
	stack int32 // in tracker.stacks
}

type blockKey struct {
	addr    uint64
	account int32
}

// tracker is the table of live blocks of the accounts that a question looks at.
type tracker struct {
	accounts
	env    *env
	pools  poolSet
	live   map[blockKey]block
	owners interner
	stacks interner

	unmatched int64 // FREE rows without a MALLOC
	replaced  int64 // blocks that another MALLOC at their address put an end to
}

// trackerWants is what tracker.apply reads.
const trackerWants = read.PID | read.Device | read.Addr | read.Size | read.Owner

func newTracker(e *env) *tracker {
	return &tracker{env: e, pools: e.selection(), live: make(map[blockKey]block)}
}

// change is what a row did to the table.
type change struct {
	account int
	addr    uint64
	block   block // the one that came or went
	lost    block // came: the one that lay at its address and was never freed; size 0: none
	came    bool
}

// apply takes a row. ok is false if it is no MALLOC or FREE of an account that is looked at, or a FREE of nothing known.
func (t *tracker) apply(b *read.Batch, r *read.Row) (c change, ok bool) {
	if r.Kind != event.Malloc && r.Kind != event.Free || !t.pools[r.Pool] || !t.env.wanted(r) {
		return c, false
	}
	c.account, c.addr = t.of(r), r.Addr
	key := blockKey{r.Addr, int32(c.account)}
	if r.Kind == event.Free {
		c.block, ok = t.live[key]
		if !ok {
			t.unmatched++
			return c, false
		}
		delete(t.live, key)
		return c, true
	}
	c.came = true
	if lost, again := t.live[key]; again {
		c.lost = lost
		t.replaced++
	}
	c.block = block{size: max(r.Size, 0), born: r.Stamp, id: r.AllocID, owner: t.owners.of(b.Text(r.Owner)), stack: -1}
	if r.Python.Len()+r.C.Len() > 0 {
		c.block.stack = t.stack(b, r)
	}
	t.live[key] = c.block
	return c, true
}

// stack numbers the call stacks of a row, the Python one first.
func (t *tracker) stack(b *read.Batch, r *read.Row) int32 {
	python, c := b.Text(r.Python), b.Text(r.C)
	if string(python) == "NA" {
		python = nil
	}
	if len(c) == 0 {
		return t.stacks.of(python)
	}
	return t.stacks.of(append(append(make([]byte, 0, len(python)+len(c)), python...), c...))
}

// stackText is the call stack of a number.
func (t *tracker) stackText(i int32) string {
	if i < 0 {
		return ""
	}
	return t.stacks.all[i]
}

// tell notes what does not add up in the file.
func (t *tracker) tell() {
	if t.unmatched > 0 {
		t.env.note("%d FREE rows have no MALLOC before them and were passed over", t.unmatched)
	}
	if t.replaced > 0 {
		t.env.note("%d blocks were given out again without a FREE; they end with the next MALLOC at their address", t.replaced)
	}
}

// unowned names blocks whose row says no owner.
const unowned = "(no owner)"

// component is an owner without its first segment, which only repeats the pool: PTA@model@weight is model in PTA. An owner
// of one segment stands for itself.
func component(owner string) string {
	if owner == "" {
		return unowned
	}
	_, rest, more := strings.Cut(owner, "@")
	if !more {
		return owner
	}
	first, _, _ := strings.Cut(rest, "@")
	return first
}
