package steps

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/operations"
)

// TestUpdateOfAgents: one machine first, then waves, and no further machine after the first new agent that does not work.
func TestUpdateOfAgents(t *testing.T) {
	four := []string{"ec", "w", "w", "w"}
	all := Request{Agent: &Agent{Release: "v0.3.0", From: "https://drover/assets/agent", SHA256: map[string]string{"amd64": "aa"}}, Machines: []string{"m0", "m1", "m2", "m3"}}
	some := all
	some.Machines = []string{"m2"}
	for _, c := range []struct {
		name   string
		ask    Request
		shape  func(*Input)
		fails  string
		want   []string
		state  operations.State
		reason string
	}{
		{name: "a worker is the first, and servers come last", ask: all, want: []string{"canary m1", "agent m2, agent m3", "agent m0"}, state: operations.Succeeded},
		{name: "the first is a machine that works", ask: all, shape: func(in *Input) { in.Machines[1].Works = false }, want: []string{"canary m2", "agent m1, agent m3", "agent m0"}, state: operations.Succeeded},
		{name: "only those that are named", ask: some, want: []string{"canary m2"}, state: operations.Succeeded},
		{name: "a machine that is away is left out", ask: all, shape: func(in *Input) { in.Machines[2].Connected, in.Machines[2].Absent = false, "it is off" }, want: []string{"canary m1", "agent m3, agent m0"}, state: operations.Succeeded},
		{name: "a bad agent stops at one machine", ask: all, fails: "canary m1", want: []string{"canary m1"}, state: operations.Failed,
			reason: "update the agent of m1, which is the first: it crashed; the agent of before runs on that host"},
		{name: "one that fails in a wave ends it", ask: all, fails: "agent m2", want: []string{"canary m1", "agent m2, agent m3"}, state: operations.Failed, reason: "update the agent of m2: it crashed"},
		{name: "nothing is named", ask: Request{Agent: all.Agent}, state: operations.Failed, reason: "no machine of the cluster"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, operations.KindUpdateAgents, c.ask, four...)
			if c.shape != nil {
				c.shape(&b.in)
			}
			b.does = func(m *Machine, task operations.Task) {
				m.Output = []byte("the new agent has 2m\nupdated from v0.2.0 to v0.3.0\n")
				if task.ID == c.fails {
					m.Applied, m.Failed, m.Fault = false, true, "it crashed"
				}
			}
			if diff := cmp.Diff(c.want, b.run()); diff != "" {
				t.Error(diff)
			}
			o := b.in.Operation
			if o.State != c.state || !strings.Contains(o.Reason, c.reason) {
				t.Errorf("it is %s: %q, want %s: %q", o.State, o.Reason, c.state, c.reason)
			}
			for _, done := range o.Tasks {
				if done.State == operations.TaskSucceeded && done.Message != "updated from v0.2.0 to v0.3.0" {
					t.Errorf("%s says %q", done.ID, done.Message)
				}
			}
		})
	}
}

// TestUpdateOfAThousandAgents goes to a bad end at one of them, and to a good one at all that are named.
func TestUpdateOfAThousandAgents(t *testing.T) {
	roles := slices.Repeat([]string{"w"}, 1000)
	ask := Request{Agent: &Agent{Release: "v0.3.0"}}
	for i := range MaxMachines {
		ask.Machines = append(ask.Machines, fmt.Sprintf("m%d", i))
	}
	for _, bad := range []bool{true, false} {
		b := newBed(t, operations.KindUpdateAgents, ask, roles...)
		b.in.Concurrency = 50
		got := 0
		b.does = func(m *Machine, _ operations.Task) {
			got++
			if bad {
				m.Applied, m.Failed, m.Fault = false, true, "it crashed"
			}
		}
		b.run()
		if want := map[bool]int{true: 1, false: MaxMachines}[bad]; got != want {
			t.Errorf("bad: %v: %d machines got it, want %d; it is %s: %s", bad, got, want, b.in.Operation.State, b.in.Operation.Reason)
		}
	}
	ask.Machines = append(ask.Machines, "m500")
	b := newBed(t, operations.KindUpdateAgents, ask, roles...)
	if b.run(); b.in.Operation.State != operations.Failed || !strings.Contains(b.in.Operation.Reason, "501 machines are named") {
		t.Errorf("it is %s: %s", b.in.Operation.State, b.in.Operation.Reason)
	}
}

// TestAPauseHoldsAgents: while the cluster is paused no further agent is replaced, and afterwards the others are.
func TestAPauseHoldsAgents(t *testing.T) {
	b := newBed(t, operations.KindUpdateAgents, Request{Agent: &Agent{Release: "v0.3.0"}, Machines: []string{"m0", "m1", "m2"}}, "w", "w", "w")
	b.in.Concurrency = 1
	var got []string
	b.does = func(m *Machine, _ operations.Task) {
		if got = append(got, m.Name); len(got) == 1 {
			b.in.Paused = "cluster harbour is paused since noon"
		}
	}
	for range 10 {
		b.step()
	}
	w := b.in.Operation.Wait
	if len(got) != 1 || w == nil || w.Cause != b.in.Paused || !strings.HasPrefix(w.NextStep, "drover clusters resume ") {
		t.Fatalf("%v got it, and it waits for %+v", got, w)
	}
	b.in.Paused = ""
	if b.run(); len(got) != 3 || b.in.Operation.State != operations.Succeeded {
		t.Errorf("%v got it; it is %s: %s", got, b.in.Operation.State, b.in.Operation.Reason)
	}
}
