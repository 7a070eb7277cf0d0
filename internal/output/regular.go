package output

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// OpenRegular opens a file of an output tree that was found on disk, where somebody may have put something else in its place:
// nothing but a regular file is accepted, no symbolic link is followed, a FIFO does not block, and what is opened for writing has no second
// name elsewhere. flag is as for os.OpenFile, with O_TRUNC excluded, since that would act before the checks. The error names the file.
func OpenRegular(root *os.Root, name string, flag int) (*os.File, error) {
	path := filepath.Join(root.Name(), name)
	f, err := root.OpenFile(name, flag|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, fileMode)
	if err != nil {
		if info, e := root.Lstat(name); e == nil && !info.Mode().IsRegular() {
			return nil, &NotRegularError{path}
		}
		return nil, &fs.PathError{Op: "open", Path: path, Err: cause(err)}
	}
	info, err := f.Stat()
	if err == nil {
		var named fs.FileInfo
		named, err = root.Lstat(name)
		if err == nil && (!info.Mode().IsRegular() || !os.SameFile(info, named)) {
			err = &NotRegularError{path}
		}
	}
	if err == nil && flag&(os.O_WRONLY|os.O_RDWR) != 0 {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink != 1 {
			err = fmt.Errorf("%s has %d names (hard links) and is not written to", path, st.Nlink)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// NotRegularError says that a file of an output tree is a symbolic link, a FIFO, a directory or the like.
type NotRegularError struct{ Path string }

func (e *NotRegularError) Error() string { return e.Path + " is not a regular file" }
