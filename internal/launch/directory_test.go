package launch

import (
	"os"
	"path/filepath"
	"testing"
)

// The working directory may have been deleted: nothing of a run depends on it.
func TestDeletedDirectory(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := target(t, "quiet")
	cmd.Args = append([]string{"sh", "-c", `cd "$0" && rmdir "$0" && exec "$@"`, gone, os.Args[0]}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	if r := run(t, cmd); r.code != 3 || r.err != "" {
		t.Errorf("%+v", r)
	}
	if dumps, _ := filepath.Glob(filepath.Join(outputOf(cmd), "*/device_0/dump/*.csv")); len(dumps) != 1 {
		t.Errorf("dumps: %q", dumps)
	}
}
