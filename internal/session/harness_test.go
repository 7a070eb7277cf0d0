package session

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"memscope/internal/config"
	"memscope/internal/control"
	"memscope/internal/wire/wiretest"
)

// envChild makes the test binary play a target: it names a function of children.
const envChild = "SESSION_TEST_CHILD"

// children are what a target can do once it is connected. After a return it is an orderly exit.
var children = map[string]func(p *wiretest.Producer, args []string){}

func TestMain(m *testing.M) {
	if words := strings.Fields(os.Getenv(envChild)); len(words) > 0 {
		p, _, err := wiretest.Connect(os.Getenv(control.EnvSession), os.Getpid())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		children[words[0]](p, words[1:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// run is a session within the test, with the test in the place of the launcher.
type run struct {
	t       testing.TB
	name    string
	output  string
	session *session
	finish  chan struct{}
	ended   chan struct{} // closed when the session has ended

	lines  []string
	report string
	done   *control.Done
	read   chan struct{} // closed when the messages are read
}

func startRun(t testing.TB, cfg config.Config) *run {
	t.Helper()
	return startRunUnder(t, cfg, os.Getpid())
}

// startRunUnder is startRun with another process as the launcher whose descendants are accepted.
func startRunUnder(t testing.TB, cfg config.Config, launcher int) *run {
	t.Helper()
	if cfg.OutputPath == "" {
		cfg.OutputPath = filepath.Join(t.TempDir(), "out")
	}
	name := fmt.Sprintf("msmemscope-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: "@" + name})
	if err != nil {
		t.Fatal(err)
	}
	reader, writer := io.Pipe()
	r := &run{
		t: t, name: name, output: cfg.OutputPath, session: newSession(&cfg, nil, listener, writer, launcher),
		finish: make(chan struct{}, 1), ended: make(chan struct{}), read: make(chan struct{}),
	}
	go r.listen(reader)
	go func() {
		r.session.run(r.finish)
		writer.Close()
		close(r.ended)
	}()
	return r
}

func (r *run) listen(reader io.Reader) {
	defer close(r.read)
	for decode := json.NewDecoder(reader); ; {
		var m control.Message
		if decode.Decode(&m) != nil {
			return
		}
		if m.Line != "" {
			r.lines = append(r.lines, m.Line)
		}
		r.report += m.Report
		if m.Done != nil {
			r.done = m.Done
		}
	}
}

// conclude says that the target has ended, waits for the end of the session, and returns the lines for the user.
func (r *run) conclude() []string {
	r.t.Helper()
	r.finish <- struct{}{}
	r.wait()
	if r.done == nil {
		r.t.Fatal("the session has not said that it is done")
	}
	return r.lines
}

func (r *run) wait() {
	r.t.Helper()
	for _, c := range []chan struct{}{r.ended, r.read} {
		select {
		case <-c:
		case <-time.After(30 * time.Second):
			r.t.Fatal("the session does not end")
		}
	}
}

// child starts a process that connects and does what the words say.
func (r *run) child(words string) *child {
	r.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"="+words, control.EnvSession+"="+r.name)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	c := &child{t: r.t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	r.t.Cleanup(c.kill)
	return c
}

type child struct {
	t    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	gone bool
}

// expect waits for a line of the child's output.
func (c *child) expect(line string) {
	c.t.Helper()
	if !c.out.Scan() || c.out.Text() != line {
		c.t.Fatalf("the child said %q (%v), not %q", c.out.Text(), c.out.Err(), line)
	}
}

// kill is SIGKILL, and returns when the process is reaped.
func (c *child) kill() {
	if !c.gone {
		c.gone = true
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}

// wait waits for an orderly exit.
func (c *child) wait() {
	c.t.Helper()
	c.gone = true
	if err := c.cmd.Wait(); err != nil {
		c.t.Fatal(err)
	}
}

// block is how a child waits to be killed, or for its standard input to be closed.
func block() { _, _ = io.Copy(io.Discard, os.Stdin) }

// dumps reads the rows of the dump files of process pid, by device directory.
func (r *run) dumps(pid int) map[string][][]string {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join(r.output, fmt.Sprintf("msmemscope_%d_*_ascend/device_*/dump/*.csv", pid)))
	if err != nil {
		r.t.Fatal(err)
	}
	rows := map[string][][]string{}
	for _, path := range files {
		file, err := os.Open(path)
		if err != nil {
			r.t.Fatal(err)
		}
		all, err := csv.NewReader(file).ReadAll()
		file.Close()
		if err != nil {
			r.t.Fatal(err)
		}
		if len(all) == 0 {
			continue // just made, the header is not written yet
		}
		device := filepath.Base(filepath.Dir(filepath.Dir(path)))
		rows[device] = append(rows[device], all[1:]...)
	}
	return rows
}

// Columns of a dump.
const (
	colEvent  = 1
	colType   = 2
	colName   = 3
	colStamp  = 4
	colPID    = 5
	colTID    = 6
	colDevice = 7
	colPtr    = 8
	colAttr   = 9
)
