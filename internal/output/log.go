package output

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"memscope/internal/config"
)

// Log is the levelled log of one project directory, msmemscope_logs/msmemscope_<TS>.log (contract 2). The file is made with
// the first line. A line that cannot be written is dropped: a full disk must not stop the work that the log tells of.
// Safe for use by several goroutines.
type Log struct {
	project *Project
	level   config.LogLevel

	mu     sync.Mutex
	file   *os.File
	failed bool   // the file could not be made
	name   string // of the file, for the size warning
	size   int64
	limit  int64 // warn when size passes it
	line   []byte
}

// logLimit is the size in bytes from which on the user is told that the log is large.
const logLimit = 100 << 20

var levelNames = [...]string{config.Debug: "[DEBUG]", config.Info: "[INFO] ", config.Warning: "[WARN] ", config.Error: "[ERROR]"}

// NewLog makes the log of a project. Lines below level are dropped.
func (p *Project) NewLog(level config.LogLevel) *Log {
	return &Log{project: p, level: level, limit: logLimit}
}

// Line writes a line; where says where it comes from, "file:line" for our own lines. A message is kept on one line.
func (l *Log) Line(level config.LogLevel, where, message string) {
	if level < l.level || int(level) >= len(levelNames) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil && !l.open() {
		return
	}
	b := time.Now().AppendFormat(l.line[:0], time.DateTime)
	b = append(b, ' ')
	b = append(b, levelNames[level]...)
	b = append(b, " ["...)
	b = append(b, where...)
	b = append(b, "] "...)
	b = append(b, oneLine(message)...)
	b = append(b, '\n')
	l.line = b
	n, err := l.file.Write(b)
	if err != nil { // keep the file whole: cut a half line off
		l.file.Truncate(l.size)
		return
	}
	l.size += int64(n)
	if l.size > l.limit {
		l.limit *= 2
		l.project.notice("[msmemscope] Warn: Log file size is too large, please check: " + filepath.Join(l.project.Path, l.name))
	}
}

// oneLine keeps a message from looking like several lines.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

func (l *Log) open() bool {
	if l.failed {
		return false
	}
	f, name, err := l.project.createIn([]string{"msmemscope_logs"}, "msmemscope_", ".log")
	if err != nil {
		l.failed = true
		l.project.notice("[msmemscope] Error: Create log file failed: " + err.Error())
		return false
	}
	l.file, l.name = f, name
	l.project.notice("[msmemscope] Info: logging into file " + filepath.Join(l.project.Path, name))
	return true
}

// Close closes the file; lines that come later are dropped.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = true
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	return f.Close()
}
