// A delivery whose source still asks whether it may be applied. The engine makes ready
// meanwhile: the interlock is taken, then a working directory, the ledger and a supervisor are
// the agent's own affair. All of it is taken back when the answer is no.

package apply

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/plans/durable"
)

// claimPatience is how long the answer is waited for, while other sources cannot have the
// engine.
const claimPatience = time.Second

// mayBegin waits until the delivery is claimed, and has it known that it begins.
func (w *work) mayBegin(ctx context.Context) error {
	if err := w.awaitClaim(ctx); err != nil {
		return err
	}
	if !w.begun {
		w.begun = true
		w.sayBegun()
	}
	return nil
}

func (w *work) awaitClaim(ctx context.Context) error {
	if w.d.Claimed == nil {
		return nil
	}
	late := time.NewTimer(claimPatience)
	defer late.Stop()
	select {
	case yes := <-w.d.Claimed:
		if !yes {
			return ErrUnclaimed
		}
		w.d.Claimed = nil
		return nil
	case <-late.C:
		return ErrUnclaimed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sayBegun has everybody know that the apply begins or goes on.
func (w *work) sayBegun() {
	if w.resumed {
		w.log.Info("apply resumed", "left", w.ledger.remaining())
		w.emitWork(ApplyResumed)
		return
	}
	w.log.Info("apply begins", "files", len(w.d.Plan.Files), "instructions", len(w.d.Plan.Instructions), "id", w.d.ID)
	if left := len(w.d.Plan.PeriodicInstructions) - len(named(w.d.Plan)); left > 0 {
		w.log.Warn("periodic instructions without a name never run, for there would be no record of them", "number", left)
	}
	w.emitWork(ApplyBegan)
}

// refusal is ErrUnclaimed in place of the end of a context that has it as its cause.
func refusal(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), ErrUnclaimed) {
		return ErrUnclaimed
	}
	return err
}

// unmake takes back what was made ready for a delivery that is not begun.
func (w *work) unmake() {
	if w.resumed || w.ledger == nil {
		return
	}
	path := w.ledgerPath(w.d.Source)
	var err error
	switch {
	case w.saved.IsZero(): // nothing of it is on disk
	case w.old == nil:
		if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	default:
		err = durable.Rewrite(path, w.old.raw)
	}
	if w.ledger.Run != "" {
		err = errors.Join(err, os.RemoveAll(filepath.Join(w.WorkDir, w.ledger.Run)))
	}
	if err != nil {
		w.log.Warn("what was made ready for a plan that is not begun cannot be taken back", "error", err)
	}
}
