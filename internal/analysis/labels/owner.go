package labels

import "strings"

// Levels of an owner, in order (contract 5.5).
const (
	Framework = iota
	Component
	Process
	Detail1
	Detail2
	User1
	User2
	User3
	levels
)

// Owner says what a block is for: a label for each level, "" for none. It never changes, and equal ones that came about in
// the same way are one.
type Owner struct {
	names [levels]string
	text  string
	next  map[step]*Owner // made of this one before
}

type step struct {
	level int
	label string
}

// mostNext bounds what an owner remembers: a program may make up a new label for every block.
const mostNext = 256

// String joins the labels there are with @.
func (o *Owner) String() string { return o.text }

// Has says whether there is a label at a level.
func (o *Owner) Has(level int) bool { return o.names[level] != "" }

// With is the owner that has label at a level, in place of what is there.
func (o *Owner) With(level int, label string) *Owner {
	if o.names[level] == label {
		return o
	}
	s := step{level, label}
	if next := o.next[s]; next != nil {
		return next
	}
	next := &Owner{names: o.names}
	next.names[level] = label
	var present []string
	for _, name := range next.names {
		if name != "" {
			present = append(present, name)
		}
	}
	next.text = strings.Join(present, "@")
	if o.next == nil || len(o.next) >= mostNext {
		o.next = make(map[step]*Owner)
	}
	o.next[s] = next
	return next
}
