package remote

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// engine records what it is asked, in order.
type engine struct {
	mu      sync.Mutex
	calls   []string
	pending apply.Pending
	busy    atomic.Bool // the next apply waits for the end of its context
	// The answers; nil is a success without findings.
	onApply    func(ctx context.Context, d apply.Delivery) (apply.Result, error)
	onEnded    func(reported <-chan struct{}) error // while the outcome is being written down
	onProbes   func() map[string]plans.ProbeStatus
	onPeriodic func(force bool) map[string]plans.PeriodicOutput
	onRestore  func(ctx context.Context) ([]string, error)
}

func (e *engine) note(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = append(e.calls, fmt.Sprintf(format, args...))
}

func (e *engine) said() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.calls)
}

func (e *engine) count(prefix string) int {
	n := 0
	for _, call := range e.said() {
		if strings.HasPrefix(call, prefix) {
			n++
		}
	}
	return n
}

func (e *engine) Apply(ctx context.Context, d apply.Delivery) (apply.Result, error) {
	name := "empty"
	if len(d.Plan.Instructions) > 0 {
		name = d.Plan.Instructions[0].Name
	}
	id := d.ID
	if strings.Count(id, "/") == 2 {
		id = "legacy"
	}
	if e.busy.CompareAndSwap(true, false) { // with something else, and does not get to look at the claim
		<-ctx.Done()
		return apply.Result{}, context.Cause(ctx)
	}
	if d.Claimed != nil && !<-d.Claimed {
		return apply.Result{}, apply.ErrUnclaimed
	}
	e.mu.Lock()
	done := e.pending.ID == d.ID && e.pending.Finished
	e.pending = apply.Pending{ID: d.ID, Checksum: d.Checksum}
	answer := e.onApply
	e.mu.Unlock()
	if done { // nothing is executed
		e.note("outcome of %s", id)
	} else {
		e.note("apply %s %s attempt %d", name, id, d.Attempt)
	}
	result := apply.Result{Succeeded: true, Outputs: map[string][]byte{name: []byte("out of " + name)}}
	var err error
	if answer != nil && !done {
		result, err = answer(ctx, d)
	}
	if err == nil && !done && d.Ended != nil {
		reported := d.Ended(result)
		if e.onEnded != nil {
			err = e.onEnded(reported)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pending.Finished = err == nil
	return result, err
}

func (e *engine) Abandon(context.Context, string) error {
	e.note("abandon")
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pending.Finished = true
	return nil
}

func (e *engine) Conclude(_ context.Context, d apply.Delivery, end apply.Ending) error {
	e.note("conclude succeeded=%t %s", end.Succeeded, end.Reason)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pending.Finished = e.pending.ID == d.ID
	return nil
}

func (e *engine) Reported(_, id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pending.Reported = e.pending.ID == id
	return nil
}

func (e *engine) Past(string, string, string) *apply.Ending { return nil }

func (e *engine) Pending(string) (apply.Pending, bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pending, e.pending.ID != "", nil
}

func (e *engine) RestoreFiles(ctx context.Context, _ apply.Standing) ([]string, error) {
	e.note("restore")
	if e.onRestore != nil {
		return e.onRestore(ctx)
	}
	return nil, nil
}

func (e *engine) Periodic(_ context.Context, _ apply.Standing, last map[string]plans.PeriodicOutput, force bool) map[string]plans.PeriodicOutput {
	e.note("periodic force=%t", force)
	if e.onPeriodic != nil {
		return e.onPeriodic(force)
	}
	return last
}

func (e *engine) Probes(_ context.Context, _ apply.Standing, last map[string]plans.ProbeStatus, _ time.Time) (map[string]plans.ProbeStatus, map[string]error) {
	e.note("probes")
	if e.onProbes != nil {
		return e.onProbes(), nil
	}
	return last, nil
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// follow runs a source against the server until the test ends or stop is called.
func follow(t *testing.T, s *server, e *engine) (src *Source, stop func()) {
	t.Helper()
	src, err := New(Options{Access: s.access(t), Namespace: namespace, SecretName: secretName, Engine: e, Logger: quiet(), HostReport: s.report,
		Now: func() time.Time { return time.Now().Add(time.Duration(s.clock.Load())) }})
	if err != nil {
		t.Fatal(err)
	}
	src.pace = pace{retryMin: 2 * time.Millisecond, retryMax: 50 * time.Millisecond, mark: 100 * time.Millisecond, unanswered: 50 * time.Millisecond, report: 20 * time.Millisecond}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- src.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("Run() = %v", err)
				}
			case <-time.After(patience):
				t.Error("Run() does not end")
			}
		})
	}
	t.Cleanup(stop)
	return src, stop
}

func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still not true: %s", what)
		}
	}
}

func (s *server) wantState(t *testing.T, want string) {
	t.Helper()
	waitUntil(t, "plan-state is "+want, func() bool { return s.now()["plan-state"] == want })
}

func wantCalls(t *testing.T, e *engine, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, e.said()); diff != "" {
		t.Errorf("calls of the engine (-want +got):\n%s", diff)
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "custom-1-machine-plan": true, "a.b": true, strings.Repeat("a", 253): true,
		"": false, "A": false, "-a": false, "a-": false, "a/b": false, "..": false, strings.Repeat("a", 254): false,
	} {
		if isObjectName(name) != ok {
			t.Errorf("%.60q (%d bytes): %t", name, len(name), !ok)
		}
	}
}

func TestPendingPlanIsClaimedAppliedAndReported(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending", "foreign-key": "stays"})
	e := &engine{onApply: func(context.Context, apply.Delivery) (apply.Result, error) {
		if got := s.now(); got["plan-state"] != "in-progress" || got["plan-revision"] != "1" {
			t.Errorf("while it is applied the Secret says %v", got)
		}
		return apply.Result{Succeeded: true, Outputs: map[string][]byte{"a": []byte("hello\n")}}, nil
	}}
	src, _ := follow(t, s, e)
	s.wantState(t, "succeeded")
	wantCalls(t, e, "apply a u1/1 attempt 1")
	writes := s.writes()
	if len(writes) != 2 {
		t.Fatalf("%d writes, want the claim and the outcome", len(writes))
	}
	got := writes[1]
	outputs, err := plans.DecodeOutputs([]byte(got["applied-output"]))
	if err != nil || string(outputs["a"]) != "hello\n" {
		t.Errorf("applied-output %q, %v", outputs, err)
	}
	if _, err := time.Parse(time.UnixDate, got["last-apply-time"]); err != nil {
		t.Error(err)
	}
	for key, want := range map[string]string{
		"applied-checksum": sum(planA), "failed-checksum": "", "failed-output": "", "failure-count": "0", "success-count": "1",
		"plan-revision": "1", "probe-statuses": "{}", "plan": planA, "foreign-key": "stays",
	} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s = %q, want %q", key, v, want)
		}
	}
	if labels := s.meta[1]["labels"]; fmt.Sprint(labels) != "map[rke.cattle.io/machine-name:m]" || s.meta[1]["managedFields"] == nil {
		t.Errorf("metadata %v did not come back as it was sent", s.meta[1])
	}
	waitUntil(t, "the status says it", func() bool { return strings.Contains(src.Status().String(), "is applied") })
}

func TestFailureIsReportedAndStays(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	e := &engine{onApply: func(context.Context, apply.Delivery) (apply.Result, error) {
		return apply.Result{
			Outputs: map[string][]byte{"a": []byte("boom\n"), "drover-failure": []byte("exit 3")},
			Failure: &apply.Failure{Instruction: "a", ExitCode: 3, Reason: "exit 3"},
		}, nil
	}}
	follow(t, s, e)
	s.wantState(t, "failed")
	s.set(map[string]string{"unrelated": "1"}) // another pass over the failed plan
	waitUntil(t, "the watch brought it", func() bool { return s.now()["unrelated"] == "1" })
	got := s.now()
	outputs, err := plans.DecodeOutputs([]byte(got["failed-output"]))
	if err != nil || string(outputs["a"]) != "boom\n" {
		t.Errorf("failed-output %q, %v", outputs, err)
	}
	if got["failed-checksum"] != sum(planA) || got["failure-count"] != "1" || got["applied-checksum"] != "" {
		t.Errorf("the Secret says %v", got)
	}
	wantCalls(t, e, "apply a u1/1 attempt 1")
}

func TestUnreadablePlanIsReported(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, state, plan, reason string }{
		{"relative path", "pending", bad, "files[0].path"},
		{"not JSON", "pending", "<html>", "not JSON"},
		{"half of it", "in-progress", `{"files":[`, "not JSON"},
		{"bad base64", "pending", `{"files":[{"path":"/x","content":"%"}]}`, "files[0].content"},
		{"legacy", "", bad, "files[0].path"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t)
			s.set(map[string]string{"plan": tc.plan, "plan-state": tc.state})
			e := &engine{}
			follow(t, s, e)
			waitUntil(t, "the failure is reported", func() bool { return s.now()["failed-checksum"] == sum(tc.plan) })
			got := s.now()
			if tc.state != "" && got["plan-state"] != "failed" {
				t.Errorf("plan-state = %q", got["plan-state"])
			}
			outputs, err := plans.DecodeOutputs([]byte(got["failed-output"]))
			if err != nil || !strings.Contains(string(outputs["drover-failure"]), tc.reason) {
				t.Errorf("reason %q, %v; want %s in it", outputs, err, tc.reason)
			}
			if got["failure-count"] != "1" {
				t.Errorf("failure-count = %q", got["failure-count"])
			}
			wantCalls(t, e)
		})
	}
}

func TestNewPlanDuringAnApply(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	release := make(chan struct{})
	e := &engine{onApply: func(_ context.Context, d apply.Delivery) (apply.Result, error) {
		if d.Plan.Instructions[0].Name == "a" {
			s.set(map[string]string{"plan": planB, "plan-state": "pending"})
			<-release
		}
		return apply.Result{Succeeded: true}, nil
	}}
	follow(t, s, e)
	waitUntil(t, "the first is at work", func() bool { return e.count("apply") == 1 })
	close(release)
	s.wantState(t, "succeeded")
	wantCalls(t, e, "apply a u1/1 attempt 1", "apply b u1/2 attempt 1")
	if got := s.now(); got["applied-checksum"] != sum(planB) || got["plan-revision"] != "2" {
		t.Errorf("the Secret says %v", got)
	}
	for _, w := range s.writes() {
		if w["applied-checksum"] == sum(planA) {
			t.Error("the old outcome was written over the new plan")
		}
	}
}

func TestSamePlanDeliveredAnewDuringAnApplyRunsAgain(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	first := true
	e := &engine{}
	e.onApply = func(context.Context, apply.Delivery) (apply.Result, error) {
		if first {
			first = false
			s.set(map[string]string{"plan-state": "pending"})
		}
		return apply.Result{Succeeded: true}, nil
	}
	follow(t, s, e)
	s.wantState(t, "succeeded")
	wantCalls(t, e, "apply a u1/1 attempt 1", "apply a u1/2 attempt 1")
}

func TestCancelledWhileApplying(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	e := &engine{onApply: func(ctx context.Context, _ apply.Delivery) (apply.Result, error) {
		s.set(map[string]string{"plan-state": "cancelled"})
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), apply.ErrCancelled) {
			t.Errorf("cause = %v", context.Cause(ctx))
		}
		return apply.Result{Failure: &apply.Failure{Reason: "cancelled"}}, nil
	}}
	src, _ := follow(t, s, e)
	waitUntil(t, "the agent is idle again", func() bool { return strings.Contains(src.Status().String(), "cancelled") })
	if got := s.now(); got["plan-state"] != "cancelled" || got["failed-checksum"] != "" {
		t.Errorf("the Secret says %v", got)
	}
}

func TestCancelledWhileAway(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "cancelled", "plan-revision": "3"})
	e := &engine{pending: apply.Pending{ID: "u1/3", Checksum: sum(planA)}}
	follow(t, s, e)
	waitUntil(t, "the work is taken back", func() bool { return e.count("abandon") == 1 })
}

func TestStopDuringAnApplyReportsNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	e := &engine{onApply: func(ctx context.Context, _ apply.Delivery) (apply.Result, error) {
		<-ctx.Done()
		return apply.Result{}, ctx.Err()
	}}
	_, stop := follow(t, s, e)
	waitUntil(t, "it is applied", func() bool { return e.count("apply") == 1 })
	stop()
	if got := s.now(); got["plan-state"] != "in-progress" {
		t.Errorf("the Secret says %v", got)
	}
	// The next life goes on with the same delivery.
	e.onApply = nil
	follow(t, s, e)
	s.wantState(t, "succeeded")
	wantCalls(t, e, "apply a u1/1 attempt 1", "apply a u1/1 attempt 1")
}

// TestOutcomeIsReportedWhileItIsWrittenDown: what is durable on the server need not wait for
// this host's disk.
func TestOutcomeIsReportedWhileItIsWrittenDown(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	written := make(chan struct{})
	e := &engine{onEnded: func(reported <-chan struct{}) error { <-reported; <-written; return nil }}
	follow(t, s, e)
	s.wantState(t, "succeeded")
	close(written)
	wantCalls(t, e, "apply a u1/1 attempt 1")
}

// TestOutcomeThatOnlyTheServerHas: the host could not write it down, or the agent was killed
// before it had. The ledger gets it from the Secret, and nothing runs again.
func TestOutcomeThatOnlyTheServerHas(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	e := &engine{onEnded: func(<-chan struct{}) error { return errors.New("no ledger today") }}
	follow(t, s, e)
	s.wantState(t, "succeeded")
	waitUntil(t, "the ledger has the outcome", func() bool { return slices.Contains(e.said(), "conclude succeeded=true ") })
	wantCalls(t, e, "apply a u1/1 attempt 1", "conclude succeeded=true ")
}

// TestRefusedClaimEndsTheWork also where the engine is busy with something else.
func TestRefusedClaimEndsTheWork(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	first := true
	s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == "PUT" && first {
			first = false
			s.set(map[string]string{"plan": planB})
		}
		return false
	})
	e := &engine{}
	e.busy.Store(true)
	follow(t, s, e)
	s.wantState(t, "succeeded")
	wantCalls(t, e, "apply b u1/1 attempt 1")
}

// TestWithoutStatesTheLedgerIsFirst: such a Secret cannot say for ever that a delivery has ended.
func TestWithoutStatesTheLedgerIsFirst(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"pending", ""} {
		s := newServer(t)
		data := map[string]string{"plan": planA}
		if state != "" {
			data["plan-state"] = state
		}
		s.set(data)
		early := make(chan bool, 1)
		e := &engine{onApply: func(_ context.Context, d apply.Delivery) (apply.Result, error) {
			early <- d.Ended != nil
			return apply.Result{Succeeded: true}, nil
		}}
		follow(t, s, e)
		if got := <-early; got != (state != "") {
			t.Errorf("state %q: reported before it is written down: %t", state, got)
		}
	}
}

// TestClaimSlowerThanTheEngineWaits has the plan begun once it is claimed nevertheless.
func TestClaimSlowerThanTheEngineWaits(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	var gaveUp atomic.Bool
	e := &engine{onApply: func(context.Context, apply.Delivery) (apply.Result, error) {
		if gaveUp.CompareAndSwap(false, true) {
			return apply.Result{}, apply.ErrUnclaimed
		}
		return apply.Result{Succeeded: true}, nil
	}}
	follow(t, s, e)
	s.wantState(t, "succeeded")
	wantCalls(t, e, "apply a u1/1 attempt 1", "apply a u1/1 attempt 1")
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	t.Run("another key changed during the apply", func(t *testing.T) {
		s := newServer(t)
		s.set(map[string]string{"plan": planA, "plan-state": "pending"})
		e := &engine{onApply: func(context.Context, apply.Delivery) (apply.Result, error) {
			s.set(map[string]string{"appliedPlan": "server's", "max-failures": "5"})
			return apply.Result{Succeeded: true}, nil
		}}
		follow(t, s, e)
		s.wantState(t, "succeeded")
		if got := s.now(); got["appliedPlan"] != "server's" || got["max-failures"] != "5" {
			t.Errorf("the server's keys became %v", got)
		}
	})
	t.Run("each of the first writes meets one", func(t *testing.T) {
		s := newServer(t)
		s.set(map[string]string{"plan": planA, "plan-state": "pending"})
		left := 3
		s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == "PUT" && left > 0 {
				left--
				s.set(map[string]string{"unrelated": fmt.Sprint(left + 1)})
			}
			return false
		})
		e := &engine{}
		follow(t, s, e)
		s.wantState(t, "succeeded")
		wantCalls(t, e, "apply a u1/1 attempt 1")
	})
	t.Run("the plan is replaced before the claim", func(t *testing.T) {
		s := newServer(t)
		s.set(map[string]string{"plan": planA, "plan-state": "pending"})
		first := true
		s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == "PUT" && first {
				first = false
				s.set(map[string]string{"plan": planB})
			}
			return false
		})
		e := &engine{}
		follow(t, s, e)
		s.wantState(t, "succeeded")
		wantCalls(t, e, "apply b u1/1 attempt 1")
	})
	t.Run("the answer to the claim is lost", func(t *testing.T) {
		s := newServer(t)
		s.set(map[string]string{"plan": planA, "plan-state": "pending"})
		first := true
		s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == "PUT" && first {
				first = false
				s.set(map[string]string{"plan-state": "in-progress", "plan-revision": "1"})
				panic(http.ErrAbortHandler)
			}
			return false
		})
		e := &engine{}
		follow(t, s, e)
		s.wantState(t, "succeeded")
		wantCalls(t, e, "apply a u1/1 attempt 1")
	})
}

func TestOutcomeThatIsTooLargeIsShortened(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == "PUT" && r.ContentLength > 20_000 {
			fail(w, 422, "Invalid")
			return true
		}
		return false
	})
	e := &engine{onApply: func(context.Context, apply.Delivery) (apply.Result, error) {
		noise := make([]byte, 0, 400_000)
		for i := range uint32(100_000) {
			h := i * 2654435761
			noise = append(noise, byte(h), byte(h>>8), byte(h>>16), byte(h>>24))
		}
		return apply.Result{Succeeded: true, Outputs: map[string][]byte{"a": append(noise, "the end"...)}}, nil
	}}
	follow(t, s, e)
	s.wantState(t, "succeeded")
	outputs, err := plans.DecodeOutputs([]byte(s.now()["applied-output"]))
	if err != nil || !strings.HasSuffix(string(outputs["a"]), "the end") || !strings.HasPrefix(string(outputs["a"]), "[") {
		t.Errorf("kept %d bytes, %v", len(outputs["a"]), err)
	}
}

func TestProbesAndPeriodicInstructions(t *testing.T) {
	t.Parallel()
	const plan = `{"instructions":[{"name":"a","command":"true"}],"probes":{"web":{"httpGet":{"url":"http://127.0.0.1:1/"}}},"periodicInstructions":[{"name":"beat","command":"true"}]}`
	s := newServer(t)
	s.set(map[string]string{"plan": plan, "plan-state": "pending", "probe-period-seconds": "1"})
	healthy := make(chan bool, 1)
	healthy <- false
	e := &engine{
		onProbes: func() map[string]plans.ProbeStatus {
			now := <-healthy
			healthy <- now
			return map[string]plans.ProbeStatus{"web": {Healthy: now}}
		},
		onPeriodic: func(bool) map[string]plans.PeriodicOutput {
			return map[string]plans.PeriodicOutput{"beat": {Name: "beat", Stdout: []byte("lub")}}
		},
	}
	follow(t, s, e)
	s.wantState(t, "succeeded")
	if got := s.now()["probe-statuses"]; got != `{"web":{}}` && got != `{"web":{}}`+"\n" {
		t.Errorf("probe-statuses with the outcome = %s, want one not yet asked, for none at all would count as healthy", got)
	}
	waitUntil(t, "the periodic output is reported", func() bool {
		out, err := plans.DecodePeriodicOutputs([]byte(s.now()["applied-periodic-output"]))
		return err == nil && string(out["beat"].Stdout) == "lub"
	})
	if !slices.Contains(e.said(), "periodic force=true") {
		t.Errorf("calls %v, want the periodic instructions forced after the apply", e.said())
	}
	<-healthy
	healthy <- true
	waitUntil(t, "health is reported", func() bool { return s.now()["probe-statuses"] == `{"web":{"healthy":true}}` })
	settled := len(s.writes())
	rounds := e.count("probes")
	waitUntil(t, "two more rounds", func() bool { return e.count("probes") >= rounds+2 })
	if got := len(s.writes()); got != settled {
		t.Errorf("%d writes without anything new", got-settled)
	}
	if n := e.count("periodic force=true"); n != 1 {
		t.Errorf("periodic instructions were forced %d times", n)
	}
}

func TestRestartPutsFilesBackAndRunsNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "succeeded", "applied-checksum": sum(planA), "plan-revision": "1"})
	tried := 0
	e := &engine{pending: apply.Pending{ID: "u1/1", Checksum: sum(planA), Finished: true}}
	e.onRestore = func(context.Context) ([]string, error) {
		if tried++; tried == 1 {
			return nil, errors.New("read-only file system")
		}
		return []string{"/etc/x"}, nil
	}
	follow(t, s, e)
	waitUntil(t, "files are put back at the second try", func() bool { return e.count("restore") == 2 })
	s.set(map[string]string{"unrelated": "1"})
	wantCalls(t, e, "restore", "restore")
	if n := len(s.writes()); n != 0 {
		t.Errorf("%d writes", n)
	}
}

func TestLegacyFlow(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "applied-checksum": sum(planA)})
	e := &engine{}
	_, stop := follow(t, s, e)
	waitUntil(t, "the first pass applies by force", func() bool { return s.now()["success-count"] == "1" })
	s.set(map[string]string{"unrelated": "1"})
	s.set(map[string]string{"plan": planB})
	waitUntil(t, "the new plan is applied", func() bool { return s.now()["applied-checksum"] == sum(planB) })
	if _, ok := s.now()["plan-state"]; ok {
		t.Error("a state appeared in the flow without states")
	}
	stop()
	wantCalls(t, e, "apply a legacy attempt 1", "apply b legacy attempt 1")
}

func TestAlive(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	release := make(chan struct{})
	e := &engine{onApply: func(context.Context, apply.Delivery) (apply.Result, error) {
		<-release
		return apply.Result{Succeeded: true}, nil
	}}
	src, stop := follow(t, s, e)
	waitUntil(t, "a plan is applied", func() bool { return e.count("apply") == 1 })
	if !src.Alive(t.Context()) {
		t.Error("not alive during an apply")
	}
	close(release)
	s.wantState(t, "succeeded")
	if !src.Alive(t.Context()) {
		t.Error("not alive while watching")
	}
	stop()
	if !src.Alive(t.Context()) {
		t.Error("what does not run cannot hang")
	}
}
