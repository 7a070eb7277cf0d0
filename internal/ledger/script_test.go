package ledger

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"memscope/internal/event"
)

var poolNames = map[string]event.Pool{
	"host": event.Host, "hal": event.HAL, "pta": event.PTA, "workspace": event.PTAWorkspace,
	"mindspore": event.MindSpore, "atb": event.ATB,
}

func poolName(p event.Pool) string {
	for n, q := range poolNames {
		if q == p {
			return n
		}
	}
	return "?"
}

var kindNames = map[event.Kind]string{
	event.Malloc: "MALLOC", event.Free: "FREE", event.Access: "ACCESS", event.KernelLaunch: "KERNEL_LAUNCH",
}

// row is a row in one line of text, with what matters to the ledger.
func row(ev *event.Event, b *Block) string {
	if ev.Kind == event.System {
		return fmt.Sprintf("%s @%d", map[event.Sub]string{event.StartTrace: "START", event.StopTrace: "STOP"}[ev.Sub], ev.Stamp)
	}
	if b == nil {
		return fmt.Sprintf("%s @%d", kindNames[ev.Kind], ev.Stamp)
	}
	device := strconv.Itoa(int(ev.Device))
	switch ev.Device {
	case event.DeviceNone:
		device = "-"
	case event.DeviceCPU:
		device = "cpu"
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%s %s %s 0x%x size:%d", kindNames[ev.Kind], poolName(ev.Pool), device, ev.Addr, ev.Size)
	if ev.Kind != event.Access && ev.Used != event.Unknown {
		fmt.Fprintf(&s, " used:%d", ev.Used)
	}
	if ev.Pool != event.HAL && ev.Kind != event.Access && ev.Total != event.Unknown {
		fmt.Fprintf(&s, " total:%d", ev.Total)
	}
	fmt.Fprintf(&s, " id:%d @%d", ev.AllocID, ev.Stamp)
	for _, f := range []struct {
		flag event.Flags
		name string
	}{{event.Shadow, " shadow"}, {event.Pinned, " pinned"}, {event.Created, " created"}} {
		if ev.Flags&f.flag != 0 {
			s.WriteString(f.name)
		}
	}
	return s.String()
}

// run takes a script, one step a line, and returns the rows:
//
//	malloc|free|access POOL DEVICE ADDR [SIZE] @STAMP [paused] [pinned]
//	start|stop|exit|kernel @STAMP
//	undo ADDR @STAMP
//
// DEVICE is a number, cpu, or - for unknown. TID of every event is 1.
func run(t *testing.T, l *Ledger, script string) {
	t.Helper()
	number := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			t.Fatalf("script: %v", err)
		}
		return n
	}
	for line := range strings.Lines(script) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		ev := event.Event{
			PID: 123, TID: 1, Module: 3, Device: event.DeviceNone, ProcessUsed: event.Unknown, DeviceUsed: event.Unknown,
		}
		var args []string
		for _, w := range words[1:] {
			switch {
			case w == "paused":
				ev.Flags |= event.Paused
			case w == "pinned":
				ev.Flags |= event.Pinned
			case w[0] == '@':
				ev.Stamp = int64(number(w[1:]))
			default:
				args = append(args, w)
			}
		}
		switch words[0] {
		case "exit":
			l.Exit(ev.Stamp)
			continue
		case "undo":
			l.Undo(number(args[0]), ev.TID, ev.Stamp)
			continue
		case "start":
			ev.Kind, ev.Sub = event.System, event.StartTrace
		case "stop":
			ev.Kind, ev.Sub = event.System, event.StopTrace
		case "kernel":
			ev.Kind, ev.Sub = event.KernelLaunch, event.Launched
		case "ran": // on a card, of no process
			ev.Kind, ev.Sub, ev.PID = event.KernelLaunch, event.ExecuteEnd, math.MaxUint64
		case "malloc", "free", "access":
			ev.Kind = map[string]event.Kind{"malloc": event.Malloc, "free": event.Free, "access": event.Access}[words[0]]
			ev.Pool = poolNames[args[0]]
			switch args[1] {
			case "-":
			case "cpu":
				ev.Device = event.DeviceCPU
			default:
				ev.Device = int32(number(args[1]))
			}
			ev.Addr = number(args[2])
			if len(args) > 3 {
				ev.Size = int64(number(args[3]))
			}
		default:
			t.Fatalf("script: %q", line)
		}
		l.Apply(&ev)
	}
}

func check(t *testing.T, prepare func(*Ledger), script, want string) {
	t.Helper()
	var got []string
	var seq uint64
	l := New(func(ev *event.Event, b *Block) {
		if seq++; ev.Seq != seq {
			t.Errorf("row %d has Seq %d", seq, ev.Seq)
		}
		got = append(got, row(ev, b))
	})
	if prepare != nil {
		prepare(l)
	}
	run(t, l, script)
	var wanted []string
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			wanted = append(wanted, line)
		}
	}
	for i := range max(len(got), len(wanted)) {
		g, w := "(none)", "(none)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(wanted) {
			w = wanted[i]
		}
		if g != w {
			t.Fatalf("row %d:\n got %s\nwant %s\nall rows:\n%s", i, g, w, strings.Join(got, "\n"))
		}
	}
}
