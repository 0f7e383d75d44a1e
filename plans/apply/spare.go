// The supervisor of a plan's first instruction starts while the plan is claimed, the
// ledger is written and the files are put in place. Until it is given an instruction it
// does nothing but wait for one.

package apply

import (
	"sync"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply/supervise"
)

// expected is the supervisor of a plan that is about to be applied.
type expected struct {
	mu      sync.Mutex
	started chan *supervise.Spare // nil: no plan is expected
}

// take is the supervisor, which is then no longer expected; nil when there is none.
func (x *expected) take() chan *supervise.Spare {
	x.mu.Lock()
	defer x.mu.Unlock()
	started := x.started
	x.started = nil
	return started
}

// Expect says that the plan will be applied as soon as some other thing is done, so that
// what its first instruction needs can start beside that. Call over when the plan was
// applied, or will not be.
func (e *Engine) Expect(p *plans.Plan) (over func()) {
	e.expected.mu.Lock()
	defer e.expected.mu.Unlock()
	if e.expected.started != nil || !needsSupervisor(p) {
		return func() {}
	}
	mine := e.startSpare()
	e.expected.started = mine
	return func() {
		e.expected.mu.Lock()
		defer e.expected.mu.Unlock()
		if e.expected.started == mine {
			e.expected.started = nil
			e.unused(mine)
		}
	}
}

// needsSupervisor says whether a supervisor is needed soon: an image is fetched for seconds
// or minutes, beside which the start of a process is nothing.
func needsSupervisor(p *plans.Plan) bool {
	return len(p.Instructions) > 0 && p.Instructions[0].Image == ""
}

// early is a supervisor for the delivery, if it will soon need one; the channel has it once
// it runs, or is closed.
func (e *Engine) early(d Delivery) chan *supervise.Spare {
	if !needsSupervisor(d.Plan) {
		return nil
	}
	if started := e.expected.take(); started != nil {
		return started
	}
	return e.startSpare()
}

func (e *Engine) startSpare() chan *supervise.Spare {
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
