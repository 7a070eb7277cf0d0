package ledger

import (
	"testing"

	"memscope/internal/event"
)

// The examples of contract 3.3 (golden rows) and 5.0 (worked).
func TestRows(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"golden HAL", `
			malloc hal 0 0x3039 10 @3
			free hal - 0x3039 @54
		`, `
			MALLOC hal 0 0x3039 size:10 used:10 id:1 @3
			FREE hal 0 0x3039 size:10 used:0 id:1 @54
		`},
		{"golden access", `
			malloc pta 0 0x3039 10 @3
			access pta 0 0x3039 10 @13
			access atb 0 0x303e 5 @14
			access pta - 0x303e 5 @15
			access pta 0 0 5 @16
		`, `
			MALLOC pta 0 0x3039 size:10 used:10 total:0 id:1 @3
			ACCESS pta 0 0x3039 size:10 id:1 @13
			ACCESS atb 0 0x303e size:5 id:2 @14
			ACCESS pta 0 0x303e size:5 id:1 @15
		`},
		{"used by device", `
			malloc hal 0 0x1000 100 @1
			malloc hal 0 0x2000 200 @2
			malloc hal 0 0x3000 300 @3
			malloc hal 1 0x4000 50 @4
		`, `
			MALLOC hal 0 0x1000 size:100 used:100 id:1 @1
			MALLOC hal 0 0x2000 size:200 used:300 id:2 @2
			MALLOC hal 0 0x3000 size:300 used:600 id:3 @3
			MALLOC hal 1 0x4000 size:50 used:50 id:4 @4
		`},
		{"used falls", `
			malloc hal 0 0x1000 100 @1
			malloc hal 0 0x2000 200 @2
			free hal - 0x1000 @3
		`, `
			MALLOC hal 0 0x1000 size:100 used:100 id:1 @1
			MALLOC hal 0 0x2000 size:200 used:300 id:2 @2
			FREE hal 0 0x1000 size:100 used:200 id:1 @3
		`},
		{"a lone free", `
			free hal 0 0x1000 100 @1
			malloc hal 0 0x1000 100 @2
		`, `
			FREE hal 0 0x1000 size:100 used:0 id:1 @1
			MALLOC hal 0 0x1000 size:100 used:100 id:2 @2
		`},
		{"pinned", `
			malloc hal cpu 0x1000 100 @1 pinned
			malloc hal cpu 0x2000 50 @2 pinned
			free hal - 0x1000 @3
		`, `
			MALLOC hal cpu 0x1000 size:100 used:100 id:1 @1 pinned
			MALLOC hal cpu 0x2000 size:50 used:150 id:2 @2 pinned
			FREE hal cpu 0x1000 size:100 used:50 id:1 @3 pinned
		`},
		{"baseline", `
			malloc hal 0 0x1000 100 @1 paused
			malloc hal 1 0x2000 50 @2 paused
			malloc hal cpu 0x3000 30 @3 paused pinned
			start @4
			malloc hal 0 0x4000 20 @5
			start @6
			malloc hal cpu 0x5000 1 @7 pinned
			malloc hal 1 0x6000 1 @8
		`, `
			MALLOC hal 0 0x1000 size:100 id:1 @4 shadow
			MALLOC hal 1 0x2000 size:50 id:2 @4 shadow
			MALLOC hal cpu 0x3000 size:30 id:3 @4 shadow pinned
			START @4
			MALLOC hal 0 0x4000 size:20 used:120 id:4 @5
			START @6
			MALLOC hal cpu 0x5000 size:1 used:31 id:5 @7 pinned
			MALLOC hal 1 0x6000 size:1 used:51 id:6 @8
		`},
		{"free without a device", `
			malloc hal 2 0x4000 1024 @1
			free hal - 0x4000 @2
		`, `
			MALLOC hal 2 0x4000 size:1024 used:1024 id:1 @1
			FREE hal 2 0x4000 size:1024 used:0 id:1 @2
		`},
		{"inside a block", `
			malloc mindspore 1 0xc000 4096 @1
			free mindspore 0 0xc100 @2
			free mindspore 1 0xd000 @3
			free mindspore 1 0xc100 @4
		`, `
			MALLOC mindspore 1 0xc000 size:4096 used:4096 total:0 id:1 @1
			FREE mindspore 0 0xc100 size:0 used:0 total:0 id:2 @2
			FREE mindspore 1 0xd000 size:0 used:4096 total:0 id:3 @3
			FREE mindspore 1 0xc100 size:4096 used:0 total:0 id:1 @4
		`},
		{"inside a block that is not the nearest", `
			malloc pta 0 0x1000 0x1000 @1
			free pta 0 0x9000 @2
			malloc pta 1 0x1100 0x10 @3
			malloc pta 0 0x1200 0x10 @4
			free pta 0 0x1800 @5
			free pta 0 0x1205 @6
		`, `
			MALLOC pta 0 0x1000 size:4096 used:4096 total:0 id:1 @1
			FREE pta 0 0x9000 size:0 used:4096 total:0 id:2 @2
			MALLOC pta 1 0x1100 size:16 used:16 total:0 id:3 @3
			MALLOC pta 0 0x1200 size:16 used:4112 total:0 id:4 @4
			FREE pta 0 0x1800 size:4096 used:16 total:0 id:1 @5
			FREE pta 0 0x1205 size:16 used:0 total:0 id:4 @6
		`},
		{"one address on two devices", `
			malloc pta 0 0x1000 10 @1
			malloc pta 1 0x1000 20 @2
			free pta - 0x1000 @3
			free pta 0 0x1000 @4
		`, `
			MALLOC pta 0 0x1000 size:10 used:10 total:0 id:1 @1
			MALLOC pta 1 0x1000 size:20 used:20 total:0 id:2 @2
			FREE pta 1 0x1000 size:20 used:0 total:0 id:2 @3
			FREE pta 0 0x1000 size:10 used:0 total:0 id:1 @4
		`},
		{"one address in two pools", `
			malloc hal 0 0x1000 10 @1
			malloc pta 0 0x1000 10 @1
			free pta - 0x1000 @2
			free hal - 0x1000 @2
		`, `
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @1
			MALLOC pta 0 0x1000 size:10 used:10 total:0 id:2 @1
			FREE pta 0 0x1000 size:10 used:0 total:0 id:2 @2
			FREE hal 0 0x1000 size:10 used:0 id:1 @2
		`},
		{"conflict", `
			malloc hal 0 0x1000 10 @1
			malloc hal 0 0x1000 20 @2
			malloc pta 0 0x1000 10 @3
			malloc pta 0 0x1000 20 @4
		`, `
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @1
			FREE hal 0 0x1000 size:10 id:1 @2 shadow
			MALLOC hal 0 0x1000 size:20 used:20 id:2 @3
			MALLOC pta 0 0x1000 size:10 used:10 total:0 id:3 @3
			FREE pta 0 0x1000 size:10 id:3 @4 shadow
			MALLOC pta 0 0x1000 size:20 used:20 total:0 id:4 @5
		`},
		{"workspace", `
			malloc workspace 0 0x1000 100 @1
			malloc workspace 0 0x2000 150 @2
			free workspace - 0x2000 @3
			free workspace - 0x1000 @4
			malloc workspace 0 0x1000 70 @5
		`, `
			MALLOC workspace 0 0x1000 size:100 used:100 total:0 id:1 @1
			MALLOC workspace 0 0x2000 size:150 used:150 total:0 id:2 @2
			FREE workspace 0 0x2000 size:150 used:0 total:0 id:2 @3
			FREE workspace 0 0x1000 size:100 used:0 total:0 id:1 @4
			MALLOC workspace 0 0x1000 size:70 used:70 total:0 id:3 @5
		`},
		{"CPU tensors", `
			malloc host cpu 0x1000 100 @1
			malloc host cpu 0x2000 50 @2
			free host - 0x1000 @3
		`, `
			MALLOC host cpu 0x1000 size:100 used:100 total:100 id:1 @1
			MALLOC host cpu 0x2000 size:50 used:150 total:150 id:2 @2
			FREE host cpu 0x1000 size:100 used:50 total:50 id:1 @3
		`},
		{"a coarse clock", `
			malloc hal 0 0x1000 10 @5
			free hal - 0x1000 @5
			malloc hal 0 0x1000 10 @5
			free hal - 0x1000 @4
			malloc hal 0 0x1000 10 @5
			malloc hal 0 0x2000 10 @5
			malloc hal 0 0x3000 10 @10
			free hal - 0x4000 @10
			free hal - 0x4000 @10
		`, `
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @5
			FREE hal 0 0x1000 size:10 used:0 id:1 @6
			MALLOC hal 0 0x1000 size:10 used:10 id:2 @7
			FREE hal 0 0x1000 size:10 used:0 id:2 @8
			MALLOC hal 0 0x1000 size:10 used:10 id:3 @9
			MALLOC hal 0 0x2000 size:10 used:20 id:4 @9
			MALLOC hal 0 0x3000 size:10 used:30 id:5 @10
			FREE hal - 0x4000 size:0 used:0 id:6 @10
			FREE hal - 0x4000 size:0 used:0 id:7 @11
		`},
		{"exit", `
			start @1
			malloc hal 0 0x1000 10 @2
			malloc pta 0 0x1000 10 @9
			exit @8
			malloc hal 0 0x1000 10 @20
		`, `
			START @1
			MALLOC hal 0 0x1000 size:10 used:10 id:1 @2
			MALLOC pta 0 0x1000 size:10 used:10 total:0 id:2 @9
			FREE hal 0 0x1000 size:10 id:1 @9 shadow
			FREE pta 0 0x1000 size:10 id:2 @10 shadow
			MALLOC hal 0 0x1000 size:10 used:10 id:3 @20
		`},
	} {
		t.Run(c.name, func(t *testing.T) { check(t, nil, c.script, c.want) })
	}
}

func TestDropUnmatched(t *testing.T) {
	check(t, func(l *Ledger) { l.DropUnmatched[event.HAL] = true }, `
		malloc hal 0 0x1000 4096 @1
		free hal - 0x2000 @2
		free hal - 0x1800 @3
		free hal 1 0x1000 @4
		free pta - 0x1000 @5
		free hal - 0x1000 @6
	`, `
		MALLOC hal 0 0x1000 size:4096 used:4096 id:1 @1
		FREE pta - 0x1000 size:0 used:0 total:0 id:2 @5
		FREE hal 0 0x1000 size:4096 used:0 id:1 @6
	`)
}

func TestLive(t *testing.T) {
	l := New(func(*event.Event, *Block) {})
	run(t, l, `
		malloc hal 2 0x1000 10 @1
		malloc hal 2 0x2000 10 @2
		stop @3
		malloc hal 2 0x3000 10 @4 paused
		free hal - 0x2000 @5 paused
	`)
	n := 0
	l.Live(func(b *Block) bool {
		if n++; b.Addr != 0x1000 {
			t.Errorf("0x%x lives", b.Addr)
		}
		return true
	})
	if n != 1 {
		t.Errorf("%d blocks live", n)
	}
}

func TestKernelIndexAndBirth(t *testing.T) {
	var got Block
	l := New(func(_ *event.Event, b *Block) {
		if b != nil {
			got = *b
		}
	})
	run(t, l, `
		kernel @1
		kernel @2
		kernel @3 paused
		ran @3
		malloc pta 0 0x1000 10 @4
	`)
	if got.Kernel != 2 || got.Born != 4 || got.BornSeq != 4 || got.Module != 3 {
		t.Errorf("kernel %d, born %d, seq %d, module %d", got.Kernel, got.Born, got.BornSeq, got.Module)
	}
}
