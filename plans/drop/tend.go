// Looking after an applied plan: probes and periodic instructions, each at its own pace
// and in a goroutine of its own, so that neither holds up the other or another plan.

package drop

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// periodicLook is the longest pause between two looks for what is due: the clock may jump.
const periodicLook = time.Minute

// tending is what looks after one content of a plan.
type tending struct {
	checksum string
	quit     chan struct{} // closed when no more rounds are to begin
	cancel   context.CancelFunc
	ended    chan struct{}
}

// tend sees to it that the plan is looked after. just says that it was applied just now.
func (s *Source) tend(ctx context.Context, p *dropped, just bool) {
	if p.tending != nil && p.tending.checksum == p.checksum && !just {
		return
	}
	p.stop()
	if len(p.plan.Probes) == 0 && len(p.plan.PeriodicInstructions) == 0 {
		return
	}
	// The goroutines keep no more of the plan than they need; its files may be large.
	plan := &plans.Plan{Probes: p.plan.Probes, PeriodicInstructions: p.plan.PeriodicInstructions}
	t := &tending{checksum: p.checksum, quit: make(chan struct{}), ended: make(chan struct{})}
	ctx = apply.WithSource(ctx, p.source, p.checksum)
	probing, cancel := context.WithCancel(ctx)
	t.cancel = cancel
	before := p.resting
	p.tending, p.resting = t, t.ended
	var working sync.WaitGroup
	working.Go(func() { s.probe(probing, p, t, plan) })
	working.Go(func() {
		if before != nil {
			<-before // one that runs is not interrupted, and never runs twice at once
		}
		s.periodic(ctx, p, t, plan, just)
	})
	go func() {
		working.Wait()
		close(t.ended)
	}()
}

// stop begins no more rounds; a periodic instruction that runs comes to its end.
func (p *dropped) stop() {
	if p.tending == nil {
		return
	}
	close(p.tending.quit)
	p.tending.cancel()
	p.tending = nil
}

// stopAll waits until nothing is looked after any more. The context has ended by then, so
// periodic instructions were killed.
func (s *Source) stopAll() {
	for _, p := range s.plans {
		p.stop()
		if p.resting != nil {
			<-p.resting
		}
	}
}

func (s *Source) probe(ctx context.Context, p *dropped, t *tending, plan *plans.Plan) {
	for len(plan.Probes) > 0 {
		pos := p.snapshot()
		next := s.o.Engine.Probes(ctx, plan, pos.ProbeStatus, pos.AppliedTime)
		if ctx.Err() != nil {
			return
		}
		s.keep(p, t, func(pos *position) { pos.ProbeStatus = next })
		if !t.pause(ctx, plans.DefaultProbePeriod) {
			return
		}
	}
}

func (s *Source) periodic(ctx context.Context, p *dropped, t *tending, plan *plans.Plan, force bool) {
	last, err := plans.DecodePeriodicOutputs(p.snapshot().PeriodicOutput)
	if err != nil {
		last = nil // refused when it was read
	}
	for t.goesOn(ctx) {
		last = s.o.Engine.Periodic(ctx, plan, last, force)
		force = false
		if ctx.Err() != nil {
			return
		}
		b, err := plans.EncodePeriodicOutputs(last)
		if err != nil {
			s.o.Logger.Error("periodic outputs cannot be encoded", "path", p.path, "error", err)
			return
		}
		s.keep(p, t, func(pos *position) { pos.PeriodicOutput = b })
		now := s.o.Now()
		at, ok := apply.NextPeriodic(plan, last, now)
		if !ok || !t.pause(ctx, min(max(at.Sub(now), time.Second), periodicLook)) {
			return
		}
	}
}

// keep writes a finding, unless the plan it is of is no longer the one that is there, or
// somebody removed the position to have the plan applied again.
func (s *Source) keep(p *dropped, t *tending, f func(*position)) {
	if _, err := os.Lstat(positionPath(p.path)); err != nil {
		return
	}
	err := p.change(func(pos *position) {
		if pos.AppliedChecksum == t.checksum {
			f(pos)
		}
	})
	if err != nil {
		s.o.Logger.Warn("finding cannot be kept, the next round tries again", "path", p.path, "error", err)
	}
}

func (t *tending) goesOn(ctx context.Context) bool {
	select {
	case <-t.quit:
		return false
	default:
		return ctx.Err() == nil
	}
}

// pause waits and says whether there is another round.
func (t *tending) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return t.goesOn(ctx)
	case <-t.quit:
	case <-ctx.Done():
	}
	return false
}
