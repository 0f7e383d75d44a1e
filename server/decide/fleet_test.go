package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// yard is a fleet of simulated hosts, to whose snapshot decisions are committed.
type yard struct {
	*testing.T
	s FleetSnapshot
	// found is what a rehearsal came to, deliveries how many plans were delivered.
	found      *pass.Rehearsed
	deliveries int
}

const (
	planOne = `{"files":[{"path":"/etc/motd","content":"b25lCg==","permissions":"0644"}],"instructions":[{"name":"greet","command":"true"}]}`
	planTwo = `{"files":[{"path":"/etc/motd","content":"dHdvCg==","permissions":"0644"}],"instructions":[{"name":"greet","command":"true"}],"probes":{"web":{"httpGet":{"url":"http://127.0.0.1/"}}}}`
)

func newYard(t *testing.T, hosts int) *yard {
	t.Helper()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	y := &yard{T: t, s: FleetSnapshot{Now: now, Leading: now.Add(-time.Hour), Fleet: records.Fleet{Object: records.Object{Namespace: records.FleetNamespace, Name: "edge"}, ID: "f-edge0000"}, Memo: pass.NewMemo()}}
	for i := range hosts {
		name := fmt.Sprintf("m%d", i)
		y.s.Machines = append(y.s.Machines, pass.Machine{
			Machine: &records.Machine{
				Object: records.Object{Namespace: records.FleetNamespace, Name: name, UID: "uid-" + name}, ClusterName: "edge", ClusterID: "f-edge0000", NodeName: "host-" + name,
				Status: records.MachineStatus{Condition: records.Condition{State: records.Registering}, History: []records.Transition{{State: records.Registering, At: now}}},
			},
			Secret: &records.PlanSecret{Object: records.Object{Namespace: records.FleetNamespace, Name: name + "-machine-plan"}},
			Agent:  observed.Presence{Connected: true},
		})
	}
	y.settle()
	return y
}

func (y *yard) machine(name string) *pass.Machine {
	i := slices.IndexFunc(y.s.Machines, func(m pass.Machine) bool { return m.Name == name })
	if i < 0 {
		y.Fatalf("there is no machine %s", name)
	}
	return &y.s.Machines[i]
}

// settle commits decisions until nothing is left to write.
func (y *yard) settle() {
	y.Helper()
	for range 10 {
		d := DecideFleet(y.s)
		if d.Empty() {
			return
		}
		y.commit(d)
	}
	y.Fatalf("there is always something to write:\n%s", DecideFleet(y.s))
}

func (y *yard) commit(d Decision) {
	if d.Operation != nil {
		y.s.Operation = d.Operation
	}
	if d.Rehearsed != nil {
		y.found = d.Rehearsed
	}
	for _, one := range d.Machines {
		if one.Remove {
			y.s.Machines = slices.DeleteFunc(y.s.Machines, func(m pass.Machine) bool { return m.MachineKey() == one.Key })
			continue
		}
		m := y.machine(one.Key.Name())
		next := *m.Machine
		if one.Deliver {
			y.deliveries++
		}
		if one.Status != nil {
			next.Status = *one.Status
		}
		m.Machine = &next
		if one.Secret != nil {
			m.Secret, m.SecretRevision = one.Secret, m.SecretRevision+1
		}
	}
}

// give begins an operation that gives a plan to machines.
func (y *yard) give(plan, concurrency string, names ...string) {
	y.Helper()
	o, err := operations.Begin(operations.Operation{ID: "op-abcdefgh", Kind: operations.KindPlan, Subject: y.s.Fleet.Key(), Created: y.s.Now}, nil, false)
	if err != nil {
		y.Fatal(err)
	}
	for _, name := range names {
		o = o.WithTask(operations.Task{ID: name}, y.s.Now)
	}
	y.s.Operation, y.s.Given = &o, &records.GivenPlan{Plan: []byte(plan), Concurrency: concurrency}
	y.settle()
}

// reports has the agent of a machine end with its plan.
func (y *yard) reports(name string, state plans.State, output string) {
	y.Helper()
	m := y.machine(name)
	o := plans.Outcome{State: state, Revision: 1}
	sum := plans.Checksum(m.Plan())
	if state == plans.StateFailed {
		o.FailedChecksum, o.FailureCount, o.FailedOutput = sum, 1, map[string][]byte{"greet": []byte(output)}
	} else {
		o.AppliedChecksum = sum
	}
	y.write(m, o)
}

func (y *yard) write(m *pass.Machine, o plans.Outcome) {
	y.Helper()
	next := *m.Secret
	next.Data = map[string][]byte{}
	maps.Copy(next.Data, m.Secret.Data)
	if err := o.Write(next.Data); err != nil {
		y.Fatal(err)
	}
	m.Secret, m.SecretRevision = &next, m.SecretRevision+1
	y.settle()
}

// standing is where all machines stand and which plan they have, and the operation with its tasks.
func (y *yard) standing() string {
	var all []string
	for _, m := range y.s.Machines {
		plan := "none"
		switch string(m.Plan()) {
		case planOne:
			plan = "one"
		case planTwo:
			plan = "two"
		}
		all = append(all, fmt.Sprintf("%s %s %s", m.Name, plan, m.Status.State))
	}
	if o := y.s.Operation; o != nil {
		line := string(o.State)
		for _, t := range o.Tasks {
			line += " " + t.ID + ":" + string(t.State)
		}
		all = append(all, line)
	}
	return strings.Join(all, "\n")
}

func (y *yard) want(what string, lines ...string) {
	y.Helper()
	if diff := cmp.Diff(strings.Join(lines, "\n"), y.standing()); diff != "" {
		y.Errorf("%s: %s", what, diff)
	}
}

// TestFleetOneByOne: machines get a plan in turn, and each is the next when the one before is Active.
func TestFleetOneByOne(t *testing.T) {
	y := newYard(t, 2)
	y.want("before", "m0 none Waiting for plan", "m1 none Waiting for plan")
	y.give(planTwo, "1", "m0", "m1")
	y.want("given", "m0 two Applying plan", "m1 none Waiting for plan", "running m0:running m1:pending")
	if c := y.machine("m1").Status.Code; c != "wait-plan-turn" {
		t.Errorf("the second one waits by %q", c)
	}
	y.reports("m0", plans.StateSucceeded, "")
	y.want("applied", "m0 two Waiting for probes", "m1 none Waiting for plan", "running m0:running m1:pending")
	m := y.machine("m0")
	y.write(m, plans.Outcome{State: plans.StateSucceeded, AppliedChecksum: plans.Checksum(m.Plan()), ProbeStatuses: map[string]plans.ProbeStatus{"web": {Healthy: true}}})
	y.want("healthy", "m0 two Active", "m1 two Applying plan", "running m0:succeeded m1:running")
	m = y.machine("m1")
	y.write(m, plans.Outcome{State: plans.StateSucceeded, AppliedChecksum: plans.Checksum(m.Plan()), ProbeStatuses: map[string]plans.ProbeStatus{"web": {Healthy: true}}})
	y.want("done", "m0 two Active", "m1 two Active", "succeeded m0:succeeded m1:succeeded")
	var walked []string
	for _, h := range y.machine("m1").Status.History {
		walked = append(walked, string(h.State))
	}
	if diff := cmp.Diff([]string{"Registering", "Waiting for plan", "Applying plan", "Waiting for probes", "Active"}, walked); diff != "" {
		t.Error("a machine without a cluster becomes no node:", diff)
	}
	if p := PreviewFleet(y.again(planTwo)); len(p.Machines) != 0 {
		t.Errorf("given again it would bring about %+v", p)
	}
}

// again is the snapshot in which the plan is given to all machines once more.
func (y *yard) again(plan string) FleetSnapshot {
	s := y.s
	o := operations.Operation{State: operations.Running, Kind: operations.KindPlan}
	for _, m := range s.Machines {
		o.Tasks = append(o.Tasks, operations.Task{ID: m.Name, State: operations.TaskPending})
	}
	s.Operation, s.Given = &o, &records.GivenPlan{Plan: []byte(plan), Concurrency: "1"}
	return s
}

// TestFleetFailure: a machine that fails is tried again by the server's back-off, keeps its place, and says why.
func TestFleetFailure(t *testing.T) {
	y := newYard(t, 3)
	y.give(planOne, "2", "m0", "m1", "m2")
	y.reports("m0", plans.StateFailed, "no such host\n")
	y.reports("m1", plans.StateSucceeded, "")
	y.want("one fails", "m0 one Error", "m1 one Active", "m2 one Applying plan", "running m0:failed m1:succeeded m2:running")
	m := y.machine("m0")
	if f := m.Status.LastFailure; f == nil || f.Instruction != "greet" || f.Output != "no such host\n" || m.Status.NextRetry.IsZero() {
		t.Errorf("its status is %+v", m.Status)
	}
	if w := y.s.Operation.Wait; w == nil || w.Object != "machine m0" || !strings.Contains(w.Cause, "no such host") {
		t.Errorf("the operation waits for %+v", w)
	}
	y.s.Now = y.s.Now.Add(31 * time.Second)
	y.settle()
	y.want("tried again", "m0 one Applying plan", "m1 one Active", "m2 one Applying plan", "running m0:running m1:succeeded m2:running")
	y.reports("m0", plans.StateFailed, "no such host\n")
	if left := y.machine("m0").Status.NextRetry.Sub(y.s.Now); left != time.Minute {
		t.Errorf("the next try is in %s", left)
	}
	retried, err := y.s.Operation.RetryBy("user-x", nil, y.s.Now)
	if err != nil {
		t.Fatal(err)
	}
	y.s.Operation = &retried
	y.settle()
	y.want("asked for", "m0 one Applying plan", "m1 one Active", "m2 one Applying plan", "running m0:running m1:succeeded m2:running")
	y.reports("m0", plans.StateFailed, "no such host\n")
	y.reports("m2", plans.StateSucceeded, "")
	aborted, err := y.s.Operation.AbortBy("user-x", y.s.Now)
	if err != nil {
		t.Fatal(err)
	}
	y.s.Operation = &aborted
	y.settle()
	y.want("aborted", "m0 one Error", "m1 one Active", "m2 one Active", "aborted m0:failed m1:succeeded m2:succeeded")
	y.s.Now = y.s.Now.Add(time.Hour)
	if d := DecideFleet(y.s); !d.Empty() && slices.ContainsFunc(d.Machines, func(m MachineDecision) bool { return m.Deliver }) {
		t.Errorf("what was aborted is tried again:\n%s", d)
	}
	if p := PreviewFleet(y.again(planOne)); len(p.Machines) != 1 || !p.Machines[0].Again || p.Machines[0].ID != "drover-fleets/m0" {
		t.Errorf("given again it would bring about %+v", p)
	}
	y.give(planOne, "1", "m0")
	y.want("given again", "m0 one Applying plan", "m1 one Active", "m2 one Active", "running m0:running")
}

// TestFleetTurns: a failing machine gets the next plan first, and one whose agent is away last.
func TestFleetTurns(t *testing.T) {
	y := newYard(t, 3)
	y.give(planOne, "0", "m0", "m1", "m2")
	for i, state := range []plans.State{plans.StateSucceeded, plans.StateSucceeded, plans.StateFailed} {
		y.reports(fmt.Sprintf("m%d", i), state, "x")
	}
	y.machine("m0").Agent = observed.Presence{Since: y.s.Now.Add(-time.Hour)}
	var order []string
	p := PreviewFleet(y.again(planTwo))
	for _, m := range p.Machines {
		order = append(order, fmt.Sprint(m.ID, " ", m.Now))
	}
	if diff := cmp.Diff([]string{"drover-fleets/m2 true", "drover-fleets/m1 false", "drover-fleets/m0 false"}, order); diff != "" {
		t.Error(diff)
	}
	want := MachinePreview{ID: "drover-fleets/m1", NodeName: "host-m1", Plan: plans.Short(plans.Checksum([]byte(planTwo))), Changes: []string{"change file /etc/motd", "run instruction greet", "ask probe web"}, Files: p.Machines[1].Files}
	if diff := cmp.Diff(want, p.Machines[1]); diff != "" || len(want.Files) != 1 || !strings.Contains(want.Files[0].Diff, "-one\n+two\n") {
		t.Error(diff, want.Files)
	}
	y.give(planTwo, "1", "m0", "m1", "m2")
	y.want("given", "m0 one Unavailable", "m1 one Active", "m2 two Applying plan", "running m0:pending m1:pending m2:running")
}

// TestFleetPresence: a machine whose agent goes is Unavailable after a while and comes back.
func TestFleetPresence(t *testing.T) {
	y := newYard(t, 1)
	y.give(planOne, "1", "m0")
	y.reports("m0", plans.StateSucceeded, "")
	m := y.machine("m0")
	m.Agent = observed.Presence{Since: y.s.Now}
	if d := DecideFleet(y.s); !d.Empty() || d.Again != pass.UnseenLimit {
		t.Errorf("an agent that has just gone:\n%s", d)
	}
	y.s.Now = y.s.Now.Add(pass.UnseenLimit)
	y.settle()
	if st := y.machine("m0").Status; st.State != records.Unavailable || st.Code != "agent-absent" {
		t.Errorf("its status is %+v", st)
	}
	y.machine("m0").Agent = observed.Presence{Connected: true}
	y.settle()
	y.want("back", "m0 one Active", "succeeded m0:succeeded")
	y.machine("m0").Agent = observed.Presence{Since: y.s.Now.Add(-time.Hour)}
	y.s.Leading = y.s.Now
	if d := DecideFleet(y.s); !d.Empty() {
		t.Errorf("a new leader that has heard of no agent:\n%s", d)
	}
}

// TestFleetStops: an abort begins nothing and lets what was begun come to its end; machines that are removed do not hold
// an operation up.
func TestFleetStops(t *testing.T) {
	y := newYard(t, 3)
	y.give(planOne, "1", "m0", "m1", "m2")
	next := *y.machine("m2").Machine
	next.Deleting = y.s.Now
	y.machine("m2").Machine = &next
	stopping, err := y.s.Operation.AbortBy("user-x", y.s.Now)
	if err != nil {
		t.Fatal(err)
	}
	y.s.Operation = &stopping
	y.settle()
	y.want("stopping", "m0 one Applying plan", "m1 none Waiting for plan", "stopping m0:running m1:pending m2:skipped")
	y.reports("m0", plans.StateSucceeded, "")
	y.want("stopped", "m0 one Active", "m1 none Waiting for plan", "aborted m0:succeeded m1:pending m2:skipped")
}

// TestFleetIsRemoved with all of its machines.
func TestFleetIsRemoved(t *testing.T) {
	y := newYard(t, 2)
	y.s.Fleet.Deleting = y.s.Now
	d := DecideFleet(y.s)
	if !d.Cluster.Remove || d.Cluster.Key != records.FleetKey("edge") || len(d.Machines) != 2 || !d.Machines[0].Remove {
		t.Errorf("decided:\n%s", d)
	}
}
