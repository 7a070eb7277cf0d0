package launch

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"memscope/internal/config"
	"memscope/internal/control"
)

// finishing lets a launcher finish with a collector that says messages, and returns both outputs.
func finishing(t *testing.T, messages []control.Message, signal os.Signal) (out, errOut string) {
	t.Helper()
	l := &launcher{cfg: &config.Config{OutputPath: t.TempDir()}, signals: make(chan os.Signal, 1), collector: &collector{
		encode: json.NewEncoder(io.Discard), messages: make(chan control.Message, len(messages)), failed: make(chan string, 1),
		said: make(chan []string, 1),
	}}
	for _, m := range messages {
		l.collector.messages <- m
	}
	if signal != nil {
		l.signals <- signal
	} else { // it dies
		close(l.collector.messages)
		l.collector.failed <- "exit status 2"
		l.collector.said <- []string{"panic: a test"}
	}
	capture := func(stream **os.File) (end func() string) {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		saved := *stream
		*stream = write
		return func() string {
			*stream = saved
			write.Close()
			text, err := io.ReadAll(read)
			read.Close()
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
	endOut, endErr := capture(&os.Stdout), capture(&os.Stderr)
	l.finish()
	return endOut(), endErr()
}

func TestFinishInterrupted(t *testing.T) {
	out, errOut := finishing(t, nil, unix.SIGTERM)
	if out != "" || !strings.Contains(errOut, "finished in the background") {
		t.Errorf("stdout %q, stderr %q", out, errOut)
	}
}

func TestFinishWithDyingCollector(t *testing.T) {
	out, errOut := finishing(t, []control.Message{
		{Line: "[msmemscope] Info: create file x."}, {Line: "[msmemscope] Error: y."}, {Progress: &control.Progress{Done: 1, Total: 2}},
		{Report: "report\n"},
	}, nil)
	if out != "report\n" { // no file is announced
		t.Errorf("stdout %q", out)
	}
	const want = "[msmemscope] Error: the collector has died (exit status 2); the dump is not complete.\n" +
		"[msmemscope] collector: panic: a test\n[msmemscope] Error: y.\n"
	if errOut != want {
		t.Errorf("stderr %q, want %q", errOut, want)
	}
}

// The dump is spoken of only when there is one.
func TestFlushNotice(t *testing.T) {
	for stored, want := range []string{"", "[msmemscope] Info: Fflush temporary cache events to file!\n"} {
		out, errOut := finishing(t, []control.Message{{Done: &control.Done{Collected: 1, Stored: stored}}}, nil)
		if out != want || errOut != "" {
			t.Errorf("%d stored: stdout %q, stderr %q", stored, out, errOut)
		}
	}
}

func TestProgressLine(t *testing.T) {
	var p progress
	p.shown = true // as on a terminal after a while
	saved := os.Stderr
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stderr = write
	p.show(&control.Progress{})
	p.show(&control.Progress{Done: 3 << 20, Total: 4 << 20})
	p.close()
	os.Stderr = saved
	write.Close()
	text, _ := io.ReadAll(read)
	if want := "[" + strings.Repeat("#", 30) + strings.Repeat(" ", 10) + "] 3 of 4 MB"; !strings.Contains(string(text), want) {
		t.Errorf("%q lacks %q", text, want)
	}
}
