package cli

import (
	"slices"
	"strings"
	"testing"

	"memscope/internal/config"
)

// TestOnce: a value for what is set already is dropped; what is not used is named with what stays, and a wrong one is refused all the same.
func TestOnce(t *testing.T) {
	const only = `[msmemscope] Warn: Config:"format","output_path","watch" can only be set once.`
	for _, c := range []struct {
		options string
		lines   []string
		err     string
	}{
		{"format=csv", []string{only}, ""},
		{"output-path=first", []string{only}, ""},
		{"output-path=out events=alloc", []string{only, `[msmemscope] Warn: output_path stays /here/first; "out" is not used.`}, ""},
		{"output=/out", []string{only, `[msmemscope] Warn: output_path stays /here/first; "/out" is not used.`}, ""},
		{"watch=,a", []string{only, `[msmemscope] Warn: watch stays x:2,y,full-content; ",a" is not used.`}, ""},
		{"format=db output-path=out", []string{
			only, `[msmemscope] Warn: format stays csv; "db" is not used.`, `[msmemscope] Warn: output_path stays /here/first; "out" is not used.`,
		}, ""},
		{"format=xml", nil, `--format does not know "xml"; accepted: csv, db`},
		{"output-path=a?b", nil, "a?b"},
		{"watch=,", nil, "END is empty"},
	} {
		old := config.Default()
		old.OutputPath, old.Watch = "/here/first", config.Watch{Start: "x", End: "y", Output: 2, Full: true}
		text := "/here\x00" + strings.ReplaceAll(c.options, " ", "\x00") + "\x00"
		cfg, notices, err := API(text, &old, true)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", c.options, err, c.err)
			}
			continue
		}
		if err != nil || !slices.Equal(notices, c.lines) || cfg.OutputPath != old.OutputPath || cfg.Format != old.Format || cfg.Watch != old.Watch {
			t.Errorf("%s: %v, %q, %+v", c.options, err, notices, cfg)
		}
	}
}
