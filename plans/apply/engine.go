// The engine: what is called by the sources of plans.

package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/drover-project/drover/plans"
)

// Engine performs plans. Its methods may be called at the same time; one plan at a time is applied.
type Engine struct {
	Options
	lock chan struct{}
}

// New checks the options, makes the directories and clears interlocks that an earlier life left.
func New(o Options) (*Engine, error) {
	switch {
	case o.WorkDir == "":
		return nil, errors.New("apply: no work directory is set")
	case o.LedgerDir == "":
		return nil, errors.New("apply: no ledger directory is set")
	case len(o.Supervisor) == 0:
		return nil, errors.New("apply: no supervisor command is set")
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Path == "" {
		o.Path = os.Getenv("PATH")
	}
	if err := os.MkdirAll(o.LedgerDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the ledger directory: %w", err)
	}
	return &Engine{Options: o, lock: make(chan struct{}, 1)}, nil
}

// Apply performs the delivery, or goes on with it where an earlier call or an earlier life
// of the agent stopped. The error is not nil only when the work could neither be finished
// nor failed: the context ended or the ledger cannot be used. Then nothing is to be
// reported, and a later Apply of the same delivery resumes.
func (e *Engine) Apply(ctx context.Context, d Delivery) (Result, error) {
	return Result{}, errors.New("apply: not there yet")
}

// Pending says what the ledger of a source holds; ok is false when there is none.
func (e *Engine) Pending(source string) (p Pending, ok bool, err error) {
	return Pending{}, false, nil
}

// Forget removes the ledger of a source that will not deliver again.
func (e *Engine) Forget(source string) error { return nil }

// RestoreFiles brings the plan's files back to the wanted state, runs nothing, and returns
// the paths that were missing or different.
func (e *Engine) RestoreFiles(ctx context.Context, source string, p *plans.Plan) (changed []string, err error) {
	return nil, nil
}

// Periodic runs the plan's periodic instructions that are due, all of them with force, and
// returns the records of all of the plan's: new ones for those that ran, last for the
// others. One that fails or takes long does not hold up the next, but the call returns
// when all have ended.
func (e *Engine) Periodic(ctx context.Context, p *plans.Plan, last map[string]plans.PeriodicOutput, force bool) map[string]plans.PeriodicOutput {
	return last
}

// NextPeriodic is when Periodic has something to do next; ok is false when it never has.
func NextPeriodic(p *plans.Plan, last map[string]plans.PeriodicOutput) (next time.Time, ok bool) {
	return time.Time{}, false
}

// Probes asks every probe of the plan once, all at the same time, and returns the new
// statuses of all of the plan's probes. applied is when the plan's apply ended: a probe
// whose initial delay is not over keeps its last status. The zero time means long ago.
func (e *Engine) Probes(ctx context.Context, p *plans.Plan, last map[string]plans.ProbeStatus, applied time.Time) map[string]plans.ProbeStatus {
	return last
}
