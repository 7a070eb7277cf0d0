// Command gen writes a memory dump for benchmarks: the rows of a training loop on one card, in time order, always the same
// for the same options.
//
//	gen -rows N [-stacks] [-bare] [-edits N] -o FILE
package main

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"

	"memscope/internal/dump/read"
)

func main() {
	rows := flag.Int("rows", 1_000_000, "rows to write, about")
	stacks := flag.Bool("stacks", false, "with call stacks on MALLOC rows")
	bare := flag.Bool("bare", false, "operators only, two rows each")
	edits := flag.Int("edits", 0, "operators to leave out or double, spread evenly")
	out := flag.String("o", "", "file to write")
	flag.Parse()
	if *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	f, err := os.Create(*out)
	if err != nil {
		fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	fmt.Fprintln(w, read.Header)
	g := &generator{w: w, rnd: rand.New(rand.NewPCG(1, 2)), stacks: *stacks, bare: *bare,
		now: 1764753083000000000, live: make([]block, 0, 4096), next: 0x12c041200000}
	if *edits > 0 {
		perOperator := 7
		if *bare {
			perOperator = 2
		}
		g.every = *rows / perOperator / *edits
	}
	g.run(*rows)
	if err := g.w.Flush(); err != nil {
		fatal(err)
	}
	if err := f.Close(); err != nil {
		fatal(err)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "gen:", err)
	os.Exit(1)
}

type block struct {
	addr, size, id int64
	hal            bool
}

type generator struct {
	w      *bufio.Writer
	rnd    *rand.Rand
	stacks bool
	bare   bool
	every  int // operators between two edits

	id, alloc, now   int64
	used, total, hal int64
	next             int64
	live             []block
}

var operators = []string{"t.default", "addmm.default", "mse_loss.default", "ones_like.default", "mm.default", "sum.dim_IntList",
	"_to_copy.default", "randn.default", "add_.Tensor", "native_layer_norm.default", "view.default", "_softmax.default"}
var owners = []string{"PTA@model@weight", "PTA@model@gradient", "PTA@fsdp2@all_gather_output@ops", "PTA@model@optimizer_state", "PTA@ops", "PTA"}

func (g *generator) run(rows int) {
	g.row("SYSTEM,START_TRACE,N/A", "N/A", "N/A", "", "")
	names := rand.New(rand.NewPCG(3, 4)) // apart from the rest, so that an edit changes no name behind it
	for op := 0; int(g.id) < rows; op++ {
		if op%2000 == 0 {
			g.row(`MSTX,Range_start,"step start"`, "0", "N/A", "", "")
		}
		copies := 1
		if g.every > 0 && op%g.every == g.every-1 {
			copies = 2 * (op / g.every % 2)
		}
		name := "torch._ops.aten." + operators[names.IntN(len(operators))]
		for range copies {
			g.row("OP_LAUNCH,ATEN_START,"+name, "0", "N/A", "", "")
			if !g.bare {
				g.memory()
				g.row("KERNEL_LAUNCH,KERNEL_LAUNCH,"+name[16:], "0", "N/A", fmt.Sprintf("{streamId:3,taskId:%d}", op), "")
			}
			g.row("OP_LAUNCH,ATEN_END,"+name, "0", "N/A", "", "")
		}
	}
	g.row("SYSTEM,STOP_TRACE,N/A", "N/A", "N/A", "", "")
	for len(g.live) > 0 {
		b := g.live[len(g.live)-1]
		g.live = g.live[:len(g.live)-1]
		g.row("FREE,"+pool(b)+",N/A", "0", ptr(b.addr), fmt.Sprintf("{allocation_id:%d,addr:%s,size:%d,shadow:true}", b.id, ptr(b.addr), b.size), "")
	}
}

func pool(b block) string {
	if b.hal {
		return "HAL"
	}
	return "PTA"
}

func ptr(addr int64) string { return fmt.Sprintf("0x%016x", addr) }

// memory is what one operator does: some blocks come, about as many go, and now and then the pool grows by a segment.
func (g *generator) memory() {
	for range 1 + g.rnd.IntN(3) {
		b := block{size: 512 * (1 + int64(g.rnd.IntN(4000)))}
		if g.used+b.size > g.total {
			s := block{size: 20 << 20, hal: true}
			g.malloc(s, "{allocation_id:%d,addr:%s,size:%d,used:%d,process_used:%[5]d,device_used:%[6]d,owner:CANN@APP,page_type:huge,alloc_type:alloc}", &g.hal, g.hal+s.size+1<<28, g.hal+s.size+1<<30)
			g.total += s.size
		}
		g.malloc(b, "{allocation_id:%d,addr:%s,size:%d,used:%d,total:%[5]d,process_used:%[6]d,device_used:%[7]d,owner:"+owners[g.rnd.IntN(len(owners))]+"}", &g.used, g.total, g.hal+1<<28, g.hal+1<<30)
	}
	for len(g.live) > 2000 || (len(g.live) > 400 && g.rnd.IntN(3) > 0) {
		i := g.rnd.IntN(len(g.live))
		b := g.live[i]
		if b.hal {
			continue
		}
		g.live[i] = g.live[len(g.live)-1]
		g.live = g.live[:len(g.live)-1]
		g.used -= b.size
		g.row("FREE,PTA,N/A", "0", ptr(b.addr), fmt.Sprintf("{allocation_id:%d,addr:%s,size:%d,used:%d,total:%d,process_used:%d,device_used:%d}",
			b.id, ptr(b.addr), b.size, g.used, g.total, g.hal+1<<28, g.hal+1<<30), "")
	}
}

func (g *generator) malloc(b block, attr string, used *int64, more ...any) {
	g.alloc++
	b.id, b.addr = g.alloc, g.next
	g.next += b.size
	*used += b.size
	g.live = append(g.live, b)
	g.row("MALLOC,"+pool(b)+",N/A", "0", ptr(b.addr), fmt.Sprintf(attr, append([]any{b.id, ptr(b.addr), b.size, *used}, more...)...), g.stack())
}

// stack makes one of some thousand call stacks.
func (g *generator) stack() string {
	if !g.stacks {
		return ""
	}
	var s strings.Builder
	layer := g.rnd.IntN(2000)
	for i := range 12 {
		fmt.Fprintf(&s, "/opt/model/layer_%d.py(%d): forward_%d\n", layer%(i+1), 10+layer%(7*i+3), i)
	}
	return s.String()
}

func (g *generator) row(head, device, ptr, attr, stack string) {
	g.now += 800 + int64(g.rnd.IntN(4000))
	fmt.Fprintf(g.w, "%d,%s,%d,3101864,3101864,%s,%s,", g.id, head, g.now, device, ptr)
	if attr != "" {
		fmt.Fprintf(g.w, "\"%s\"", attr)
	}
	g.w.WriteByte(',')
	if stack != "" {
		fmt.Fprintf(g.w, "\"%s\"", stack)
	}
	g.w.WriteString(",\n")
	g.id++
}
