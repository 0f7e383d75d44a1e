package remote

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// shed has a server refuse every write with an answer that asks to be left alone, and counts them.
func shed(s *server, code int, retryAfter string, from func() bool) *atomic.Int32 {
	var refused atomic.Int32
	s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || !from() {
			return false
		}
		refused.Add(1)
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		fail(w, code, "TooManyRequests")
		return true
	})
	return &refused
}

// TestAServerThatShedsLoadIsLeftAlone by everything that an agent writes: one request is refused,
// and no other follows before the time that the server named.
func TestAServerThatShedsLoadIsLeftAlone(t *testing.T) {
	t.Parallel()
	const plan = `{"instructions":[{"name":"a","command":"true"}],"probes":{"web":{"httpGet":{"url":"http://127.0.0.1:1/"}}},"periodicInstructions":[{"name":"beat","command":"true"}]}`
	always := func() bool { return true }
	standing := map[string]string{
		"plan": plan, "plan-state": "succeeded", "applied-checksum": sum(plan), "plan-revision": "1", "probe-period-seconds": "1",
	}
	pending := map[string]string{"plan": plan, "plan-state": "pending"}
	for _, code := range []int{429, 503} {
		for _, tc := range []struct {
			name   string
			secret map[string]string
			from   func(s *server) func() bool
			busy   bool // the apply does not end
		}{
			{"probe statuses, periodic records and host reports", standing, func(*server) func() bool { return always }, false},
			{"the claim", pending, func(*server) func() bool { return always }, false},
			{"the outcome", pending, func(s *server) func() bool {
				return func() bool { return s.now()["plan-state"] == "in-progress" }
			}, false},
			{"reports on the host of an apply", pending, func(s *server) func() bool {
				return func() bool { return s.now()["plan-state"] == "in-progress" }
			}, true},
		} {
			t.Run(fmt.Sprintf("%s, %d", tc.name, code), func(t *testing.T) {
				t.Parallel()
				var news, reports atomic.Int32
				s := newServer(t, func(s *server) {
					s.report = func(context.Context, []string) plans.HostReport {
						return plans.HostReport{Units: []plans.UnitReport{{Name: fmt.Sprintf("u%d.service", reports.Add(1))}}}
					}
				})
				s.set(tc.secret)
				refused := shed(s, code, "300", tc.from(s))
				e := &engine{
					pending: apply.Pending{ID: "u1/1", Checksum: sum(plan), Finished: true, Reported: true},
					onProbes: func() map[string]plans.ProbeStatus {
						return map[string]plans.ProbeStatus{"web": {FailureCount: int(news.Add(1))}}
					},
					onPeriodic: func(bool) map[string]plans.PeriodicOutput {
						return map[string]plans.PeriodicOutput{"beat": {Name: "beat", Stdout: fmt.Append(nil, news.Add(1))}}
					},
				}
				if tc.busy {
					e.onApply = func(ctx context.Context, _ apply.Delivery) (apply.Result, error) {
						<-ctx.Done()
						return apply.Result{}, ctx.Err()
					}
				}
				if tc.secret["plan-state"] == "pending" {
					e.pending = apply.Pending{}
				}
				follow(t, s, e)
				waitUntil(t, "a write is refused", func() bool { return refused.Load() > 0 })
				before, told := news.Load(), reports.Load()
				for i := range 5 { // what comes meanwhile ends no wait
					s.set(map[string]string{"unrelated": fmt.Sprint(i)})
				}
				waitUntil(t, "there is more to write", func() bool {
					switch {
					case tc.busy:
						return reports.Load() > told+5
					case tc.secret["plan-state"] == "pending":
						return true
					}
					return news.Load() > before+2
				})
				if n := refused.Load(); n != 1 {
					t.Errorf("%d writes to a server that asked to be left alone for 300 s, want 1", n)
				}
			})
		}
	}
}

// TestManyAgentsOfAServerThatShedsLoad counts the writes of all agents together: one for each agent, whatever
// they find meanwhile.
func TestManyAgentsOfAServerThatShedsLoad(t *testing.T) {
	t.Parallel()
	const agents = 40
	s := newServer(t)
	s.set(map[string]string{
		"plan": planProbed, "plan-state": "succeeded", "applied-checksum": sum(planProbed), "plan-revision": "1", "probe-period-seconds": "1",
	})
	refused := shed(s, 503, "300", func() bool { return true })
	var news [agents]atomic.Int32
	for i := range agents {
		follow(t, s, &engine{
			pending: apply.Pending{ID: "u1/1", Checksum: sum(planProbed), Finished: true, Reported: true},
			onProbes: func() map[string]plans.ProbeStatus {
				return map[string]plans.ProbeStatus{"web": {FailureCount: int(news[i].Add(1))}}
			},
		})
	}
	waitUntil(t, "all have found something four times", func() bool {
		for i := range agents {
			if news[i].Load() < 4 {
				return false
			}
		}
		return true
	})
	if n := refused.Load(); n > agents {
		t.Errorf("%d writes of %d agents", n, agents)
	}
}

const planProbed = `{"probes":{"web":{"httpGet":{"url":"http://127.0.0.1:1/"}}}}`

// TestFindingsThatWereHeldBackAreWritten: the newest of each kind, once the server takes them,
// although no other finding comes.
func TestFindingsThatWereHeldBackAreWritten(t *testing.T) {
	t.Parallel()
	const plan = `{"probes":{"web":{"httpGet":{"url":"http://127.0.0.1:1/"}}},"periodicInstructions":[{"name":"beat","command":"true"}]}`
	s := newServer(t)
	s.set(map[string]string{"plan": plan, "plan-state": "succeeded", "applied-checksum": sum(plan), "plan-revision": "1"})
	var refused *atomic.Int32
	refused = shed(s, 500, "", func() bool { return refused.Load() < 4 })
	e := &engine{
		pending:  apply.Pending{ID: "u1/1", Checksum: sum(plan), Finished: true, Reported: true},
		onProbes: func() map[string]plans.ProbeStatus { return map[string]plans.ProbeStatus{"web": {Healthy: true}} },
		onPeriodic: func(bool) map[string]plans.PeriodicOutput {
			return map[string]plans.PeriodicOutput{"beat": {Name: "beat", Stdout: []byte("once")}}
		},
	}
	follow(t, s, e)
	waitUntil(t, "both are written", func() bool {
		now := s.now()
		return now["probe-statuses"] == `{"web":{"healthy":true}}` && now["applied-periodic-output"] != ""
	})
	if n := refused.Load(); n != 4 {
		t.Errorf("%d writes were refused", n)
	}
}
