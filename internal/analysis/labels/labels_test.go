package labels

import (
	"strings"
	"testing"

	"memscope/internal/event"
)

// TestThreads: "TID +LEVEL:label" pushes, - pops, and what stands behind = is the owner of the thread then.
func TestThreads(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"levels in order", "1+4:d2 1+1:c =1:c@d2 1+2:p =1:c@p@d2 1+3:d1 =1:c@p@d1@d2 -"},
		{"of their thread", "1+1:a 2+1:b =1:a =2:b =3: 2-1:b =2: =1:a"},
		{"the newest counts", "1+1:a 1+1:b =1:b 1-1:b =1:a 1-1:a =1:"},
		{"equal ones nest", "1+1:a 1+1:a 1-1:a =1:a 1-1:a =1:"},
		{"equal ones stay where they are", "1+1:a 1+1:b 1+1:a =1:b 1-1:b =1:a 1-1:a =1:a 1-1:a =1:"},
		{"three different ones", "1+1:a 1+1:b 1+1:c 1+1:d =1:c 1-1:d =1:c 1+1:a 1-1:c =1:b 1-1:b =1:a 1-1:a =1:a"},
		{"an unknown one", "1-1:a 1+1:a 1-1:b 1-2:a =1:a"},
		{"the framework does not show", "1+0:f =1: 1+1:a =1:a"},
		{"the user's", "1+5:x 1+5:y =1:x@y 1+5:x =1:x@y 1+6:z =1:x@y@z 1+5:w =1:x@y@z 1-5:w 1-5:z =1:x@y 1-5:x =1:x@y 1-5:x =1:y"},
		{"the user's come last", "1+5:x 1+3:d =1:d@x"},
		{"other levels do not exist", "1+8:x 1-9:x =1:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tracker := New()
			for _, word := range strings.Fields(c.script) {
				if rest, ok := strings.CutPrefix(word, "="); ok {
					if got := tracker.Of(uint64(rest[0] - '0')).String(); got != rest[2:] {
						t.Errorf("%s: the owner is %q", word, got)
					}
				} else if len(word) > 2 {
					ev := event.Event{Kind: event.Label, Sub: event.LabelPush, TID: uint64(word[0] - '0'), Value: uint64(word[2] - '0'), Name: word[4:]}
					if word[1] == '-' {
						ev.Sub = event.LabelPop
					}
					tracker.Apply(&ev)
				}
			}
		})
	}
}

func TestEscape(t *testing.T) {
	if got := Escape("a\n\f\r\b\t\v\x7fé"); got != `a\n\f\r\b\t\v\u007Fé` {
		t.Error(got)
	}
}

// TestManyOwners: an owner that is made again is the same, and labels without end do not fill the memory.
func TestManyOwners(t *testing.T) {
	root := new(Owner)
	if a := root.With(Component, "a"); a != root.With(Component, "a") || a.With(Component, "a") != a {
		t.Error("two owners that are equal")
	}
	for i := range 10 * mostNext {
		root.With(User1, strings.Repeat("x", i))
	}
	if len(root.next) > mostNext {
		t.Errorf("%d owners are remembered", len(root.next))
	}
}

func TestThreadsEnd(t *testing.T) {
	tracker := New()
	for tid := range uint64(mostThreads + 100) {
		tracker.Apply(&event.Event{Kind: event.Label, Sub: event.LabelPush, TID: tid + 1, Value: Component, Name: "a"})
	}
	if len(tracker.threads) != mostThreads {
		t.Errorf("%d threads", len(tracker.threads))
	}
	for tid := range uint64(mostThreads) {
		tracker.Apply(&event.Event{Kind: event.Label, Sub: event.LabelPop, TID: tid + 1, Value: Component, Name: "a"})
	}
	if len(tracker.threads) != 0 {
		t.Errorf("%d threads are remembered", len(tracker.threads))
	}
}
