package session

import (
	"strings"
	"testing"

	"memscope/internal/hostheap"
)

// FuzzCommand: whatever a control session sends is answered, for a process of which nothing is recorded and for one without a window.
func FuzzCommand(f *testing.F) {
	for _, c := range Commands {
		f.Add(strings.ReplaceAll(c.Words, " ", "\x00"))
	}
	f.Add("display\x00host_leak\x00summary\x00--top=7\x00--json")
	f.Add("display\x00host_leak\x00summary\x00--top=-1")
	tables, err := hostheap.NewTables(hostheap.Limits{Slots: 2})
	if err != nil {
		f.Fatal(err)
	}
	h := &heap{tables: tables, recorder: hostheap.NewRecorder(tables, hostheap.Beat), proc: &process{fd: -1}}
	f.Fuzz(func(t *testing.T, text string) {
		words := strings.Split(text, "\x00")
		if out, err := obey(nil, nil, words); out == "" && err == nil && strings.Join(words, " ") != "display status" {
			t.Errorf("%q: no answer", words)
		}
		if plain, _ := splitWords(words); plain == "start" {
			return // it opens a window
		}
		if out, err := obey(h, nil, words); out == "" && err == nil {
			t.Errorf("%q: no answer", words)
		}
	})
}
