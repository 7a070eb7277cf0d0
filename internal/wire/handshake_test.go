package wire_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"
	"unsafe"

	"memscope/internal/wire"
	"memscope/internal/wire/wiretest"
)

// listen makes a socket that answers each connection with answer.
func listen(t *testing.T, answer func(conn *net.UnixConn)) string {
	t.Helper()
	name := fmt.Sprintf("msmemscope-wire-%d-%s", os.Getpid(), t.Name())
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: "@" + name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.AcceptUnix()
			if err != nil {
				return
			}
			answer(conn)
			conn.Close()
		}
	}()
	return name
}

func TestWelcome(t *testing.T) {
	ring, err := wire.NewRing(2 * wire.MinBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	hellos := make(chan wire.Hello, 1)
	name := listen(t, func(conn *net.UnixConn) {
		hello, _, err := wire.ReadHello(conn, time.Second)
		if err != nil {
			t.Error(err)
		}
		if err := ring.Welcome(conn, wire.Config{Events: 7, Launched: 1}); err != nil {
			t.Error(err)
		}
		hellos <- hello
	})
	p, w, err := wiretest.Connect(name, 4711)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Ring.Close()
	if hello := <-hellos; hello.Pid != 4711 {
		t.Errorf("hello: %+v", hello)
	}
	if w.Config != (wire.Config{Events: 7, Launched: 1}) || w.Size != 2*wire.MinBytes {
		t.Errorf("welcome: %+v", w)
	}
	p.Alloc(3, wire.Alloc{Addr: 5})
	rec, status := wire.NewReader(ring).Next()
	if status != wire.Ready || rec.Alloc().Addr != 5 {
		t.Errorf("the rings are not the same: status %d", status)
	}
	ring.Beat()
	if p.Ring.Header().Heartbeat != 1 {
		t.Error("no heartbeat")
	}
	// a target that shortens the memory would take the collector with it
	if err := ring.File().Truncate(0); err == nil {
		t.Error("the ring can be shortened")
	}
}

func TestReadHelloErrors(t *testing.T) {
	results := make(chan error, 1)
	name := listen(t, func(conn *net.UnixConn) {
		_, _, err := wire.ReadHello(conn, 50*time.Millisecond)
		if errors.Is(err, wire.ErrVersion) {
			_ = wire.Refuse(conn, wire.RefusedVersion)
		}
		results <- err
	})
	send := func(message []byte) error {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: "@" + name})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if message != nil {
			if _, err := conn.Write(message); err != nil {
				t.Fatal(err)
			}
			return <-results
		}
		conn.Close()
		return <-results
	}
	if err := send(nil); !errors.Is(err, wire.ErrNoHello) {
		t.Errorf("silence: %v", err)
	}
	if err := send([]byte("hi")); err == nil || errors.Is(err, wire.ErrNoHello) {
		t.Errorf("garbage: %v", err)
	}
	hello := wire.Hello{Magic: wire.Magic, Version: wire.Version + 1}
	if err := send(unsafe.Slice((*byte)(unsafe.Pointer(&hello)), unsafe.Sizeof(hello))); !errors.Is(err, wire.ErrVersion) {
		t.Errorf("another version: %v", err)
	}
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: "@" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := <-results; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a peer that says nothing: %v", err)
	}
}
