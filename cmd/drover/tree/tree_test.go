package tree

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/views"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func ago(at time.Time) string { return noon.Sub(at).String() }

// harbour is a cluster in the middle of a change.
func harbour() Cluster {
	machine := func(name string, init bool, roles records.Roles, state records.MachineState, waits string) views.Machine {
		return views.Machine{ID: "fleet-default/" + name, Name: name, NodeName: "host-" + name, Init: init, Roles: roles, State: state, WaitingFor: waits, Since: noon.Add(-time.Minute)}
	}
	c := Cluster{
		Cluster: views.Cluster{ID: "c-m-1", Namespace: "fleet-default", Name: "harbour", State: "updating", Message: "configuring worker node(s) w1", Version: "v1.34.4+k3s1"},
		Of: []views.Machine{
			machine("w2", false, records.Roles{Worker: true}, records.Active, "worker w1"),
			machine("w1", false, records.Roles{Worker: true}, records.Failed, "the next try"),
			machine("c1", false, records.Roles{ControlPlane: true}, records.Active, ""),
			machine("e1", false, records.Roles{Etcd: true, ControlPlane: true}, records.Active, ""),
			machine("z1", true, records.Roles{Etcd: true, ControlPlane: true, Worker: true}, records.Active, ""),
		},
		Operation: &views.OperationSummary{ID: "op-bcdfghjk", Kind: "upgrade", State: operations.Running, Done: 3, Total: 5, Wait: &operations.Wait{Object: "machine w1"}},
	}
	c.Of[1].Cause = `instruction "install" failed`
	c.Of[4].JoinURL, c.Of[4].Node = "https://10.0.0.1:6443", &records.NodeRef{Name: "node-z1"}
	return c
}

func TestRows(t *testing.T) {
	var got []string
	rows := func(cells ...string) { got = append(got, strings.Join(cells, "|")) }
	harbour().Rows(rows, ago)
	want := []string{
		"name|harbour", "id|c-m-1", "state|updating", "message|configuring worker node(s) w1", "version|v1.34.4+k3s1", "joins at|https://10.0.0.1:6443",
		"operation|op-bcdfghjk  upgrade, running, 3 of 5 tasks done; waits for machine w1", "machines|5", "",
		"TIER|MACHINE|NODE|STATE|SINCE|WAITING FOR",
		"bootstrap|z1|node-z1|Active|1m0s|-",
		"etcd|e1|host-e1|Active|1m0s|-",
		"control plane|c1|host-c1|Active|1m0s|-",
		`worker|w1|host-w1|Error|1m0s|instruction "install" failed`,
		"|w2|host-w2|Active|1m0s|worker w1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = nil
	Cluster{Cluster: views.Cluster{Name: "quay", ID: "c-m-2", State: "pending"}}.Rows(rows, ago)
	if diff := cmp.Diff([]string{"name|quay", "id|c-m-2", "state|pending", "message|-", "version|-", "machines|0"}, got); diff != "" {
		t.Error("without machines:", diff)
	}
}

func TestWhy(t *testing.T) {
	for _, c := range []struct {
		name string
		y    views.Why
		want string
	}{
		{"all is well", views.Why{Well: true, State: "active"}, "nothing is wrong with harbour\n"},
		{"a failure and who waits for it", views.Why{
			Cluster: "fleet-default/harbour", State: "provisioning", Message: "failing bootstrap machine(s) m1", Since: noon.Add(-time.Minute), Operation: harbour().Operation, More: 7,
			Causes: []views.Cause{
				{
					Machine: "fleet-default/m1", Node: "pier-1", State: "Error", Code: "plan-failed", Title: "The plan could not be applied", Docs: "docs/troubleshooting.md#plan-failed",
					Cause: "install failed", WaitingFor: "the next try", Since: noon.Add(-2 * time.Second), Fix: "read the output",
					Instruction: "install", Output: []string{"unpacking", "\x1b[31mno space left"}, Log: &views.HostLog{Unit: "k3s", Lines: []string{"fatal"}},
				},
				{Machine: "fleet-default/m2", State: "Waiting for plan", WaitingFor: "a plan", Log: &views.HostLog{Unit: "k3s-agent", Fault: "the host cannot be asked"}},
			},
		}, `cluster fleet-default/harbour is provisioning, for 1m0s: failing bootstrap machine(s) m1
  operation op-bcdfghjk  upgrade, running, 3 of 5 tasks done; waits for machine w1
  machine fleet-default/m1 (pier-1) is Error, for 2s: install failed
    waits for: the next try
    that is: The plan could not be applied (plan-failed, docs/troubleshooting.md#plan-failed)
    what to do: read the output
    last output of instruction install:
      | unpacking
      | ·[31mno space left
    log of k3s:
      | fatal
  machine fleet-default/m2 is Waiting for plan: waits for a plan
    log of k3s-agent: the host cannot be asked
  and 7 more
`},
		{"the cluster itself", views.Why{Cluster: "fleet-default/harbour", State: "pending", Since: noon, Causes: []views.Cause{{State: "pending", Cause: "no machine", Fix: "join one"}}},
			"cluster fleet-default/harbour is pending, for 0s\n  the cluster: no machine\n    what to do: join one\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got strings.Builder
			Why(&got, "harbour", c.y, ago)
			if diff := cmp.Diff(c.want, got.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNews: what is known is not printed again, and of a machine only what a person acts on.
func TestNews(t *testing.T) {
	var out strings.Builder
	news := News{Out: &out, Now: func() time.Time { return noon }}
	c := harbour()
	news.Know(c)
	expect := func(what, want string) {
		t.Helper()
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		out.Reset()
	}
	news.Look(c)
	expect("what is known", "")
	c.Of[1].Cause = "another last line"
	news.Look(c)
	expect("another cause of the same state", "")
	c.State, c.Message, c.Of[1].State, c.Of[1].WaitingFor, c.Of[1].Cause = "active", "", records.Active, "", ""
	operation := *c.Operation
	operation.State, operation.Wait, operation.Done = operations.Succeeded, nil, 5
	c.Operation = &operation
	news.Look(c)
	expect("the end", "12:00:00  cluster harbour  active\n12:00:00  operation op-bcdfghjk  upgrade, succeeded, 5 of 5 tasks done\n12:00:00  w1  Active\n")
}
