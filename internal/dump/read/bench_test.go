package read

import (
	"os"
	"testing"
)

// BenchmarkCSV scans the dump that MEMSCOPE_BENCH_DUMP names.
func BenchmarkCSV(b *testing.B) {
	path := os.Getenv("MEMSCOPE_BENCH_DUMP")
	info, err := os.Stat(path)
	if err != nil {
		b.Skip("MEMSCOPE_BENCH_DUMP names no dump: ", err)
	}
	for _, c := range []struct {
		name string
		want Want
	}{
		{"stats", Device | PID | TID | Name},
		{"usage", Device | PID | Used | Total},
		{"blocks", Device | PID | Addr | Size | Shadow | Owner | Used},
		{"all", ^Want(0)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(info.Size())
			for b.Loop() {
				sum, err := CSV(path, Options{Want: c.want, Ordered: true}, func(*Batch) error { return nil })
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(sum.Rows)/b.Elapsed().Seconds()*float64(b.N), "rows/s")
			}
		})
	}
}
