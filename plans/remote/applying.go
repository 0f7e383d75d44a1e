// A delivery being applied. What the server has to agree to or to learn goes out beside
// the work on the host: the claim while the host makes ready, the outcome while it is being
// written down here. What is durable on the server needs no wait for this host's disk.

package remote

import (
	"context"
	"errors"
	"sync"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// applying is the engine at work on a delivery.
type applying struct {
	cancel    context.CancelCauseFunc
	supersede func()            // lets the engine know that a newer plan waits
	known     chan apply.Result // has the result once it is known
	reported  chan struct{}     // closed when the result was reported, or is not to be waited for
	done      chan struct{}     // closed when the engine is done with the delivery
	result    apply.Result      // these two are written before done is closed
	err       error
}

// apply has the engine apply a delivery. claimed has an entry once it may begin; nil: it may.
func (s *Source) apply(ctx context.Context, d Decision, claimed <-chan bool) *applying {
	work, cancel := context.WithCancelCause(ctx)
	superseded := make(chan struct{})
	a := &applying{
		cancel: cancel, known: make(chan apply.Result, 1), reported: make(chan struct{}), done: make(chan struct{}),
		supersede: sync.OnceFunc(func() {
			s.o.Logger.Info("a newer plan waits for the end of this one", "plan", plans.Short(d.Checksum), "delivery", d.ID)
			close(superseded)
		}),
	}
	delivery := apply.Delivery{
		Source: SourceName, ID: d.ID, Checksum: d.Checksum, Plan: d.Plan, Attempt: d.Attempt,
		Superseded: superseded, Claimed: claimed,
	}
	if d.Revision != 0 {
		// A state of the Secret says for ever that this delivery has ended. Without states the
		// ledger has to, so it comes first.
		delivery.Ended = func(r apply.Result) <-chan struct{} { a.known <- r; return a.reported }
	}
	go func() {
		defer close(a.done)
		defer cancel(nil)
		a.result, a.err = s.o.Engine.Apply(work, delivery)
	}()
	return a
}

// ended waits until the result is known, or cannot be.
func (a *applying) ended() (apply.Result, error) {
	select {
	case r := <-a.known:
		return r, nil
	case <-a.done:
	}
	select {
	case r := <-a.known:
		return r, nil
	default:
		return a.result, a.err
	}
}

// take claims a pending plan in the Secret while the host makes ready for it, and performs it.
func (s *Source) take(ctx context.Context, d Decision) (decideAgain bool) {
	answer := make(chan bool, 1)
	a := s.apply(ctx, d, answer)
	claimed, again := s.claim(ctx, d)
	answer <- claimed
	if !claimed {
		a.cancel(apply.ErrUnclaimed) // also while it waits
		s.during(ctx, func() { <-a.done }, func() {})
		s.o.Logger.Debug("plan is not begun", "plan", plans.Short(d.Checksum), "reason", a.err)
		return again
	}
	return s.perform(ctx, d, a)
}

// perform follows the apply of a plan to its end and reports the outcome. It asks for another
// decision, unless the host, the server or the context stood in the way.
func (s *Source) perform(ctx context.Context, d Decision, a *applying) bool {
	before, _ := plans.ReadOutcome(s.current.Data)
	log := s.o.Logger.With("plan", plans.Short(d.Checksum), "delivery", d.ID, "attempt", d.Attempt)
	log.Info("plan is being applied")
	s.doing(d.Checksum, "applying the plan %s, attempt %d", plans.Short(d.Checksum), d.Attempt)
	result, err := s.follow(ctx, d, a)
	if errors.Is(err, apply.ErrUnclaimed) { // the claim took longer than the engine waits for it
		a = s.apply(ctx, d, nil)
		result, err = s.follow(ctx, d, a)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.hostFault(d.Checksum, "the plan cannot be worked on", err)
		}
		return false
	}
	if result.Succeeded {
		log.Info("plan succeeded")
	} else {
		log.Error("plan failed", "instruction", result.Failure.Instruction, "reason", result.Failure.Reason, "exitCode", result.Failure.ExitCode)
	}
	o := ended(before, d, result, s.o.Now())
	s.firstRounds(ctx, d, &o)
	goesOn := s.report(ctx, d, before.State, o)
	close(a.reported)
	s.memory.Applied, s.memory.Executed, s.memory.Restored = true, d.Checksum, d.Checksum
	s.doing(d.Checksum, "writing down on this host how the plan %s ended", plans.Short(d.Checksum))
	s.during(ctx, func() { <-a.done }, func() {})
	if a.err != nil {
		if ctx.Err() == nil {
			s.hostFault(d.Checksum, "the outcome cannot be written down on this host", a.err)
		}
		return false
	}
	s.faults = 0
	return goesOn
}

// follow waits for the result of an apply, while a newer plan supersedes it and a server that
// takes it back has it cancelled.
func (s *Source) follow(ctx context.Context, d Decision, a *applying) (result apply.Result, err error) {
	// ends is what the Secret as it is known means for this plan; nil: it goes on.
	ends := func() func() {
		if s.current == nil || s.current.UID != s.memory.UID {
			return nil
		}
		newest := plans.ReadDelivery(s.current.Data)
		switch {
		case s.current.delivered().checksum != d.Checksum && len(newest.Plan) > 0:
			return a.supersede
		case newest.State == plans.StateCancelled:
			return func() { a.cancel(apply.ErrCancelled) }
		}
		return nil
	}
	told := false
	changed := func() {
		// The watch may be behind: nothing is ended without a look at what the server has now.
		if told || ends() == nil || s.look(ctx) != nil {
			return
		}
		if end := ends(); end != nil {
			told = true
			end()
		}
	}
	changed() // while the plan was claimed
	s.working(ctx, d, func() { result, err = a.ended() }, changed)
	return result, err
}
