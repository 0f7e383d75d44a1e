package decide

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/desired"
	"github.com/drover-project/drover/server/decide/judge"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/decide/render"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const machineName = "custom-0a1b2c3d4e5f"

// of is what is decided of a machine; the zero value when it stays as it is.
func of(d Decision, name string) MachineDecision {
	for _, m := range d.Machines {
		if m.Key.Name() == name {
			return m
		}
	}
	return MachineDecision{}
}

// statusOfMachine is the status that a decision gives to the machine that the tests' clusters have.
func (d Decision) statusOfMachine(t *testing.T) records.MachineStatus {
	t.Helper()
	m := of(d, machineName)
	if m.Status == nil {
		t.Fatalf("nothing is decided of the machine's status: %+v", d)
	}
	return *m.Status
}

// commit gives a snapshot what was decided on it, as the controller commits it.
func commit(s pass.Snapshot, d Decision) pass.Snapshot {
	if d.Cluster.Status != nil {
		s.Cluster.Status = *d.Cluster.Status
	}
	var machines []pass.Machine
	for _, m := range s.Machines {
		next := of(d, m.Name)
		if next.Remove {
			continue
		}
		if next.Status != nil {
			changed := *m.Machine
			changed.Status = *next.Status
			m.Machine = &changed
		}
		if next.Keep {
			kept := *m.Machine
			kept.Deleting, kept.Leave = time.Time{}, records.Leave{}
			m.Machine = &kept
		}
		if next.Secret != nil {
			m.Secret = next.Secret
		}
		machines = append(machines, m)
	}
	s.Machines = machines
	return s
}

var update = flag.Bool("update", false, "write the golden files anew")

func release(t testing.TB, version string) *versions.Release {
	t.Helper()
	d, err := versions.Load("")
	if err != nil {
		t.Fatal(err)
	}
	r, ok := d.Release(version)
	if !ok {
		t.Fatalf("no data for %s", version)
	}
	return &r
}

func snapshot(t testing.TB, text string, change func(*pass.Snapshot)) pass.Snapshot {
	t.Helper()
	known, err := versions.Load("")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := clusterspec.ParseSpec([]byte(text), known)
	if err != nil {
		t.Fatal(err)
	}
	s := pass.Snapshot{
		Cluster: records.Cluster{
			Object: records.Object{Namespace: "fleet-default", Name: "harbour", UID: "cluster-uid"},
			ID:     "c-m-abcd2345", Spec: doc.Spec,
		},
		Secrets: &records.ClusterSecrets{ServerToken: "server-token", AgentToken: "agent-token"},
		Release: release(t, "v1.34.4+k3s1"),
		Machines: []pass.Machine{{
			Machine: &records.Machine{
				Object: records.Object{Namespace: "fleet-default", Name: "custom-0a1b2c3d4e5f", UID: "machine-uid", Labels: map[string]string{"rke.cattle.io/worker-role": "true"}},
				Roles:  records.Roles{Etcd: true, ControlPlane: true, Worker: true}, OS: "linux",
				NodeLabels: map[string]string{"cattle.io/os": "linux"},
			},
			Secret: &records.PlanSecret{Object: records.Object{Namespace: "fleet-default", Name: "custom-0a1b2c3d4e5f-machine-plan"}},
		}},
		Now: noon,
		API: observed.API{Cause: "no tunnel is open"},
	}
	if change != nil {
		change(&s)
	}
	return s
}

const minimal = `{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {}}}`

const full = `
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata: {name: harbour}
spec:
  kubernetesVersion: v1.34.4+k3s1
  agentEnvVars: [{name: HTTPS_PROXY, value: "http://proxy.lan:3128"}, {name: EMPTY}]
  rkeConfig:
    provisionGeneration: 2
    machineGlobalConfig:
      disable: [traefik, servicelb]
      tls-san: [k8s.lan]
      secrets-encryption: true
      kube-scheduler-arg: [secure-port=20259]
      cluster-cidr: ""
    machineSelectorConfig:
    - config: {kubelet-arg: [max-pods=200]}
    - machineLabelSelector: {matchLabels: {rke.cattle.io/worker-role: "true"}}
      config: {kubelet-arg: [max-pods=250]}
    - machineLabelSelector: {matchExpressions: [{key: rke.cattle.io/worker-role, operator: DoesNotExist}]}
      config: {kubelet-arg: [max-pods=1]}
    chartValues: {traefik: {logs: {level: DEBUG}}}
    additionalManifest: |
      apiVersion: v1
      kind: Namespace
      metadata: {name: extra}
    registries:
      mirrors: {docker.io: {endpoint: ["https://mirror.lan"], rewrite: {"^library/(.*)": "hub/$1"}}}
      configs: {mirror.lan: {caBundle: "PEM TEXT"}}
    etcd: {snapshotScheduleCron: "0 */6 * * *", snapshotRetention: 8}
    networking: {stackPreference: ipv4}
    dataDirectories: {k8sDistro: /srv/k3s}
`

func TestGoldenPlans(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		change     func(*pass.Snapshot)
	}{
		{"k3s-all-in-one", minimal, nil},
		{"k3s-all-in-one-full", full, func(s *pass.Snapshot) {
			m := &s.Machines[0]
			m.NodeName = "pier-1"
			m.InternalAddress = []string{"10.0.0.10", "10.0.0.10"}
			m.Address = []string{"203.0.113.10", "10.0.0.10"}
			m.NodeLabels["rack"] = "a1"
			m.NodeTaints = []records.Taint{{Key: "dedicated", Value: "infra", Effect: "NoSchedule"}}
		}},
		{"k3s-all-in-one-ipv6", strings.Replace(minimal, "rkeConfig: {}", "rkeConfig: {networking: {stackPreference: ipv6}}", 1), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := snapshot(t, tc.text, tc.change)
			p, err := render.Plan(desired.Input(s, s.Machines[0]), 1)
			if err != nil {
				t.Fatal(err)
			}
			wire, err := p.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := plans.Parse(wire); err != nil {
				t.Errorf("our own agent refuses the plan: %v", err)
			}
			golden(t, tc.name+".json", wire)
			golden(t, tc.name+".txt", []byte(readable(t, p)))
			again, err := render.Plan(desired.Input(s, s.Machines[0]), 1)
			if err != nil || !plans.Equal(p, again) {
				t.Error("rendering twice gave two plans")
			}
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", "renderer-1", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: a changed plan restarts nodes of every cluster of this renderer; make it a new one instead\n%s", name, diff)
	}
}

func readable(t *testing.T, p plans.Plan) string {
	t.Helper()
	var b strings.Builder
	for _, f := range p.Files {
		content, err := f.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "file %s dynamic=%v minor=%v\n", f.Path, f.Dynamic, f.Minor)
		for line := range strings.Lines(string(content)) {
			fmt.Fprintf(&b, "  | %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	for _, in := range p.Instructions {
		fmt.Fprintf(&b, "instruction %s\n  image %s\n  command %s %q\n", in.Name, in.Image, in.Command, in.Args)
		for _, e := range in.Env {
			fmt.Fprintf(&b, "  env %s\n", e)
		}
	}
	probes, err := json.MarshalIndent(p.Probes, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "probes %s\n", probes)
	return b.String()
}

func stampOf(t *testing.T, s pass.Snapshot) string {
	t.Helper()
	p, err := render.Plan(desired.Input(s, s.Machines[0]), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range p.Instructions[0].Env {
		if v, ok := strings.CutPrefix(e, "RESTART_STAMP="); ok {
			return v
		}
	}
	t.Fatal("no stamp")
	return ""
}

func TestStampChangesOnlyForWhatNeedsARestart(t *testing.T) {
	before := stampOf(t, snapshot(t, full, nil))
	for _, tc := range []struct {
		name    string
		text    string
		change  func(*pass.Snapshot)
		restart bool
	}{
		{"nothing", full, nil, false},
		{"node label", full, func(s *pass.Snapshot) { s.Machines[0].NodeLabels["x"] = "y" }, false},
		{"node taint", full, func(s *pass.Snapshot) { s.Machines[0].NodeTaints = []records.Taint{{Key: "a", Effect: "NoSchedule"}} }, false},
		{"manifest", strings.Replace(full, "name: extra", "name: more", 1), nil, false},
		{"chart values", strings.Replace(full, "DEBUG", "INFO", 1), nil, false},
		{"setting", strings.Replace(full, "k8s.lan", "k9s.lan", 1), nil, true},
		{"registry", strings.Replace(full, "https://mirror.lan", "https://mirror2.lan", 1), nil, true},
		{"provision generation", strings.Replace(full, "provisionGeneration: 2", "provisionGeneration: 3", 1), nil, true},
		{"installer image", full, func(s *pass.Snapshot) { s.InstallerImage = "mirror.lan/x-" }, false},
		{"version", strings.Replace(full, "v1.34.4", "v1.34.3", 1), nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if after := stampOf(t, snapshot(t, tc.text, tc.change)); (after != before) != tc.restart {
				t.Errorf("restart = %v, want %v", after != before, tc.restart)
			}
		})
	}
}

// stage puts the machine of a snapshot to one point of its life.
type stage func(t *testing.T, s *pass.Snapshot)

func delivered(state plans.State) stage {
	return func(t *testing.T, s *pass.Snapshot) {
		t.Helper()
		p, err := render.Plan(desired.Input(*s, s.Machines[0]), 1)
		if err != nil {
			t.Fatal(err)
		}
		b, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		data := plans.Deliver(nil, b)
		data[plans.KeyPlanState] = []byte(state)
		s.Machines[0].Secret.Data = data
	}
}

func outcome(change func(*plans.Outcome)) stage {
	return func(t *testing.T, s *pass.Snapshot) {
		t.Helper()
		data := s.Machines[0].Data()
		o, err := plans.ReadOutcome(data)
		if err != nil {
			t.Fatal(err)
		}
		change(&o)
		if err := o.Write(data); err != nil {
			t.Fatal(err)
		}
		if s.Machines[0].Agent == (observed.Presence{}) {
			s.Machines[0].Agent.Connected = true // an agent reports
		}
	}
}

func healthy(o *plans.Outcome) {
	o.ProbeStatuses = map[string]plans.ProbeStatus{}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"} {
		o.ProbeStatuses[name] = plans.ProbeStatus{Healthy: true, SuccessCount: 1}
	}
}

func node(n records.NodeRef) stage {
	return func(_ *testing.T, s *pass.Snapshot) {
		s.API = observed.API{Reachable: true, Version: "v1.34.4+k3s1", Nodes: map[string]records.NodeRef{"machine-uid": n}}
	}
}

var readyNode = records.NodeRef{Name: "pier-1", ProviderID: "k3s://pier-1", KubeletVersion: "v1.34.4+k3s1", Ready: true}

func with1(change func(*pass.Snapshot)) stage {
	return func(_ *testing.T, s *pass.Snapshot) { change(s) }
}

func TestStates(t *testing.T) {
	connected := with1(func(s *pass.Snapshot) {
		s.Machines[0].Agent = observed.Presence{Connected: true, Since: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	})
	for _, tc := range []struct {
		name       string
		stages     []stage
		state      records.MachineState
		cause      string
		waitingFor string
		cluster    records.ClusterState
		message    string
		deliver    bool
	}{
		{
			name: "registered", state: records.ApplyingPlan, deliver: true,
			cause: "the plan is being delivered to custom-0a1b2c3d4e5f", waitingFor: "the agent on custom-0a1b2c3d4e5f to take its plan",
			cluster: records.ClusterProvisioning, message: "configuring bootstrap node(s) custom-0a1b2c3d4e5f: waiting for agent to check in and apply initial plan",
		},
		{
			name: "agent never came", stages: []stage{delivered(plans.StatePending)}, state: records.ApplyingPlan,
			cause: "has not taken plan", waitingFor: "the agent on custom-0a1b2c3d4e5f to take its plan",
			cluster: records.ClusterProvisioning, message: "waiting for agent to check in and apply initial plan",
		},
		{
			name: "agent at work", stages: []stage{delivered(plans.StateInProgress), connected}, state: records.ApplyingPlan,
			cause: "its agent is connected", waitingFor: "files and instructions of plan",
			cluster: records.ClusterProvisioning, message: "waiting for agent to check in and apply initial plan",
		},
		{
			name: "instruction failed", stages: []stage{delivered(plans.StateFailed), outcome(func(o *plans.Outcome) {
				o.FailedOutput = map[string][]byte{"install": []byte("step one\nno space left on device\n"), plans.FailureOutput: []byte("instruction install: exit code 1")}
			})}, state: records.Failed,
			cause: "failed on custom-0a1b2c3d4e5f: exit code 1: no space left on device", waitingFor: "the next try, or a changed cluster",
			cluster: records.ClusterProvisioning, message: "failing bootstrap machine(s) custom-0a1b2c3d4e5f: instruction",
		},
		{
			name: "plan refused", stages: []stage{delivered(plans.StateFailed), outcome(func(o *plans.Outcome) {
				o.FailedOutput = map[string][]byte{plans.FailureOutput: []byte("write /etc/x: read-only file system")}
			})}, state: records.Failed,
			cause: "write /etc/x: read-only file system", waitingFor: "the next try", cluster: records.ClusterProvisioning, message: "failing bootstrap",
		},
		{
			name: "failed without a word", stages: []stage{delivered(plans.StateFailed)}, state: records.Failed,
			cause: "error applying plan -- check rancher-system-agent.service and k3s.service logs on node for more information", cluster: records.ClusterProvisioning, message: "failing bootstrap",
		},
		{
			name: "probes never asked", stages: []stage{delivered(plans.StateSucceeded)}, state: records.WaitingForProbes,
			cause:      "not healthy on custom-0a1b2c3d4e5f: kube-apiserver, kube-controller-manager, kube-scheduler, kubelet",
			waitingFor: "probes kube-apiserver, kube-controller-manager, kube-scheduler, kubelet",
			cluster:    records.ClusterProvisioning, message: "waiting for probes: kube-apiserver, kube-controller-manager, kube-scheduler, kubelet",
		},
		{
			name: "one probe left", stages: []stage{delivered(plans.StateSucceeded), outcome(healthy), outcome(func(o *plans.Outcome) {
				o.ProbeStatuses["kubelet"] = plans.ProbeStatus{FailureCount: 2}
			})}, state: records.WaitingForProbes, waitingFor: "probes kubelet", cluster: records.ClusterProvisioning, message: "waiting for probes: kubelet",
		},
		{
			name: "no tunnel", stages: []stage{delivered(plans.StateSucceeded), outcome(healthy)}, state: records.WaitingForNode,
			cause: "the Kubernetes API of cluster harbour cannot be asked: no tunnel is open", waitingFor: "a connection to the Kubernetes API on custom-0a1b2c3d4e5f",
			cluster: records.ClusterProvisioning, message: "waiting for cluster agent to connect",
		},
		{
			name: "an agent from before plan-state", stages: []stage{delivered(plans.StatePending), with1(func(s *pass.Snapshot) {
				d := s.Machines[0].Data()
				d[plans.KeyAppliedPlan] = d[plans.KeyPlan]
			}), outcome(healthy)}, state: records.WaitingForNode, cause: "cannot be asked", cluster: records.ClusterProvisioning, message: "waiting for cluster agent to connect",
		},
		{
			name: "no node", stages: []stage{delivered(plans.StateSucceeded), outcome(healthy), with1(func(s *pass.Snapshot) {
				s.API = observed.API{Reachable: true, Unlabelled: []string{"other"}}
			})}, state: records.WaitingForNode, cause: "no node with label rke.cattle.io/machine=machine-uid; it has other without it", waitingFor: "to register", cluster: records.ClusterProvisioning, message: "waiting for node ref",
		},
		{
			name: "no provider id", stages: []stage{delivered(plans.StateSucceeded), outcome(healthy), node(records.NodeRef{Name: "pier-1", Ready: true})},
			state: records.WaitingForNode, cause: "node pier-1 has no providerID", waitingFor: "spec.providerID of node pier-1", cluster: records.ClusterProvisioning, message: "waiting for node ref",
		},
		{
			name: "node not ready", stages: []stage{delivered(plans.StateSucceeded), outcome(healthy), node(records.NodeRef{Name: "pier-1", ProviderID: "k3s://pier-1", NotReady: "KubeletNotReady: starting"})},
			state: records.WaitingForNode, cause: "node pier-1 is not Ready: KubeletNotReady: starting", waitingFor: "condition Ready of node pier-1", cluster: records.ClusterProvisioning, message: "waiting for node ref",
		},
		{
			name: "old kubelet", stages: []stage{delivered(plans.StateSucceeded), outcome(healthy), node(records.NodeRef{Name: "pier-1", ProviderID: "k3s://pier-1", Ready: true, KubeletVersion: "v1.33.6+k3s1"})},
			state: records.WaitingForNode, cause: "the kubelet of node pier-1 is v1.33.6+k3s1, not v1.34.4+k3s1", cluster: records.ClusterProvisioning, message: "waiting for kubelet to update",
		},
		{
			name: "active", stages: []stage{delivered(plans.StateSucceeded), outcome(healthy), node(readyNode)},
			state: records.Active, cluster: records.ClusterActive,
		},
		{
			name: "active and out of sight", stages: []stage{delivered(plans.StateSucceeded), outcome(healthy), with1(func(s *pass.Snapshot) {
				n := readyNode
				s.Machines[0].Status = records.MachineStatus{Condition: records.Condition{State: records.Active}, Node: &n}
				s.Cluster.Status.Initialized = true
			})}, state: records.Active, cause: "node pier-1 was ready when it was last seen", cluster: records.ClusterUnavailable, message: "no tunnel is open",
		},
		{
			name: "spec changed after active", stages: []stage{delivered(plans.StateSucceeded), outcome(healthy), node(readyNode), with1(func(s *pass.Snapshot) {
				s.Cluster.Status.Initialized = true
				s.Cluster.Spec.RKEConfig.ProvisionGeneration++
			})}, state: records.ApplyingPlan, deliver: true, cause: "is being delivered", cluster: records.ClusterUpdating, message: "configuring bootstrap node(s)",
		},
		{
			name: "unknown version", stages: []stage{with1(func(s *pass.Snapshot) { s.Release = nil })}, state: records.Failed,
			cause: "fleet-default/harbour: KDM release data is empty for v1.34.4+k3s1", cluster: records.ClusterError, message: "KDM release data is empty",
		},
		{
			name: "tokens lost", stages: []stage{with1(func(s *pass.Snapshot) { s.Secrets = nil })}, state: records.Failed,
			cause: "the join tokens of cluster fleet-default/harbour are missing", cluster: records.ClusterError, message: "join tokens",
		},
		{
			name: "roles missing", stages: []stage{with1(func(s *pass.Snapshot) { s.Machines[0].Roles = records.Roles{Worker: true} })}, state: records.WaitingForPlan,
			cause: "custom-0a1b2c3d4e5f has the roles worker", waitingFor: "a plan for custom-0a1b2c3d4e5f", cluster: records.ClusterPending, message: pass.NotYet,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := snapshot(t, minimal, nil)
			for _, stage := range tc.stages {
				stage(t, &s)
			}
			d := Decide(s)
			v := d.statusOfMachine(t)
			if v.State != tc.state || !strings.Contains(v.Cause, tc.cause) || !strings.Contains(v.WaitingFor, tc.waitingFor) {
				t.Errorf("condition = %+v", v.Condition)
			}
			if tc.state != records.Active && v.Cause == "" {
				t.Error("a wait without a cause")
			}
			if !v.Since.Equal(noon) && tc.name != "active and out of sight" {
				t.Errorf("since = %s", v.Since)
			}
			if c := d.Cluster.Status; c == nil || c.State != tc.cluster || !strings.Contains(c.Message, tc.message) || !c.Since.Equal(noon) {
				t.Errorf("cluster = %+v", c)
			}
			if (of(d, machineName).Deliver) != tc.deliver {
				t.Errorf("deliver = %v", !tc.deliver)
			}
			if diff := cmp.Diff(d, Decide(s)); diff != "" {
				t.Errorf("the same snapshot gave another decision: %s", diff)
			}
			settles(t, s)
		})
	}
}

// settles commits decisions until nothing is left to write: one is enough, and one more where a plan was delivered.
func settles(t *testing.T, s pass.Snapshot) {
	t.Helper()
	d := Decide(s)
	s = commit(s, d)
	if of(d, machineName).Deliver {
		s = commit(s, Decide(s))
	}
	if left := Decide(s); !left.Empty() {
		t.Errorf("after its commit the decision is not empty:\n%s", left)
	}
}

func TestRemoval(t *testing.T) {
	s := snapshot(t, minimal, nil)
	s.Machines[0].Deleting = noon
	d := Decide(s)
	if m := of(d, machineName); !m.Remove || m.Status != nil || m.Deliver || d.Cluster.Remove || d.Cluster.Status.Message != pass.NotYet {
		t.Errorf("a machine that is removed: %s", d)
	}
	settles(t, s)
	s.Cluster.Deleting = noon
	if d := Decide(s); !d.Cluster.Remove || d.Cluster.Status != nil || !of(d, machineName).Remove || d.Again != 0 {
		t.Errorf("a cluster that is removed: %s", d)
	}
}

func TestAPreviewAfterAnApplyIsEmpty(t *testing.T) {
	s := snapshot(t, full, nil)
	first := Decide(s)
	secret := of(first, machineName).Secret
	if secret == nil || string(secret.Data[plans.KeyPlanState]) != string(plans.StatePending) ||
		secret.Annotations["rke.cattle.io/plan-last-updated"] != "2026-11-21T12:00:00Z" {
		t.Fatalf("first decision: %s", first)
	}
	if again := of(Decide(commit(s, first)), machineName); again.Deliver {
		t.Errorf("the plan is delivered twice")
	}
	settles(t, s)
}

func TestTheMachineWithThePlanKeepsTheCluster(t *testing.T) {
	s := snapshot(t, minimal, nil)
	delivered(plans.StateSucceeded)(t, &s)
	earlier := *s.Machines[0].Machine
	earlier.Name = "custom-000000000000"
	s.Machines = append(s.Machines, pass.Machine{Machine: &earlier, Secret: &records.PlanSecret{}})
	d := Decide(s)
	if of(d, "custom-000000000000").Deliver || of(d, machineName).Deliver {
		t.Errorf("a second machine got a plan: %s", d)
	}
	if v := of(d, "custom-000000000000").Status; v.State != records.WaitingForPlan || v.Code != string(catalogue.WaitBootstrap) {
		t.Errorf("the second machine shows %+v", v.Condition)
	}
}

func TestAFailedPlanIsDeliveredAgain(t *testing.T) {
	s := snapshot(t, minimal, nil)
	delivered(plans.StateFailed)(t, &s)
	plan := s.Machines[0].Plan()
	for try, wait := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute} {
		d := Decide(s)
		status := d.statusOfMachine(t)
		if status.State != records.Failed || !status.LastFailure.At.Equal(s.Now) || !status.NextRetry.Equal(s.Now.Add(wait)) || d.Again != wait || status.Retries != try {
			t.Fatalf("try %d: look again in %s, %+v", try, d.Again, status)
		}
		settles(t, s)
		s = commit(s, d)
		s.Now = s.Now.Add(wait - time.Second)
		if d := Decide(s); !d.Empty() || d.Again != time.Second {
			t.Errorf("a second before the next try: %s", d)
		}
		s.Now = s.Now.Add(time.Second)
		d = Decide(s)
		m := of(d, machineName)
		if !m.Deliver || string(m.Secret.Data[plans.KeyPlan]) != string(plan) || m.Retry != try+1 || m.Status.Retries != try+1 || d.Again != 0 ||
			m.Status.State != records.ApplyingPlan || !m.Status.NextRetry.IsZero() || m.Status.LastFailure == nil {
			t.Fatalf("try %d is not made: %s", try, d)
		}
		s = commit(s, d)
		s.Machines[0].Secret.Data[plans.KeyPlanState] = []byte(plans.StateFailed)
	}
	s.Machines[0].Status.RetriedChecksum = "of an older plan"
	if got := Decide(s).statusOfMachine(t); !got.NextRetry.Equal(s.Now.Add(30 * time.Second)) {
		t.Errorf("a new plan does not start anew: next try %s after its failure", got.NextRetry.Sub(s.Now))
	}
	if got := pass.RetryDelay(100); got != 10*time.Minute {
		t.Errorf("longest wait = %s", got)
	}
}

func TestFailureKeepsTheLastLines(t *testing.T) {
	s := snapshot(t, minimal, nil)
	delivered(plans.StateFailed)(t, &s)
	outcome(func(o *plans.Outcome) {
		o.FailedOutput = map[string][]byte{"install": []byte(strings.Repeat("line\n", 10_000) + "the end")}
	})(t, &s)
	f := Decide(s).statusOfMachine(t).LastFailure
	if f == nil || f.Instruction != "install" || len(f.Output) > judge.MaxOutput || !strings.HasSuffix(f.Output, "the end") || !strings.HasPrefix(f.Output, "line\n") {
		t.Errorf("failure = %+v", f)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	status := records.MachineStatus{}
	for i := range 30 {
		state := records.Failed
		if i%2 == 0 {
			state = records.ApplyingPlan
		}
		status = nextStatus(status, pass.Finding{Condition: records.Condition{State: state}}, noon.Add(time.Duration(i)*time.Second))
	}
	if n := len(status.History); n != maxHistory || !status.History[n-1].At.Equal(noon.Add(29*time.Second)) {
		t.Errorf("history of %d states: %+v", n, status.History)
	}
}

func TestPassedStates(t *testing.T) {
	for _, tc := range []struct {
		from, to records.MachineState
		want     []records.MachineState
	}{
		{records.WaitingForProbes, records.Active, []records.MachineState{records.WaitingForNode, records.Active}},
		{records.Registering, records.ApplyingPlan, []records.MachineState{records.WaitingForPlan, records.ApplyingPlan}},
		{records.Active, records.ApplyingPlan, []records.MachineState{records.ApplyingPlan}},
		{records.Failed, records.Active, []records.MachineState{records.Active}},
		{"", records.WaitingForPlan, []records.MachineState{records.WaitingForPlan}},
	} {
		if got := passed(tc.from, tc.to); !slices.Equal(got, tc.want) {
			t.Errorf("from %q to %q: %v, want %v", tc.from, tc.to, got, tc.want)
		}
	}
}
