package dbfile

import (
	"testing"

	"memscope/internal/dump/render"
	"memscope/internal/dump/spool"
	"memscope/internal/event"
	"memscope/internal/output"
)

// BenchmarkRender is the whole way from the spool into a database with its indexes, the reading included, for events of four threads.
func BenchmarkRender(b *testing.B) {
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
	ev := event.Event{Kind: event.Malloc, Pool: event.HAL, PID: 1000}
	for n := 1; n <= b.N; n++ {
		ev.Seq, ev.Stamp = uint64(n), int64(n)*500+int64(n*2654435761>>7%500)
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
	b.ReportAllocs()
	b.ResetTimer()
	if err := render.New(r, Opener(p, nil), render.Options{}).Finish(end); err != nil {
		b.Fatal(err)
	}
}
