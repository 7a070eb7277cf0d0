package sqlitefile

import (
	"encoding/binary"
	"io"
)

// pageBytes is the size of a page: of the sizes that SQLite takes one at which a stack seldom leaves its page, and a row does
// not cost a walk through many.
const pageBytes = 16384

// Kinds of pages of a tree. Without the bit leaf it is an inner page.
const (
	leaf      = 8
	indexLeaf = 2 | leaf
	tableLeaf = 5 | leaf
)

// What stays of a payload on the page of its cell: all of it up to maxLocal, else between minLocal and maxLocal so that the last overflow page is
// as full as can be.
const (
	maxLocalTable = pageBytes - 35
	maxLocalIndex = (pageBytes-12)*64/255 - 23
	minLocal      = (pageBytes-12)*32/255 - 23
	overflowBytes = pageBytes - 4 // of a payload on an overflow page
)

// lockPage is the page that nothing may be on, because SQLite locks bytes of it, from lockByte on.
const (
	lockByte = 1 << 30
	lockPage = lockByte/pageBytes + 1
)

// page is a page of a tree, which is filled with cells in their order, from its end to its front.
type page struct {
	no    uint32
	kind  byte
	buf   []byte
	cells int
	free  int // where the last cell begins
}

func newPage(no uint32, kind byte) *page {
	p := &page{buf: make([]byte, pageBytes)}
	p.begin(no, kind)
	return p
}

// begin makes it an empty page.
func (p *page) begin(no uint32, kind byte) {
	clear(p.buf)
	p.no, p.kind, p.cells, p.free = no, kind, 0, pageBytes
}

func (p *page) inner() bool { return p.kind&leaf == 0 }

// head is where the page's own header begins.
func (p *page) head() int {
	if p.no == 1 {
		return headerBytes
	}
	return 0
}

// pointers is where the places of the cells begin.
func (p *page) pointers() int {
	if p.inner() {
		return p.head() + 12
	}
	return p.head() + 8
}

// add adds a cell, if there is room.
func (p *page) add(cell []byte) bool {
	at := p.pointers() + 2*p.cells
	if at+2+len(cell) > p.free {
		return false
	}
	p.free -= len(cell)
	copy(p.buf[p.free:], cell)
	binary.BigEndian.PutUint16(p.buf[at:], uint16(p.free))
	p.cells++
	return true
}

// pop takes the last cell away. It is valid until the page changes.
func (p *page) pop() []byte {
	p.cells--
	at := p.pointers() + 2*p.cells
	end := pageBytes
	if p.cells > 0 {
		end = int(binary.BigEndian.Uint16(p.buf[at-2:]))
	}
	cell := p.buf[p.free:end]
	p.free = end
	binary.BigEndian.PutUint16(p.buf[at:], 0)
	return cell
}

// bytes is the page as it stands in the file. right is the child behind all cells of an inner page.
func (p *page) bytes(right uint32) []byte {
	h := p.buf[p.head():]
	h[0] = p.kind
	binary.BigEndian.PutUint16(h[3:], uint16(p.cells))
	binary.BigEndian.PutUint16(h[5:], uint16(p.free))
	if p.inner() {
		binary.BigEndian.PutUint32(h[8:], right)
	}
	return p.buf
}

// pager gives numbers to pages and writes them.
type pager struct {
	f         io.WriterAt
	last      uint32 // page that has a number
	published uint32 // pages of the database as others see it
	nos       []uint32
	queued    []byte // pages with these numbers, to be written
}

// queueBytes is how much is written at once.
const queueBytes = 64 * pageBytes

// next is the number of a new page.
func (p *pager) next() uint32 {
	p.last++
	if p.last == lockPage {
		p.last++
	}
	return p.last
}

// queue takes a copy of a page that is not in the database yet.
func (p *pager) queue(no uint32, page []byte) {
	p.nos = append(p.nos, no)
	p.queued = append(p.queued, page...)
}

// writeFull writes the queued pages if there are many.
func (p *pager) writeFull() error {
	if len(p.queued) < queueBytes {
		return nil
	}
	return p.write()
}

// write writes the queued pages. After an error they are still queued.
func (p *pager) write() error {
	for i := 0; i < len(p.nos); {
		n := i + 1
		for n < len(p.nos) && p.nos[n] == p.nos[n-1]+1 {
			n++
		}
		if err := p.writeAt(p.nos[i], p.queued[i*pageBytes:n*pageBytes]); err != nil {
			return err
		}
		i = n
	}
	p.nos, p.queued = p.nos[:0], p.queued[:0]
	return nil
}

func (p *pager) writeAt(no uint32, pages []byte) error {
	_, err := p.f.WriteAt(pages, int64(no-1)*pageBytes)
	return err
}

// cutBack forgets the pages that are not in the database.
func (p *pager) cutBack() { p.last, p.nos, p.queued = p.published, p.nos[:0], p.queued[:0] }

// appendCell appends the cell of a record to an empty out, and queues the overflow pages that it needs. Cells of an index have no row.
func (p *pager) appendCell(out, head, body []byte, row int64, maxLocal int) []byte {
	size := len(head) + len(body)
	out = appendVarint(out, uint64(size))
	if row > 0 {
		out = appendVarint(out, uint64(row))
	}
	if size <= maxLocal {
		return append(append(out, head...), body...)
	}
	local := minLocal + (size-minLocal)%overflowBytes
	if local > maxLocal {
		local = minLocal
	}
	payload := append(append(make([]byte, 0, size), head...), body...)
	out = append(out, payload[:local]...)
	no := p.next()
	out = binary.BigEndian.AppendUint32(out, no)
	var page [pageBytes]byte
	for rest := payload[local:]; len(rest) > 0; {
		clear(page[:])
		rest = rest[copy(page[4:], rest):]
		next := uint32(0)
		if len(rest) > 0 {
			next = p.next()
		}
		binary.BigEndian.PutUint32(page[:], next)
		p.queue(no, page[:])
		no = next
	}
	return out
}
