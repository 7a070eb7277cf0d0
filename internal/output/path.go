package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Limits of an output path (contract 1.5).
const (
	maxComponent = 255  // bytes of one path component
	maxTotal     = 4096 // bytes of all components together
	maxDepth     = 32   // number of '/' in the absolute path
)

// Resolve turns what the user typed into an absolute, clean path: outer blanks go, a relative path starts at cwd, "." and
// ".." are resolved by text alone (no symbolic link is followed). It looks at the text only; Check looks at the disk. The
// error names the path and says what is accepted.
func Resolve(path, cwd string) (string, error) {
	const blanks = " \t" // a line end would break the lines of messages and tables that name the path
	p := strings.Trim(path, blanks)
	if p == "" {
		return "", errors.New("the output path is empty; a directory is expected")
	}
	// A first character that a spreadsheet takes for a formula (the paths end up in reports and tables).
	if strings.ContainsRune("=+-@", rune(p[0])) {
		return "", fmt.Errorf("the output path %q begins with %q; it must not begin with = + - or @", p, p[0])
	}
	for _, r := range p {
		if !allowed(r) {
			return "", fmt.Errorf("the output path %q contains %q; letters, digits, Chinese characters, blanks and . / _ - ~ are accepted", p, r)
		}
	}
	if !filepath.IsAbs(p) {
		p = filepath.Join(cwd, p)
	}
	p = filepath.Clean(p)
	total := 0
	for _, c := range strings.Split(p, "/") {
		if len(c) > maxComponent {
			return "", fmt.Errorf("the output path %q has a component of %d bytes; at most %d are accepted", p, len(c), maxComponent)
		}
		total += len(c)
	}
	if total > maxTotal {
		return "", fmt.Errorf("the output path is %d bytes long; at most %d are accepted: %q", total, maxTotal, p)
	}
	if total == 0 {
		return "", fmt.Errorf("the output path %q is the root directory; a directory below it is expected", p)
	}
	return p, nil
}

func checkDepth(p string) error {
	if n := strings.Count(p, "/"); n > maxDepth {
		return fmt.Errorf("the output path %q is %d directories deep; at most %d are accepted", p, n, maxDepth)
	}
	return nil
}

func allowed(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r >= 0x4E00 && r <= 0x9FA5:
		return true
	}
	return strings.ContainsRune("./_-~ \t", r)
}

// Check says whether the output tree can be made at path, which comes from Resolve: it must not be too deep; a
// path that exists must be a directory, no symbolic link, readable and writable; one that does not exist needs a parent that
// can be written. Nothing is created.
func Check(path string) error {
	if err := checkDepth(path); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err == nil {
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("the output path %q is a symbolic link; a directory is expected", path)
		case !info.IsDir():
			return fmt.Errorf("the output path %q is not a directory", path)
		case !access(path, accessRead|accessWrite|accessSearch):
			return fmt.Errorf("the output path %q is not readable and writable for this user", path)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the output path %q cannot be used: %w", path, cause(err))
	}
	for parent := filepath.Dir(path); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent) // links on the way are the user's own arrangement
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if _, err := os.Lstat(parent); err == nil {
				return fmt.Errorf("the output path %q cannot be made: %q is a link to nowhere", path, parent)
			}
			continue
		case err != nil:
			return fmt.Errorf("the output path %q cannot be used: %w", path, cause(err))
		case !info.IsDir():
			return fmt.Errorf("the output path %q cannot be made: %q is not a directory", path, parent)
		case !access(parent, accessWrite|accessSearch):
			return fmt.Errorf("the output path %q cannot be made: %q is not writable for this user", path, parent)
		}
		return nil
	}
}

// Risks lists what makes an existing path less than trustworthy, one sentence each: a foreign owner, or others who can
// write. They are worth a warning, no more. A path that does not exist has none.
func Risks(path string) []string {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	var out []string
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		if os.Geteuid() == 0 {
			out = append(out, fmt.Sprintf("running as root, and the path %s belongs to another user; make sure that it is trusted", path))
		} else {
			out = append(out, fmt.Sprintf("the path %s belongs to another user; make sure that it is trusted", path))
		}
	}
	if info.Mode().Perm()&0o022 != 0 {
		out = append(out, fmt.Sprintf("the path %s can be changed by other users; make sure that it is trusted", path))
	}
	return out
}

// Bits of access(2).
const (
	accessSearch = 1
	accessWrite  = 2
	accessRead   = 4
)

// access asks for the effective user, which is who will create the files.
func access(path string, mode uint32) bool {
	const atFDCWD, atEAccess = -0x64, 0x200
	return syscall.Faccessat(atFDCWD, path, mode, atEAccess) == nil
}

// cause strips the operation and path from a path error: the messages name the path themselves.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
