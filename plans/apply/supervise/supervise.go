// Package supervise runs one command below a process of its own that outlives the
// agent which started it: it records what the command prints and how it ended, so that
// a restarted agent finds out instead of running the command a second time.
package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/drover-project/drover/plans/apply/output"

	"github.com/drover-project/drover/plans/durable"
)

const (
	defaultGrace = 10 * time.Second
	defaultDrain = 2 * time.Second
	// reserved is the size of the result's file from the beginning, so that the result can be
	// written when the disk has filled meanwhile.
	reserved = 4 << 10
	// retry is the distance between attempts to write the result to a disk that has no room.
	retry = time.Second
)

// Supervise is the whole life of a supervisor process: it runs the command prepared in
// dir and returns the exit code for the process, which only says whether the supervisor
// could do its work. Signals that are meant for the agent do not end it. The directory
// "-" is read from the standard input once it is known; see Spare.
func Supervise(dir string) int {
	// Notify and not Ignore: a command inherits ignored signals, but not handlers.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGUSR1)
	// The command dies with the thread that started it (Pdeathsig), so that thread has to stay.
	runtime.LockOSThread()
	id, err := identify(os.Getpid())
	if err != nil {
		fmt.Fprintln(os.Stderr, "supervise: find out who this is:", err)
		return 1
	}
	work := supervise
	if dir == unknown {
		work = superviseLater
	}
	if err := work(dir, id, signals); err != nil {
		fmt.Fprintln(os.Stderr, "supervise:", err)
		return 1
	}
	return 0
}

// supervise runs the command of dir.
func supervise(dir string, id Identity, signals <-chan os.Signal) error {
	if err := writeIdentity(dir, id); err != nil {
		return err
	}
	command, err := readCommand(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process has it, or none may
	}
	if err != nil {
		return err
	}
	result, err := reserveResult(dir)
	if err != nil {
		return err
	}
	defer result.Close()
	r := run{command: command, dir: dir, signals: signals, file: result, announce: func(Result) {}}
	return r.once()
}

// superviseLater runs a command that is not known yet; see Spare.
func superviseLater(_ string, id Identity, signals <-chan os.Signal) error {
	// The first look for a process has the runtime try out what the kernel can, which takes
	// as long as starting one; so does it now and not when a command waits.
	if self, err := os.FindProcess(id.PID); err == nil {
		_ = self.Release()
	}
	agent := newCaller(os.Stdin)
	home, ok, err := agent.directory()
	if err != nil || !ok {
		return err
	}
	result, err := settle(home, id)
	if err != nil {
		return err
	}
	defer result.Close()
	if err := agent.settled(); err != nil {
		return nil // no caller waits any more
	}
	dir, ok, err := agent.directory()
	if err != nil || !ok || !agent.mayBegin() {
		return err
	}
	command, err := readCommand(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no process may have it any more
	}
	if err != nil {
		return err
	}
	r := run{command: command, dir: dir, signals: signals, file: result, announce: agent.announce}
	return r.once()
}

// run is one command on its way.
type run struct {
	command  Command
	dir      string
	signals  <-chan os.Signal
	file     *os.File     // that becomes the result's
	announce func(Result) // to an agent that waits
	recorder *output.Recorder
	process  *exec.Cmd
	pipes    <-chan struct{} // closed when both streams ended
	result   Result
}

// once runs the command if no other process has it, and writes down how it ended.
func (r *run) once() error {
	claimed := filepath.Join(r.dir, claimedFile)
	if err := os.Rename(filepath.Join(r.dir, commandFile), claimed); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	r.recorder = output.NewRecorder(r.dir, r.command.OutputLimit)
	result := r.do(func() {
		_ = os.Truncate(claimed, 0) // the command's environment may hold secrets
	})
	r.announce(result)
	if err := r.writeResult(result); err != nil {
		return err
	}
	// A process that the command left behind may go on writing; with no reader it would
	// be killed by SIGPIPE or stand still.
	if r.pipes != nil {
		<-r.pipes
	}
	return nil
}

// do runs the command to its end. started is called when it runs, or could not be started.
func (r *run) do(started func()) Result {
	r.result = Result{Schema: schema, ExitCode: -1, Started: time.Now().UTC()}
	err := r.start()
	started()
	if err != nil {
		r.result.Error = err.Error()
		r.result.Ended = time.Now().UTC()
		return r.result
	}
	r.wait()
	r.result.Ended = time.Now().UTC()
	state := r.process.ProcessState
	r.result.ExitCode = state.ExitCode()
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		r.result.Signal = signalName(status.Signal())
	}
	select {
	case <-r.pipes:
	case <-time.After(or(r.command.Drain, defaultDrain)):
	}
	r.result.Written = r.recorder.Finish()
	return r.result
}

// start starts the command in a process group of its own.
func (r *run) start() error {
	if _, err := os.Stat(r.command.Dir); err != nil {
		return err // the kernel's error would blame the executable
	}
	drain, stdout, stderr, err := newDrain(r.recorder.Record)
	if err != nil {
		return err
	}
	err = r.exec(stdout, stderr)
	// From here on only the command holds the ends that are written to.
	if err = errors.Join(err, stdout.Close(), stderr.Close()); err != nil {
		drain.close()
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		drain.run()
	}()
	r.pipes = ended
	return nil
}

// exec starts the process, again for a short while when another process still has the
// executable open for writing: a fork of the agent may hold a file it just wrote.
func (r *run) exec(stdout, stderr *os.File) error {
	if _, err := os.Stat(filepath.Join(r.dir, killFile)); err == nil {
		r.result.Killed = true
		return errors.New("killed before it started")
	}
	for try := 0; ; try++ {
		r.process = &exec.Cmd{
			Path: r.command.Path, Args: r.command.Args, Env: r.command.Env, Dir: r.command.Dir,
			Stdout: stdout, Stderr: stderr,
			SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
		}
		err := r.process.Start()
		if !errors.Is(err, syscall.ETXTBSY) || try == 100 {
			return err
		}
		<-time.After(10 * time.Millisecond)
	}
}

// wait returns when the command exited, and sees to it that it does when it has to.
func (r *run) wait() {
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = r.process.Wait() // ProcessState has everything the error says
	}()
	var timeout, grace <-chan time.Time
	if r.command.Timeout > 0 {
		timeout = time.After(r.command.Timeout)
	}
	end := func() {
		r.kill(syscall.SIGTERM)
		if grace == nil {
			grace = time.After(or(r.command.Grace, defaultGrace))
		}
	}
	for {
		select {
		case <-exited:
			if grace != nil {
				r.kill(syscall.SIGKILL) // processes of the group that did not listen
			}
			return
		case s := <-r.signals:
			if s == syscall.SIGUSR1 {
				r.result.Killed = true
				end()
			}
		case <-timeout:
			r.result.TimedOut, r.result.Limit = true, r.command.Timeout
			end()
		case <-grace:
			r.kill(syscall.SIGKILL)
		}
	}
}

// kill signals the command's whole group.
func (r *run) kill(s syscall.Signal) {
	_ = syscall.Kill(-r.process.Process.Pid, s) // no process left to signal is fine
}

// reserveResult makes the file that will become the result.
func reserveResult(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, resultFile+".tmp"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(padded(nil)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// writeResult writes the result for as long as it takes: without it the command would run
// a second time. It gives up only when its directory is gone, for then no caller asks.
//
// Output and result are synced before the result has its name.
func (r *run) writeResult(result Result) error {
	b, err := json.Marshal(result)
	if err != nil {
		return err
	}
	for {
		err := r.putResult(padded(b))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return err
		}
		<-time.After(retry)
	}
}

func (r *run) putResult(b []byte) error {
	f := r.file
	if _, err := f.WriteAt(b, 0); err != nil {
		return err
	}
	durable.Begin(f)
	r.recorder.Sync()
	if err := f.Sync(); err != nil {
		return err
	}
	result := filepath.Join(r.dir, resultFile)
	if err := os.Rename(result+".tmp", result); err != nil {
		return err
	}
	return durable.SyncDir(r.dir)
}

// padded fills b up to the reserved size with white space, which JSON does not mind.
func padded(b []byte) []byte {
	out := append([]byte{}, b...)
	for len(out) < reserved {
		out = append(out, '\n')
	}
	return out
}

// writeIdentity needs no fsync: after a crash of the host the process is gone anyway.
func writeIdentity(dir string, id Identity) error {
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return rename(filepath.Join(dir, identityFile), b)
}

func or(d, absent time.Duration) time.Duration {
	if d <= 0 {
		return absent
	}
	return d
}
