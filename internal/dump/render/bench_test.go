package render_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"memscope/internal/dump/csvfile"
	"memscope/internal/dump/dbfile"
	"memscope/internal/dump/render"
	"memscope/internal/dump/spool"
	"memscope/internal/event"
	"memscope/internal/output"
)

// BenchmarkRender is the whole way from the spool into files, the reading and the indexes of a database included, for events of four threads on
// one card. It tells rows per second of time and of processor time, and the most memory that the process had. For the figures of a large dump:
//
//	go test ./internal/dump/render -run NONE -bench Render -benchtime 5000000x
func BenchmarkRender(b *testing.B) {
	b.Run("csv", func(b *testing.B) {
		benchmark(b, func(p *output.Project) render.Opener { return csvfile.Opener(p, nil, nil) }, false)
	})
	b.Run("db", func(b *testing.B) {
		benchmark(b, func(p *output.Project) render.Opener { return dbfile.Opener(p, nil) }, true)
	})
}

func benchmark(b *testing.B, open func(*output.Project) render.Opener, whole bool) {
	p, err := output.Create(b.TempDir(), 1, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	w, err := spool.Create(p.Root, spool.Dir, spool.Meta{})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	ev := event.Event{Pool: event.PTA, PID: 1000, ProcessUsed: event.Unknown, DeviceUsed: event.Unknown, Owner: "PTA@ops@aten"}
	for n := 1; n <= b.N; n++ {
		ev.Kind = event.Malloc + event.Kind(n%2)
		ev.Seq, ev.Stamp = uint64(n), 1790000000e9+int64(n)*500+int64(n*2654435761>>7%500)
		ev.Addr, ev.Size, ev.AllocID, ev.TID = 0x12c041200000+uint64(n*2654435761%(1<<20))*512, int64(n%4096)*512, uint64(n), uint64(n%4)
		ev.Used += ev.Size
		if err := w.Append(&ev); err != nil {
			b.Fatal(err)
		}
		if n%1000 == 0 {
			if _, err := w.Flush(); err != nil {
				b.Fatal(err)
			}
		}
	}
	end, err := w.Flush()
	if err != nil {
		b.Fatal(err)
	}
	r, err := spool.Open(p.Root, spool.Dir)
	if err != nil {
		b.Fatal(err)
	}
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak begins anew, where the kernel lets us
	b.ReportAllocs()
	b.ResetTimer()
	before := processor(b)
	if err := render.New(r, open(p), render.Options{Whole: whole}).Finish(end); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(b.N)/(processor(b)-before), "rows/cpu-s")
	b.ReportMetric(peak(b), "MB-peak")
}

// processor is how many seconds of processor time the process has taken.
func processor(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// peak is the most memory that the process had, in MB.
func peak(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kb) / 1000
}
