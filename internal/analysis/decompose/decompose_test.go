package decompose

import (
	"testing"

	"memscope/internal/analysis/analysistest"
	"memscope/internal/analysis/labels"
	"memscope/internal/config"
	"memscope/internal/event"
)

func process() *analysistest.Process {
	c := config.Default()
	c.Analysis, c.Pools = config.Decompose, []string{"mine"}
	return analysistest.New(c, Registration())
}

// The examples of contract 5.5. Each returns the allocation id of the block in question.
func TestOwner(t *testing.T) {
	push := func(p *analysistest.Process, level uint64, label string) { p.Label(event.LabelPush, level, label) }
	hal := func(module int16) func(p *analysistest.Process) {
		return func(p *analysistest.Process) {
			p.Apply(event.Event{Kind: event.Malloc, Pool: event.HAL, Addr: 0x1000, Size: 10, Module: module})
		}
	}
	for _, c := range []struct {
		name, want string
		run        func(p *analysistest.Process)
	}{
		{"module 3", "CANN@HCCL", hal(3)},
		{"module -1", "CANN@UNKNOWN", hal(-1)},
		{"module 1", "CANN@IDEDD", hal(1)},
		{"module 33", "CANN@APP", hal(33)},
		{"module 7", "CANN@RUNTIME", hal(7)},
		{"module 45", "CANN@GE", hal(45)},
		{"module 75", "CANN@INVLID_MOUDLE_ID", hal(75)},
		{"module 76", "CANN@UNKNOWN", hal(76)},
		{"workspace", "PTA_WORKSPACE", func(p *analysistest.Process) { p.Malloc(event.PTAWorkspace, 0, 0x1000, 10, 1) }},
		{"MindSpore", "MINDSPORE", func(p *analysistest.Process) { p.Malloc(event.MindSpore, 0, 0x1000, 10, 1) }},
		{"host tensor", "", func(p *analysistest.Process) { p.Malloc(event.Host, event.DeviceCPU, 0x1000, 10, 1) }},
		{"a pool of the user's own", "mine@step", func(p *analysistest.Process) {
			push(p, labels.Process, "step")
			p.Apply(event.Event{Kind: event.Malloc, Pool: event.Named, Addr: 0x1000, Size: 10})
		}},
		{"component and process", "PTA@ut_fsdp2@ut_activation", func(p *analysistest.Process) {
			push(p, labels.Component, "ut_fsdp2")
			push(p, labels.Process, "ut_activation")
			p.Malloc(event.PTA, 0, 0x1000, 10, 1)
			p.Label(event.LabelPop, labels.Process, "ut_activation") // too late
		}},
		{"access", "PTA@ops", func(p *analysistest.Process) {
			p.Malloc(event.PTA, 0, 0x1000, 10, 1)
			p.Access(event.PTA, 0, 0x1002, 4, 2)
			p.Access(event.PTA, 0, 0x1000, 10, 3)
		}},
		{"access, labelled before", "PTA@fsdp2@all_gather_output@ops", func(p *analysistest.Process) {
			push(p, labels.Component, "fsdp2")
			push(p, labels.Detail1, "all_gather_output")
			p.Malloc(event.PTA, 0, 0x1000, 10, 1)
			p.Access(event.PTA, 0, 0x1000, 10, 2)
		}},
		{"DETAIL_2 is kept", "PTA@attn", func(p *analysistest.Process) {
			push(p, labels.Detail2, "attn")
			p.Malloc(event.PTA, 0, 0x1000, 10, 1)
			p.Access(event.PTA, 0, 0x1000, 10, 2)
		}},
		{"address over thread", "PTA@gradient", func(p *analysistest.Process) {
			push(p, labels.Detail1, "all_gather")
			p.Malloc(event.PTA, 0, 0x1000, 10, 1)
			p.LabelAddress(0x1000, labels.Detail1, "gradient")
		}},
		{"addresses inside, several levels", "PTA@vllm@weights@lora@me", func(p *analysistest.Process) {
			p.Malloc(event.PTA, 0, 0x1000, 10, 1)
			p.LabelAddress(0x1009, labels.Component, "vllm")
			p.LabelAddress(0x1000, labels.Detail1, "weights")
			p.LabelAddress(0x1003, labels.Detail2, "lora")
			p.LabelAddress(0x1000, labels.User1, "me")
		}},
		{"addresses elsewhere", "PTA", func(p *analysistest.Process) {
			p.Malloc(event.PTA, 0, 0x1000, 10, 1)
			p.LabelAddress(0x100a, labels.Detail1, "weights")
			p.LabelAddress(0xfff, labels.Detail1, "weights")
		}},
		{"freed", "PTA", func(p *analysistest.Process) {
			p.Malloc(event.PTA, 0, 0x1000, 10, 1)
			p.Free(event.PTA, 0x1000, 2)
			p.LabelAddress(0x1000, labels.Detail1, "weights")
		}},
		{"ATB access", "ATB", func(p *analysistest.Process) {
			p.Malloc(event.ATB, 0, 0x1000, 10, 1)
			p.Access(event.ATB, 0, 0x1000, 10, 2)
			p.LabelAddress(0x1000, labels.Detail1, "weights")
		}},
		{"control characters", `PTA@a\nb`, func(p *analysistest.Process) {
			push(p, labels.Component, "a\nb")
			p.Malloc(event.PTA, 0, 0x1000, 10, 1)
		}},
		{"older than the tracing", "", func(p *analysistest.Process) {
			p.Apply(event.Event{Kind: event.Malloc, Pool: event.PTA, Addr: 0x1000, Size: 10, Flags: event.Paused})
			p.Apply(event.Event{Kind: event.System, Sub: event.StartTrace})
			p.Access(event.PTA, 0, 0x1000, 10, 2)
			p.LabelAddress(0x1000, labels.Detail1, "weights")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := process()
			c.run(p)
			if got := p.Owners[1]; got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestReuse: a block has nothing of the one that was in its place before.
func TestReuse(t *testing.T) {
	p := process()
	for i := range int64(5) {
		p.Malloc(event.PTA, 0, 0x1000, 10, 3*i)
		if i%2 == 0 {
			p.Access(event.PTA, 0, 0x1000, 10, 3*i+1)
		}
		p.Free(event.PTA, 0x1000, 3*i+2)
	}
	for id := uint64(1); id <= 5; id++ {
		if want := map[uint64]string{0: "PTA", 1: "PTA@ops"}[id%2]; p.Owners[id] != want {
			t.Errorf("block %d is of %q, want %q", id, p.Owners[id], want)
		}
	}
}
