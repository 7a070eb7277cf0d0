package report

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"memscope/internal/hostheap"
)

// DetailHeader is the first line of block_detail_<stage>.csv (contract 6.3).
const DetailHeader = "addr,size,alloc_ts,Call Stack(C),Call Stack(Python)"

// detailMost is how many blocks are sorted at a time, 24 bytes each.
const detailMost = 4 << 20

type detailBlock struct {
	addr, size  uint64
	stack, tick uint32
}

// WriteDetail lists the unfreed blocks of a closed window, the largest first, those of one size by address; blocks of the overflow channel have no
// stack and are not listed. The ledger is read once for each part that fits into memory, because it does not change any more. alloc_ts is
// nanoseconds since the epoch, to the resolution of the ledger.
func WriteDetail(w io.Writer, in Input, most int) (rows uint64, err error) {
	if most <= 0 {
		most = detailMost
	}
	s := in.Snapshot
	each := func(visit func(b detailBlock)) {
		in.Tables.Blocks(s.Window, s.Dead, func(b hostheap.Block) {
			if b.Stack != hostheap.StackOverflow {
				visit(detailBlock{b.Addr, b.Size, b.Stack, b.Tick})
			}
		})
	}
	counts := map[uint64]int{}
	each(func(b detailBlock) { counts[b.size]++ })
	out := detailWriter{w: bufio.NewWriterSize(w, 1<<20), in: in, stacks: map[uint32]string{}}
	out.string(DetailHeader + "\n")
	sizes := slices.SortedFunc(maps.Keys(counts), func(a, b uint64) int { return cmp.Compare(b, a) })
	for len(sizes) > 0 {
		n, total := 0, 0
		for n < len(sizes) && (n == 0 || total+counts[sizes[n]] <= most) {
			total += counts[sizes[n]]
			n++
		}
		largest, least := sizes[0], sizes[n-1]
		sizes = sizes[n:]
		if n == 1 { // the ledger is in the order of addresses
			each(func(b detailBlock) {
				if b.size == largest {
					out.row(b)
				}
			})
			continue
		}
		part := make([]detailBlock, 0, total)
		each(func(b detailBlock) {
			if b.size <= largest && b.size >= least {
				part = append(part, b)
			}
		})
		slices.SortFunc(part, func(a, b detailBlock) int {
			return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.addr, b.addr))
		})
		for _, b := range part {
			out.row(b)
		}
	}
	if out.err == nil {
		out.err = out.w.Flush()
	}
	return out.rows, out.err
}

// detailWriter writes rows; after an error it does nothing.
type detailWriter struct {
	w      *bufio.Writer
	in     Input
	stacks map[uint32]string // the two last columns
	bytes  int
	rows   uint64
	err    error
}

// stackCache bounds what is kept of the texts of stacks, bytes.
const stackCache = 64 << 20

func (d *detailWriter) string(text string) {
	if d.err == nil {
		_, d.err = d.w.WriteString(text)
	}
}

func (d *detailWriter) row(b detailBlock) {
	at := d.in.Snapshot.Opened.Add(time.Duration(b.tick) * d.in.Snapshot.Beat / 10)
	var head []byte
	head = append(head, "0x"...)
	hex := strconv.FormatUint(b.addr, 16)
	head = append(head, strings.Repeat("0", 16-len(hex))+hex+","...)
	head = strconv.AppendUint(head, b.size, 10)
	head = append(head, ',')
	head = strconv.AppendInt(head, at.UnixNano(), 10)
	d.string(string(head))
	d.string(d.stack(b.stack))
	d.rows++
}

func (d *detailWriter) stack(id uint32) string {
	if text, ok := d.stacks[id]; ok {
		return text
	}
	var c, python []string
	frames, ok := d.in.Tables.Stack(id)
	switch {
	case ok:
		c, python = d.in.Texts.Stack(&frames)
	case id == hostheap.StackUnknown:
		c = []string{"unknown bucket"}
	default:
		c = []string{"(unresolved stack " + strconv.FormatUint(uint64(id), 10) + ")"}
	}
	var b strings.Builder
	row := csv.NewWriter(&b)
	_ = row.Write([]string{"", strings.Join(c, "\n"), strings.Join(python, "\n")}) // a builder takes everything
	row.Flush()
	text := b.String()
	if d.bytes += len(text); d.bytes > stackCache {
		clear(d.stacks)
		d.bytes = len(text)
	}
	d.stacks[id] = text
	return text
}
