// The agent's side: starting a supervisor, finding one again, waiting for it.

package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/drover-project/drover/plans/apply/output"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plans/durable"
)

var (
	// ErrNeverStarted says that the command did not run and never will.
	ErrNeverStarted = errors.New("the command was never started")
	// ErrLost says that the command was started and its supervisor is gone without a result:
	// the host was rebooted, or a user killed it.
	ErrLost = errors.New("the command's supervisor died without a result")
)

const (
	// look is the distance between two looks at the output while a command runs. The end of a
	// command is noticed at once by its supervisor's announcement, or its exit.
	look = 100 * time.Millisecond
	// lookWithoutPidfd stands in for that on kernels before 5.3.
	lookWithoutPidfd = 20 * time.Millisecond
)

// Running is a supervisor at work.
type Running struct {
	Identity Identity
	dir      string
	pidfd    *os.File // nil when the kernel has none
	// announced has the result when it is there; nil when the supervisor cannot announce it.
	announced *os.File
	heard     []byte  // of an announcement
	result    *Result // announced
	follower  *output.Follower
}

// Start starts a supervisor for the command prepared in dir, in a session of its own. argv
// is what it is started by; dir is added as the last argument. The errors are those of starting a process; no command runs then.
func Start(argv []string, dir string) (*Running, error) {
	log, err := os.OpenFile(filepath.Join(dir, supervisorLog), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := process(argv, dir)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	// It is a child of ours and not yet reaped, so the number is still its own.
	id, err := identify(cmd.Process.Pid)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("look up the supervisor: %w", err), cmd.Process.Release())
	}
	// Waited for below like one of an earlier life, which is not a child of ours.
	if err := cmd.Process.Release(); err != nil {
		return nil, err
	}
	return watch(dir, id), nil
}

// process is a supervisor to be, in a session of its own.
func process(argv []string, dir string) *exec.Cmd {
	return &exec.Cmd{
		Path: argv[0], Args: append(append([]string{}, argv...), dir), Dir: "/", Env: []string{},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
}

// Attach finds out what became of the command in dir. Exactly one of these is returned:
// a supervisor that still runs, a result, or an error: ErrNeverStarted (then it will not
// start any more), ErrLost, or that the directory cannot be read. known is the identity
// that the caller remembers, for a directory that was removed meanwhile.
func Attach(dir string, known Identity) (*Running, *Result, error) {
	if r, ok, err := readResult(dir); err != nil || ok {
		return nil, &r, err
	}
	err := os.Rename(filepath.Join(dir, commandFile), filepath.Join(dir, voidFile))
	if err == nil {
		return nil, nil, ErrNeverStarted
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	id := known
	err = readJSON(filepath.Join(dir, identityFile), maxResultSize, &id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	there := err == nil
	if id.Alive() {
		return watch(dir, id), nil, nil
	}
	// It may have ended between the two looks.
	if r, ok, err := readResult(dir); err != nil || ok {
		return nil, &r, err
	}
	// A directory that is gone says nothing; a directory that is there was claimed by the process that ran the command.
	if _, err := os.Stat(filepath.Join(dir, claimedFile)); errors.Is(err, fs.ErrNotExist) && (there || known.PID == 0) {
		return nil, nil, ErrNeverStarted
	}
	return nil, nil, ErrLost
}

// KillLeftovers kills what still runs of a lost command; see Identity.KillLeftovers.
func KillLeftovers(dir string, known Identity, env string) int {
	id := known
	if err := readJSON(filepath.Join(dir, identityFile), maxResultSize, &id); err != nil {
		id = known
	}
	return id.KillLeftovers(env)
}

func watch(dir string, id Identity) *Running {
	r := &Running{Identity: id, dir: dir, follower: output.NewFollower(dir)}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		return r
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return r
	}
	r.pidfd = os.NewFile(uintptr(fd), "pidfd")
	// The number may have changed hands before it was opened.
	if now, err := identify(id.PID); err != nil || now != id {
		r.Close()
	}
	return r
}

// Close gives up what Wait needs; the supervisor goes on.
func (r *Running) Close() {
	if r.pidfd != nil {
		r.pidfd.Close()
		r.pidfd = nil
	}
	r.deaf()
}

// Recording says whether the supervisor, from which Wait had the result, has yet to put it in its file.
func (r *Running) Recording() bool {
	if r.result == nil {
		return false
	}
	_, err := os.Stat(filepath.Join(r.dir, resultFile))
	return errors.Is(err, fs.ErrNotExist)
}

// HangUp has the supervisor go on as without an agent. Wait is not called any more.
func (r *Running) HangUp() { r.deaf() }

// deaf gives up what the supervisor announces itself by.
func (r *Running) deaf() {
	if r.announced != nil {
		r.announced.Close()
		r.announced = nil
	}
}

// Wait returns the result of the command once it ended, ErrNeverStarted or ErrLost when its
// supervisor died without one, or the context's error. Output is handed to each as it comes.
func (r *Running) Wait(ctx context.Context, each func(output.Chunk)) (Result, error) {
	for {
		gone := r.exited(ctx, look)
		result, ok, err := r.ended()
		if err != nil {
			return Result{}, err
		}
		if r.follower != nil && r.follower.Next(each) != nil {
			r.follower = nil // damaged: the end still counts, and output.Read reports the damage
		}
		switch {
		case ok:
			return result, nil
		case gone:
			r.Reap()
			return r.withoutResult()
		case ctx.Err() != nil:
			return Result{}, ctx.Err()
		}
	}
}

// ended is the result, announced or in its file; ok is false while there is none.
func (r *Running) ended() (result Result, ok bool, err error) {
	if r.result != nil {
		return *r.result, true, nil
	}
	return readResult(r.dir)
}

// hear takes up what the supervisor has announced of its result so far.
func (r *Running) hear(b []byte) {
	r.heard = append(r.heard, b...)
	line, _, whole := bytes.Cut(r.heard, []byte{'\n'})
	var result Result
	switch {
	case whole && json.Unmarshal(line, &result) == nil && result.Schema == schema:
		r.result = &result // the socket stays open until Close: the supervisor takes its end for the agent's
	case whole || len(r.heard) > maxResultSize:
		r.deaf() // the file says it
	}
}

// withoutResult distinguishes a supervisor that could not begin from one that died at work.
func (r *Running) withoutResult() (Result, error) {
	_, result, err := Attach(r.dir, r.Identity)
	switch {
	case result != nil:
		return *result, nil
	case err == nil: // cannot be: it is gone
		return Result{}, ErrLost
	case errors.Is(err, ErrNeverStarted):
		if b, readErr := durable.ReadFile(filepath.Join(r.dir, supervisorLog), maxResultSize); readErr == nil && len(b) > 0 {
			return Result{}, fmt.Errorf("%w: %s", err, bytes.TrimSpace(b))
		}
	}
	return Result{}, err
}

// Kill has the command killed, also when the supervisor has not started it yet. The errors are those of the file system and of signalling.
func (r *Running) Kill() error {
	f, err := os.OpenFile(filepath.Join(r.dir, killFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := r.signal(unix.SIGUSR1); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal the supervisor: %w", err)
	}
	return nil
}

func (r *Running) signal(s unix.Signal) error {
	if r.pidfd == nil {
		if !r.Identity.Alive() {
			return nil
		}
		return unix.Kill(r.Identity.PID, s)
	}
	conn, err := r.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), s, nil, 0) })
	return errors.Join(err, sent)
}

// Reap lets the kernel forget a supervisor that ended, if it is a child of ours, and says
// whether it ended. A supervisor whose command left a process behind lives as long as that.
func (r *Running) Reap() bool {
	if !r.Identity.Alive() {
		_, _ = unix.Wait4(r.Identity.PID, nil, unix.WNOHANG, nil) // no child of ours: nothing to do
		return true
	}
	return false
}

// exited waits up to d for the supervisor's end, and says whether it has come. It returns
// sooner when the supervisor announces its result.
func (r *Running) exited(ctx context.Context, d time.Duration) bool {
	if r.announced != nil && r.announced.SetReadDeadline(time.Now().Add(d)) == nil {
		stop := context.AfterFunc(ctx, func() { _ = r.announced.SetReadDeadline(time.Unix(1, 0)) })
		defer stop()
		b := make([]byte, 4<<10)
		n, err := r.announced.Read(b)
		switch {
		case n > 0:
			r.hear(b[:n])
			return false
		case errors.Is(err, os.ErrDeadlineExceeded):
			return false
		}
		r.deaf() // it has ended, or will not announce anything
	}
	if r.pidfd != nil {
		if conn, err := r.pidfd.SyscallConn(); err == nil && r.pidfd.SetReadDeadline(time.Now().Add(d)) == nil {
			stop := context.AfterFunc(ctx, func() { _ = r.pidfd.SetReadDeadline(time.Unix(1, 0)) })
			defer stop()
			return conn.Read(readable) == nil
		}
	}
	timer := time.NewTimer(min(d, lookWithoutPidfd))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return !r.Identity.Alive()
}

// readable says whether the descriptor of a process is: that is its end.
func readable(fd uintptr) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) // #nosec G115 -- the descriptor of an open file
		if !errors.Is(err, unix.EINTR) {                                            // a signal interrupts even a question that does not wait
			return err == nil && n > 0
		}
	}
}
