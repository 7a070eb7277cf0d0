package read

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// MaxBytes is the largest file that the commands with a limit of their own accept (contract 1.5 and 5.3).
const MaxBytes = 8 << 30

const (
	maxPathBytes = 4096
	maxPathDepth = 32
)

// Check says whether an input file may be read (contract 1.5 and 9-62): a regular file, readable, the user's own, not
// writable by strangers, no symbolic link, no illegal character in its path. foreign lifts owner and mode, and accepts a
// link to a file in the link's own directory. The error is one line that names the path and what is wrong.
func Check(path string, foreign bool) error {
	if strings.TrimSpace(path) == "" {
		return errors.New("The file path is empty.")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("The path %s is invalid.", path)
	}
	switch slashed := filepath.ToSlash(abs); {
	case len(slashed) > maxPathBytes:
		return fmt.Errorf("The length of path %s exceeds the maximum length.", path)
	case strings.Count(slashed, "/") > maxPathDepth:
		return fmt.Errorf("The depth of path %s exceeds the maximum depth.", path)
	}
	for _, r := range path { // as named: where a recording can be made, which looks at no more either, it can be read
		if !allowed(r) {
			return fmt.Errorf("The path %s is invalid: it contains %q.", path, r)
		}
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("The file path %s do not exist.", path)
	case err != nil:
		return fmt.Errorf("Error getting file state for %s.", path)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if info, err = followLink(path, foreign); err != nil {
			return err
		}
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("File %s is not a regular file.", path)
	}
	if !foreign {
		if risk := stranger(info); risk != "" {
			return fmt.Errorf("The path %s %s; --allow-foreign-files accepts it.", path, risk)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("The path %s is not readable.", path)
	}
	return f.Close()
}

// followLink accepts a link only if it leads to a file beside it.
func followLink(path string, foreign bool) (fs.FileInfo, error) {
	if !foreign {
		return nil, fmt.Errorf("File %s is not a regular file: it is a symbolic link.", path)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("Error getting file state for %s.", path)
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("The symbolic link %s leads nowhere.", path)
	}
	if filepath.Dir(target) != dir {
		return nil, fmt.Errorf("The symbolic link %s leads out of its directory.", path)
	}
	return os.Stat(target)
}

// allowed says whether a path may hold r.
func allowed(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r >= 0x4E00 && r <= 0x9FA5:
		return true
	case runtime.GOOS == "windows" && (r == '\\' || r == ':'):
		return true
	}
	return strings.ContainsRune("./_-~ \t\n\v\f\r", r)
}
