package clustertree

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/apitypes"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func ago(at time.Time) string { return noon.Sub(at).String() }

// harbour is a cluster in the middle of a change.
func harbour() Cluster {
	machine := func(name string, init bool, roles apitypes.Roles, state apitypes.MachineState, waits string) apitypes.Machine {
		return apitypes.Machine{ID: "fleet-default/" + name, Name: name, NodeName: "host-" + name, Init: init, Roles: roles, State: state, WaitingFor: waits, Since: noon.Add(-time.Minute)}
	}
	c := Cluster{
		Cluster: apitypes.Cluster{ID: "c-m-1", Namespace: "fleet-default", Name: "harbour", State: "updating", Message: "configuring worker node(s) w1", Version: "v1.34.4+k3s1"},
		Of: []apitypes.Machine{
			machine("w2", false, apitypes.Roles{Worker: true}, apitypes.MachineActive, "worker w1"),
			machine("w1", false, apitypes.Roles{Worker: true}, apitypes.MachineFailed, "the next try"),
			machine("c1", false, apitypes.Roles{ControlPlane: true}, apitypes.MachineActive, ""),
			machine("e1", false, apitypes.Roles{Etcd: true, ControlPlane: true}, apitypes.MachineActive, ""),
			machine("z1", true, apitypes.Roles{Etcd: true, ControlPlane: true, Worker: true}, apitypes.MachineActive, ""),
		},
		Operation: &apitypes.OperationSummary{ID: "op-bcdfghjk", Kind: "upgrade", State: apitypes.OperationRunning, Done: 3, Total: 5, Wait: &apitypes.Wait{Object: "machine w1"}},
	}
	c.Of[1].Cause = `instruction "install" failed`
	c.Of[4].JoinURL, c.Of[4].Node = "https://10.0.0.1:6443", &apitypes.NodeRef{Name: "node-z1"}
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
	Cluster{Cluster: apitypes.Cluster{Name: "quay", ID: "c-m-2", State: "pending"}}.Rows(rows, ago)
	if diff := cmp.Diff([]string{"name|quay", "id|c-m-2", "state|pending", "message|-", "version|-", "machines|0"}, got); diff != "" {
		t.Error("without machines:", diff)
	}
	for fqdn, want := range map[string]string{"": "without the server|through each control-plane host", "k8s.lan": "without the server|k8s.lan"} {
		got = nil
		Cluster{Cluster: apitypes.Cluster{Name: "quay", AuthorizedEndpoint: &apitypes.AuthorizedEndpoint{FQDN: fqdn}}}.Rows(rows, ago)
		if !slices.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

func TestWhy(t *testing.T) {
	for _, c := range []struct {
		name string
		y    apitypes.Why
		want string
	}{
		{"all is well", apitypes.Why{Well: true, State: "active"}, "nothing is wrong with harbour\n"},
		{"a failure and who waits for it", apitypes.Why{
			Cluster: "fleet-default/harbour", State: "provisioning", Message: "failing bootstrap machine(s) m1", Since: noon.Add(-time.Minute), Operation: harbour().Operation, More: 7,
			Causes: []apitypes.Cause{
				{
					Machine: "fleet-default/m1", Node: "pier-1", State: "Error", Code: "plan-failed", Title: "The plan could not be applied", Docs: "docs/reference/causes.md#plan-failed",
					Cause: "install failed", WaitingFor: "the next try", Since: noon.Add(-2 * time.Second), Fix: "read the output",
					Instruction: "install", Output: []string{"unpacking", "\x1b[31mno space left"}, Log: &apitypes.HostLog{Unit: "k3s", Lines: []string{"fatal"}},
				},
				{Machine: "fleet-default/m2", State: "Waiting for plan", WaitingFor: "a plan", Log: &apitypes.HostLog{Unit: "k3s-agent", Fault: "the host cannot be asked"}},
			},
		}, `cluster fleet-default/harbour is provisioning, for 1m0s: failing bootstrap machine(s) m1
  operation op-bcdfghjk  upgrade, running, 3 of 5 tasks done; waits for machine w1
  machine fleet-default/m1 (pier-1) is Error, for 2s: install failed
    waits for: the next try
    that is: The plan could not be applied (plan-failed, docs/reference/causes.md#plan-failed)
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
		{"the cluster itself", apitypes.Why{Cluster: "fleet-default/harbour", State: "pending", Since: noon, Causes: []apitypes.Cause{{State: "pending", Cause: "no machine", Fix: "join one"}}},
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
func TestLongLinesLoseTheirMiddle(t *testing.T) {
	for text, want := range map[string]string{
		"short": "short", strings.Repeat("é", longHead+longTail): strings.Repeat("é", longHead+longTail),
		"begin" + strings.Repeat("é", 5000) + "end": "begin" + strings.Repeat("é", longHead-5) + " … " + strings.Repeat("é", longTail-3) + "end",
	} {
		if got := withoutMiddle(text); got != want {
			t.Errorf("%.20q becomes %q", text, got)
		}
	}
}

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
	c.State, c.Message, c.Of[1].State, c.Of[1].WaitingFor, c.Of[1].Cause = "active", "", apitypes.MachineActive, "", ""
	operation := *c.Operation
	operation.State, operation.Wait, operation.Done = apitypes.OperationSucceeded, nil, 5
	c.Operation = &operation
	news.Look(c)
	expect("the end", "12:00:00  cluster harbour  active\n12:00:00  operation op-bcdfghjk  upgrade, succeeded, 5 of 5 tasks done\n12:00:00  w1  Active\n")
}

// TestRehearsals: how they stand, in rows, and the last one in a row of its cluster.
func TestRehearsals(t *testing.T) {
	good := &apitypes.RehearsalEnd{Operation: "op-1", State: "succeeded", At: noon.Add(-3 * time.Hour), Snapshot: "one", Machine: "s1", Counted: "3 nodes, 412 objects"}
	bad := &apitypes.RehearsalEnd{Operation: "op-2", State: "failed", At: noon.Add(-time.Hour), Snapshot: "two", Machine: "s2", Cause: "it was cut"}
	left := &apitypes.RehearsalEnd{Operation: "op-3", State: "failed", At: noon.Add(-time.Hour), Snapshot: "two", Machine: "s2", Counted: "3 nodes", Cause: "s2 could not be cleaned up"}
	const shownGood = "3h0m0s ago, snapshot one on s1: ok (3 nodes, 412 objects)"
	for _, c := range []struct {
		name    string
		is      apitypes.Rehearsals
		rows    []string
		cluster string // the row of the cluster; empty for none
	}{
		{"none", apitypes.Rehearsals{}, []string{"schedule|none: drover clusters rehearsals harbour --every 24h --fleet FLEET has its snapshots rehearsed"}, ""},
		{"asked for", apitypes.Rehearsals{Last: good, Good: good}, []string{"schedule|none: drover clusters rehearsals harbour --every 24h --fleet FLEET has its snapshots rehearsed", "last|" + shownGood}, "rehearsed|" + shownGood},
		{"due later", apitypes.Rehearsals{Every: "24h0m0s", Fleet: "spare", Next: noon.Add(21 * time.Hour), Last: good, Good: good}, []string{"schedule|every 24h0m0s on fleet spare", "next|in 21h0m0s", "last|" + shownGood}, "rehearsed|" + shownGood},
		{"due", apitypes.Rehearsals{Every: "1h0m0s", Fleet: "spare", Next: noon}, []string{"schedule|every 1h0m0s on fleet spare", "next|now"}, ""},
		{"held up", apitypes.Rehearsals{Every: "1h0m0s", Fleet: "spare", Next: noon.Add(-time.Hour), Waits: "no machine is free", Last: bad, Good: good},
			[]string{"schedule|every 1h0m0s on fleet spare", "next|was due 1h0m0s ago: no machine is free", "last|1h0m0s ago, snapshot two on s2: failed: it was cut", "last good|" + shownGood},
			"rehearsed|1h0m0s ago, snapshot two on s2: failed: it was cut; good " + shownGood},
		{"under way", apitypes.Rehearsals{Every: "1h0m0s", Fleet: "spare", Next: noon.Add(-time.Hour), Operation: "op-4", Last: bad},
			[]string{"schedule|every 1h0m0s on fleet spare", "under way|op-4", "last|1h0m0s ago, snapshot two on s2: failed: it was cut"}, "rehearsed|1h0m0s ago, snapshot two on s2: failed: it was cut; none was good"},
		{"not cleaned up", apitypes.Rehearsals{Every: "1h0m0s", Fleet: "spare", Next: noon, Last: left, Good: left},
			[]string{"schedule|every 1h0m0s on fleet spare", "next|now", "last|1h0m0s ago, snapshot two on s2: ok (3 nodes), and s2 could not be cleaned up"}, "rehearsed|1h0m0s ago, snapshot two on s2: ok (3 nodes), and s2 could not be cleaned up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			Rehearsals(func(cells ...string) { got = append(got, strings.Join(cells, "|")) }, "harbour", c.is, noon, ago)
			if diff := cmp.Diff(c.rows, got); diff != "" {
				t.Error(diff)
			}
			line := ""
			Cluster{Rehearsals: c.is}.Rows(func(cells ...string) {
				if len(cells) > 0 && cells[0] == "rehearsed" {
					line = strings.Join(cells, "|")
				}
			}, ago)
			if line != c.cluster {
				t.Errorf("of the cluster it says %q, want %q", line, c.cluster)
			}
		})
	}
}
