package remote

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drover-project/drover/plans/apply"
)

// TestAWatchThatLagsEndsNoPlan: a version that the server has replaced long ago comes while the
// newest plan is applied, which the agent knows of by an answer, and takes nothing down.
func TestAWatchThatLagsEndsNoPlan(t *testing.T) {
	t.Parallel()
	const planStale = `{"instructions":[{"name":"stale","command":"true"}]}`
	for _, tc := range []struct {
		name   string
		states bool
		writes []map[string]string // of the server, while the watch has brought none of them
		want   []string
	}{
		{"A, another A, B", true, []map[string]string{
			{"plan": planA, "plan-state": "pending"}, {"plan": planStale}, {"plan": planB},
		}, []string{"apply b u1/1 attempt 1"}},
		{"pending, cancelled, pending", true, []map[string]string{
			{"plan": planB, "plan-state": "pending"}, {"plan-state": "cancelled"}, {"plan-state": "pending"},
		}, []string{"apply b u1/1 attempt 1"}},
		{"B, another, B again", true, []map[string]string{
			{"plan": planB, "plan-state": "pending"}, {"plan": planStale}, {"plan": planB},
		}, []string{"apply b u1/1 attempt 1"}},
		{"without states: B, another, B again", false, []map[string]string{
			{"plan": planB}, {"plan": planStale}, {"plan": planB},
		}, []string{"apply b legacy attempt 1"}},
		{"without states: A, another A, B", false, []map[string]string{
			{"plan": planA}, {"plan": planStale}, {"plan": planB},
		}, []string{"apply a legacy attempt 1", "apply b legacy attempt 1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.set(map[string]string{"unrelated": "0"})
			running, release := make(chan struct{}), make(chan struct{})
			e := &engine{onApply: func(ctx context.Context, d apply.Delivery) (apply.Result, error) {
				if d.Plan.Instructions[0].Name != "b" {
					return apply.Result{Succeeded: true}, nil
				}
				close(running)
				select {
				case <-release:
					return apply.Result{Succeeded: true}, nil
				case <-ctx.Done():
					t.Errorf("the plan was cut: %v", context.Cause(ctx))
				case <-d.Superseded:
					t.Error("the plan was superseded")
				}
				return apply.Result{Failure: &apply.Failure{Reason: "cut"}}, nil
			}}
			src, _ := follow(t, s, e)
			waitUntil(t, "it watches", func() bool { return src.Status().Connected })
			s.hold()
			for _, w := range tc.writes {
				s.set(w)
			}
			s.show(1)
			<-running
			looks := s.count("GET /" + secretName)
			s.show(1) // the version in between, and what comes of it
			waitUntil(t, "the server is asked", func() bool { return s.count("GET /"+secretName) > looks })
			s.show(0)
			close(release)
			waitUntil(t, "the newest plan is applied", func() bool { return s.now()["applied-checksum"] == sum(planB) })
			if tc.states && s.now()["plan-state"] != "succeeded" {
				t.Errorf("plan-state = %q", s.now()["plan-state"])
			}
			s.set(map[string]string{"unrelated": "1"})
			waitUntil(t, "nothing is left to do", func() bool { return strings.Contains(src.Status().String(), "is applied") })
			wantCalls(t, e, tc.want...)
		})
	}
}

// count is how often something was asked.
func (s *server) count(what string) int {
	n := 0
	for _, asked := range s.asked() {
		if asked == what {
			n++
		}
	}
	return n
}

// TestAPlanEndsOnceTheServerCanBeAsked: a cancelled plan goes on while the look fails, and is ended later.
func TestAPlanEndsOnceTheServerCanBeAsked(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	var refused atomic.Int32
	s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, secretName) || refused.Add(1) > 3 {
			return false
		}
		fail(w, 500, "InternalError")
		return true
	})
	e := &engine{onApply: func(ctx context.Context, _ apply.Delivery) (apply.Result, error) {
		s.set(map[string]string{"plan-state": "cancelled"})
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), apply.ErrCancelled) || refused.Load() < 4 {
			t.Errorf("ended by %v after %d looks", context.Cause(ctx), refused.Load())
		}
		return apply.Result{Failure: &apply.Failure{Reason: "cancelled"}}, nil
	}}
	src, _ := follow(t, s, e)
	waitUntil(t, "the agent is idle again", func() bool { return strings.Contains(src.Status().String(), "cancelled") })
}

// TestWorkIsTakenBackAfterALook: an earlier life's work is not killed for what an old version says.
func TestWorkIsTakenBackAfterALook(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "cancelled", "plan-revision": "3"})
	s.setTrap(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, secretName) && s.now()["plan-state"] == "cancelled" {
			s.set(map[string]string{"plan-state": "in-progress"}) // which the watch has not brought yet
		}
		return false
	})
	e := &engine{pending: apply.Pending{ID: "u1/3", Checksum: sum(planA)}}
	follow(t, s, e)
	s.wantState(t, "succeeded")
	wantCalls(t, e, "apply a u1/3 attempt 1")
}

// TestAnOlderPlanNeverFollowsANewerOne: in the flow without states nothing is claimed, so that no
// conflict would show that the plan is an old one.
func TestAnOlderPlanNeverFollowsANewerOne(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"unrelated": "0"})
	e := &engine{}
	src, _ := follow(t, s, e)
	waitUntil(t, "it watches", func() bool { return src.Status().Connected })
	s.hold()
	s.set(map[string]string{"plan": planA})
	s.set(map[string]string{"plan": `{"instructions":[{"name":"stale","command":"true"}]}`})
	s.set(map[string]string{"plan": planB})
	s.show(1)
	waitUntil(t, "the newest plan is applied", func() bool { return s.now()["applied-checksum"] == sum(planB) })
	looks := s.count("GET /" + secretName)
	s.show(1)
	waitUntil(t, "the server is asked", func() bool { return s.count("GET /"+secretName) > looks || e.count("apply stale") > 0 })
	s.show(0)
	s.set(map[string]string{"plan": planA})
	waitUntil(t, "the next plan is applied", func() bool { return s.now()["applied-checksum"] == sum(planA) })
	wantCalls(t, e, "apply a legacy attempt 1", "apply b legacy attempt 1", "apply a legacy attempt 1")
}
