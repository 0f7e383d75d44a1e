// Looking after a plan that stands: its probes are asked and its periodic instructions
// run, each in a goroutine of its own so that a slow one holds up neither the other nor
// a new plan. What they find is written only when it differs from what is there.

package remote

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// standing is the plan that is looked after.
type standing struct {
	key      string // tells plan, state and mode apart
	checksum string
	state    plans.State
	period   time.Duration
	quit     chan struct{} // closed when it is no longer looked after
	cancel   context.CancelFunc
	ended    chan struct{} // closed when its goroutines are
	// told is what was written last of each kind. A server that does not keep it is not told again and again.
	told map[string]string
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
	s.tell(d)
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
	s.standing = s.begin(ctx, d, &standing{
		key: key, checksum: d.Checksum, state: delivery.State, period: delivery.ProbePeriod,
		quit: make(chan struct{}), ended: make(chan struct{}), told: map[string]string{},
	})
	return false
}

func (s *Source) tell(d Decision) {
	if d.Why != "" {
		s.doing(d.Checksum, "waiting: %s", d.Why)
		return
	}
	s.doing(d.Checksum, "watching; the plan %s is applied", short(d.Checksum))
}

// restore puts back files of an applied plan that are missing or differ: people restart
// the agent to have a host's configuration made anew. What cannot be put back is tried
// again, and does not keep the plan from being looked after.
func (s *Source) restore(ctx context.Context, d Decision) (decideAgain bool) {
	s.doing(d.Checksum, "checking the files of the plan %s", short(d.Checksum))
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	was := s.current
	var changed []string
	var err error
	s.during(func() { changed, err = s.o.Engine.RestoreFiles(work, source, d.Plan) }, func() {
		if s.current != was {
			cancel() // whatever is new comes first
		}
	})
	if len(changed) > 0 {
		s.o.Logger.Warn("files of the plan were missing or changed and are put back", "plan", short(d.Checksum), "files", changed)
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

// begin starts the goroutines. The periodic instructions of the plan before may still run.
func (s *Source) begin(ctx context.Context, d Decision, st *standing) *standing {
	outcome, _ := plans.ReadOutcome(s.current.Data)
	// The goroutines keep no more of the plan than they need; its files may be large.
	p := &plans.Plan{Probes: d.Plan.Probes, PeriodicInstructions: d.Plan.PeriodicInstructions}
	ctx = apply.WithSource(ctx, source, d.Checksum)
	var probing context.Context
	probing, st.cancel = context.WithCancel(ctx)
	force := s.memory.Executed == d.Checksum && s.forced != s.memory.Pending.ID
	s.forced = s.memory.Pending.ID
	before := s.resting
	s.resting = st.ended
	var working sync.WaitGroup
	if len(p.Probes) > 0 {
		working.Go(func() { s.probe(probing, st, p, statusesOf(p, outcome.ProbeStatuses), outcome.LastApplyTime) })
	}
	working.Go(func() {
		if before != nil {
			<-before
		}
		if d.Periodic && len(p.PeriodicInstructions) > 0 {
			s.runPeriodic(ctx, st, p, recordsOf(p, outcome.PeriodicOutput), force)
		}
	})
	go func() {
		working.Wait()
		close(st.ended)
	}()
	return st
}

func (s *Source) probe(ctx context.Context, st *standing, p *plans.Plan, last map[string]plans.ProbeStatus, applied time.Time) {
	for {
		last = s.o.Engine.Probes(ctx, p, last, applied)
		if ctx.Err() != nil {
			return // what was cancelled is no finding
		}
		value, err := plans.EncodeProbeStatuses(last)
		if err != nil {
			s.o.Logger.Error("probe statuses cannot be encoded", "error", err)
			return
		}
		if !s.send(ctx, st, update{of: st, dataKey: plans.KeyProbeStatuses, value: value}) {
			return
		}
	}
}

func (s *Source) runPeriodic(ctx context.Context, st *standing, p *plans.Plan, last map[string]plans.PeriodicOutput, force bool) {
	for {
		select {
		case <-st.quit:
			return
		default:
		}
		last = s.o.Engine.Periodic(ctx, p, last, force)
		force = false
		if ctx.Err() != nil {
			return
		}
		value, err := plans.EncodePeriodicOutputs(last)
		if err != nil {
			s.o.Logger.Error("periodic outputs cannot be encoded", "error", err)
			return
		}
		if !s.send(ctx, st, update{of: st, dataKey: plans.KeyAppliedPeriodicOutput, value: value}) {
			return
		}
	}
}

// send hands a finding over and waits for the next round.
func (s *Source) send(ctx context.Context, st *standing, u update) bool {
	select {
	case s.updates <- u:
	case <-st.quit:
		return false
	case <-ctx.Done():
		return false
	}
	t := time.NewTimer(st.period)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-st.quit:
		return false
	case <-ctx.Done():
		return false
	}
}

// tended writes a finding when it is news. A server that does not take it now is told with the next.
func (s *Source) tended(ctx context.Context, u update) {
	if u.of != s.standing || u.of.told[u.dataKey] == string(u.value) {
		return
	}
	keys := map[string][]byte{u.dataKey: u.value}
	for range 3 {
		err := s.try(ctx, keys, func(fresh *Secret) bool {
			return s.samePlan(fresh, u.of.checksum) && plans.ReadDelivery(fresh.Data).State == u.of.state
		})
		if err == nil {
			u.of.told[u.dataKey] = string(u.value)
			return
		}
		if isSuperseded(err) {
			s.wake(0) // the newest version may ask for something else
			return
		}
		if code(err) == 0 || ctx.Err() != nil {
			s.o.Logger.Debug("finding is not written", "key", u.dataKey, "error", err)
			return
		}
	}
}

// stopTending ends looking after the plan. A periodic instruction that runs is not
// interrupted, and the next plan's wait for it.
func (s *Source) stopTending() {
	if s.standing == nil {
		return
	}
	close(s.standing.quit)
	s.standing.cancel()
	s.standing = nil
}
