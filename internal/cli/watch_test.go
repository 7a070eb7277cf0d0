package cli

import (
	"strings"
	"testing"

	"memscope/internal/config"
)

const watchRange = "accepted: [START[:N],]END[,full-content], with N the number of an output"

// The cases of contract 1.7, and what is taken beyond them.
func TestWatch(t *testing.T) {
	const all = config.AllOutputs
	long := strings.Repeat("x", 300)
	for value, want := range map[string]*config.Watch{
		"start:123,end,full-content": {Start: "start", End: "end", Output: 123, Full: true},
		"start:out7,end":             {Start: "start", End: "end", Output: 7},
		"start,end,":                 {Start: "start", End: "end", Output: all},
		",end,":                      {End: "end", Output: all},
		"end":                        {End: "end", Output: all},
		long + "," + long:            {Start: long[:254], End: long[:254], Output: all},
		"":                           nil, ",": nil, "start:error,end": nil, ":,end": nil, "start:123,end,full-contents": nil,
		"start:4294967296,end": nil, "start:,end": nil, "a,b,,c": nil,
	} {
		p := &parser{req: request{config: config.Default()}}
		switch err := p.setWatch(value); {
		case want == nil && err == nil:
			t.Errorf("%q is accepted", value)
		case want != nil && (err != nil || p.req.config.Watch != *want):
			t.Errorf("%q: %+v, %v", value, p.req.config.Watch, err)
		}
	}
}
