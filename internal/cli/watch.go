package cli

import (
	"fmt"
	"strconv"
	"strings"

	"memscope/internal/config"
)

// setWatch reads [START[:N],]END[,full-content] (contract 1.7); N may be written as outN.
func (p *parser) setWatch(value string) error {
	bad := func(why string) error {
		return fmt.Errorf("--watch=%s: %s; accepted: [START[:N],]END[,full-content], with N the number of an output", shown(value), why)
	}
	w := config.Watch{Output: config.AllOutputs}
	parts := strings.Split(strings.ReplaceAll(value, "，", ","), ",")
	if len(parts) == 1 {
		w.End = parts[0]
	} else {
		w.Start, w.End = parts[0], parts[1]
	}
	switch {
	case len(parts) > 3:
		return bad("there are more than three parts")
	case len(parts) == 3 && parts[2] == "full-content":
		w.Full = true
	case len(parts) == 3 && parts[2] != "":
		return bad(fmt.Sprintf("the third part is %q", shown(parts[2])))
	}
	if w.End == "" {
		return bad("END is empty")
	}
	if start, output, ok := strings.Cut(w.Start, ":"); ok {
		digits := strings.TrimPrefix(output, "out")
		n, err := strconv.ParseUint(digits, 10, 32)
		if start == "" || err != nil || strconv.FormatUint(n, 10) != digits {
			return bad(fmt.Sprintf("START is %q", shown(w.Start)))
		}
		w.Start, w.Output = start, uint32(n)
	}
	w.Start, w.End = w.Start[:min(len(w.Start), config.MostWatchName)], w.End[:min(len(w.End), config.MostWatchName)]
	p.req.config.Watch = w
	return nil
}

// watchText is what setWatch reads w from.
func watchText(w config.Watch) string {
	if w.End == "" {
		return "off"
	}
	text := w.Start
	if w.Output != config.AllOutputs {
		text += ":" + strconv.FormatUint(uint64(w.Output), 10)
	}
	text += "," + w.End
	if w.Full {
		text += ",full-content"
	}
	return shown(text)
}
