// Periodic instructions: short questions and chores that come again. They run as direct
// children, for one that dies with the agent comes again anyway.

package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/drover-project/drover/plans/apply/output"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply/interlock"
	"github.com/drover-project/drover/plans/backoff"
)

const (
	// failurePause times the failures in a row, at most failurePauses of them, is the pause
	// after a failure.
	failurePause  = 30 * time.Second
	failurePauses = 6
	// periodicAtOnce is how many run at the same time.
	periodicAtOnce = 4
	// periodicDrain is how long a child's output and its end are awaited, after it exited or
	// was asked to.
	periodicDrain = 2 * time.Second
	// busyTries and busyPause are for an executable that is open for writing.
	busyTries = 100
	busyPause = 10 * time.Millisecond
)

// NextPeriodic is when Periodic has something to do next, now at the earliest; ok is false
// when it never has.
func NextPeriodic(p *plans.Plan, last map[string]plans.PeriodicOutput, now time.Time) (next time.Time, ok bool) {
	for _, in := range named(p) {
		if at := dueAt(in, last[in.Name], now); !ok || at.Before(next) {
			next, ok = at, true
		}
	}
	return next, ok
}

// dueAt is when an instruction with this record runs again, now at the earliest. A record
// of the future was made before the clock was set back, and does not count.
func dueAt(in plans.PeriodicInstruction, record plans.PeriodicOutput, now time.Time) time.Time {
	due := now
	for _, wait := range []struct {
		since time.Time
		long  time.Duration
	}{
		{record.LastSuccessfulRunTime, in.Period()},
		{record.LastFailedRunTime, failurePause * time.Duration(min(max(record.Failures, 1), failurePauses))},
	} {
		if at := wait.since.Add(wait.long); !wait.since.IsZero() && !wait.since.After(now) && at.After(due) {
			due = at
		}
	}
	return due
}

// named are the periodic instructions with a name of their own: without one there is no
// record of when it ran.
func named(p *plans.Plan) []plans.PeriodicInstruction {
	var usable []plans.PeriodicInstruction
	seen := map[string]bool{"": true}
	for _, in := range p.PeriodicInstructions {
		if !seen[in.Name] {
			usable = append(usable, in)
		}
		seen[in.Name] = true
	}
	return usable
}

// Periodic runs the plan's periodic instructions that are due, all of them with force, and
// returns the records of all of the plan's: new ones for those that ended, last for the
// others. A failure does not hold up the next. An instruction that takes longer than
// PeriodicPatience goes on by itself: a later call for the same source returns its record,
// and it does not begin again before. Nothing runs while an installer is about to restart
// the agent.
func (e *Engine) Periodic(ctx context.Context, s Standing, last map[string]plans.PeriodicOutput, force bool) map[string]plans.PeriodicOutput {
	now, source := e.Now(), s.Source
	usable := named(s.Plan)
	if left := len(s.Plan.PeriodicInstructions) - len(usable); left > 0 {
		e.Logger.Debug("periodic instructions without a name of their own are left out", "number", left)
	}
	next := map[string]plans.PeriodicOutput{}
	for _, in := range usable {
		if record, known := last[in.Name]; known {
			next[in.Name] = record
		}
	}
	if ctx.Err() != nil {
		return next
	}
	running := e.long.take(source, usable, next)
	ended := make(chan struct{})
	var due []*longRun
	for _, in := range usable {
		if e.long.runs(source, in.Name) {
			continue
		}
		if record := next[in.Name]; force || !dueAt(in, record, now).After(now) {
			due = append(due, e.long.add(e, source, in, record, now))
		}
	}
	if len(due) > 0 {
		e.background.Go(func() {
			defer close(ended)
			if err := e.runPeriodic(ctx, s, due, now); err != nil {
				e.Logger.Error("periodic instructions cannot run", "error", err)
			}
		})
		e.awaitPeriodic(ctx, due, ended)
	}
	if ctx.Err() != nil { // then they are killed
		for _, run := range running {
			<-run.ended
		}
	}
	e.long.take(source, usable, next)
	return next
}

// runPeriodic runs the instructions, some at a time. An instruction that takes long gives its place away.
//
// It also gives the interlock away. That has installers wait for a pass of the agent, which
// with the original one ends when its instructions do; here it ends with the patience, and
// what goes on by itself after that dies with the agent and comes again, so it is nothing an
// installer had to wait its five minutes for. Each run takes the interlock for itself: one
// whose turn comes after the pass must not begin below an installer.
func (e *Engine) runPeriodic(ctx context.Context, s Standing, due []*longRun, now time.Time) (err error) {
	defer func() {
		for _, run := range due {
			e.long.end(run) // also a run that could not begin
		}
	}()
	ok, err := e.interlock.Enter()
	e.logHeld(s.Source, !ok && err == nil, now)
	if err != nil || !ok {
		return err
	}
	leave := e.leaveOnce()
	defer leave()
	defer time.AfterFunc(e.PeriodicPatience, leave).Stop()
	name, done, err := e.newRun()
	if err != nil {
		return err
	}
	defer done()
	dir := filepath.Join(e.WorkDir, name)
	if !e.PreserveWorkDir {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	var group sync.WaitGroup
	places := make(chan struct{}, periodicAtOnce)
	for i, run := range due {
		places <- struct{}{}
		group.Go(func() {
			defer e.long.end(run)
			free := sync.OnceFunc(func() { <-places })
			defer free()
			if ok, err := e.interlock.Enter(); !ok {
				if err != nil {
					e.Logger.Error("periodic instruction cannot run", "source", s.Source, "instruction", run.in.Name, "error", err)
				}
				return
			}
			leave := e.leaveOnce()
			defer leave()
			defer time.AfterFunc(e.PeriodicPatience, func() { free(); leave() }).Stop()
			run.record, run.ran = e.periodic(ctx, s, run.in, run.record, fmt.Sprintf("%s/periodic_%d", name, i), now)
		})
	}
	group.Wait()
	return nil
}

// leaveOnce gives the interlock back, however often it is called.
func (e *Engine) leaveOnce() (leave func()) {
	return sync.OnceFunc(func() {
		if err := e.interlock.Leave(); err != nil {
			e.Logger.Error("interlock cannot be given back, installers will wait for it", "error", err)
		}
	})
}

// logHeld logs, when it begins and when it is over, that an installer holds the periodic
// instructions of a source up.
func (e *Engine) logHeld(source string, held bool, now time.Time) {
	since, changed := e.long.hold(source, held, now)
	switch {
	case !changed:
	case held:
		e.Logger.Warn("waiting", "source", "periodic instructions of "+source, "for", e.interlock.Installer(), "cause", "an installer is about to restart the agent",
			"since", now.UTC(), "next", "they go on when the file is gone, at the latest after "+interlock.Patience.String())
	default:
		e.Logger.Info("no longer waiting", "source", "periodic instructions of "+source, "for", e.interlock.Installer(), "after", now.Sub(since))
	}
}

// periodic runs one instruction in the directory id below the work directory; ran is false
// when the agent stopped meanwhile, which is no failure.
func (e *Engine) periodic(ctx context.Context, s Standing, in plans.PeriodicInstruction, before plans.PeriodicOutput, id string, now time.Time) (record plans.PeriodicOutput, ran bool) {
	attempt := before.Failures + 1
	t := e.reportRun(s, id, in.Name, attempt)
	code, err := e.runDirectly(ctx, in.Instruction, filepath.Join(e.WorkDir, id), attempt, t.stream(output.Stdout), t.stream(output.Stderr))
	if ctx.Err() != nil {
		return before, false
	}
	record = plans.PeriodicOutput{Name: in.Name, Stdout: t.stdout.Bytes(), ExitCode: code}
	if in.SaveStderrOutput {
		record.Stderr = t.stderr.Bytes()
	}
	if err == nil && code == 0 {
		record.LastSuccessfulRunTime = now
	} else {
		record.LastSuccessfulRunTime, record.LastFailedRunTime, record.Failures = before.LastSuccessfulRunTime, now, attempt
	}
	t.ended(record, err)
	return record, true
}

// runDirectly runs an instruction as a child of the agent and returns its exit code, -1 with
// an error when it did not start or was killed.
func (e *Engine) runDirectly(ctx context.Context, in plans.Instruction, dir string, attempt int, stdout, stderr io.Writer) (int, error) {
	sandbox := dir
	if err := e.fill(ctx, sandbox, in.Image, nil); err != nil {
		return -1, err
	}
	script := dir + "." + scriptFile
	if in.Script != "" {
		if err := os.WriteFile(script, []byte(in.Script), 0o700); err != nil { // #nosec G306 -- a program
			return -1, err
		}
	}
	c, err := e.commandOf(in, sandbox, script, attempt)
	if err != nil {
		return -1, err
	}
	if e.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, e.Timeout, fmt.Errorf("after its time limit of %s", e.Timeout))
		defer cancel()
	}
	cmd, err := runChild(ctx, c, sandbox, stdout, stderr)
	if ctx.Err() != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // processes of the group that did not listen
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState != nil && ctx.Err() == nil:
		return cmd.ProcessState.ExitCode(), nil // a process that it left behind holds the pipe
	case errors.As(err, &exit) && exit.ExitCode() > 0 && ctx.Err() == nil:
		return exit.ExitCode(), nil
	case ctx.Err() != nil:
		return -1, fmt.Errorf("killed %w", context.Cause(ctx))
	}
	return -1, err
}

// runChild runs the command to its end, in a process group of its own that ends with the
// context. It starts it again for a short while when another fork of the agent still has
// the executable open for writing that was just written.
func runChild(ctx context.Context, c command, dir string, stdout, stderr io.Writer) (*exec.Cmd, error) {
	for try := 0; ; try++ {
		cmd := exec.CommandContext(ctx, c.path)
		cmd.Args, cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = c.args, c.env, dir, stdout, stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
		cmd.WaitDelay = periodicDrain
		err := cmd.Run()
		if !errors.Is(err, syscall.ETXTBSY) || try == busyTries || backoff.Wait(ctx, busyPause) != nil {
			return cmd, err
		}
	}
}
