// Package upkeep looks after plans that were applied: it asks their probes and runs their
// periodic instructions, each at its own pace and in a goroutine of its own, so that a slow
// one holds up neither the other nor a new plan. It is what the sources of plans share;
// what becomes of the findings is their own business.
package upkeep

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/backoff"
)

// longestPause is the longest pause between two looks for periodic instructions that are
// due: the clock may jump.
const longestPause = time.Minute

// Engine asks probes and runs periodic instructions; *apply.Engine is one.
type Engine interface {
	Periodic(ctx context.Context, s apply.Standing, last map[string]plans.PeriodicOutput, force bool) map[string]plans.PeriodicOutput
	Probes(ctx context.Context, s apply.Standing, last map[string]plans.ProbeStatus, applied time.Time) (next map[string]plans.ProbeStatus, failures map[string]error)
}

var _ Engine = (*apply.Engine)(nil)

// Job is how one plan is looked after.
type Job struct {
	// Standing is the plan and whose it is. No more of the plan is kept than its probes and
	// periodic instructions: its files may be large.
	Standing apply.Standing
	// Applied is when the plan's apply ended; zero is long ago.
	Applied time.Time
	// Statuses and Records are what is known of probes and periodic instructions at the start.
	Statuses map[string]plans.ProbeStatus
	Records  map[string]plans.PeriodicOutput
	// Force has the periodic instructions run at once, due or not.
	Force bool
	// ProbePeriod is the pause between two rounds of probes.
	ProbePeriod time.Duration
	// PeriodicPeriod is the pause between two looks for periodic instructions that are due;
	// zero looks when the next one is.
	PeriodicPeriod time.Duration
	// Probed and Ran take what a round found. They are called by two goroutines. The context
	// ends when the plan is no longer looked after.
	Probed func(ctx context.Context, statuses map[string]plans.ProbeStatus)
	Ran    func(ctx context.Context, records map[string]plans.PeriodicOutput)
}

// Tender looks after one plan at a time. The zero value with its exported fields set looks
// after none. Its methods belong to one goroutine.
type Tender struct {
	Engine Engine
	Logger *slog.Logger
	Now    func() time.Time
	// Eager is the pause between two looks at probes that are not healthy, between the rounds; zero is a second.
	// Other machines of a cluster wait for them.
	Eager time.Duration

	stop    context.CancelFunc // nil when nothing is looked after
	resting <-chan struct{}    // closed when all goroutines that were started have ended; nil: there were none
}

// Begin looks after a plan instead of the one before, until Stop or the end of the context.
// A plan with neither probes nor periodic instructions needs no looking after.
func (t *Tender) Begin(ctx context.Context, j Job) {
	t.Stop()
	p := &plans.Plan{Probes: j.Standing.Plan.Probes, PeriodicInstructions: j.Standing.Plan.PeriodicInstructions}
	if len(p.Probes) == 0 && len(p.PeriodicInstructions) == 0 {
		return
	}
	j.Standing.Plan = p
	standing, stop := context.WithCancel(ctx)
	before, ended := t.resting, make(chan struct{})
	t.stop, t.resting = stop, ended
	var working sync.WaitGroup
	if len(p.Probes) > 0 {
		working.Go(func() { t.probe(standing, j) })
	}
	working.Go(func() {
		if before != nil {
			<-before // a periodic instruction that runs is not interrupted, and never runs twice at once
		}
		if len(p.PeriodicInstructions) > 0 {
			t.periodic(ctx, standing, j)
		}
	})
	go func() {
		working.Wait()
		stop()
		close(ended)
	}()
}

// Stop begins no more rounds. A periodic instruction that runs comes to its end, and the
// next plan's wait for it.
func (t *Tender) Stop() {
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
}

// Wait stops and returns when nothing is looked after any more, which the end of the context
// of Begin hastens: it kills periodic instructions.
func (t *Tender) Wait() {
	t.Stop()
	if t.resting != nil {
		<-t.resting
	}
}

func (t *Tender) probe(ctx context.Context, j Job) {
	last := j.Statuses
	for {
		last, _ = t.Engine.Probes(ctx, j.Standing, last, j.Applied)
		if ctx.Err() != nil {
			return // what was cancelled is not a finding
		}
		j.Probed(ctx, last)
		var err error
		if last, err = t.pause(ctx, j, last); err != nil {
			return
		}
	}
}

// pause waits for the next round, and returns what is known then. What is not healthy is asked in between, alone, and
// counts when it has become healthy: failures are counted by rounds, and so are successes where a plan wants several.
func (t *Tender) pause(ctx context.Context, j Job, known map[string]plans.ProbeStatus) (map[string]plans.ProbeStatus, error) {
	eager := cmp.Or(t.Eager, time.Second)
	round := t.Now().Add(j.ProbePeriod)
	for {
		sick := sickOf(j.Standing, known)
		if len(sick.Plan.Probes) == 0 || !t.Now().Add(eager).Before(round) {
			return known, backoff.Wait(ctx, max(round.Sub(t.Now()), 0))
		}
		if err := backoff.Wait(ctx, eager); err != nil {
			return known, err
		}
		asked, _ := t.Engine.Probes(ctx, sick, known, j.Applied)
		if ctx.Err() != nil {
			return known, ctx.Err()
		}
		recovered := map[string]plans.ProbeStatus{}
		for name := range sick.Plan.Probes {
			if asked[name].Healthy {
				recovered[name] = asked[name]
			}
		}
		if len(recovered) > 0 {
			next := map[string]plans.ProbeStatus{} // a reader of the one before may keep it
			maps.Copy(next, known)
			maps.Copy(next, recovered)
			known = next
			j.Probed(ctx, known)
		}
	}
}

// sickOf is a plan with those of its probes that are not healthy.
func sickOf(s apply.Standing, statuses map[string]plans.ProbeStatus) apply.Standing {
	sick := &plans.Plan{Probes: map[string]plans.Probe{}}
	for name, probe := range s.Plan.Probes {
		if !statuses[name].Healthy {
			sick.Probes[name] = probe
		}
	}
	s.Plan = sick
	return s
}

// periodic runs instructions below ctx, and goes on as long as the plan stands.
func (t *Tender) periodic(ctx, standing context.Context, j Job) {
	last, force := j.Records, j.Force
	for standing.Err() == nil {
		last = t.Engine.Periodic(ctx, j.Standing, last, force)
		force = false
		if ctx.Err() != nil {
			return
		}
		j.Ran(standing, last)
		wait, ok := j.PeriodicPeriod, true
		if wait == 0 {
			var next time.Time
			next, ok = apply.NextPeriodic(j.Standing.Plan, last, t.Now())
			wait = min(max(next.Sub(t.Now()), time.Second), longestPause)
		}
		if !ok || backoff.Wait(standing, wait) != nil {
			return
		}
	}
}
