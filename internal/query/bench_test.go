package query

import (
	"io"
	"os"
	"strings"
	"testing"
)

// BenchmarkQuestion asks the dump that MEMSCOPE_BENCH_DUMP names; -bench Question/stats chooses one.
func BenchmarkQuestion(b *testing.B) {
	path := os.Getenv("MEMSCOPE_BENCH_DUMP")
	if _, err := os.Stat(path); err != nil {
		b.Skip("MEMSCOPE_BENCH_DUMP names no dump: ", err)
	}
	for _, q := range []string{"stats", "check", "peak", "trend", "group", "leak-candidates", "oom", "fragmentation", "hal-segments", "kernels"} {
		b.Run(strings.ReplaceAll(q, " ", "_"), func(b *testing.B) {
			for b.Loop() {
				if status := Main([]string{q, path}, io.Discard, io.Discard); status != statusOK {
					b.Fatal("status ", status)
				}
			}
		})
	}
}
