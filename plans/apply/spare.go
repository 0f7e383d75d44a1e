// The supervisor of a plan's first instruction starts while the ledger is written and
// the files are put in place.

package apply

import "github.com/drover-project/drover/plans/apply/supervise"

// early starts a supervisor if the delivery will soon need one; the channel has it once
// it runs, or is closed.
func (e *Engine) early(d Delivery) chan *supervise.Spare {
	// An image is fetched for seconds or minutes, beside which the start of a process is nothing.
	if len(d.Plan.Instructions) == 0 || d.Plan.Instructions[0].Image != "" {
		return nil
	}
	started := make(chan *supervise.Spare, 1)
	e.background.Go(func() {
		defer close(started)
		spare, err := supervise.StartSpare(e.Supervisor)
		if err != nil {
			e.Logger.Debug("spare supervisor did not start", "error", err)
			return
		}
		started <- spare
	})
	return started
}

// unused ends a supervisor that was started early and not needed.
func (e *Engine) unused(started <-chan *supervise.Spare) {
	if started == nil {
		return
	}
	e.background.Go(func() {
		if spare := <-started; spare != nil {
			spare.Close()
		}
	})
}

// supervisor starts the supervisor of the command prepared in dir.
func (w *work) supervisor(dir string) (*supervise.Running, error) {
	if w.spare != nil {
		if spare := <-w.spare; spare != nil {
			running, err := spare.Take(dir)
			if err == nil {
				return running, nil
			}
			w.log.Debug("spare supervisor cannot be used, starting another", "error", err)
		}
	}
	return supervise.Start(w.Supervisor, dir)
}
