package query

import (
	"cmp"
	"slices"
	"strings"
)

// node is an owner, or a part of one, with everything below it: PTA@model@weight is weight below model below PTA.
type node struct {
	Name     string  `json:"name"`
	Bytes    int64   `json:"bytes"`
	Blocks   int64   `json:"blocks"`
	Share    float64 `json:"share"` // of the whole
	Children []*node `json:"children,omitempty"`
}

func (n *node) child(name string) *node {
	for _, c := range n.Children {
		if c.Name == name {
			return c
		}
	}
	c := &node{Name: name}
	n.Children = append(n.Children, c)
	return c
}

// add adds blocks of an owner.
func (n *node) add(owner string, bytes, blocks int64) {
	n.Bytes += bytes
	n.Blocks += blocks
	if owner == "" {
		owner = unowned
	}
	for name := range strings.SplitSeq(owner, "@") {
		n = n.child(name)
		n.Bytes += bytes
		n.Blocks += blocks
	}
}

// finish sorts by size and reckons the shares.
func (n *node) finish(whole int64) {
	n.Share = ratio(n.Bytes, whole)
	slices.SortFunc(n.Children, func(a, b *node) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name)) })
	for _, c := range n.Children {
		c.finish(whole)
	}
}

// rows lists the tree below n, indented.
func (n *node) rows(depth int) (rows [][]string) {
	for _, c := range n.Children {
		rows = append(rows, []string{strings.Repeat("  ", depth) + c.Name, size(c.Bytes), percentage(c.Share), count(c.Blocks)})
		rows = append(rows, c.rows(depth+1)...)
	}
	return rows
}

func treeHeader() []string { return []string{"owner", ">bytes", ">share", ">blocks"} }

// share is a line of a table by component, group, or whatever.
type share struct {
	Label  string  `json:"label"`
	Bytes  int64   `json:"bytes"`
	Blocks int64   `json:"blocks"`
	Share  float64 `json:"share"`
}

// tally adds up by label.
type tally map[string]*share

func (t tally) add(label string, bytes, blocks int64) {
	s := t[label]
	if s == nil {
		s = &share{Label: label}
		t[label] = s
	}
	s.Bytes += bytes
	s.Blocks += blocks
}

// list gives the lines, the largest first.
func (t tally) list() []share {
	var whole int64
	for _, s := range t {
		whole += s.Bytes
	}
	out := make([]share, 0, len(t))
	for _, s := range t {
		s.Share = ratio(s.Bytes, whole)
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b share) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Label, b.Label)) })
	return out
}

// listed prints the lines as a table, at most limit of them (0: all).
func listed(w *report, what string, shares []share, limit int) {
	var rows [][]string
	for i, s := range shares {
		if limit > 0 && i == limit {
			break
		}
		rows = append(rows, []string{s.Label, size(s.Bytes), percentage(s.Share), count(s.Blocks)})
	}
	w.table([]string{what, ">bytes", ">share", ">blocks"}, rows)
	if limit > 0 && len(shares) > limit {
		w.line("  and %d more", len(shares)-limit)
	}
}
