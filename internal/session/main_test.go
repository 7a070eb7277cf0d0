package session

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"memscope/internal/control"
)

// serveHere runs serve within the test and returns the launcher's end of the control stream and serve's result.
func serveHere(t *testing.T, listener interface{ File() (*os.File, error) }) (stream *os.File, result chan error) {
	t.Helper()
	socket, err := listener.File()
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	result = make(chan error, 1)
	go func() { result <- serve(socket, nil, fds[1]) }()
	stream = os.NewFile(uintptr(fds[0]), "control")
	t.Cleanup(func() { stream.Close() })
	return stream, result
}

func TestServe(t *testing.T) {
	name := fmt.Sprintf("msmemscope-serve-%d", os.Getpid())
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: "@" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	stream, result := serveHere(t, listener)
	cfg := settings()
	cfg.OutputPath = filepath.Join(t.TempDir(), "out")
	say := json.NewEncoder(stream)
	if err := say.Encode(control.Order{Config: &cfg}); err != nil {
		t.Fatal(err)
	}
	(&run{t: t, name: name}).child("hello 2").wait()
	if err := say.Encode(control.Order{Finish: true}); err != nil {
		t.Fatal(err)
	}
	var done *control.Done
	for hear := json.NewDecoder(stream); done == nil; {
		var m control.Message
		if err := hear.Decode(&m); err != nil {
			t.Fatal(err)
		}
		done = m.Done
	}
	if *done != (control.Done{Collected: 1, Stored: 1}) {
		t.Errorf("done: %+v", *done)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// A process that is killed while it introduces itself is not worth a word.
func TestDiesInHandshake(t *testing.T) {
	name := fmt.Sprintf("msmemscope-dies-%d", os.Getpid())
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: "@" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c := (&run{t: t, name: name}).child("hello 1")
	socket, err := listener.File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(socket.Fd()), Events: unix.POLLIN}}, 10000); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // for what it says of itself
	c.kill()
	stream, result := serveHere(t, listener)
	cfg := settings()
	cfg.OutputPath = t.TempDir()
	if err := json.NewEncoder(stream).Encode(control.Order{Config: &cfg}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // for the answer to it
	if err := json.NewEncoder(stream).Encode(control.Order{Finish: true}); err != nil {
		t.Fatal(err)
	}
	for hear := json.NewDecoder(stream); ; {
		var m control.Message
		if err := hear.Decode(&m); err != nil {
			t.Fatal(err)
		}
		if m.Line != "" {
			t.Errorf("line %q", m.Line)
		}
		if m.Done != nil {
			break
		}
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestServeRefuses(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	unixListener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: fmt.Sprintf("@msmemscope-none-%d", os.Getpid())})
	if err != nil {
		t.Fatal(err)
	}
	defer unixListener.Close()
	for want, listener := range map[string]interface{ File() (*os.File, error) }{
		"no Unix socket":   tcp.(*net.TCPListener),
		"no configuration": unixListener,
	} {
		stream, result := serveHere(t, listener)
		stream.Close()
		select {
		case err := <-result:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("no answer, want %q", want)
		}
	}
}
