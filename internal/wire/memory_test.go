package wire

import (
	"os"
	"strings"
	"testing"
)

// The way of old kernels gives a ring that works and leaves no file.
func TestSharedFile(t *testing.T) {
	file, err := newSharedFile()
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Truncate(HeaderBytes + MinBytes); err != nil {
		t.Fatal(err)
	}
	ring, err := MapRing(file, MinBytes)
	if err != nil {
		t.Fatal(err)
	}
	*(*uint64)(ring.at(MinBytes - 8)) = 1
	if *(*uint64)(ring.at(2*MinBytes - 8)) != 1 || ring.Size() != MinBytes {
		t.Error("the data is not mapped twice")
	}
	if err := ring.Close(); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir("/dev/shm")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "msmemscope-ring-") {
			t.Errorf("%s is left", e.Name())
		}
	}
	if _, err := MapRing(os.NewFile(^uintptr(0)>>1, "no file"), MinBytes); err == nil {
		t.Error("a file that does not exist was mapped")
	}
}
