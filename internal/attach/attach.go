package attach

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"memscope/internal/session"
	"memscope/internal/wire"
)

const (
	prompt = "msmemscope> "
	// patience is how long a collector may say nothing. It says several times a second that it is at it.
	patience = 30 * time.Second
)

// Run controls a process: one command, or a prompt when command is nil. It returns the status to exit with: 1 when the process cannot be
// controlled or the command has failed.
func Run(pid int, command *string) int {
	t, err := find(pid)
	if err != nil {
		complain(err)
		return 1
	}
	if command != nil {
		return t.once(*command)
	}
	if !t.send("display status") {
		return 1
	}
	if in := int(os.Stdin.Fd()); term.IsTerminal(in) && term.IsTerminal(int(os.Stdout.Fd())) {
		err = t.converse(in)
	} else {
		err = t.script(os.Stdin)
	}
	if err != nil {
		complain(err)
		return 1
	}
	return 0
}

func complain(err error) { fmt.Fprintf(os.Stderr, "[msmemscope] Error: %v.\n", err) }

// once sends one command.
func (t *target) once(command string) int {
	switch strings.TrimSpace(command) {
	case "quit", "exit":
		return 0
	case "help":
		help(os.Stdout)
		return 0
	}
	if !t.send(command) {
		return 1
	}
	return 0
}

// send sends a command and prints what comes back. false: it has failed, which is said.
func (t *target) send(command string) bool {
	return t.sendTo(command, os.Stdout, os.Stderr)
}

func (t *target) sendTo(command string, stdout, stderr io.Writer) bool {
	words := strings.Join(strings.Fields(command), "\x00")
	good := true
	answer, err := wire.Ask(t.session, wire.Control, strings.Join(t.ids, " ")+"\n"+words, patience, func(how byte, text string) {
		if how == wire.SayError {
			good = false
			io.WriteString(stderr, text)
		} else {
			io.WriteString(stdout, text)
		}
	})
	say := func(format string, args ...any) bool {
		fmt.Fprintf(stderr, "[msmemscope] Error: "+format+".\n", args...)
		return false
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return say("the collector of process %d has ended; nothing is recorded of it any more", t.pid)
	case err != nil:
		return say("process %d: %v", t.pid, err)
	case answer == wire.RefusedVersion:
		return say("process %d is recorded by another version of msmemscope", t.pid)
	case answer != wire.Accepted:
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", t.pid)); err != nil {
			return say("process %d has ended", t.pid)
		}
		return say("process %d has recorded nothing so far: it has not used the device, and its host heap is not recorded", t.pid)
	}
	return good
}

// script takes commands from a pipe or a file, one a line.
func (t *target) script(in io.Reader) error {
	failed := false
	scan := bufio.NewScanner(in)
	for scan.Scan() {
		switch line := strings.TrimSpace(scan.Text()); line {
		case "":
		case "quit", "exit":
			return result(failed)
		case "help":
			help(os.Stdout)
		default:
			failed = !t.send(line) || failed
		}
	}
	if err := scan.Err(); err != nil {
		return err
	}
	return result(failed)
}

func result(failed bool) error {
	if failed {
		return errors.New("at least one command has failed")
	}
	return nil
}

// converse is the prompt on a terminal: history with the arrow keys, completion with Tab, Ctrl-D to leave.
func (t *target) converse(in int) error {
	before, err := term.MakeRaw(in)
	if err != nil {
		return fmt.Errorf("the terminal: %w", err)
	}
	defer term.Restore(in, before)
	screen := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{os.Stdin, os.Stdout}, prompt)
	screen.AutoCompleteCallback = func(line string, at int, key rune) (string, int, bool) {
		if key != '\t' || at != len(line) {
			return "", 0, false
		}
		done := complete(line)
		return done, len(done), true
	}
	for {
		if width, height, err := term.GetSize(in); err == nil && width > 0 && height > 0 { // a pseudo-terminal may not know its own
			_ = screen.SetSize(width, height)
		}
		line, err := screen.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch line = strings.TrimSpace(line); line {
		case "":
		case "quit", "exit":
			return nil
		case "help":
			help(screen)
		default:
			t.sendTo(line, screen, screen)
		}
	}
}

// words are all that can be said at the prompt.
func words() []string {
	all := []string{"help", "quit"}
	for _, c := range session.Commands {
		all = append(all, c.Words)
	}
	return all
}

// complete goes on with a line as far as only one continuation is possible.
func complete(line string) string {
	line = strings.TrimLeft(line, " ")
	common, found := "", false
	for _, w := range words() {
		if !strings.HasPrefix(w, line) {
			continue
		}
		if !found {
			common, found = w, true
			continue
		}
		for !strings.HasPrefix(w, common) {
			common = common[:len(common)-1]
		}
	}
	if !found {
		return line
	}
	return common
}

func help(w io.Writer) {
	for _, c := range session.Commands {
		fmt.Fprintf(w, "  %-26s %s\n", c.Words, c.Help)
	}
	fmt.Fprintf(w, "  %-26s %s\n", "quit", "leave; the process and its recording go on")
}
