// Package process runs real binaries for tests: it waits until they are ready, keeps what they say in a file, and stops
// or kills them by their process id.
//
// A process never outlives the one that started it, not even when that one is killed.
package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

const (
	// outputDelay bounds the wait for output after a process ended, which its children may hold open.
	outputDelay = 2 * time.Second
	probeEvery  = 20 * time.Millisecond
	// probeTimeout bounds one HTTP probe.
	probeTimeout = 5 * time.Second
)

// Options say what is run, and how one knows that it is ready.
type Options struct {
	// Path is the binary. Required.
	Path string
	// Args are its arguments, without its name.
	Args []string
	// Env are variables, as KEY=value, on top of those of this process.
	Env []string
	// Dir is its working directory. Default: this process's.
	Dir string
	// LogFile gets standard output and error, after what the file holds already. Required; its directory is made.
	LogFile string

	// ReadyLine is matched against each line of the output. Default: not waited for.
	ReadyLine *regexp.Regexp
	// ReadyURL is asked until it answers with a status below 400. Default: not waited for.
	ReadyURL string
	// Client asks ReadyURL. Default: http.DefaultClient.
	Client *http.Client
}

// Process is a process that was started, and perhaps ended since.
type Process struct {
	name    string
	process *os.Process
	logFile string
	lines   *lines
	done    chan struct{}
	err     error // why it ended; set before done is closed
}

// Start runs a binary and returns when it is ready in all ways the options ask for. When it ends before, or ctx does,
// nothing runs any more and the error has the end of its output. After Start, ctx has no power over the process.
func Start(ctx context.Context, o Options) (*Process, error) {
	p := &Process{name: filepath.Base(o.Path), logFile: o.LogFile, done: make(chan struct{})}
	if err := os.MkdirAll(filepath.Dir(o.LogFile), 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of %s's log: %w", p.name, err)
	}
	log, err := os.OpenFile(o.LogFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open %s's log: %w", p.name, err)
	}
	p.lines = newLines(log)
	command := exec.Command(o.Path, o.Args...)
	command.Dir = o.Dir
	command.Env = append(os.Environ(), o.Env...)
	command.Stdout, command.Stderr = p.lines, p.lines
	command.WaitDelay = outputDelay
	command.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true, // a Ctrl-C at the terminal is for us
		Pdeathsig: syscall.SIGKILL,
	}
	started := make(chan error, 1)
	go p.own(command, log, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Path, err)
	}
	if err := p.waitReady(ctx, o); err != nil {
		_ = p.Kill() // it may have ended by itself
		return nil, err
	}
	return p, nil
}

// own starts the process and waits for its end on one thread of the operating system, which Pdeathsig is tied to: when
// that thread ends, the process is killed.
func (p *Process) own(command *exec.Cmd, log *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer log.Close()
	if err := command.Start(); err != nil {
		started <- err
		return
	}
	p.process = command.Process
	started <- nil
	p.err = command.Wait()
	p.lines.end()
	close(p.done)
}

func (p *Process) waitReady(ctx context.Context, o Options) error {
	if o.ReadyLine != nil {
		if _, err := p.WaitLine(ctx, o.ReadyLine); err != nil {
			return err
		}
	}
	if o.ReadyURL != "" {
		return p.waitURL(ctx, o)
	}
	return nil
}

func (p *Process) waitURL(ctx context.Context, o Options) error {
	client := o.Client
	if client == nil {
		client = http.DefaultClient
	}
	for {
		last := probe(ctx, client, o.ReadyURL)
		if last == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.withOutput(fmt.Errorf("%s before %s answered: %w", p.ended(), o.ReadyURL, last))
		case <-ctx.Done():
			return p.withOutput(fmt.Errorf("wait for %s of %s: %w; the last answer: %w", o.ReadyURL, p.name, ctx.Err(), last))
		case <-time.After(probeEvery):
		}
	}
}

func probe(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close() // the status is all that counts
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("status %s", response.Status)
	}
	return nil
}

// WaitLine returns the first line of the output, past or future, that the expression matches, with its submatches as
// regexp.FindStringSubmatch has them. Only the most recent lines of the past are known; see keptLines.
func (p *Process) WaitLine(ctx context.Context, expression *regexp.Regexp) ([]string, error) {
	for next := 0; ; {
		match, seen, changed := p.lines.find(expression, next)
		if match != nil {
			return match, nil
		}
		next = seen
		if changed == nil {
			return nil, p.withOutput(fmt.Errorf("%s without a line that matches %q", p.ended(), expression))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, p.withOutput(fmt.Errorf("wait for a line of %s that matches %q: %w", p.name, expression, ctx.Err()))
		}
	}
}

// ended says that the process has ended, and how.
func (p *Process) ended() string {
	if p.err == nil {
		return p.name + " ended without an error"
	}
	return fmt.Sprintf("%s ended (%v)", p.name, p.err)
}

// withOutput adds the end of the output to an error.
func (p *Process) withOutput(err error) error {
	return fmt.Errorf("%w; the end of its output:\n%s", err, p.lines.tail())
}

// Stop asks the process to end (SIGTERM) and waits. If ctx ends first it kills the process, and says so with an error.
// How the process ended is reported by Wait. To stop what has ended already is not an error.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stop %s, process %d: %w; killed it", p.name, p.PID(), ctx.Err()), p.Kill())
	}
}

// Kill ends the process at once (SIGKILL) and waits until it is gone. To kill what has ended already is not an error.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Signal sends a signal to the process. For a process that has ended it does nothing.
func (p *Process) Signal(signal syscall.Signal) error {
	if err := p.process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to %s, process %d: %w", signal, p.name, p.PID(), err)
	}
	return nil
}

// Wait waits for the end of the process and returns how it ended: nil for exit code 0, an *exec.ExitError for another
// or a signal, or the context's error.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of %s: %w", p.name, ctx.Err())
	}
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID is the process id. After the end of the process it may be another's.
func (p *Process) PID() int { return p.process.Pid }

// LogFile is the file with the output.
func (p *Process) LogFile() string { return p.logFile }
