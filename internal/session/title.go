package session

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// title is the name of the process, with what it runs when it is an interpreter: "python3 train.py".
func (p *process) title() string {
	name, script := p.name(), printable(p.script())
	if script == "" || strings.HasPrefix(script, name) { // a script that is a command has its own name, cut by the kernel
		return cmp.Or(script, name)
	}
	return name + " " + script
}

// script is what an interpreter runs, by its command line (proc(5)); "" for other programs.
func (p *process) script() string {
	file, err := os.Open("/proc/" + strconv.Itoa(p.pid) + "/cmdline")
	if err != nil {
		return ""
	}
	defer file.Close()
	const most = 4096
	text, _ := io.ReadAll(io.LimitReader(file, most))
	return scriptOf(strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"))
}

// scriptOf is the name of the file, or -m and the module, that a command line of Python or of a shell names; "" when there is none.
func scriptOf(words []string) string {
	var python bool
	var valued string // letters of options with a value
	switch base := filepath.Base(words[0]); {
	case strings.HasPrefix(base, "python"):
		python, valued = true, "WX"
	case base == "sh", base == "bash", base == "dash", base == "zsh", base == "ksh":
		valued = "oO"
	default:
		return ""
	}
	for i := 1; i < len(words); i++ {
		letters, option := strings.CutPrefix(words[i], "-")
		switch {
		case !option:
			return filepath.Base(words[i])
		case letters == "": // standard input
			return ""
		case letters[0] == '-':
			continue
		}
		for at, letter := range letters {
			rest := letters[at+1:]
			if letter == 'c' || letter == 's' && !python {
				return ""
			}
			if python && letter == 'm' {
				if rest == "" && i+1 < len(words) {
					rest = words[i+1]
				}
				return "-m " + rest
			}
			if strings.ContainsRune(valued, letter) {
				if rest == "" {
					i++
				}
				break
			}
		}
	}
	return ""
}
