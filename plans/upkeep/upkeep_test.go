package upkeep_test

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/upkeep"
)

// engine counts what is asked of it; hang, when it is not nil, is waited for by periodic instructions.
type engine struct {
	mu       sync.Mutex
	probes   int
	periodic []string          // checksums, with "!" when forced
	asked    [][]string        // names of probes, by round
	answers  []map[string]bool // of the rounds; the last one for ever. Nil is no answer
	running  int               // periodic instructions at once
	most     int
	hang     chan struct{}
}

func (e *engine) Probes(_ context.Context, s apply.Standing, last map[string]plans.ProbeStatus, _ time.Time) (map[string]plans.ProbeStatus, map[string]error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probes++
	if e.answers == nil {
		return last, nil
	}
	e.asked = append(e.asked, slices.Sorted(maps.Keys(s.Plan.Probes)))
	healthy := e.answers[min(e.probes, len(e.answers))-1]
	next := map[string]plans.ProbeStatus{}
	for name := range s.Plan.Probes {
		next[name] = plans.ProbeStatus{Healthy: healthy[name], FailureCount: last[name].FailureCount}
		if !healthy[name] {
			next[name] = plans.ProbeStatus{FailureCount: last[name].FailureCount + 1}
		}
	}
	return next, nil
}

func (e *engine) Periodic(ctx context.Context, s apply.Standing, last map[string]plans.PeriodicOutput, force bool) map[string]plans.PeriodicOutput {
	e.mu.Lock()
	name := s.Checksum
	if force {
		name += "!"
	}
	e.periodic = append(e.periodic, name)
	e.running++
	e.most = max(e.most, e.running)
	e.mu.Unlock()
	if e.hang != nil {
		select {
		case <-e.hang:
		case <-ctx.Done():
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running--
	return last
}

func (e *engine) ran() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string{}, e.periodic...)
}

func tender(e *engine) *upkeep.Tender {
	return &upkeep.Tender{Engine: e, Logger: slog.New(slog.DiscardHandler), Now: time.Now}
}

// job looks after a plan with one probe and one periodic instruction, very often.
func job(checksum string, force bool) upkeep.Job {
	p := &plans.Plan{
		Probes:               map[string]plans.Probe{"up": {Systemd: &plans.SystemdUnit{Unit: "up.service"}}},
		PeriodicInstructions: []plans.PeriodicInstruction{{Instruction: plans.Instruction{Name: "beat", Command: "true"}}},
	}
	return upkeep.Job{
		Standing: apply.Standing{Source: "remote", Checksum: checksum, Plan: p}, Force: force,
		ProbePeriod: time.Millisecond, PeriodicPeriod: time.Millisecond,
		Probed: func(context.Context, map[string]plans.ProbeStatus) {}, Ran: func(context.Context, map[string]plans.PeriodicOutput) {},
	}
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

// TestANewPlanWaitsForARunningInstruction: what runs is not interrupted, nothing runs twice
// at once, and meanwhile the new plan's probes are asked.
func TestANewPlanWaitsForARunningInstruction(t *testing.T) {
	t.Parallel()
	e := &engine{hang: make(chan struct{})}
	tender := tender(e)
	tender.Begin(t.Context(), job("one", true))
	until(t, "the first plan's instruction runs", func() bool { return len(e.ran()) == 1 })
	tender.Begin(t.Context(), job("two", true))
	e.mu.Lock()
	before := e.probes
	e.mu.Unlock()
	until(t, "the second plan's probes are asked", func() bool { e.mu.Lock(); defer e.mu.Unlock(); return e.probes > before+2 })
	if ran := e.ran(); len(ran) != 1 {
		t.Errorf("while the first runs: %q", ran)
	}
	close(e.hang)
	until(t, "the second plan's instruction runs", func() bool { return len(e.ran()) >= 3 })
	if ran := e.ran(); ran[0] != "one!" || ran[1] != "two!" || ran[2] != "two" || e.most != 1 {
		t.Errorf("%q, %d at once", ran[:3], e.most)
	}
	tender.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running != 0 {
		t.Error("Wait returned while an instruction runs")
	}
}

// TestFindingsEndWithThePlan: the context of a finding has ended once its plan is not looked after.
func TestFindingsEndWithThePlan(t *testing.T) {
	t.Parallel()
	tender := tender(&engine{})
	found := make(chan context.Context, 1)
	j := job("one", false)
	j.Probed = func(ctx context.Context, _ map[string]plans.ProbeStatus) {
		select {
		case found <- ctx:
		default:
		}
	}
	tender.Begin(t.Context(), j)
	ctx := <-found
	if ctx.Err() != nil {
		t.Error("ended while the plan stands")
	}
	tender.Stop()
	if ctx.Err() == nil {
		t.Error("goes on after the plan's end")
	}
	tender.Wait()
}

func TestPulse(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Unix(1.8e9, 0)
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	p := upkeep.NewPulse(time.Minute, func() time.Time { mu.Lock(); defer mu.Unlock(); return now })
	given, cancel := context.WithCancel(t.Context())
	cancel() // there is no answer in time
	if !p.Alive(given) {
		t.Error("what does not run cannot hang")
	}
	p.Turn()
	if !p.Alive(given) {
		t.Error("given up at once")
	}
	pass(time.Hour)
	if p.Alive(given) {
		t.Error("alive an hour after it turned last")
	}
	events, release := make(chan int), make(chan struct{})
	seen := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		upkeep.During(p, func() { <-release }, events, func(n int) { seen += n })
	}()
	if !p.Alive(t.Context()) {
		t.Error("no sign of life during something that takes long")
	}
	events <- 7
	close(release)
	<-done
	if seen != 7 {
		t.Errorf("events of the meantime: %d", seen)
	}
	p.End()
	if !p.Alive(given) {
		t.Error("what has ended cannot hang")
	}
}

// TestSickProbesAreAskedBetweenRounds: alone, and until they are healthy; their failures are counted by rounds.
func TestSickProbesAreAskedBetweenRounds(t *testing.T) {
	t.Parallel()
	e := &engine{answers: []map[string]bool{{"up": true}, {}, {"etcd": true}, {}, {"api": true}}}
	tender := tender(e)
	tender.Eager = time.Millisecond
	found := make(chan map[string]plans.ProbeStatus, 10)
	j := job("one", false)
	j.ProbePeriod = time.Hour
	j.Standing.Plan.PeriodicInstructions = nil
	j.Standing.Plan.Probes = map[string]plans.Probe{"api": {}, "etcd": {}, "up": {}}
	j.Probed = func(_ context.Context, statuses map[string]plans.ProbeStatus) { found <- statuses }
	tender.Begin(t.Context(), j)
	for _, want := range []map[string]plans.ProbeStatus{
		{"api": {FailureCount: 1}, "etcd": {FailureCount: 1}, "up": {Healthy: true}},
		{"api": {FailureCount: 1}, "etcd": {Healthy: true, FailureCount: 1}, "up": {Healthy: true}},
		{"api": {Healthy: true, FailureCount: 1}, "etcd": {Healthy: true, FailureCount: 1}, "up": {Healthy: true}},
	} {
		if diff := cmp.Diff(want, <-found); diff != "" {
			t.Errorf("statuses: %s", diff)
		}
	}
	tender.Wait()
	want := [][]string{{"api", "etcd", "up"}, {"api", "etcd"}, {"api", "etcd"}, {"api"}, {"api"}}
	if diff := cmp.Diff(want, e.asked); diff != "" {
		t.Errorf("asked: %s", diff)
	}
	if len(found) > 0 {
		t.Errorf("reported without news: %v", <-found)
	}
}
