package launch

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"memscope/internal/control"
)

// hooks are preloaded into the target: the one library that has all of contract 1.9, under the name that torch_npu and MindSpore ask for. The other
// names lead to the same file, but every helper process would open each of them to find that out, 5 to 10 µs of its start.
var hooks = []string{control.DeviceHook}

// sanitizerHook is preloaded as well for a leak check; programs are linked with it.
const sanitizerHook = "../tools/mssanitizer/lib64/libascend_acl_hook.so"

// envPools names the user's own pools to the mstx hook (native/hooks/mstx/pool.h).
const envPools = "MSMEMSCOPE_POOLS"

// environment is the target's: environ with the hooks, files below libDir, and the name of the session. LD_LIBRARY_PATH stays as it is: the hooks are
// named by their paths and need nothing of ours, and each helper process would search one more directory.
func environment(environ []string, libDir string, hooks []string, sessionName string) ([]string, error) {
	if strings.ContainsAny(libDir, ": ") {
		return nil, fmt.Errorf("the libraries lie in %q; a path with a blank or a colon cannot be preloaded; move the installation to another one", libDir)
	}
	var preload []string
	for _, name := range hooks {
		if path := filepath.Join(libDir, name); isFile(path) {
			preload = append(preload, path)
		}
	}
	if len(preload) == 0 {
		return nil, fmt.Errorf("no hook library in %s; the installation is incomplete", libDir)
	}
	if previous := lookup(environ, "LD_PRELOAD"); previous != "" {
		preload = append(preload, previous)
	}
	env := set(environ, "LD_PRELOAD", strings.Join(preload, ":"))
	return set(env, control.EnvSession, sessionName), nil
}

// libraryDir is where the hooks lie: LD_PRELOAD_PATH, or lib64 beside the directory of the program.
func libraryDir() (string, error) {
	if dir := os.Getenv("LD_PRELOAD_PATH"); dir != "" {
		return filepath.Abs(dir)
	}
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(exe), "..", "lib64"), nil
}

// checkNumbers refuses a bad number in an environment variable of ours before anything has begun.
func checkNumbers() error {
	for _, v := range []struct {
		name, unit  string
		least, most uint64
	}{
		{control.EnvRingBytes, "bytes", control.MinRingBytes, control.MaxRingBytes},
		{control.EnvBeat, "milliseconds", control.LeastBeatMs, control.MostBeatMs},
		{control.EnvTop, "leak sites", 1, control.MostTop},
		{control.EnvWatchBytes, "bytes", 0, math.MaxInt64},
	} {
		value, ok := os.LookupEnv(v.name)
		if !ok {
			continue
		}
		if n, err := strconv.ParseUint(value, 10, 64); err != nil || n < v.least || n > v.most {
			return fmt.Errorf("%s=%s: a number of %s from %d to %d is accepted", v.name, value, v.unit, v.least, v.most)
		}
	}
	return nil
}

func lookup(environ []string, key string) string {
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			return v
		}
	}
	return ""
}

// set returns environ with key set to value in its first place, or at the end.
func set(environ []string, key, value string) []string {
	out := make([]string, 0, len(environ)+1)
	done := false
	for _, kv := range environ {
		if !strings.HasPrefix(kv, key+"=") {
			out = append(out, kv)
		} else if !done {
			out = append(out, key+"="+value)
			done = true
		}
	}
	if !done {
		out = append(out, key+"="+value)
	}
	return out
}
