package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNoHello means that the peer closed the connection without a word: it only asked whether somebody listens.
var ErrNoHello = errors.New("no hello")

// ErrVersion means that the peer speaks another version of this protocol.
var ErrVersion = errors.New("another wire version")

// ReadHello receives the hello of a new client, waiting at most timeout.
func ReadHello(conn *net.UnixConn, timeout time.Duration) (Hello, error) {
	var h Hello
	if err := conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return h, err
	}
	n, err := conn.Read(bytesOf(&h))
	switch {
	case n == 0 && (err == nil || err == io.EOF || errors.Is(err, unix.ECONNRESET)):
		return h, ErrNoHello
	case err != nil:
		return h, err
	case n < int(unsafe.Sizeof(h)) || h.Magic != Magic:
		return h, fmt.Errorf("%d bytes that are no hello", n)
	case h.Version != Version:
		return h, fmt.Errorf("%w: %d, not %d", ErrVersion, h.Version, Version)
	}
	return h, nil
}

// Welcome answers a hello with a ring.
func (r *Ring) Welcome(conn *net.UnixConn, config Config) error {
	w := Welcome{Magic: Magic, Version: Version, Answer: Accepted, Size: r.size, Config: config}
	_, _, err := conn.WriteMsgUnix(bytesOf(&w), unix.UnixRights(int(r.file.Fd())), nil)
	return err
}

// Refuse answers a hello without a ring. answer is one of the Refused constants.
func Refuse(conn *net.UnixConn, answer uint32) error {
	w := Welcome{Magic: Magic, Version: Version, Answer: answer}
	_, err := conn.Write(bytesOf(&w))
	return err
}

func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}
