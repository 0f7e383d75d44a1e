// Doing what was decided.

package remote

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/plans/upkeep"
)

// settle acts on the current Secret until it asks for nothing more.
func (s *Source) settle(ctx context.Context) {
	for ctx.Err() == nil {
		s.pulse.Turn()
		if s.doubtful && s.look(ctx) != nil {
			return
		}
		pending, _, err := s.o.Engine.Pending(SourceName)
		if err != nil {
			s.hostFault("", "the ledger cannot be read", err)
			return
		}
		s.memory.Pending, s.memory.Past = pending, nil
		if id, checksum, ok := overtaken(s.current, pending); ok {
			s.memory.Past = s.o.Engine.Past(SourceName, id, checksum)
		}
		d := Decide(s.current, s.memory, s.o.Now())
		if s.current != nil && s.memory.UID != s.current.UID {
			s.memory = Memory{UID: s.current.UID, Pending: pending, Past: s.memory.Past}
		}
		if d.Note {
			s.noteReported(pending.ID)
		}
		if d.Conclude {
			s.conclude(ctx, d, pending.ID)
		}
		if !s.act(ctx, d) {
			return
		}
	}
}

// noteReported has the ledger know that the server has the outcome of a delivery.
func (s *Source) noteReported(id string) {
	if err := s.o.Engine.Reported(SourceName, id); err != nil {
		s.o.Logger.Debug("report is not noted", "delivery", id, "error", err)
	}
}

// concludeLimit is how long the end of a plan may wait for the host: nothing depends on it.
const concludeLimit = 5 * time.Second

// conclude has the ledger know how a delivery ended whose outcome is in the Secret. It is
// tried once; the next plan's ledger replaces this one anyway.
func (s *Source) conclude(ctx context.Context, d Decision, id string) {
	if s.concluded == id {
		return
	}
	s.concluded = id
	outcome, _ := plans.ReadOutcome(s.current.Data)
	end := apply.Ending{Succeeded: outcome.State == plans.StateSucceeded, At: outcome.LastApplyTime}
	if !end.Succeeded {
		end.Reason = firstLine(outcome.FailedOutput[plans.FailureOutput])
	}
	delivery := apply.Delivery{Source: SourceName, ID: id, Checksum: d.Checksum, Plan: d.Plan}
	ctx, cancel := context.WithTimeout(ctx, concludeLimit)
	defer cancel()
	var err error
	s.during(ctx, func() { err = s.o.Engine.Conclude(ctx, delivery, end) }, func() {})
	if err != nil {
		s.o.Logger.Warn("end of the plan is not written down on this host", "delivery", id, "error", err)
	}
}

// act performs one decision and says whether another has to be made now.
func (s *Source) act(ctx context.Context, d Decision) (decideAgain bool) {
	if d.Confirm {
		was := s.current
		if s.look(ctx) != nil {
			return false
		}
		if s.current == nil || s.current.UID != was.UID || s.current.ResourceVersion != was.ResourceVersion {
			return true
		}
	}
	switch d.Action {
	case Take:
		s.stopTending()
		return s.take(ctx, d)
	case Apply:
		s.stopTending()
		return s.perform(ctx, d, s.apply(ctx, d, nil))
	case Reject:
		s.stopTending()
		return s.reject(ctx, d)
	case Recall:
		s.stopTending()
		return s.recall(ctx, d)
	case Withdraw:
		s.doing(d.Checksum, "taking back the cancelled plan %s", plans.Short(d.Checksum))
		var err error
		s.during(ctx, func() { err = s.o.Engine.Abandon(ctx, SourceName) }, func() {})
		if err != nil {
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

// claim writes down in the Secret that the plan is being applied, before anything is.
func (s *Source) claim(ctx context.Context, d Decision) (claimed, decideAgain bool) {
	outcome, _ := plans.ReadOutcome(s.current.Data)
	s.doing(d.Checksum, "claiming the plan %s", plans.Short(d.Checksum))
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

// firstRounds adds to an outcome what the first round of the plan's periodic instructions
// found, so that both are one write. To a server that knows no plan-state it adds that of the
// probes too, for which it waits until their initial delays are over, as the original does:
// such a server takes an outcome whose probes are not healthy yet for the end of its waiting.
// A server that knows states gets the outcome at once, and the probes' statuses, "not asked yet" at
// first, as they come: it distinguishes an applied plan from a healthy one. A newer Secret ends the wait.
func (s *Source) firstRounds(ctx context.Context, d Decision, o *plans.Outcome) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	standing := apply.Standing{Source: SourceName, Checksum: d.Checksum, Plan: d.Plan}
	applied, was := s.o.Now(), s.current
	s.during(ctx, func() {
		var rounds sync.WaitGroup
		if len(d.Plan.PeriodicInstructions) > 0 {
			rounds.Go(func() {
				o.PeriodicOutput = recordsOf(d.Plan, s.o.Engine.Periodic(ctx, standing, o.PeriodicOutput, true))
			})
		}
		if o.State == plans.StateNone && len(d.Plan.Probes) > 0 {
			rounds.Go(func() {
				if backoff.Wait(ctx, d.Plan.LongestDelay()) != nil {
					return
				}
				if next, _ := s.o.Engine.Probes(ctx, standing, o.ProbeStatuses, applied.Add(-time.Second)); ctx.Err() == nil {
					o.ProbeStatuses = next
				}
			})
		}
		rounds.Wait()
	}, func() {
		other := func() bool { return s.current != was && (s.current == nil || !s.samePlan(s.current, d.Checksum)) }
		if other() && s.look(ctx) == nil && other() {
			cancel()
		}
	})
	s.forced = d.ID
}

// during does something that takes long while the newest version of the Secret is still
// taken up; changed is called after each.
func (s *Source) during(ctx context.Context, do func(), changed func()) {
	upkeep.During(s.pulse, do, s.mail, func(n news) {
		s.observe(ctx, n)
		changed()
	})
}

// reject reports a plan that cannot be read. A pending one is claimed first: a delivery
// always goes through in-progress.
func (s *Source) reject(ctx context.Context, d Decision) (decideAgain bool) {
	s.o.Logger.Error("plan is refused", "plan", plans.Short(d.Checksum), "reason", d.Fault)
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

// recall reports the outcome of a delivery that the server has forgotten. A pending one is
// claimed first: a delivery always goes through in-progress.
func (s *Source) recall(ctx context.Context, d Decision) (decideAgain bool) {
	s.o.Logger.Warn("the server has forgotten how this plan ended, as one does that was restored from a backup: it is reported again and not run again",
		"plan", plans.Short(d.Checksum), "revision", d.Revision)
	before, _ := plans.ReadOutcome(s.current.Data)
	if before.State == plans.StatePending {
		if claimed, again := s.claim(ctx, d); !claimed {
			return again
		}
		before, _ = plans.ReadOutcome(s.current.Data)
	}
	result, at, err := s.recalled(ctx, d)
	if err != nil {
		if ctx.Err() == nil {
			s.hostFault(d.Checksum, "the outcome cannot be read on this host", err)
		}
		return false
	}
	// The host may have got the files of the plan before, which the Secret had until now.
	s.memory.Applied, s.memory.Executed, s.memory.Restored = true, "", ""
	return s.report(ctx, d, before.State, ended(before, d, result, at))
}

// recalled is how a delivery ended that is done, and when. Of one that is not the newest the
// outputs are gone.
func (s *Source) recalled(ctx context.Context, d Decision) (r apply.Result, at time.Time, err error) {
	if p := d.Past; p != nil {
		r = apply.Result{Succeeded: p.Succeeded, Outputs: map[string][]byte{}}
		if !p.Succeeded {
			r.Failure = &apply.Failure{Reason: p.Reason, ExitCode: -1}
			r.Outputs[plans.FailureOutput] = []byte(p.Reason + "\n")
		}
		return r, p.At, nil
	}
	// The ledger has the outcome, so this does nothing and returns at once.
	delivery := apply.Delivery{Source: SourceName, ID: d.ID, Checksum: d.Checksum, Plan: d.Plan, Attempt: d.Attempt}
	s.during(ctx, func() { r, err = s.o.Engine.Apply(ctx, delivery) }, func() {})
	return r, s.o.Now(), err
}

// report writes the outcome of a delivery that was in a state, however long the server
// takes to accept it, unless the delivery is no longer the one that the server wants.
func (s *Source) report(ctx context.Context, d Decision, was plans.State, o plans.Outcome) (decideAgain bool) {
	s.doing(d.Checksum, "reporting the outcome of the plan %s", plans.Short(d.Checksum))
	const failed = "the outcome is not reported"
	for step := 0; ; step++ {
		keys, err := outcomeKeys(o)
		if err != nil {
			return s.goesOn(err, failed)
		}
		if base := s.current; step < len(shrinkTo) && base != nil && size(plans.MergeAgentKeys(base.Data, keys)) > maxData {
			o = shrink(o, step) // no server need be asked
			continue
		}
		err = s.store(ctx, keys, func(fresh *Secret) bool {
			now, _ := plans.ReadOutcome(fresh.Data)
			return s.samePlan(fresh, d.Checksum) && now.State == was && (was == plans.StateNone || now.Revision == d.Revision)
		})
		if !tooLarge(err) || step == len(shrinkTo) {
			s.client.release()
			if err == nil && d.ID != "" {
				s.noteReported(d.ID)
			}
			return s.goesOn(err, failed)
		}
		s.o.Logger.Warn("outcome is too large for the plan Secret and shortened", "error", err)
		o = shrink(o, step)
	}
}

// samePlan says whether a version of the Secret is of the Secret acted on and carries a plan.
func (s *Source) samePlan(fresh *Secret, checksum string) bool {
	return fresh.UID == s.memory.UID && fresh.delivered().checksum == checksum
}

// hostFault says that this host stands in the way, and has it tried again.
func (s *Source) hostFault(checksum, what string, err error) {
	pause := backoff.Backoff{Min: s.pace.retryMin, Max: 2 * s.pace.retryMax, Floor: 0.5}
	for range s.faults {
		pause.Next()
	}
	s.faults++
	wait := pause.Next()
	s.o.Logger.Error("host stands in the way", "plan", plans.Short(checksum), "what", what, "error", err, "next", wait.Round(time.Millisecond))
	s.doing(checksum, "waiting for this host: %s: %v", what, err)
	s.wake(wait)
}
