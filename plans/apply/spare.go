// Supervisors that are started before they are needed. One is started while a plan is
// claimed, the ledger is written and the files are put in place; with Options.Ready one
// always waits. Until it is given an instruction a supervisor does nothing but wait for one.

package apply

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply/supervise"
)

// refillAfter is when the next supervisor is started after an apply has ended: not beside the
// report of its outcome, which a caller waits for.
const refillAfter = 50 * time.Millisecond

// spares has at most one supervisor that waits.
type spares struct {
	engine *Engine

	mu      sync.Mutex
	started chan *supervise.Spare // has it once it runs, or is closed; nil: there is none
	refill  *time.Timer           // nil: none is due
	closed  bool
}

// take is the supervisor that waits; nil when there is none.
func (s *spares) take() chan *supervise.Spare {
	s.mu.Lock()
	defer s.mu.Unlock()
	started := s.started
	s.started = nil
	return started
}

// fillSoon starts a supervisor a moment later if one is always to wait.
func (s *spares) fillSoon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine.Ready && !s.closed && s.refill == nil {
		s.refill = time.AfterFunc(refillAfter, s.fill)
	}
}

// fill starts a supervisor unless one waits.
func (s *spares) fill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill = nil
	if s.started == nil && !s.closed {
		s.started = s.engine.startSpare()
	}
}

// putBack gives back a supervisor that was taken and not used, one that runs or one that is
// being started; nil is none.
func (s *spares) putBack(waiting *supervise.Spare, started chan *supervise.Spare) {
	if waiting != nil {
		started = make(chan *supervise.Spare, 1)
		started <- waiting
		close(started)
	}
	if started == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine.Ready && s.started == nil && !s.closed {
		s.started = started
		return
	}
	s.engine.unused(started)
}

// close ends the supervisor that waits; no other is started.
func (s *spares) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.refill != nil {
		s.refill.Stop()
	}
	if s.started != nil {
		s.engine.unused(s.started)
		s.started = nil
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
	if started := e.spares.take(); started != nil {
		return started
	}
	return e.startSpare()
}

func (e *Engine) startSpare() chan *supervise.Spare {
	started := make(chan *supervise.Spare, 1)
	e.background.Go(func() {
		defer close(started)
		spare, err := e.spareAtHome()
		if err != nil {
			e.Logger.Debug("spare supervisor did not start", "error", err)
			return
		}
		started <- spare
	})
	return started
}

// spareHome begins the name of a directory in which a supervisor waits.
const spareHome = "spare."

func (e *Engine) spareAtHome() (*supervise.Spare, error) {
	if err := os.MkdirAll(e.WorkDir, 0o755); err != nil {
		return nil, err
	}
	home := fmt.Sprintf("%s%d.%d", spareHome, os.Getpid(), time.Now().UnixNano())
	return supervise.StartSpare(e.Supervisor, filepath.Join(e.WorkDir, home))
}

// clearHomes removes the directories of supervisors that ended with an earlier life.
func (e *Engine) clearHomes() error {
	homes, err := filepath.Glob(filepath.Join(e.WorkDir, spareHome+"*"))
	for _, home := range homes {
		if !supervise.Alive(home) {
			err = errors.Join(err, os.RemoveAll(home))
		}
	}
	return err
}

// unused ends a supervisor that was started early and not needed.
func (e *Engine) unused(started <-chan *supervise.Spare) {
	e.background.Go(func() {
		if spare := <-started; spare != nil {
			spare.Close()
		}
	})
}

// ready is the supervisor that already waits for the delivery's next instruction; nil when
// none does, or it is only being started.
func (w *work) ready() *supervise.Spare {
	if w.waiting == nil {
		select {
		case w.waiting = <-w.spare:
		default:
		}
	}
	return w.waiting
}

// expecting is a supervisor that waits for the command in dir; nil when there is none.
func (w *work) expecting(dir string) *supervise.Spare {
	spare := w.waiting
	if spare == nil {
		started := w.spare
		if started == nil {
			started = w.spares.take()
		}
		if started == nil {
			return nil
		}
		spare = <-started
	}
	w.waiting, w.spare = nil, nil
	if spare == nil {
		return nil
	}
	if err := spare.Expect(dir); err != nil {
		w.log.Debug("spare supervisor cannot be used", "error", err)
		spare.Close()
		return nil
	}
	return spare
}

// supervisor has the command in dir begun by the spare that expects it, or starts a supervisor if
// there is none; more says that another instruction comes after it.
func (w *work) supervisor(dir string, spare *supervise.Spare, more bool) (*supervise.Running, error) {
	if spare != nil {
		running, err := spare.Begin()
		if err == nil {
			if w.Ready && more {
				w.spares.fill() // beside the instruction that begins
			}
			return running, nil
		}
		w.log.Debug("spare supervisor cannot be used, starting another", "error", err)
	}
	return supervise.Start(w.Supervisor, dir)
}
