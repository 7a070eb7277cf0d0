package session

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tooBrief counts a program without a report on its host heap.
func (s *session) tooBrief(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.brief[name]++
}

// tellBrief says which programs these were, the most frequent ones by name; "" when there was none.
func (s *session) tellBrief() string {
	const most = 8
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := 0
	var names []string
	for _, name := range slices.SortedFunc(maps.Keys(s.brief), func(a, b string) int {
		return cmp.Or(s.brief[b]-s.brief[a], strings.Compare(a, b))
	}) {
		n := s.brief[name]
		sum += n
		switch {
		case len(names) == most:
			names = append(names, "others")
		case len(names) < most && n > 1:
			names = append(names, fmt.Sprintf("%s (%d)", name, n))
		case len(names) < most:
			names = append(names, name)
		}
	}
	if sum == 0 {
		return ""
	}
	return fmt.Sprintf("[msmemscope] Info: %d helper program(s) that ran for less than %v have no report on their host heap: %s.", sum, leastLife,
		strings.Join(names, ", "))
}
