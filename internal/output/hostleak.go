package output

import (
	"fmt"
	"os"
	"path/filepath"
)

// HostLeakDir is where the reports on the host heap go.
const HostLeakDir = "host_leak"

// CreateHostLeak makes a file of that name in host_leak and says where it is.
func (p *Project) CreateHostLeak(name string) (*os.File, string, error) {
	path := filepath.Join(p.Path, HostLeakDir, name)
	dir, err := makeDir(p.Root, HostLeakDir, false)
	if err != nil {
		return nil, "", fmt.Errorf("cannot make %s: %w", filepath.Dir(path), cause(err))
	}
	defer dir.Close()
	f, err := createFile(dir, name)
	if err != nil {
		return nil, "", fmt.Errorf("cannot make %s: %w", path, cause(err))
	}
	p.notice("[msmemscope] Info: create file " + path + ".")
	return f, path, nil
}
