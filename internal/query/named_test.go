package query

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// TestNamedPool: a pool of the user's own, whose name is the Event Type of its rows, is looked at by every question, in both formats.
func TestNamedPool(t *testing.T) {
	s := newScene()
	s.malloc(200*mib, "PTA@model@weight")
	s.steps(60, func(int) { s.malloc(2*mib, "PTA@ops") })
	text := strings.NewReplacer("MALLOC,PTA,", "MALLOC,my arena,", "FREE,PTA,", "FREE,my arena,").Replace(s.end())
	path := store(t, "memscope_dump_1.csv", []byte(text))
	base := filepath.Join(t.TempDir(), "memscope_dump_2.db")
	var out bytes.Buffer
	if status := Main([]string{"convert", "--to", "db", "--output", base, path}, &out, &out); status != statusOK {
		t.Fatal(out.String())
	}
	for _, file := range []string{path, base} {
		for _, c := range []struct {
			args, path string
			want       any
		}{
			{"stats", "events.3.event_type", "my arena"},
			{"stats", "events.3.rows", 181.0},
			{"peak", "peaks.1.pool", "my arena"},
			{"peak", "peaks.1.peak_bytes", float64(410 * mib)},
			{"trend", "views.1.pool", "my arena"},
			{"trend", "views.1.rising", true},
			{"curve --bins 4", "curves.1.pool", "my arena"},
			{"at -1ns", "views.1.pool", "my arena"},
			{"window +0s -1ns", "views.1.pool", "my arena"},
			{"group", "views.1.pool", "my arena"},
			{"group --by event_type", "views.1.groups.0.label", "my arena"},
			{"leak-candidates", "views.1.candidates.blocks", 61.0},
			{"leak-candidates --pool=my_arena", "views.0.candidates.blocks", 61.0},
			{"leak-candidates --pool=my_arena", "views.#", 1.0},
			{"leak-candidates --pool=all", "views.1.pool", "my arena"},
			{"fragmentation", "views.0.pool", "my arena"},
			{"diagnose", "conclusions.0.cause", "leak"},
		} {
			args := strings.Fields(c.args)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "my_arena", "my arena")
			}
			if got := at(ask(t, append(args, file)...)["result"], c.path); got != c.want {
				t.Errorf("%s %s: %s is %v, want %v", c.args, filepath.Base(file), c.path, got, c.want)
			}
		}
	}
	var stderr bytes.Buffer
	if status := Main([]string{"peak", "--pool", "arenas", path}, &out, &stderr); status != statusUsage || !strings.Contains(stderr.String(), `unknown pool "arenas"; accepted: HAL, PTA, PTA_WORKSPACE, ATB, MINDSPORE, HOST, my arena, all`) {
		t.Errorf("status %d: %s", status, stderr.String())
	}
}
