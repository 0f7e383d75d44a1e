// Doing what was decided.

package remote

import (
	"context"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/backoff"
)

// settle acts on the current Secret until it asks for nothing more.
func (s *Source) settle(ctx context.Context) {
	for ctx.Err() == nil {
		s.turn()
		pending, _, err := s.o.Engine.Pending(source)
		if err != nil {
			s.hostFault("", "the ledger cannot be read", err)
			return
		}
		s.memory.Pending = pending
		d := Decide(s.current, s.memory, s.o.Now())
		if s.current != nil && s.memory.UID != s.current.UID {
			s.memory = Memory{UID: s.current.UID, Pending: pending}
		}
		if !s.act(ctx, d) {
			return
		}
	}
}

// act performs one decision and says whether another has to be made now.
func (s *Source) act(ctx context.Context, d Decision) (decideAgain bool) {
	switch d.Action {
	case Take:
		s.stopTending()
		defer s.o.Engine.Expect(d.Plan)()
		if claimed, again := s.claim(ctx, d); !claimed {
			return again
		}
		return s.apply(ctx, d)
	case Apply:
		if d.Confirm {
			if confirmed, again := s.confirm(ctx); !confirmed {
				return again
			}
		}
		s.stopTending()
		return s.apply(ctx, d)
	case Reject:
		s.stopTending()
		return s.reject(ctx, d)
	case Withdraw:
		s.doing(d.Checksum, "taking back the cancelled plan %s", short(d.Checksum))
		if err := s.o.Engine.Abandon(ctx, source); err != nil {
			s.hostFault(d.Checksum, "the cancelled plan cannot be taken back", err)
			return false
		}
		return true
	case Tend:
		return s.tend(ctx, d)
	}
	s.stopTending()
	s.doing(d.Checksum, "waiting: %s", d.Why)
	s.wakeAt(d.Again)
	return false
}

// confirm reads the Secret anew before something is executed that was executed already:
// the watch of a lagging server may have brought an old version.
func (s *Source) confirm(ctx context.Context) (confirmed, decideAgain bool) {
	fresh, err := s.client.get(ctx)
	if err != nil {
		s.aboutSecret().Warn("plan Secret cannot be confirmed", "error", err)
		s.wake(s.pace.retryMax)
		return false, false
	}
	if fresh.UID == s.current.UID && fresh.ResourceVersion == s.current.ResourceVersion {
		return true, false
	}
	s.outdate(s.current.ResourceVersion)
	s.current = fresh
	return false, true
}

// claim writes down in the Secret that the plan is being applied, before anything is.
func (s *Source) claim(ctx context.Context, d Decision) (claimed, decideAgain bool) {
	outcome, _ := plans.ReadOutcome(s.current.Data)
	s.doing(d.Checksum, "claiming the plan %s", short(d.Checksum))
	err := s.store(ctx, claim(d), func(fresh *Secret) bool {
		now, _ := plans.ReadOutcome(fresh.Data)
		return s.samePlan(fresh, d.Checksum) && now.State == plans.StatePending && now.Revision == outcome.Revision
	})
	return err == nil, s.goesOn(err, "the plan cannot be claimed")
}

// goesOn says whether another decision can be made after a write: always, unless the
// server takes the write as a mistake of ours, which repeating it at once would not mend.
func (s *Source) goesOn(err error, what string) bool {
	switch {
	case err == nil:
		return true
	case isSuperseded(err):
		s.o.Logger.Info("the server was faster", "what", what, "reason", err)
		return true
	}
	s.aboutSecret().Error("plan Secret cannot be written", "what", what, "error", err)
	s.wake(s.pace.retryMax)
	return false
}

// apply performs the plan and reports the outcome. It always asks for another decision,
// unless the host or the context stood in the way.
func (s *Source) apply(ctx context.Context, d Decision) bool {
	before, _ := plans.ReadOutcome(s.current.Data)
	log := s.o.Logger.With("plan", short(d.Checksum), "delivery", d.ID, "attempt", d.Attempt)
	log.Info("plan is being applied")
	s.doing(d.Checksum, "applying the plan %s, attempt %d", short(d.Checksum), d.Attempt)

	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var result apply.Result
	var err error
	s.during(func() {
		result, err = s.o.Engine.Apply(work, apply.Delivery{
			Source: source, ID: d.ID, Checksum: d.Checksum, Plan: d.Plan, Attempt: d.Attempt,
		})
	}, func() {
		if s.current != nil && s.samePlan(s.current, d.Checksum) && plans.ReadDelivery(s.current.Data).State == plans.StateCancelled {
			cancel(apply.ErrCancelled)
		}
	})
	if err != nil {
		if ctx.Err() == nil {
			s.hostFault(d.Checksum, "the plan cannot be worked on", err)
		}
		return false
	}
	s.faults = 0
	if result.Succeeded {
		log.Info("plan succeeded")
	} else {
		log.Error("plan failed", "instruction", result.Failure.Instruction, "reason", result.Failure.Reason, "exitCode", result.Failure.ExitCode)
	}
	goesOn := s.report(ctx, d, before.State, ended(before, d, result, s.o.Now()))
	s.memory.Applied, s.memory.Executed, s.memory.Restored = true, d.Checksum, d.Checksum
	return goesOn
}

// during does something that takes long while the newest version of the Secret is still
// taken up; changed is called after each.
func (s *Source) during(do func(), changed func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	for {
		s.turn()
		select {
		case <-done:
			return
		case <-s.pings:
		case secret := <-s.mail:
			s.observe(secret)
			changed()
		case <-s.updates: // of a plan that no longer stands
		}
	}
}

// reject reports a plan that cannot be read. A pending one is claimed first: a delivery
// always goes through in-progress.
func (s *Source) reject(ctx context.Context, d Decision) (decideAgain bool) {
	s.o.Logger.Error("plan is refused", "plan", short(d.Checksum), "reason", d.Fault)
	before, _ := plans.ReadOutcome(s.current.Data)
	if before.State == plans.StatePending {
		if claimed, again := s.claim(ctx, d); !claimed {
			return again
		}
		before, _ = plans.ReadOutcome(s.current.Data)
	}
	s.memory.Applied = true
	return s.report(ctx, d, before.State, rejected(before, d, s.o.Now()))
}

// report writes the outcome of a delivery that was in a state, however long the server
// takes to accept it, unless the delivery is no longer the one that the server wants.
func (s *Source) report(ctx context.Context, d Decision, was plans.State, o plans.Outcome) (decideAgain bool) {
	s.doing(d.Checksum, "reporting the outcome of the plan %s", short(d.Checksum))
	const failed = "the outcome is not reported"
	for step := 0; ; step++ {
		keys, err := outcomeKeys(o)
		if err != nil {
			return s.goesOn(err, failed)
		}
		err = s.store(ctx, keys, func(fresh *Secret) bool {
			now, _ := plans.ReadOutcome(fresh.Data)
			return s.samePlan(fresh, d.Checksum) && now.State == was && (was == plans.StateNone || now.Revision == d.Revision)
		})
		if !tooLarge(err) || step == 2 {
			s.client.close() // the next report is seconds away at best
			return s.goesOn(err, failed)
		}
		s.o.Logger.Warn("outcome is too large for the plan Secret and shortened", "error", err)
		o = shrink(o, step)
	}
}

// samePlan says whether a version of the Secret is of the Secret acted on and carries a plan.
func (s *Source) samePlan(fresh *Secret, checksum string) bool {
	return fresh.UID == s.memory.UID && plans.Checksum(fresh.Data[plans.KeyPlan]) == checksum
}

// hostFault says that this host stands in the way, and has it tried again.
func (s *Source) hostFault(checksum, what string, err error) {
	pause := backoff.Backoff{Min: s.pace.retryMin, Max: 2 * s.pace.retryMax, Floor: 0.5}
	for range s.faults {
		pause.Next()
	}
	s.faults++
	wait := pause.Next()
	s.o.Logger.Error("host stands in the way", "plan", short(checksum), "what", what, "error", err, "next", wait.Round(time.Millisecond))
	s.doing(checksum, "waiting for this host: %s: %v", what, err)
	s.wake(wait)
}
