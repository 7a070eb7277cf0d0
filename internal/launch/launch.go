// Package launch is the launcher: what the caller of msmemscope waits for. It starts the target with the hooks, starts the
// collector when the first process knocks, passes signals on, and prints what the collector has to say once the target has
// ended. It knows nothing of records and blocks.
package launch

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"memscope/internal/config"
	"memscope/internal/control"
	"memscope/internal/leakcheck"
	"memscope/internal/output"
)

const exitUsage = 2

// silence of the collector after which the launcher stops waiting for it. It sends its progress several times a second.
const silence = 30 * time.Second

// envShell is set in a shell that --load-api-env=host has prepared, and so in what is started from it.
const envShell = "MSMEMSCOPE_SHELL"

// deathPause lies between the death of the collector and the words that the program runs on.
const deathPause = 50 * time.Millisecond

// Run runs program (the word and its arguments) under the tool and returns the status to exit with: the program's own, 128
// and the signal's number when one killed it, 126 or 127 when it did not start, 2 when the tool itself cannot begin.
// The collector is the program at that path.
func Run(cfg config.Config, program []string, collector string) int {
	return (&launcher{cfg: &cfg, exe: collector}).start(program)
}

// Check is Run for a leak check, which prints nothing but complaints. found is nil when the check did not come to its end.
func Check(cfg config.Config, program []string, collector string) (status int, found *leakcheck.Report) {
	l := &launcher{cfg: &cfg, exe: collector}
	l.out.found = &leakcheck.Report{}
	status = l.start(program)
	if l.out.incomplete {
		return status, nil
	}
	return status, l.out.found
}

// start starts the program and does everything else.
func (l *launcher) start(program []string) int {
	l.out.incomplete = true // until the program runs
	if err := refuseNested(); err != nil {
		return l.fail(exitUsage, err)
	}
	if err := checkNumbers(); err != nil {
		return l.fail(exitUsage, err)
	}
	libDir, err := libraryDir()
	if err != nil {
		return l.fail(exitUsage, err)
	}
	if path := filepath.Join(libDir, sanitizerHook); l.out.found != nil && !isFile(path) {
		return l.fail(exitUsage, fmt.Errorf("%s is missing; the installation is incomplete", path))
	}
	listener, name, err := listen()
	if err != nil {
		return l.fail(exitUsage, fmt.Errorf("cannot make the session socket: %w", err))
	}
	inheritIgnored(os.Getenv(envIgnored))
	os.Unsetenv(envIgnored)
	env, err := environment(os.Environ(), libDir, l.hooks(), name)
	if err != nil {
		return l.fail(exitUsage, err)
	}
	if len(l.cfg.Pools) > 0 {
		env = set(env, envPools, strings.Join(l.cfg.Pools, ","))
	}
	read, err := catch(passed())
	if err != nil {
		return l.fail(exitUsage, fmt.Errorf("cannot catch signals: %w", err))
	}

	target, err := startTarget(program, env)
	if err != nil {
		var start *startError
		if errors.As(err, &start) {
			return l.fail(start.code, start)
		}
		return l.fail(exitNotExecutable, err)
	}
	keepDescriptors()
	ignoreStops()
	l.out.incomplete = false
	l.session = name
	l.listener, l.target, l.signals, l.nest = listener, target, make(chan os.Signal), make(chan *canary, 1)
	go read(l.signals)
	go keepCanary(l.nest, canaryPause)
	return l.run()
}

type launcher struct {
	cfg       *config.Config
	exe       string // of the collector
	listener  *os.File
	session   string // its name
	target    *process
	signals   chan os.Signal
	canary    *canary      // nil for a moment after the start and after a signal to the group
	nest      chan *canary // gets the next one
	early     os.Signal    // came while there was none; nil otherwise
	collector *collector   // nil before the first knock, and after its death
	out       printer
}

func (l *launcher) run() int {
	ended := make(chan syscall.WaitStatus, 1)
	go func() {
		status, err := waitTarget(l.target.pid)
		if err != nil {
			l.complain(fmt.Errorf("wait for the program: %w", err))
		}
		ended <- status
	}()
	knock := make(chan struct{}, 1)
	go func() {
		if waitReadable(l.listener) == nil {
			knock <- struct{}{}
		}
	}()
	for {
		select {
		case s := <-l.signals:
			l.forward(s)
		case c := <-l.nest:
			l.adopt(c)
		case <-knock:
			var err error
			if l.collector, err = startCollector(l.exe, l.listener, l.cfg); err != nil {
				l.complain(fmt.Errorf("cannot start the collector, the program runs on without being recorded: %w", err))
				l.collector = nil
			}
			// From here on the collector's copy is the only one: when it dies, the hooks see that at once.
			l.listener.Close()
		case m, ok := <-l.messages():
			if ok {
				l.out.keep(m)
				continue
			}
			select { // what has killed the one may have killed the other
			case status := <-ended:
				l.buried(l.out.notComplete())
				l.finish()
				return exitCode(status)
			case <-time.After(deathPause):
				l.buried("the program runs on without being recorded")
			}
		case status := <-ended:
			if l.collector == nil {
				l.leave()
			}
			l.listener.Close()
			l.finish()
			return exitCode(status)
		}
	}
}

// leave starts a collector for what the program leaves behind in the background, though none of it has used a device so far. It goes on
// silently: nobody knows whether there will be anything to record.
func (l *launcher) leave() {
	if l.out.found != nil || l.out.incomplete || len(control.Carriers(l.session, l.target.pid, l.target.pid)) == 0 {
		return
	}
	if c, err := startCollector(l.exe, l.listener, l.cfg); err == nil {
		c.finish()
	}
}

// messages is the collector's stream, nil (which blocks for ever) while there is no collector.
func (l *launcher) messages() <-chan control.Message {
	if l.collector == nil {
		return nil
	}
	return l.collector.messages
}

// buried says that the collector is dead, and what that means: the dump is not complete.
func (l *launcher) buried(means string) {
	l.complain(fmt.Errorf("the collector has died (%s); %s%s", <-l.collector.failed, means, l.remedy()))
	l.out.collectorSaid(<-l.collector.said)
	l.out.incomplete = true
	l.collector = nil
}

// hooks are the libraries to preload.
func (l *launcher) hooks() []string {
	if l.cfg.Analysis&config.HostLeaks != 0 {
		return []string{control.HostHook} // it needs none of the others (contract 1.9)
	}
	if l.out.found == nil {
		return hooks
	}
	return append(hooks[:len(hooks):len(hooks)], sanitizerHook)
}

// remedy names the command that completes the dump, if something has been recorded that it can use.
func (l *launcher) remedy() string {
	path := l.cfg.OutputPath
	if path == "" {
		return ""
	}
	if spools, _ := filepath.Glob(filepath.Join(path, "*", output.Spool)); len(spools) == 0 {
		return ""
	}
	if strings.ContainsAny(path, " \t\n\v\f\r~") { // of the characters that an output path may have
		path = "'" + path + "'"
	}
	return "; `msmemscope dump recover " + path + "` completes the dump of what was recorded"
}

// finish lets the collector finish what has ended and prints everything. A signal ends the waiting: the collector then
// finishes by itself.
func (l *launcher) finish() {
	if l.collector == nil {
		l.out.print()
		return
	}
	go l.collector.finish()
	bar := progress{begin: time.Now()}
	for {
		select {
		case <-time.After(silence):
			bar.close()
			l.complain(errors.New("the collector does not answer, " + l.out.notComplete() + l.remedy()))
			l.out.incomplete = true
			l.out.print()
			return
		case s := <-l.signals:
			if s == unix.SIGCONT || s == unix.SIGWINCH {
				continue
			}
			bar.close()
			l.out.print()
			if l.out.found == nil {
				fmt.Fprintln(os.Stderr, "[msmemscope] Info: the dump is finished in the background.")
			} else {
				l.complain(errors.New("interrupted, " + l.out.notComplete()))
				l.out.incomplete = true
			}
			return
		case m, ok := <-l.collector.messages:
			switch {
			case !ok:
				bar.close()
				l.buried(l.out.notComplete())
				l.out.print()
				return
			case m.Progress != nil:
				bar.show(m.Progress)
			case m.Done != nil:
				bar.close()
				l.out.keep(m)
				l.out.print()
				return
			default:
				l.out.keep(m)
			}
		}
	}
}

// startTarget finds the program and runs it.
func startTarget(program, env []string) (*process, error) {
	path, err := find(program[0])
	if err != nil {
		return nil, err
	}
	return start(path, program, env)
}

// refuseNested refuses to run inside a live session: two sets of hooks cannot share one process.
func refuseNested() error {
	name := os.Getenv(control.EnvSession)
	if name == "" {
		return nil
	}
	if !somebodyListens(name) {
		return nil // left over from a session that has ended
	}
	if os.Getenv(envShell) != "" {
		return errors.New("this shell is prepared by --load-api-env=host; `source msmemscope --unload-api-env` first, or start the program without msmemscope")
	}
	return errors.New("this shell already runs under msmemscope; one inside another is not possible")
}

// somebodyListens at the session socket of that name.
func somebodyListens(name string) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: "@" + name})
	}
	return err == nil || err == unix.EAGAIN // its queue is full
}

// listen makes the session socket and returns its name, without the NUL byte that begins an abstract name.
func listen() (*os.File, string, error) {
	random := make([]byte, 12)
	if _, err := unix.Getrandom(random, 0); err != nil {
		return nil, "", err
	}
	name := "msmemscope-" + hex.EncodeToString(random)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, "", err
	}
	listener := os.NewFile(uintptr(fd), name)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + name}); err != nil {
		listener.Close()
		return nil, "", err
	}
	const backlog = 4096 // the kernel has a limit of its own
	if err := unix.Listen(fd, backlog); err != nil {
		listener.Close()
		return nil, "", err
	}
	return listener, name, nil
}

// waitReadable returns when a connection waits in the listener's queue, without taking it, or fails when that is closed.
func waitReadable(listener *os.File) error {
	raw, err := listener.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return err == nil && n > 0
	})
}

// keepDescriptors makes sure that what the caller gave us beyond the standard streams, which was for the target, does not
// reach the collector: a pipeline must not wait for it.
func keepDescriptors() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// complain prints one error line.
func (l *launcher) complain(err error) {
	survivePipes()
	fmt.Fprintf(os.Stderr, "[%s] Error: %v.\n", l.out.tool(), err)
}

// fail prints one error line and returns code.
func (l *launcher) fail(code int, err error) int {
	l.complain(err)
	return code
}
