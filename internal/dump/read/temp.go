package read

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// temps are the temporary files that there are. They can be as large as the dump, so they go with the process also when a signal ends it.
var temps struct {
	sync.Mutex
	paths map[string]bool
}

// CreateTemp is os.CreateTemp for a file that RemoveTemp removes, or a signal that ends the process.
func CreateTemp(dir, pattern string) (*os.File, error) {
	temps.Lock()
	defer temps.Unlock()
	if temps.paths == nil {
		temps.paths = make(map[string]bool)
		removeAtSignal()
	}
	f, err := os.CreateTemp(dir, pattern)
	if err == nil {
		temps.paths[f.Name()] = true
	}
	return f, err
}

// RemoveTemp removes a file of CreateTemp. That it has another name by now is no error.
func RemoveTemp(path string) error {
	temps.Lock()
	defer temps.Unlock()
	delete(temps.paths, path)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// removeAtSignal removes the files when a signal comes that would end the process, and ends it by that signal. What the caller has had ignored stays so.
func removeAtSignal() {
	caught := make(chan os.Signal, 1)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
	go func() {
		s := <-caught
		temps.Lock() // for good: nobody makes another one
		for path := range temps.paths {
			os.Remove(path)
		}
		signal.Reset(s)
		if self, err := os.FindProcess(os.Getpid()); err != nil || self.Signal(s) != nil {
			os.Exit(1)
		}
		select {}
	}()
}
