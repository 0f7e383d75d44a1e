package decide

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
)

// update begins an update of the agents of machines.
func (y *yard) update(names ...string) {
	y.Helper()
	ask := steps.Request{Machines: names, Agent: &steps.Agent{Release: "v0.3.0", From: "https://drover/assets/agent", SHA256: map[string]string{"amd64": "aa", "arm64": "bb"}}}
	params, err := json.Marshal(map[string]steps.Request{"ask": ask})
	if err != nil {
		y.Fatal(err)
	}
	o, err := operations.Begin(operations.Operation{ID: "op-update", Kind: operations.KindUpdateAgents, Subject: y.s.Fleet.Key(), Created: y.s.Now, Params: params}, nil, false)
	if err != nil {
		y.Fatal(err)
	}
	y.s.Operation, y.s.Given = &o, nil
	y.settle()
}

// job is what the plan of a machine has: files, probes and, by name, instructions that are those of operations, and others.
func (y *yard) job(name string) (files, probes int, jobs, others []string) {
	y.Helper()
	plan, _ := pass.Delivered(y.machine(name).Data())
	for _, in := range plan.Instructions {
		if hostjob.Of([]plans.OneTimeInstruction{in}) != "" {
			jobs = append(jobs, in.Name)
		} else {
			others = append(others, in.Name)
		}
	}
	return len(plan.Files), len(plan.Probes), jobs, others
}

// TestAgentsOfAFleet: one first, then the others; the plans that people gave keep their files, and their instructions are not done again, also
// not when the plan is given again.
func TestAgentsOfAFleet(t *testing.T) {
	y := newYard(t, 3)
	y.give(planOne, "0", "m0", "m1")
	y.reports("m0", plans.StateSucceeded, "")
	y.reports("m1", plans.StateSucceeded, "")
	y.update("m0", "m1", "m2")
	y.want("begun", "m0 none Applying plan", "m1 one Active", "m2 none Waiting for plan", "running canary m0:running agent m1:pending agent m2:pending")
	files, _, jobs, others := y.job("m0")
	if files != 1 || len(others) > 0 || len(jobs) != 1 || jobs[0] != "op-update-canary-1" {
		t.Fatalf("the plan of m0 has %d files, the jobs %q and the instructions %q", files, jobs, others)
	}
	if plan, _ := pass.Delivered(y.machine("m0").Data()); plan.Instructions[0].Args[4] != "/var/lib/rancher/agent" {
		t.Errorf("the job keeps what it did below one of %q", plan.Instructions[0].Args[2:])
	}
	y.reports("m0", plans.StateSucceeded, "")
	y.want("the first works", "m0 none Active", "m1 none Applying plan", "m2 none Waiting for plan", "running canary m0:succeeded agent m1:running agent m2:pending")
	y.reports("m1", plans.StateSucceeded, "")
	y.reports("m2", plans.StateSucceeded, "")
	y.want("done", "m0 none Active", "m1 none Active", "m2 none Waiting for plan", "succeeded canary m0:succeeded agent m1:succeeded agent m2:succeeded")

	if p := PreviewFleet(y.again(planOne)); len(p.Machines) != 1 || p.Machines[0].ID != "drover-fleets/m2" {
		t.Errorf("the plan of before given again would bring about %+v", p)
	}
	y.update("m1")
	y.reports("m1", plans.StateSucceeded, "")
	if p := PreviewFleet(y.again(planOne)); len(p.Machines) != 1 {
		t.Errorf("after another update the plan of before would bring about %+v", p)
	}
	y.give(planTwo, "0", "m0", "m1", "m2")
	y.want("another plan", "m0 two Applying plan", "m1 two Applying plan", "m2 two Applying plan", "running m0:running m1:running m2:running")
	for _, name := range []string{"m0", "m1", "m2"} {
		y.reports(name, plans.StateSucceeded, "")
	}
	if p := PreviewFleet(y.again(planOne)); len(p.Machines) != 3 {
		t.Errorf("the first plan after the second one would bring about %+v", p)
	}
}

// TestABadAgentOfAFleet ends at the first host, whose plan is then as it was without the update.
func TestABadAgentOfAFleet(t *testing.T) {
	y := newYard(t, 2)
	y.give(planTwo, "0", "m0", "m1")
	for _, name := range []string{"m0", "m1"} {
		y.reports(name, plans.StateSucceeded, "")
	}
	y.update("m0", "m1")
	y.reports("m0", plans.StateFailed, "the update was taken back")
	y.want("it fails", "m0 none Applying plan", "m1 two Waiting for probes", "failed canary m0:failed agent m1:pending")
	if files, probes, jobs, others := y.job("m0"); files != 1 || probes != 1 || len(jobs)+len(others) != 0 {
		t.Errorf("its plan has %d files, %d probes, the jobs %q and the instructions %q", files, probes, jobs, others)
	}
	y.reports("m0", plans.StateSucceeded, "")
	if m := y.machine("m0"); m.Status.LastFailure != nil || m.Status.State != y.machine("m1").Status.State {
		t.Errorf("its status is %+v", m.Status)
	}
	if p := PreviewFleet(y.again(planTwo)); len(p.Machines) != 0 {
		t.Errorf("the plan given again would bring about %+v", p)
	}
	retried, err := y.s.Operation.RetryBy("user-x", nil, y.s.Now)
	if err != nil {
		t.Fatal(err)
	}
	y.s.Operation = &retried
	y.settle()
	if _, _, jobs, _ := y.job("m0"); len(jobs) != 1 {
		t.Errorf("tried again it gets the jobs %q", jobs)
	}
}

// TestAPlanUnderWayIsNotLost: where the plan that a machine was given has not been carried out, nothing takes its place.
func TestAPlanUnderWayIsNotLost(t *testing.T) {
	y := newYard(t, 3)
	y.give(planOne, "0", "m0", "m1", "m2")
	y.reports("m0", plans.StateSucceeded, "")
	y.reports("m1", plans.StateFailed, "no such host\n")
	aborted, err := y.s.Operation.AbortBy("user-x", y.s.Now)
	if err != nil {
		t.Fatal(err)
	}
	y.s.Operation = &aborted
	y.reports("m2", plans.StateSucceeded, "")
	y.machine("m2").Agent.Connected = false
	y.update("m0", "m1", "m2")
	y.reports("m0", plans.StateSucceeded, "")
	y.want("one fails, one is away", "m0 none Active", "m1 one Error", "m2 one Unavailable", "succeeded canary m0:succeeded agent m1:skipped agent m2:skipped")
	if task, _ := y.s.Operation.Task("agent m1"); !strings.Contains(task.Message, "the plan that it was given has not been carried out yet: ") || !strings.Contains(task.Message, "no such host") {
		t.Errorf("it is skipped by %q", task.Message)
	}
	y.s.Now = y.s.Now.Add(time.Hour)
	y.settle()
	if files, _, jobs, others := y.job("m1"); files != 1 || len(jobs) != 0 || len(others) != 1 {
		t.Errorf("the plan that failed has %d files, the jobs %q and the instructions %q", files, jobs, others)
	}
}
