package output

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at("file"), []byte("x"), 0o600), os.WriteFile(at("twice"), nil, 0o600), os.Link(at("twice"), at("other")),
		os.Symlink("file", at("link")), syscall.Mkfifo(at("fifo"), 0o600), os.Mkdir(at("dir"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range []string{"link", "fifo", "dir"} {
		for _, flag := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR} {
			_, err := OpenRegular(root, name, flag)
			var not *NotRegularError
			if !errors.As(err, &not) || not.Path != at(name) {
				t.Errorf("%s, flag %d: %v", name, flag, err)
			}
		}
	}
	if _, err := OpenRegular(root, "none", os.O_RDONLY); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	if _, err := OpenRegular(root, "twice", os.O_RDWR); err == nil || !strings.Contains(err.Error(), "twice has 2 names") {
		t.Errorf("twice: %v", err)
	}
	for name, flag := range map[string]int{"file": os.O_RDWR, "twice": os.O_RDONLY, "new": os.O_CREATE | os.O_RDWR} {
		f, err := OpenRegular(root, name, flag)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f.Close()
	}
}
