// One delivery on its way: files, then instructions, each struck off the ledger.

package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply/supervise"
)

// strikeEvery is how long struck-off files may stay unsaved. Doing them again is harmless,
// so a crash may cost this much work; saving after each of thousands would cost more.
const strikeEvery = time.Second

// killPatience is how long an instruction that is killed may take to end: its grace, the
// drain of its output, and time for a slow disk.
const killPatience = 30 * time.Second

// reportFirst is how long the disk is left to the report of an outcome, and to an instruction that begins.
const reportFirst = 25 * time.Millisecond

// work is one delivery being applied.
type work struct {
	*Engine
	d      Delivery
	ledger *ledger
	log    *slog.Logger
	saved  time.Time // when the ledger was last put on disk
	disk   *saver
	done   func() // gives up a directory made anew; nil when it was there
	// spare has a supervisor for the next instruction once it runs; waiting is that supervisor
	// once it was received. Nil: there is none.
	spare   chan *supervise.Spare
	waiting *supervise.Spare
	// begun says that it is known that the apply begins, resumed that an earlier call began it.
	begun, resumed bool
	old            *ledger // that this delivery's replaces; nil: none
}

// newWork is the work on a delivery; l is its ledger where that is known to be of it.
func newWork(e *Engine, d Delivery, l *ledger) *work {
	w := &work{Engine: e, d: d, ledger: l, begun: l != nil, log: e.Logger.With("source", d.Source, "plan", plans.Short(d.Checksum))}
	w.disk = newSaver(w)
	return w
}

// planError is a fault of the plan or the host that ends the apply as failed.
type planError struct {
	instruction int // or -1
	reason      string
	exitCode    int
}

func (e *planError) Error() string { return e.reason }

func failed(format string, args ...any) error {
	return &planError{instruction: -1, reason: fmt.Sprintf(format, args...), exitCode: -1}
}

// ended says whether the ledger on disk has the outcome of this delivery already.
func (w *work) ended() (bool, error) {
	l, err := w.load(w.d.Source)
	if err != nil || l == nil || !l.of(w.d) {
		w.old = l
		return false, err
	}
	w.ledger = l
	return l.Outcome != nil, nil
}

// report turns the ledger's outcome into the result.
func (w *work) report(err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	return w.result(w.d, w.ledger), nil
}

// perform does the delivery, or what is left of it, once no installer is in the way.
func (w *work) perform(ctx context.Context) error {
	if err := w.open(ctx); err != nil {
		return err
	}
	leave, err := w.enterWaiting(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if !w.resumed {
		w.saveEarly(ctx)
	}
	if w.resumed || w.d.Claimed == nil {
		if err := w.mayBegin(ctx); err != nil {
			return err
		}
	}
	return w.run(ctx)
}

// open takes up the ledger of this delivery, which ended has read, or begins one. A new one is saved
// before the first step that touches the host, together with that step's own mark where it has one.
func (w *work) open(ctx context.Context) error {
	if w.ledger != nil {
		w.resumed = true
		return nil
	}
	if w.old != nil && w.old.Outcome == nil {
		if err := w.awaitClaim(ctx); err != nil {
			return err
		}
		if err := w.settle(ctx, w.old); err != nil {
			return err
		}
	}
	w.ledger = newLedger(w.d, w.Now())
	w.disk.dirty = true
	err := w.withRoom(ctx, w.WorkDir, func() (err error) {
		w.ledger.Run, w.done, err = w.newRun()
		return err
	})
	if err != nil {
		return fmt.Errorf("make a working directory: %w", err)
	}
	return nil
}

// settle waits for the instruction that a superseded plan left running, or until it waits for something: two
// installers at once would be worse than a late one.
func (w *work) settle(ctx context.Context, old *ledger) error {
	superseded := make(chan struct{})
	close(superseded)
	for i, in := range old.Instructions {
		if !in.Open {
			continue
		}
		running, _, err := supervise.Attach(w.tryDir(old, i), in.Supervisor)
		if errors.Is(err, supervise.ErrLost) {
			w.killLeftovers(old, i)
		}
		if running == nil {
			continue
		}
		w.emit(w.eventOf(InstructionAttached, old, i))
		wait := &waiter{e: w.Engine, source: w.d.Source}
		wait.on("instruction "+label(i, in.Name)+" of the plan before", "it still runs", "the new plan begins when it ended or has printed nothing for "+w.Quiet.String())
		result, err := w.await(ctx, running, w.reporter(old, i, w.logOf(old, i)), superseded)
		wait.over()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, supervise.ErrLost) {
			w.killLeftovers(old, i)
		}
		if err == nil {
			old.Instructions[i].Result = &result
			w.emitEnd(old, i, nil)
		}
	}
	return nil
}

// run does what the ledger still holds and leaves the outcome in it. An error means that it
// is not done and not failed.
func (w *work) run(ctx context.Context) error {
	err := w.files(ctx)
	if err == nil {
		err = w.instructions(ctx)
	}
	var fault *planError
	switch {
	case err == nil:
		return w.end(ctx, outcome{Succeeded: true, Instruction: -1})
	case errors.As(err, &fault):
		return w.end(ctx, outcome{Instruction: fault.instruction, Reason: fault.reason, ExitCode: fault.exitCode})
	case errors.Is(context.Cause(ctx), ErrCancelled):
		return w.takeBack(ctx)
	}
	return err
}

// end writes the outcome down, and has the history get it after that.
func (w *work) end(ctx context.Context, o outcome) error {
	if err := w.mayBegin(ctx); err != nil {
		return err
	}
	if o.Ended.IsZero() {
		o.Ended = w.Now().UTC()
	}
	w.ledger.Outcome = &o
	if w.d.Ended != nil {
		moment := time.NewTimer(reportFirst)
		defer moment.Stop()
		select {
		case <-w.d.Ended(w.result(w.d, w.ledger)):
		case <-moment.C:
		}
	}
	w.ledger.Changed, w.disk.dirty = w.changedFiles(), true
	if err := w.save(ctx); err != nil {
		w.ledger.Outcome = nil
		return err
	}
	w.remember()
	if o.Succeeded {
		w.log.Info("apply succeeded")
	} else {
		w.log.Error("apply failed", "reason", o.Reason)
	}
	return nil
}

// takeBack kills the running instruction, if there is one, and ends the delivery as cancelled.
func (w *work) takeBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killPatience)
	defer cancel()
	cancelled := outcome{Instruction: -1, Reason: ErrCancelled.Error(), ExitCode: -1}
	for i := range w.ledger.Instructions {
		in := &w.ledger.Instructions[i]
		if !in.Open {
			continue
		}
		running, result, err := supervise.Attach(w.tryDir(w.ledger, i), in.Supervisor)
		if running != nil {
			result, err = w.killRunning(ctx, i, running)
		}
		if errors.Is(err, supervise.ErrLost) {
			w.killLeftovers(w.ledger, i)
		}
		if result == nil {
			continue // it never ran, or how it ended is not known
		}
		in.Result, in.Open = result, false
		cancelled.Instruction, cancelled.ExitCode = i, result.ExitCode
		w.emitEnd(w.ledger, i, nil)
	}
	return w.end(ctx, cancelled)
}

// killRunning ends the instruction and reports what it still prints.
func (w *work) killRunning(ctx context.Context, i int, running *supervise.Running) (*supervise.Result, error) {
	if err := running.Kill(); err != nil {
		w.log.Error("instruction cannot be killed", "error", err)
	}
	t := w.reporter(w.ledger, i, w.logOf(w.ledger, i))
	t.newsOnly = true
	result, err := w.await(ctx, running, t, nil)
	if err != nil {
		return nil, err
	}
	return &result, nil
}

// linger gives a supervisor up that is done, or remembers to reap it. A supervisor that announced its
// result ends a moment later.
func (w *work) linger(r *supervise.Running) {
	w.lingering.add(r)
	w.lingering.reap()
	w.background.Go(func() {
		for pause := reapSoon; pause < reapLast; pause *= 4 { // its disk may be slow
			select {
			case <-time.After(pause):
			case <-w.lingering.closed:
				return
			}
			if w.lingering.reap() == 0 {
				return
			}
		}
	})
}
