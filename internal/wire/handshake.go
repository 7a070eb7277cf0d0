package wire

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNoHello means that the peer closed the connection without a word: it only asked whether somebody listens.
var ErrNoHello = errors.New("no hello")

// ErrVersion means that the peer speaks another version of this protocol.
var ErrVersion = errors.New("another wire version")

// ReadHello receives what a process asks for, and the text that comes with it, waiting at most timeout.
func ReadHello(conn *net.UnixConn, timeout time.Duration) (h Hello, text string, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return h, "", err
	}
	const head = int(unsafe.Sizeof(h))
	message := make([]byte, head+AskMax)
	n, err := conn.Read(message)
	copy(bytesOf(&h), message[:min(n, head)])
	switch {
	case n == 0 && (err == nil || err == io.EOF || errors.Is(err, unix.ECONNRESET)):
		return h, "", ErrNoHello
	case err != nil:
		return h, "", err
	case n < head || h.Magic != Magic:
		return h, "", fmt.Errorf("%d bytes that are no hello", n)
	case h.Version != Version:
		return h, "", fmt.Errorf("%w: %d, not %d", ErrVersion, h.Version, Version)
	}
	return h, string(message[head:n]), nil
}

// Welcome answers a hello with a ring.
func (r *Ring) Welcome(conn *net.UnixConn, config Config) error {
	w := Welcome{Magic: Magic, Version: Version, Answer: Accepted, Size: r.size, Config: config}
	_, _, err := conn.WriteMsgUnix(bytesOf(&w), unix.UnixRights(int(r.file.Fd())), nil)
	return err
}

// WelcomeHeap answers a hello with the tables of the host heap, a file of size bytes.
func WelcomeHeap(conn *net.UnixConn, file *os.File, size uint64) error {
	w := Welcome{Magic: Magic, Version: Version, Answer: Accepted, Size: size}
	_, _, err := conn.WriteMsgUnix(bytesOf(&w), unix.UnixRights(int(file.Fd())), nil)
	return err
}

// Refuse answers a hello without a ring. answer is one of the Refused constants.
func Refuse(conn *net.UnixConn, answer uint32) error {
	w := Welcome{Magic: Magic, Version: Version, Answer: answer}
	_, err := conn.Write(bytesOf(&w))
	return err
}

// Answer is the first message to a client that asks for something.
func Answer(conn *net.UnixConn, answer uint32, config Config) error {
	w := Welcome{Magic: Magic, Version: Version, Answer: answer, Config: config}
	_, err := conn.Write(bytesOf(&w))
	return err
}

// mostSaid is the size of one message, bytes: the agent reads messages of this size.
const mostSaid = 8 << 10

// Say sends text to a client that has been answered, in as many messages as it takes; how is SayOut, SayError or SayWait.
func Say(conn *net.UnixConn, how byte, text string) error {
	for first := true; first || text != ""; first = false {
		n := min(len(text), mostSaid-1)
		if _, err := conn.Write(append([]byte{how}, text[:n]...)); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// Ask connects to a session, by the name of its socket without the NUL byte before it, and asks for something; hear takes what there is to
// say. It returns the answer, one of Accepted and the Refused constants. patience bounds the wait for each message.
func Ask(session string, ask uint8, text string, patience time.Duration, hear func(how byte, text string)) (answer uint32, err error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: "@" + session})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if len(text) > AskMax {
		return 0, fmt.Errorf("%d bytes are too many to ask; at most %d", len(text), AskMax)
	}
	hello := Hello{Magic: Magic, Version: Version, Pid: int32(os.Getpid()), Ask: ask}
	if _, err := conn.Write(append(bytesOf(&hello), text...)); err != nil {
		return 0, err
	}
	message := make([]byte, mostSaid)
	for first := true; ; first = false {
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return answer, err
		}
		n, err := conn.Read(message)
		switch {
		case n == 0 && (err == nil || err == io.EOF || errors.Is(err, unix.ECONNRESET)) && !first:
			return answer, nil
		case err != nil || n == 0:
			return answer, fmt.Errorf("the collector does not answer: %w", cmp.Or(err, io.ErrUnexpectedEOF))
		case first:
			var w Welcome
			if copy(bytesOf(&w), message[:n]); n != int(unsafe.Sizeof(w)) || w.Magic != Magic {
				return 0, fmt.Errorf("%d bytes that are no welcome", n)
			}
			answer = w.Answer
		case message[0] != SayWait:
			hear(message[0], string(message[1:n]))
		}
	}
}
