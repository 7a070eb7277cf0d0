package sqlitefile

import (
	"bytes"
	"encoding/binary"
)

// tree is the tree of a table or an index, which grows at its right edge only. levels are the pages of that edge, the leaf first. The last of
// them is always the root, which keeps its number: when it is full, what it holds moves to another page.
type tree struct {
	pages  *pager
	root   uint32
	levels []*page
	key    int64      // of the last cell
	old    []fullPage // that the database has in a former state
}

type fullPage struct {
	no    uint32
	bytes []byte
}

func newTree(pages *pager, kind byte) tree {
	root := pages.next()
	return tree{pages: pages, root: root, levels: []*page{newPage(root, kind)}}
}

// add adds a cell behind all others. key is its rowid if it is of a table.
func (t *tree) add(cell []byte, key int64) {
	t.insert(0, cell)
	t.key = key
}

func (t *tree) insert(level int, cell []byte) {
	p := t.levels[level]
	if p.add(cell) {
		return
	}
	// The page is full. What stands between it and the next one goes into the page above: the largest key of a table's leaf, else the last cell.
	right := uint32(0)
	var between []byte
	switch {
	case p.kind == tableLeaf:
		between = appendVarint(nil, uint64(t.key))
	case p.inner():
		last := p.pop()
		right = binary.BigEndian.Uint32(last)
		between = append(between, last[4:]...)
	default:
		between = append(between, p.pop()...)
	}
	if level == len(t.levels)-1 {
		t.levels = append(t.levels, newPage(t.root, p.kind&^leaf))
		p.no = t.pages.next()
	}
	up := append(binary.BigEndian.AppendUint32(nil, p.no), between...)
	if t.isOld(p) {
		t.old = append(t.old, fullPage{p.no, bytes.Clone(p.bytes(right))})
	} else {
		t.pages.queue(p.no, p.bytes(right))
	}
	p.begin(t.pages.next(), p.kind)
	p.add(cell)
	t.insert(level+1, up)
}

// isOld says whether the database has the page in a former state: it may be written only while nobody reads.
func (t *tree) isOld(p *page) bool { return p.no <= t.pages.published }

// edge visits the pages of the right edge, the leaf first.
func (t *tree) edge(visit func(p *page, bytes []byte)) {
	right := uint32(0)
	for _, p := range t.levels {
		visit(p, p.bytes(right))
		right = p.no
	}
}

// queue queues the pages of the edge. The tree is complete then.
func (t *tree) queue() {
	t.edge(func(p *page, bytes []byte) { t.pages.queue(p.no, bytes) })
}

// queueNew queues those that the database does not have yet.
func (t *tree) queueNew() {
	t.edge(func(p *page, bytes []byte) {
		if !t.isOld(p) {
			t.pages.queue(p.no, bytes)
		}
	})
}

// writeOld writes those that it has, from the leaves to the root.
func (t *tree) writeOld() (err error) {
	for _, p := range t.old {
		if err := t.pages.writeAt(p.no, p.bytes); err != nil {
			return err
		}
	}
	t.edge(func(p *page, bytes []byte) {
		if err == nil && t.isOld(p) {
			err = t.pages.writeAt(p.no, bytes)
		}
	})
	if err == nil {
		t.old = nil
	}
	return err
}
