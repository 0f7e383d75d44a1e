// Looking after a plan that stands, see package tend. What its probes and periodic
// instructions find is written only when it differs from what is there.

package remote

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/plans/upkeep"
)

// standing is the plan that is looked after.
type standing struct {
	key      string // differs between plans, states and modes
	checksum string
	state    plans.State
	period   time.Duration
	// written is what was written last of each kind. It is not written again and again to a server that does not keep it.
	written map[string]string
	// explained is when the host was last reported on; only the goroutine that probes uses it.
	explained time.Time
}

// update is a new finding about the plan that stands.
type update struct {
	of      *standing
	dataKey string
	value   []byte
}

// tend looks after the decision's plan, unless it does so already.
func (s *Source) tend(ctx context.Context, d Decision) (decideAgain bool) {
	s.wakeAt(d.Again)
	s.show(d)
	if d.Restore && s.restore(ctx, d) {
		return true
	}
	delivery := plans.ReadDelivery(s.current.Data)
	key := fmt.Sprintf("%s/%s/%s/%s/%t", s.current.UID, d.Checksum, delivery.State, delivery.ProbePeriod, d.Periodic)
	if s.standing != nil && s.standing.key == key {
		return false
	}
	s.stopTending()
	if len(d.Plan.Probes) == 0 && (len(d.Plan.PeriodicInstructions) == 0 || !d.Periodic) {
		return false
	}
	s.begin(ctx, d, &standing{key: key, checksum: d.Checksum, state: delivery.State, period: delivery.ProbePeriod, written: map[string]string{}})
	return false
}

// show has the status say what is done about the plan.
func (s *Source) show(d Decision) {
	if d.Why != "" {
		s.doing(d.Checksum, "waiting: %s", d.Why)
		return
	}
	s.doing(d.Checksum, "watching; the plan %s is applied", plans.Short(d.Checksum))
}

// restore puts back files of an applied plan that are missing or differ: people restart
// the agent to have a host's configuration made anew. What cannot be put back is tried
// again, and does not keep the plan from being looked after.
func (s *Source) restore(ctx context.Context, d Decision) (decideAgain bool) {
	s.doing(d.Checksum, "checking the files of the plan %s", plans.Short(d.Checksum))
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	was := s.current
	var changed []string
	var err error
	s.during(ctx, func() {
		changed, err = s.o.Engine.RestoreFiles(work, apply.Standing{Source: SourceName, Checksum: d.Checksum, Plan: d.Plan})
	}, func() {
		if s.current != was {
			cancel() // what is new comes first
		}
	})
	if len(changed) > 0 {
		s.o.Logger.Warn("files of the plan were missing or changed and are put back", "plan", plans.Short(d.Checksum), "files", changed)
	}
	if err != nil && work.Err() == nil {
		s.hostFault(d.Checksum, "the plan's files cannot be checked", err)
		return false
	}
	if err == nil {
		s.memory.Restored = d.Checksum
		s.faults = 0
	}
	return true
}

// begin looks after the plan. The periodic instructions of the plan before may still run.
func (s *Source) begin(ctx context.Context, d Decision, st *standing) {
	outcome, _ := plans.ReadOutcome(s.current.Data)
	p := &plans.Plan{Probes: d.Plan.Probes}
	if d.Periodic {
		p.PeriodicInstructions = d.Plan.PeriodicInstructions
	}
	force := s.memory.Executed == d.Checksum && s.forced != s.memory.Pending.ID
	s.forced = s.memory.Pending.ID
	s.standing = st
	s.tender.Begin(ctx, upkeep.Job{
		Standing: apply.Standing{Source: SourceName, Checksum: d.Checksum, Plan: p}, Applied: outcome.LastApplyTime,
		Statuses: statusesOf(p, outcome.ProbeStatuses), Records: recordsOf(p, outcome.PeriodicOutput), Force: force,
		ProbePeriod: st.period, PeriodicPeriod: st.period,
		Probed: func(ctx context.Context, statuses map[string]plans.ProbeStatus) {
			value, err := plans.EncodeProbeStatuses(statuses)
			s.send(ctx, update{of: st, dataKey: plans.KeyProbeStatuses, value: value}, err)
			s.explain(ctx, st, statuses)
		},
		Ran: func(ctx context.Context, records map[string]plans.PeriodicOutput) {
			value, err := plans.EncodePeriodicOutputs(records)
			s.send(ctx, update{of: st, dataKey: plans.KeyAppliedPeriodicOutput, value: value}, err)
		},
	})
}

// explain reports on the host now and then while a probe fails.
func (s *Source) explain(ctx context.Context, st *standing, statuses map[string]plans.ProbeStatus) {
	now, sick := s.o.Now(), plans.Unhealthy(statuses)
	if len(sick) == 0 || now.Sub(st.explained) < s.pace.report {
		return
	}
	st.explained = now
	if value := s.hostReport(ctx, st.checksum, sick); value != nil {
		s.send(ctx, update{of: st, dataKey: plans.KeyHostReport, value: value}, nil)
	}
}

// send hands a finding over to the loop, unless it could not be encoded.
func (s *Source) send(ctx context.Context, u update, err error) {
	if err != nil {
		s.o.Logger.Error("finding cannot be encoded", "key", u.dataKey, "error", err)
		return
	}
	select {
	case s.updates <- u:
	case <-ctx.Done():
	}
}

// findings are those about the plan that stands which the server has not taken yet.
type findings struct {
	newest map[string]update // by dataKey
	pause  backoff.Row
	until  time.Time // the server is not asked before
	again  *time.Timer
}

// tended writes findings that are news. Findings that a server does not take now are held back, the
// newest of each kind, and pressed on it no more than anything else.
func (s *Source) tended(ctx context.Context, found ...update) {
	f := &s.findings
	for _, u := range found {
		f.newest[u.dataKey] = u
	}
	keys := map[string][]byte{}
	for key, u := range f.newest {
		if u.of != s.standing || u.of.written[key] == string(u.value) {
			delete(f.newest, key)
			continue
		}
		keys[key] = u.value
	}
	if len(keys) == 0 || s.o.Now().Before(f.until) {
		return
	}
	var err error
	for range 3 {
		err = s.try(ctx, keys, func(fresh *Secret) bool {
			return s.samePlan(fresh, s.standing.checksum) && plans.ReadDelivery(fresh.Data).State == s.standing.state
		})
		if code(err) != http.StatusConflict {
			break
		}
	}
	switch {
	case err == nil || tooLarge(err): // what is too large stays so
		for key, value := range keys {
			s.standing.written[key] = string(value)
		}
		clear(f.newest)
		f.pause.Reset()
	case isSuperseded(err):
		s.wake(0) // the newest version may ask for something else
	case ctx.Err() == nil:
		wait := max(f.pause.After(err), retryAfter(err))
		f.until = s.o.Now().Add(wait)
		f.again.Reset(wait)
	}
	if err != nil {
		s.o.Logger.Debug("findings are not written", "plan", plans.Short(s.standing.checksum), "error", err)
	}
}

// stopTending ends looking after the plan.
func (s *Source) stopTending() {
	s.tender.Stop()
	s.standing = nil
}
