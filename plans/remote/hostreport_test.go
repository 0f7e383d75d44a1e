package remote

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// reporting follows a source whose host says what report holds.
func reporting(t *testing.T, s *server, e *engine, report plans.HostReport) {
	t.Helper()
	s.report = func(context.Context, []string) plans.HostReport { return report }
	follow(t, s, e)
}

func (s *server) hostReport(t *testing.T) (r plans.HostReport) {
	t.Helper()
	text, ok := s.now()["host-report"]
	if !ok {
		return r
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestALongApplyIsReportedOn(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	release := make(chan struct{})
	e := &engine{onApply: func(context.Context, apply.Delivery) (apply.Result, error) {
		<-release
		return apply.Result{Succeeded: true}, nil
	}}
	reporting(t, s, e, plans.HostReport{Instruction: "install", Units: []plans.UnitReport{{Name: "k3s", State: "activating (start)"}}})
	waitUntil(t, "the report is there", func() bool { return s.hostReport(t).Instruction == "install" })
	if got := s.hostReport(t); got.Plan != sum(planA) || got.Units[0].Name != "k3s" {
		t.Errorf("the report is %+v", got)
	}
	if state := s.now()["plan-state"]; state != "in-progress" {
		t.Errorf("the report changed the state to %s", state)
	}
	close(release)
	s.wantState(t, "succeeded")
}

func TestAFailingProbeIsReportedOn(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const probed = `{"probes":{"kubelet":{"httpGet":{"url":"http://127.0.0.1:1/"}}}}`
	s.set(map[string]string{"plan": probed, "plan-state": "succeeded", "applied-checksum": sum(probed)})
	e := &engine{onProbes: func() map[string]plans.ProbeStatus {
		return map[string]plans.ProbeStatus{"kubelet": {FailureCount: 5}}
	}}
	reporting(t, s, e, plans.HostReport{Units: []plans.UnitReport{{Name: "k3s", State: "activating (auto-restart)", Restarts: 3}}})
	waitUntil(t, "the report is there", func() bool { r := s.hostReport(t); return len(r.Units) == 1 && r.Units[0].Restarts == 3 })
}

func TestANewerPlanSupersedes(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	e := &engine{}
	e.onApply = func(_ context.Context, d apply.Delivery) (apply.Result, error) {
		if d.Checksum == sum(planA) {
			s.set(map[string]string{"plan": planB, "plan-state": "pending"})
			<-d.Superseded
			return apply.Result{Failure: &apply.Failure{Reason: "superseded"}}, nil
		}
		return apply.Result{Succeeded: true}, nil
	}
	follow(t, s, e)
	s.wantState(t, "succeeded")
	if got := s.now(); got["applied-checksum"] != sum(planB) || got["failure-count"] == "1" {
		t.Errorf("the Secret says %v", got)
	}
}
