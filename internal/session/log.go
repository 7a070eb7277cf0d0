package session

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"

	"memscope/internal/config"
	"memscope/internal/output"
)

// log is the log of one client. Its file is in the project directory, which may not exist yet (or never): lines wait for it.
type log struct {
	mu      sync.Mutex
	file    *output.Log
	waiting []logLine
}

type logLine struct {
	level          config.LogLevel
	where, message string
}

// mostWaiting bounds the lines that wait for a project directory.
const mostWaiting = 200

// Logf writes a line, marked with the caller's place.
func (l *log) Logf(level config.LogLevel, format string, args ...any) {
	where := "?:0"
	if _, file, line, ok := runtime.Caller(1); ok {
		where = filepath.Base(file) + ":" + strconv.Itoa(line)
	}
	l.line(level, where, fmt.Sprintf(format, args...))
}

func (l *log) line(level config.LogLevel, where, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.file != nil:
		l.file.Line(level, where, message)
	case len(l.waiting) < mostWaiting:
		l.waiting = append(l.waiting, logLine{level, where, message})
	}
}

// use gives the log its file.
func (l *log) use(file *output.Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file = file
	for _, w := range l.waiting {
		file.Line(w.level, w.where, w.message)
	}
	l.waiting = nil
}
