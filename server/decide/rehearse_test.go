package decide

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
)

// The plans of a rehearsal, as far as the planner looks at them.
const (
	rehearses = `{"instructions":[{"name":"rehearse","command":"true","saveOutput":true}]}`
	cleansUp  = `{"instructions":[{"name":"rehearse-clean-up","command":"true"}]}`
)

// rehearses begins a rehearsal on the machine m0.
func (y *yard) rehearses() {
	y.Helper()
	params, err := json.Marshal(map[string]any{"rehearsal": steps.Rehearsal{Cluster: "fleet-default/harbour", Snapshot: "fleet-default/harbour/s3/one", Machine: "m0"}})
	if err != nil {
		y.Fatal(err)
	}
	o, err := operations.Begin(operations.Operation{ID: "op-abcdefgh", Kind: operations.KindRehearse, Subject: y.s.Fleet.Key(), Created: y.s.Now, Once: true, Params: params}, nil, false)
	if err != nil {
		y.Fatal(err)
	}
	for _, id := range []string{steps.TaskRehearse, steps.TaskCleanUp} {
		o = o.WithTask(operations.Task{ID: id, Host: "host-m0"}, y.s.Now)
	}
	y.s.Operation, y.s.Given = &o, &records.GivenPlan{Plan: []byte(rehearses), After: []byte(cleansUp)}
	y.settle()
}

// rehearsed has the agent of m0 end with its plan; of the rehearsal it has printed the output.
func (y *yard) rehearsed(state plans.State, output string) {
	y.Helper()
	m := y.machine("m0")
	o := plans.Outcome{State: state, Revision: 1}
	if sum := plans.Checksum(m.Plan()); state == plans.StateFailed {
		o.FailedChecksum, o.FailureCount, o.FailedOutput = sum, 1, map[string][]byte{hostjob.RehearseName: []byte(output)}
	} else {
		o.AppliedChecksum, o.AppliedOutput = sum, map[string][]byte{hostjob.RehearseName: []byte(output)}
	}
	y.write(m, o)
}

// stands is where the rehearsal stands: which plan m0 has, and the operation.
func (y *yard) stands() string {
	given := map[string]string{rehearses: "rehearses", cleansUp: "cleans up"}[string(y.machine("m0").Plan())]
	o := y.s.Operation
	line := given + "; " + string(o.State)
	for _, t := range o.Tasks {
		line += " " + string(t.State)
	}
	return line
}

func (y *yard) at(want string) {
	y.Helper()
	if is := y.stands(); is != want {
		y.Errorf("it stands at %q, and not at %q", is, want)
	}
}

const good = "restoring\n" + `{"ok":true,"objects":412,"counts":{"nodes":3},"unread":"","seconds":95}` + "\n"

// TestARehearsal: the machine restores the snapshot, what it counted is kept, and it is cleaned up.
func TestARehearsal(t *testing.T) {
	y := newYard(t, 2)
	y.rehearses()
	y.at("rehearses; running running pending")
	if m := y.machine("m1"); m.Plan() != nil {
		t.Errorf("another machine got %s", m.Plan())
	}
	y.rehearsed(plans.StateSucceeded, good)
	y.at("cleans up; running succeeded running")
	want := &pass.Rehearsed{Snapshot: "fleet-default/harbour/s3/one", Result: records.Rehearsal{
		Operation: "op-abcdefgh", At: y.s.Now, Machine: "m0 (host-m0)", Objects: 412, Counts: map[string]int{"nodes": 3}, Seconds: 95,
	}}
	if diff := cmp.Diff(want, y.found); diff != "" {
		t.Error(diff)
	}
	y.rehearsed(plans.StateSucceeded, "")
	y.at("cleans up; succeeded succeeded succeeded")
	if text := y.s.Operation.Log[len(y.s.Operation.Log)-1].Text; text != "succeeded: 3 nodes, 412 objects" {
		t.Errorf("its log ends with %q", text)
	}
}

// TestARehearsalThatFails has failed by the host's word, and without it; the host is cleaned up all the same.
func TestARehearsalThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		state        plans.State
		output, want string
	}{
		"the host says why":        {plans.StateSucceeded, `{"ok":false,"cause":"it was cut"}`, "it was cut"},
		"the host says nothing":    {plans.StateSucceeded, "", "did not report how the rehearsal ended"},
		"the image does not come":  {plans.StateFailed, "no such image", "no such image"},
		"neither well nor a cause": {plans.StateSucceeded, "{}", "the host reports no reason"},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, 1)
			y.rehearses()
			y.rehearsed(c.state, c.output)
			y.at("cleans up; running failed running")
			if y.found == nil || !strings.Contains(y.found.Result.Cause, c.want) {
				t.Errorf("it was found that %+v", y.found)
			}
			y.rehearsed(plans.StateSucceeded, "")
			y.at("cleans up; failed failed succeeded")
			if o := y.s.Operation; !strings.Contains(o.Reason, c.want) {
				t.Errorf("it failed because %q", o.Reason)
			}
			if _, err := y.s.Operation.RetryBy("user-x", nil, y.s.Now); err == nil {
				t.Error("it is tried again, with a link that may have ended")
			}
		})
	}
}

// TestARehearsalThatIsStopped: the host is cleaned up; of one that is away that is not waited for.
func TestARehearsalThatIsStopped(t *testing.T) {
	stop := func(y *yard) {
		next, err := y.s.Operation.AbortBy("user-x", y.s.Now)
		if err != nil {
			t.Fatal(err)
		}
		y.s.Operation = &next
		y.settle()
	}
	y := newYard(t, 1)
	y.rehearses()
	stop(y)
	y.at("cleans up; stopping skipped running")
	y.rehearsed(plans.StateSucceeded, "")
	y.at("cleans up; aborted skipped succeeded")
	if y.found != nil {
		t.Errorf("it was found that %+v", y.found)
	}

	y = newYard(t, 1)
	y.rehearses()
	y.machine("m0").Agent = observed.Presence{Since: y.s.Now}
	y.settle()
	y.at("rehearses; running running pending") // its end is waited for, as the agent may come back
	stop(y)
	y.at("cleans up; aborted skipped skipped")
}

// TestARehearsalGoesOn with what the store and the host have: another server may take each of its steps.
func TestARehearsalGoesOn(t *testing.T) {
	y := newYard(t, 1)
	y.rehearses()
	y.s.Memo = pass.NewMemo()
	y.machine("m0").Agent = observed.Presence{Since: y.s.Now}
	y.settle()
	y.at("rehearses; running running pending")
	y.machine("m0").Agent = observed.Presence{Connected: true}
	y.rehearsed(plans.StateSucceeded, good)
	y.s.Memo = pass.NewMemo()
	y.settle()
	if n := y.deliveries; n != 2 {
		t.Errorf("%d plans were delivered", n)
	}
	y.rehearsed(plans.StateFailed, "it does not stop")
	y.at("cleans up; failed succeeded failed")
	if o := y.s.Operation; !strings.Contains(o.Reason, "the snapshot was restored (3 nodes, 412 objects), and m0 (host-m0) could not be cleaned up") {
		t.Errorf("it failed because %q", o.Reason)
	}

	y = newYard(t, 1)
	y.rehearses()
	y.machine("m0").Machine.Deleting = y.s.Now
	y.settle()
	if o := y.s.Operation; o.State != operations.Failed || !strings.Contains(o.Reason, "machine m0 has gone") {
		t.Errorf("without its machine it is %s: %s", o.State, o.Reason)
	}
}
