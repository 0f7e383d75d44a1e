package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
)

// activeNode is the node of a machine that has all it needs.
var activeNode = records.NodeRef{Name: "pier-1", UID: "n", ProviderID: "k3s://pier-1", KubeletVersion: "v1.34.4+k3s1", Ready: true}

// active is a cluster whose one machine has become Active and that the store knows as such.
func active(t *testing.T) pass.Snapshot {
	t.Helper()
	s := snapshot(t, minimal, nil)
	for _, stage := range []stage{delivered(plans.StateSucceeded), outcome(healthy), node(activeNode)} {
		stage(t, &s)
	}
	s.Machines[0].Agent = observed.Presence{Connected: true, Since: noon.Add(-time.Hour)}
	s = commit(s, Decide(s))
	if got := s.Machines[0].Status.State; got != records.Active {
		t.Fatalf("the machine is %q", got)
	}
	return s
}

// later decides again after a while and commits that.
func later(s pass.Snapshot, after time.Duration, change func(*pass.Snapshot)) (pass.Snapshot, Decision) {
	s.Now = s.Now.Add(after)
	if change != nil {
		change(&s)
	}
	d := Decide(s)
	return commit(s, d), d
}

func sickened(names ...string) stage {
	return outcome(func(o *plans.Outcome) {
		for _, name := range names {
			o.ProbeStatuses[name] = plans.ProbeStatus{FailureCount: 5}
		}
	})
}

func TestALostHostIsUnavailable(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lose  func(*pass.Snapshot)
		cause []string
		ends  string
	}{
		{"switched off", func(s *pass.Snapshot) {
			s.API = observed.API{Cause: "no tunnel is open"}
			s.Machines[0].Agent = observed.Presence{Since: s.Now}
		}, []string{"nothing is seen of custom-0a1b2c3d4e5f (pier-1) since 2026-11-21T12:01:00Z", "no tunnel is open"}, "the agent on custom-0a1b2c3d4e5f to connect"},
		{"k3s uninstalled", func(s *pass.Snapshot) {
			s.API = observed.API{Cause: "connection refused"}
			sickened("kube-apiserver", "kubelet")(t, s)
		}, []string{"k3s does not work on custom-0a1b2c3d4e5f (pier-1) since 2026-11-21T12:01:00Z", "kube-apiserver, kubelet", "connection refused"}, "probes kube-apiserver, kubelet"},
		{"its token changed by hand", func(s *pass.Snapshot) {
			s.API = observed.API{Cause: "connection refused"}
			sickened("kube-apiserver", "kubelet")(t, s)
			tokenChanged(t, s)
		}, []string{"k3s.service is activating (auto-restart), was restarted 9 times: starting kubernetes: preparing server: bootstrap data already found and encrypted with different token"}, "probes kube-apiserver, kubelet"},
		{"only the connection", func(s *pass.Snapshot) { s.API = observed.API{Cause: "timeout"} }, []string{"no connection", "timeout"}, "a connection to the Kubernetes API"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, d := later(active(t), time.Minute, tc.lose)
			if got := s.Machines[0].Status; got.State != records.Active || !strings.Contains(got.Cause, "when it was last seen") {
				t.Errorf("at once it is %+v", got.Condition)
			}
			if d.Again <= 0 || d.Again > time.Minute-20*time.Second {
				t.Errorf("looks again after %s, which is not within a minute of the loss", d.Again)
			}
			s, _ = later(s, d.Again, nil)
			got := s.Machines[0].Status
			if got.State != records.Unavailable || !got.Since.Equal(s.Now) || !strings.Contains(got.WaitingFor, tc.ends) || !strings.Contains(got.NextStep, "systemctl status") {
				t.Errorf("it is %+v since %s", got.Condition, got.Since)
			}
			for _, want := range tc.cause {
				if !strings.Contains(got.Cause, want) {
					t.Errorf("the cause is %q, want %q in it", got.Cause, want)
				}
			}
			if c := s.Cluster.Status; c.State != records.ClusterUnavailable || c.Message != got.Cause || c.Ready {
				t.Errorf("the cluster is %+v", c)
			}
			if s, d = later(s, time.Hour, nil); !d.Empty() {
				t.Errorf("an hour later something is written: %+v", d)
			}
			s, _ = later(s, time.Second, func(s *pass.Snapshot) {
				s.Machines[0].Agent = observed.Presence{Connected: true, Since: s.Now}
				node(activeNode)(t, s)
				outcome(healthy)(t, s)
			})
			if got := s.Machines[0].Status; got.State != records.Active || got.Cause != "" || !got.Unseen.IsZero() {
				t.Errorf("back again it is %+v", got)
			}
		})
	}
}

// TestALostAgentIsShown although the cluster's API answers, at once when the server notes it, and is not hidden by a node that
// is not Ready any more.
func TestALostAgentIsShown(t *testing.T) {
	notReady := activeNode
	notReady.Ready, notReady.NotReady = false, "NodeStatusUnknown: Kubelet stopped posting node status."
	for _, tc := range []struct {
		name   string
		node   *records.NodeRef
		code   string
		causes []string
	}{
		{"the agent alone", &activeNode, "agent-lost", []string{"its agent is gone since 2026-11-21T11:59:52Z", "node pier-1 was Ready"}},
		{"the host", &notReady, "host-lost", []string{"its agent is gone since 2026-11-21T11:59:52Z", "not Ready: NodeStatusUnknown"}},
		{"the node, too", nil, "host-lost", []string{"nothing is seen of custom-0a1b2c3d4e5f", "has no node"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := active(t)
			s.Machines[0].Agent = observed.Presence{Since: s.Now.Add(-7 * time.Second)}
			s, d := later(s, 0, nil)
			if got := s.Machines[0].Status; got.State != records.Active || d.Again != time.Second {
				t.Fatalf("an agent that may come back: %+v, again in %s", got.Condition, d.Again)
			}
			s, _ = later(s, time.Second, func(s *pass.Snapshot) {
				s.Machines[0].Agent.Since = s.Now.Add(-9 * time.Second)
				s.API.Nodes = map[string]records.NodeRef{}
				if tc.node != nil {
					s.API.Nodes[s.Machines[0].UID] = *tc.node
				}
			})
			got := s.Machines[0].Status
			if got.State != records.Unavailable || got.Code != tc.code || !strings.Contains(got.WaitingFor, "the agent on") || !strings.Contains(got.NextStep, "host") {
				t.Errorf("it is %+v", got.Condition)
			}
			if on := strings.Contains(got.NextStep, "whether the host is on; there: systemctl status rancher-system-agent"); on != (tc.code == "agent-lost") {
				t.Errorf("what to do is %q", got.NextStep)
			}
			for _, want := range tc.causes {
				if !strings.Contains(got.Cause, want) {
					t.Errorf("the cause is %q, want %q in it", got.Cause, want)
				}
			}
			if c := s.Cluster.Status; c.State != records.ClusterUnavailable || c.Ready != (tc.code == "agent-lost") || c.Message != got.Cause {
				t.Errorf("the cluster is %+v", c)
			}
			off, _ := later(s, 0, func(s *pass.Snapshot) {
				s.Cluster.Annotations = map[string]string{clusterspec.NoAgents: "true"}
				node(activeNode)(t, s)
			})
			if got := off.Machines[0].Status; got.State != records.Active || off.Cluster.Status.State != records.ClusterActive {
				t.Errorf("without agents on purpose it is %+v", got.Condition)
			}
			back, _ := later(s, time.Second, func(s *pass.Snapshot) {
				s.Machines[0].Agent = observed.Presence{Connected: true, Since: s.Now}
				node(activeNode)(t, s)
			})
			if got := back.Machines[0].Status; got.State != records.Active || got.Cause != "" {
				t.Errorf("back again it is %+v", got.Condition)
			}
		})
	}
}

// TestALostQuorumIsNamed on those that are left, a worker too, with who is gone and the way out; a host that is off is one.
func TestALostQuorumIsNamed(t *testing.T) {
	w := grown(t, minimal, allInOne, etcdControl, etcdControl, workerOnly)
	for _, name := range []string{"m0", "m2"} {
		w.hosts[name].dead, w.outage = true, true
		w.machine(name).Agent = observed.Presence{Since: w.s.Now}
	}
	w.pass(4, 10*time.Second)
	for name, code := range map[string]string{"m0": "host-lost", "m1": "quorum-lost", "m2": "host-lost", "m3": "quorum-lost"} {
		if got := w.machine(name).Status; got.State != records.Unavailable || got.Code != code {
			w.fail("%s is %+v", name, got.Condition)
		}
	}
	got := w.machine("m1").Status
	for _, want := range []string{"2 of its 3 members", "m0 (its agent is gone since ", "m2 (its agent is gone since "} {
		if !strings.Contains(got.Cause, want) {
			w.fail("the cause is %q, want %q in it", got.Cause, want)
		}
	}
	if !strings.Contains(got.NextStep, "docs/how-to/restore-a-cluster.md#") || w.s.Cluster.Status.Message != got.Cause {
		w.fail("the next step is %q, the cluster says %q", got.NextStep, w.s.Cluster.Status.Message)
	}
	w.machine("m2").Agent = observed.Presence{Connected: true}
	w.pass(1, time.Second)
	if got := w.machine("m1").Status; got.Code == "quorum-lost" {
		w.fail("with two of three it is %+v", got.Condition)
	}
}

// TestANewLeaderWaitsForAgents whose watches it has not seen yet.
func TestANewLeaderWaitsForAgents(t *testing.T) {
	s := active(t)
	s.Leading, s.Machines[0].Agent = s.Now, observed.Presence{}
	s, d := later(s, 14*time.Second, nil)
	if got := s.Machines[0].Status; got.State != records.Active || d.Again != time.Second {
		t.Fatalf("it is %+v, again in %s", got.Condition, d.Again)
	}
	if s, _ = later(s, d.Again, nil); s.Machines[0].Status.Code != "agent-lost" {
		t.Errorf("it is %+v", s.Machines[0].Status.Condition)
	}
}

// TestANewLeaderWaitsWithAnOperation until the agents have come back to it, and the cluster's API is reached: a snapshot leaves out no host
// that is there, and a restore begins with the snapshot of what is now. What has not come back then is left out.
func TestANewLeaderWaitsWithAnOperation(t *testing.T) {
	w := grown(t, minimal, allInOne, allInOne)
	seen, api := w.machine("m1").Agent, w.s.API
	w.s.Leading, w.machine("m1").Agent = w.s.Now, observed.Presence{}
	w.ask(operations.KindSnapshot, steps.Request{})
	d := Decide(w.s)
	if o := d.Operation; o == nil || len(o.Tasks) > 0 || o.State.Ended() || o.Wait == nil || o.Wait.Object != "machine m1" || d.Again != pass.Gathering {
		t.Fatalf("without the agent of m1 it is %+v, again in %s", o, d.Again)
	}
	w.machine("m1").Agent, w.s.API = seen, observed.API{Cause: "no tunnel is open"}
	if o := Decide(w.s).Operation; o == nil || len(o.Tasks) > 0 || o.Wait == nil || o.Wait.Object != "cluster harbour" {
		t.Fatalf("without the API it is %+v", o)
	}
	w.s.API = api
	if o := Decide(w.s).Operation; o == nil || len(o.Tasks) != 2 {
		t.Fatalf("with both it is %+v", o)
	}
	w.machine("m1").Agent = observed.Presence{}
	w.s.Now = w.s.Now.Add(pass.Gathering)
	if o := Decide(w.s).Operation; o == nil || len(o.Tasks) != 2 || o.Wait != nil && o.Wait.Object == "machine m1" {
		t.Fatalf("once the time is over it is %+v", o)
	}
}

// TestAWorkerWithoutAgentIsNotMended: its pods run, so that a change waits for its turn and is not delivered out of it, to
// restart many workers when their agents come back together. Of a lost server etcd's quorum takes note at once.
func TestAWorkerWithoutAgentIsNotMended(t *testing.T) {
	w := newWorld(t, 7, minimal, records.Roles{Etcd: true, ControlPlane: true}, records.Roles{Etcd: true, ControlPlane: true}, records.Roles{Etcd: true, ControlPlane: true}, records.Roles{Worker: true}, records.Roles{Worker: true})
	w.settle()
	for _, name := range []string{"m3", "m4"} {
		w.machine(name).Agent = observed.Presence{Since: w.s.Now.Add(-time.Minute)}
	}
	w.s.Cluster.Spec.RKEConfig.ProvisionGeneration++
	w.s.Cluster.Generation++
	w.observe()
	d := Decide(w.s)
	for _, m := range d.Machines {
		if m.Deliver && (strings.HasSuffix(string(m.Key), "/m3") || strings.HasSuffix(string(m.Key), "/m4")) {
			t.Errorf("%s gets a plan although its agent is gone and its pods run", m.Key)
		}
	}
	w.machine("m2").Agent, w.machine("m1").Agent = observed.Presence{Since: w.s.Now.Add(-time.Minute)}, observed.Presence{Since: w.s.Now.Add(-time.Minute)}
	for _, m := range Decide(w.s).Machines {
		if m.Deliver {
			t.Errorf("%s gets a plan that restarts it, with two members of three whose hosts may be gone", m.Key)
		}
	}
}

// TestANewLeaderWaitsForTunnels: a server that was started again does not say of all clusters that they are unavailable, for the
// seconds in which their hosts come back to it; of those whose hosts do not, it does.
func TestANewLeaderWaitsForTunnels(t *testing.T) {
	restarted := func(s *pass.Snapshot) {
		s.Leading, s.API = s.Now, observed.API{Cause: "no tunnel is open"}
		if s.RKE1.Record == nil {
			s.Machines[0].Agent = observed.Presence{Since: s.Now}
		}
	}
	rke1 := rke1World(t)
	rke1 = commit(rke1, Decide(rke1))
	for name, s := range map[string]pass.Snapshot{"k3s": active(t), "RKE1": rke1} {
		t.Run(name, func(t *testing.T) {
			before := s.Cluster.Status
			s, d := later(s, time.Minute, restarted)
			if c := s.Cluster.Status; before.State != records.ClusterActive || c.State != records.ClusterActive || c.Ready != before.Ready || c.Connected != before.Connected || c.Message != "" || d.Again <= 0 || d.Again > pass.Gathering {
				t.Fatalf("at once the cluster is %+v, and it was %+v; looks again after %s", c, before, d.Again)
			}
			back, _ := later(s, 3*time.Second, func(s *pass.Snapshot) {
				s.API = observed.API{Reachable: true, Nodes: map[string]records.NodeRef{s.Machines[0].UID: activeNode}}
			})
			if c := back.Cluster.Status; c.State != records.ClusterActive || c.Message != "" {
				t.Errorf("with a tunnel it is %+v", c)
			}
			s, _ = later(s, d.Again, nil)
			if c := s.Cluster.Status; c.State != records.ClusterUnavailable || c.Ready || !strings.Contains(c.Message, "no tunnel is open") {
				t.Errorf("after a while it is %+v", c)
			}
			s, _ = later(s, time.Minute, restarted)
			if c := s.Cluster.Status; c.State != records.ClusterUnavailable {
				t.Errorf("what was unavailable is %+v after another start", c)
			}
		})
	}
}

// TestAPauseIsSaid of a cluster that has no machines yet, too.
func TestAPauseIsSaid(t *testing.T) {
	s := snapshot(t, minimal, nil)
	s.Machines, s.Cluster.Paused = nil, &records.Pause{At: s.Now}
	const want = "CAPI cluster or RKEControlPlane is paused; waiting for at least one control plane"
	if c := commit(s, Decide(s)).Cluster.Status; c.State != records.ClusterPending || !strings.HasPrefix(c.Message, want) {
		t.Errorf("%s: %s", c.State, c.Message)
	}
}

func TestABusyControlPlaneDoesNotFlap(t *testing.T) {
	s := active(t)
	for range 20 {
		var d Decision
		for _, look := range []stage{
			sickened("kube-apiserver"),
			func(_ *testing.T, s *pass.Snapshot) { s.API = observed.API{Cause: "timeout"} },
			node(activeNode),
		} {
			if s, d = later(s, 20*time.Second, func(s *pass.Snapshot) { look(t, s) }); s.Machines[0].Status.State != records.Active {
				t.Fatalf("the machine is %+v after %+v", s.Machines[0].Status, d)
			}
		}
	}
	if n := len(s.Machines[0].Status.History); n > len(milestones) {
		t.Errorf("the history has %d states: %+v", n, s.Machines[0].Status.History)
	}
}

func TestANodeThatIsNotReadyAnyMoreIsUnavailable(t *testing.T) {
	sick := activeNode
	sick.Ready, sick.NotReady = false, "NodeStatusUnknown: Kubelet stopped posting node status."
	s, _ := later(active(t), time.Minute, func(s *pass.Snapshot) { node(sick)(t, s) })
	if got := s.Machines[0].Status; got.State != records.Unavailable || !strings.Contains(got.Cause, "Kubelet stopped posting") {
		t.Errorf("it is %+v", got)
	}
	s, _ = later(s, time.Minute, func(s *pass.Snapshot) { node(activeNode)(t, s) })
	if got := s.Machines[0].Status.State; got != records.Active {
		t.Errorf("back again it is %q", got)
	}
}

// tokenChanged is what a host reports whose token was changed in the distribution's files.
func tokenChanged(t *testing.T, s *pass.Snapshot) {
	reported(plans.HostReport{Units: []plans.UnitReport{{
		Name: "k3s", State: "activating (auto-restart)", Restarts: 9,
		Lines: []string{"starting kubernetes: preparing server: bootstrap data already found and encrypted with different token"},
	}}})(t, s)
}

// TestATokenChangedOnAHost of a cluster whose API works is named by the node's cause, and the next plan, whatever it is
// for, has the file as it was.
func TestATokenChangedOnAHost(t *testing.T) {
	s := active(t)
	before, _ := pass.Delivered(s.Machines[0].Data())
	notReady := activeNode
	notReady.Ready, notReady.NotReady = false, "NodeStatusUnknown: Kubelet stopped posting node status."
	node(notReady)(t, &s)
	tokenChanged(t, &s)
	s = commit(s, Decide(s))
	got := s.Machines[0].Status
	if got.State != records.Unavailable || got.Code != "node-not-ready" || !strings.Contains(got.Cause, "encrypted with different token") {
		t.Errorf("it is %+v", got.Condition)
	}
	s.Cluster.Spec.RKEConfig.ProvisionGeneration++
	s.Cluster.Generation++
	d := of(Decide(s), machineName)
	if !d.Deliver {
		t.Fatal("another provisionGeneration makes no new plan")
	}
	if after := planOf(d.Secret); settingsOf(before) == "" || settingsOf(after) != settingsOf(before) {
		t.Errorf("the plan has\n%s\nwant\n%s", settingsOf(after), settingsOf(before))
	}
}
