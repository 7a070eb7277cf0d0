//go:build unix

package read

import (
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// stranger says what makes a file less than trustworthy; empty: nothing.
func stranger(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	switch {
	case int(st.Uid) != os.Geteuid():
		return "is not owned by the current user"
	case info.Mode().Perm()&0o002 != 0:
		return "can be modified by other users"
	case info.Mode().Perm()&0o020 != 0 && !inGroup(int(st.Gid)):
		return "can be modified by a group that the current user is not in"
	}
	return ""
}

func inGroup(gid int) bool {
	groups, _ := os.Getgroups()
	return gid == os.Getegid() || slices.Contains(groups, gid)
}
