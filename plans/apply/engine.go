// The engine: what the sources of plans call.

package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-project/drover/plans/apply/hostfs"
	"github.com/drover-project/drover/plans/apply/interlock"
	"github.com/drover-project/drover/plans/apply/probe"
	"github.com/drover-project/drover/plans/apply/supervise"
	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/plans/durable"
)

// defaultOutputLimit is how much of an instruction's output is kept: more than a Secret takes
// of what cannot be compressed, so that all that fits there gets there.
const defaultOutputLimit = 1 << 20

// defaultPatience is how long periodic instructions are waited for.
const defaultPatience = 5 * time.Second

// Engine performs plans. Its methods may be called at the same time; one plan at a time is applied.
type Engine struct {
	Options
	host       hostfs.FS
	interlock  *interlock.Interlock
	prober     *probe.Prober
	lock       chan struct{} // held while a plan is applied
	background sync.WaitGroup
	pruning    atomic.Bool
	runs       runs
	long       longRuns
	spares     spares
	boot       string // the kernel's id of this boot
	lingering  lingering
	past       *past
	// checkpoint is called between any two steps that a crash may fall between. Tests die there.
	checkpoint func(at string)
}

// New checks the options, makes the directories and clears interlocks that an earlier life left.
// Its errors are of options that do not fit and of directories that cannot be made.
func New(o Options) (*Engine, error) {
	switch {
	case o.WorkDir == "":
		return nil, errors.New("apply: no work directory is set")
	case o.LedgerDir == "":
		return nil, errors.New("apply: no ledger directory is set")
	case len(o.Supervisor) == 0:
		return nil, errors.New("apply: no supervisor command is set")
	}
	o.fill()
	// Ledgers name the host's files and instructions.
	if err := durable.ClosedDir(o.LedgerDir, func(name string) bool {
		return strings.Contains(name, ".json") || strings.Contains(name, ".supervisor") || strings.Contains(name, ".reported")
	}); err != nil {
		return nil, fmt.Errorf("make the ledger directory: %w", err)
	}
	boot, err := supervise.Boot()
	if err != nil {
		return nil, fmt.Errorf("find out which boot of the host this is: %w", err)
	}
	e := &Engine{
		boot: boot, Options: o, host: hostfs.FS{Root: o.Root}, lock: make(chan struct{}, 1),
		interlock: interlock.New(o.InterlockDir, o.Now),
		prober:    &probe.Prober{Host: hostfs.FS{Root: o.Root}, Units: o.Units, Logger: o.Logger, Now: o.Now},
	}
	e.spares.engine = e
	e.lingering.closed = make(chan struct{})
	if err := e.interlock.Clear(); err != nil {
		return nil, err
	}
	e.past = &past{dir: o.AppliedDir, log: o.Logger}
	if err := e.past.recall(o.LedgerDir); err != nil {
		return nil, err
	}
	if err := e.clearHomes(); err != nil {
		e.Logger.Warn("directories of supervisors cannot be removed", "directory", e.WorkDir, "error", err)
	}
	if e.Ready {
		e.spares.fill()
	}
	return e, nil
}

// fill fills in what has a default.
func (o *Options) fill() {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Env == nil {
		o.Env = func() []string { return BaseEnv(os.Environ()) }
	}
	o.Path = cmp.Or(o.Path, os.Getenv("PATH"))
	o.OutputLimit = cmp.Or(max(o.OutputLimit, 0), defaultOutputLimit)
	o.Quiet = cmp.Or(max(o.Quiet, 0), usualQuiet)
	o.PeriodicPatience = cmp.Or(max(o.PeriodicPatience, 0), defaultPatience)
}

// Close waits for what the engine does in the background, after the contexts of all calls
// have ended. One-time instructions that run stay running.
func (e *Engine) Close() {
	e.spares.close()
	e.lingering.close()
	e.past.finish()
	e.background.Wait()
}

// Apply performs the delivery, or goes on with it where an earlier call or an earlier life
// of the agent stopped. The error is not nil only when the work could neither be finished
// nor failed: the context ended or the ledger cannot be used. Then nothing is to be
// reported, and a later Apply of the same delivery resumes.
func (e *Engine) Apply(ctx context.Context, d Delivery) (Result, error) {
	if d.Source == "" || d.ID == "" || d.Plan == nil {
		return Result{}, errors.New("apply: the delivery has no source, id or plan")
	}
	w := newWork(e, d, nil)
	if ended, err := w.ended(); err != nil || ended {
		return w.report(err)
	}
	release, err := e.acquire(ctx, d.Source)
	if err != nil {
		return Result{}, refusal(ctx, err)
	}
	defer release()
	w.spare = e.early(d)
	defer e.spares.fillSoon()
	defer func() { e.spares.putBack(w.waiting, w.spare) }()
	err = w.perform(ctx)
	if err != nil {
		w.disk.giveUp()
	}
	if err != nil && !w.begun {
		w.unmake()
		err = refusal(ctx, err)
	}
	if w.done != nil {
		w.done() // from here on the ledger speaks of it
	}
	if err != nil {
		return Result{}, err
	}
	e.prune()
	result := w.result(w.d, w.ledger)
	w.emitResult(result)
	return result, nil
}

// Abandon takes back what the ledger of a source still holds, after the server cancelled a
// plan whose apply an earlier life of the agent began: a running instruction is killed and
// the delivery counts as failed. Nothing there to take back is not an error.
func (e *Engine) Abandon(ctx context.Context, source string) error {
	release, err := e.acquire(ctx, source)
	if err != nil {
		return err
	}
	defer release()
	l, err := e.load(source)
	if err != nil || l == nil || l.Outcome != nil {
		return err
	}
	w := newWork(e, Delivery{Source: source, ID: l.ID, Checksum: l.Checksum}, l)
	if err := w.takeBack(ctx); err != nil {
		return err
	}
	o := w.ledger.Outcome
	gone := Result{Failure: &Failure{Reason: o.Reason, ExitCode: o.ExitCode}}
	if o.Instruction >= 0 {
		gone.Failure.Instruction = label(o.Instruction, l.Instructions[o.Instruction].Name)
	}
	w.emitResult(gone)
	return nil
}

// Ending is how a delivery ended, as its source knows it.
type Ending struct {
	Succeeded bool
	Reason    string    // of a failure
	At        time.Time // the zero time is now
}

// Conclude writes down how a delivery ended whose source knows that and whose ledger does
// not: the agent was killed between the two. Nothing is started or ended by it. A delivery
// that the ledger does not speak of, whose outcome it has, or of which an instruction still
// runs is left alone. The errors are those of the ledger and of the context.
func (e *Engine) Conclude(ctx context.Context, d Delivery, end Ending) error {
	release, err := e.acquire(ctx, d.Source)
	if err != nil {
		return err
	}
	defer release()
	l, err := e.load(d.Source)
	if err != nil || l == nil || !l.of(d) || l.Outcome != nil {
		return err
	}
	w := newWork(e, d, l)
	for i := range l.Instructions {
		in := &l.Instructions[i]
		if !in.Open {
			continue
		}
		running, result, _ := supervise.Attach(w.tryDir(l, i), in.Supervisor)
		if running != nil {
			running.Close()
			return nil
		}
		if result != nil { // otherwise its end went with the host; the source has its output
			in.Result, in.Open = result, false
		}
	}
	o := outcome{Succeeded: end.Succeeded, Ended: end.At.UTC(), Instruction: -1, Reason: end.Reason}
	ended := Result{Succeeded: end.Succeeded}
	if !end.Succeeded {
		o.ExitCode = -1
		ended.Failure = &Failure{Reason: end.Reason, ExitCode: -1}
	}
	if err := w.end(ctx, o); err != nil {
		return err
	}
	w.emitResult(ended)
	return nil
}

// acquire waits for its turn. Supervisors that ended meanwhile are reaped.
func (e *Engine) acquire(ctx context.Context, source string) (release func(), err error) {
	wait := &waiter{e: e, source: source}
	defer wait.over()
	select {
	case e.lock <- struct{}{}:
	default:
		wait.on("another plan", "one plan at a time is applied", "begins when the other one ended")
		select {
		case e.lock <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	e.lingering.reap()
	e.past.finish()
	return func() { <-e.lock }, nil
}

// at marks a point between two steps.
func (e *Engine) at(step string) {
	if e.checkpoint != nil {
		e.checkpoint(step)
	}
}

// waitToRetry pauses before another attempt at something that did not work.
func waitToRetry(ctx context.Context, failures int) error {
	pause := backoff.Backoff{Min: roomRetryMin, Max: roomRetryMax, Floor: 0.5}
	for range failures - 1 {
		pause.Next()
	}
	return backoff.Wait(ctx, pause.Next())
}
