package output

import (
	"os"
	"path/filepath"
	"strconv"
)

// Watch is where tensors are dumped, <output path>/watch_dump (contract 9-18).
type Watch struct {
	root *os.Root
}

// OpenWatch makes and opens the directory below base, an absolute path that Resolve accepted.
func OpenWatch(base string, notice func(line string)) (*Watch, error) {
	top, err := openBase(base)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	root, err := makeDir(top, "watch_dump", false)
	if err != nil {
		return nil, err
	}
	notice("[msmemscope] Info: Created watch_dump directory at " + filepath.Join(base, "watch_dump") + ".")
	return &Watch{root: root}, nil
}

// CreateSums makes the file for the checksums of a device's tensors, watch_dump_data_check_sum_<device>_<TS>.csv.
func (w *Watch) CreateSums(device int32) (f *os.File, err error) {
	_, err = freeName(func(ts string) (name string, err error) {
		name = "watch_dump_data_check_sum_" + strconv.Itoa(int(device)) + "_" + ts + ".csv"
		f, err = createFile(w.root, name)
		return name, err
	})
	return f, err
}

// CreateContent makes the file of one dump of a tensor; one of that name, which another run has left, is replaced.
func (w *Watch) CreateContent(name string) (*os.File, error) {
	if err := w.root.Remove(name); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return createFile(w.root, name)
}

// Rename gives a file that CreateContent has made its name; one of that name, which another run has left, is replaced.
func (w *Watch) Rename(from, to string) error { return w.root.Rename(from, to) }

// Remove removes a file that CreateContent has made.
func (w *Watch) Remove(name string) error { return w.root.Remove(name) }

// Close gives the directory's descriptor back.
func (w *Watch) Close() error { return w.root.Close() }
