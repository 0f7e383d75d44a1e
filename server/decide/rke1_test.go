package decide

import (
	"context"
	"strings"
	"testing"
	"time"

	rke1versions "github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
)

// rke1World is an RKE1 cluster of one connected host, on which everything was done and whose node is Ready.
func rke1World(t *testing.T) pass.Snapshot {
	t.Helper()
	known, err := rke1versions.Load(context.Background(), "", rke1versions.Options{})
	if err != nil {
		t.Fatal(err)
	}
	spec := clusterspec.RancherKubernetesEngineConfig(`{"network":{"plugin":"canal"}}`)
	m := &records.Machine{
		Object:      records.Object{Namespace: "c-abcde", Name: "m-1", UID: "u"},
		ClusterName: "yard", NodeName: "a", Address: []string{"10.0.0.1"}, Roles: records.Roles{Etcd: true, ControlPlane: true, Worker: true}, Docker: &records.DockerHost{},
	}
	s := pass.Snapshot{
		Now:      time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC),
		Cluster:  records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "yard", Generation: 2}, Spec: clusterspec.Spec{RancherKubernetesEngineConfig: &spec}},
		Machines: []pass.Machine{{Machine: m, Tunnel: observed.Tunnel{Connected: true}}},
		API:      observed.API{Reachable: true, Version: "v1.30.5", Nodes: map[string]records.NodeRef{"u": {Name: "a", Ready: true}}},
		RKE1:     pass.RKE1{Versions: known},
	}
	stamp, err := desired.Stamp(desired.Input{Cluster: s.Cluster, Machines: []records.Machine{*m}, Versions: known})
	if err != nil {
		t.Fatal(err)
	}
	s.RKE1.Record = &records.RKEState{Done: stamp, Hosts: []string{"10.0.0.1"}}
	return s
}

func TestRKE1Hosts(t *testing.T) {
	under := func(s *pass.Snapshot) {
		s.RKE1.Record, s.API = nil, observed.API{Cause: "no control-plane machine is registered"}
		s.Operation = &operations.Operation{ID: "op-1", State: operations.Running, Tasks: []operations.Task{
			{ID: "hosts", Title: "Reach the hosts", State: operations.TaskSucceeded}, {ID: "etcd", Title: "etcd", State: operations.TaskRunning, Progress: "[etcd] Running"},
		}}
	}
	for _, tc := range []struct {
		name    string
		change  func(*pass.Snapshot)
		state   records.MachineState
		code    catalogue.Code
		cluster records.ClusterState
		message string
		failed  bool
	}{
		{"well", func(*pass.Snapshot) {}, records.Active, "", records.ClusterActive, "", false},
		{"waits for roles", func(s *pass.Snapshot) {
			s.RKE1.Record, s.API = nil, observed.API{}
			m := *s.Machines[0].Machine
			m.Roles = records.Roles{Worker: true}
			s.Machines[0].Machine = &m
		}, records.WaitingForPlan, catalogue.MissingRoles, records.ClusterPending, "no host with the role etcd has registered", false},
		{"the engine works", under, records.ApplyingPlan, catalogue.RKE1Running, records.ClusterProvisioning, "etcd: [etcd] Running", false},
		{"the engine failed", func(s *pass.Snapshot) {
			under(s)
			s.Operation.Wait = &operations.Wait{Cause: "port 6443 of host 10.0.0.1 is taken", NextStep: "soon"}
		}, records.Failed, catalogue.RKE1Failed, records.ClusterProvisioning, "port 6443", true},
		{"exported", func(s *pass.Snapshot) {
			s.Cluster.Exported, s.API = &records.Exported{At: s.Now}, observed.API{}
		}, records.WaitingForPlan, catalogue.Exported, records.ClusterExported, "cluster yard was exported at 2026-11-22T12:00:00Z, and the server does not touch it; `drover clusters resume yard`", false},
		{"exported, and its node is Ready", func(s *pass.Snapshot) {
			s.Cluster.Exported, s.RKE1.Record.Done = &records.Exported{At: s.Now}, ""
		}, records.Active, "", records.ClusterExported, "drover clusters resume yard", false},
		{"imported, and a host has no agent", func(s *pass.Snapshot) {
			s.Cluster.Exported, s.RKE1.Record.Hosts = &records.Exported{At: s.Now, Imported: true}, []string{"10.0.0.1", "10.0.0.7"}
		}, records.Active, "", records.ClusterImported, "; no node agent has registered on 10.0.0.7", false},
		{"a wrong document", func(s *pass.Snapshot) {
			bad := clusterspec.RancherKubernetesEngineConfig(`{"network":{"plugin":"rope"}}`)
			s.RKE1.Record, s.API = nil, observed.API{}
			s.Cluster.Spec.RancherKubernetesEngineConfig = &bad
		}, records.WaitingForPlan, catalogue.BadSpec, records.ClusterProvisioning, "rope", true},
		{"stopped", func(s *pass.Snapshot) {
			s.RKE1.Record.Done, s.RKE1.Record.Halted, s.API = "", s.RKE1.Record.Done, observed.API{}
		}, records.WaitingForPlan, catalogue.Halted, records.ClusterProvisioning, "was stopped", false},
		{"the node has not registered", func(s *pass.Snapshot) { s.API.Nodes = nil }, records.WaitingForNode, catalogue.NoNode, records.ClusterUpdating, "waiting for the nodes of a", false},
		{"the node is not ready", func(s *pass.Snapshot) {
			s.API.Nodes = map[string]records.NodeRef{"u": {Name: "a", NotReady: "KubeletNotReady: no network"}}
			m := *s.Machines[0].Machine
			m.Status.State, m.Status.Node = records.Active, &records.NodeRef{Name: "a"}
			s.Machines[0].Machine = &m
		}, records.Unavailable, catalogue.NodeNotReady, records.ClusterActive, "not well: a", false},
		{"out of sight", func(s *pass.Snapshot) {
			s.API = observed.API{Cause: "no tunnel is open"}
			m := *s.Machines[0].Machine
			m.Status.State, m.Status.Node = records.Active, &records.NodeRef{Name: "a"}
			s.Machines[0].Machine = &m
		}, records.Active, catalogue.OutOfSight, records.ClusterUnavailable, "no tunnel is open", false},
		{"away", func(s *pass.Snapshot) {
			s.Machines[0].Tunnel = observed.Tunnel{Since: s.Now.Add(-time.Minute)}
			m := *s.Machines[0].Machine
			m.Status.State = records.Active
			s.Machines[0].Machine = &m
		}, records.Disconnected, catalogue.DockerDisconnected, records.ClusterActive, "not well: a", false},
		{"leaves", func(s *pass.Snapshot) {
			m := *s.Machines[0].Machine
			m.Deleting = s.Now
			s.Machines[0].Machine = &m
		}, records.Removing, catalogue.LeavingNode, records.ClusterUpdating, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := rke1World(t)
			tc.change(&s)
			d := Decide(s)
			if len(d.Machines) != 1 || d.Machines[0].Status == nil {
				t.Fatalf("decision %s", d)
			}
			status := d.Machines[0].Status
			if status.State != tc.state || status.Code != string(tc.code) || (tc.code != "" && status.Cause == "") {
				t.Errorf("machine %+v", status.Condition)
			}
			c := d.Cluster.Status
			if c == nil || c.State != tc.cluster || !strings.Contains(c.Message, tc.message) || c.Failed != tc.failed || c.ObservedGeneration != 2 {
				t.Errorf("cluster %+v", c)
			}
		})
	}
}

// A certificate is warned of 60 days before its end; one that has ended is the cause of what does not work.
func TestRKE1Warnings(t *testing.T) {
	const day = 24 * time.Hour
	for _, tc := range []struct {
		name   string
		ends   map[string]time.Duration
		failed string // the last scheduled snapshot
		code   catalogue.Code
		text   string
		again  time.Duration
	}{
		{"far away", map[string]time.Duration{"kube-ca": 3650 * day, "kube-node": 61 * day}, "", "", "", day},
		{"60 days", map[string]time.Duration{"kube-ca": 3650 * day, "kube-node": 60 * day}, "", catalogue.CertificatesEnding, "certificate kube-node of cluster yard ends on 2027-01-21; drover clusters rotate certificates yard", 60 * day},
		{"a CA", map[string]time.Duration{"kube-ca": day, "kube-node": 2 * day}, "", catalogue.CertificatesEnding, "certificate kube-ca of cluster yard ends on 2026-11-23; drover clusters rotate certificates yard --ca", day},
		{"ended", map[string]time.Duration{"kube-ca": 3650 * day, "kube-node": 0}, "no space", catalogue.CertificatesEnded, "certificate kube-node of cluster yard ended on 2026-11-22; drover clusters rotate certificates yard", 0},
		{"one that nobody reads", map[string]time.Duration{"kube-ca": 3650 * day, "kube-service-account-token": 0}, "", "", "", 3590 * day},
		{"a snapshot", map[string]time.Duration{"kube-ca": 3650 * day}, "no space", catalogue.SnapshotFailed, "the last scheduled snapshot of cluster yard failed: no space; drover snapshots ls yard", 3590 * day},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := rke1World(t)
			s.RKE1.Record.Ends = map[string]time.Time{}
			for name, in := range tc.ends {
				s.RKE1.Record.Ends[name] = s.Now.Add(in)
			}
			s.RKE1.Record.Snapshots = []records.RKESnapshot{{Scheduled: true, Failure: "an older one"}, {Scheduled: true, Failure: tc.failed}, {Failure: "somebody's"}}
			d := Decide(s)
			w := d.Cluster.Status.Warning
			if w.Code != string(tc.code) || tc.code != "" && w.Cause+"; "+w.NextStep != tc.text || d.Again != tc.again {
				t.Errorf("%+v, again in %s", w, d.Again)
			}
			ended := tc.code == catalogue.CertificatesEnded
			if c := d.Cluster.Status; c.Failed != ended || ended && !strings.Contains(c.Message, "drover clusters rotate certificates yard") {
				t.Errorf("cluster %+v", c)
			}
		})
	}
}

// A snapshot restarts nothing, so that the cluster is not shown as changing.
func TestRKE1SnapshotsLeaveAClusterActive(t *testing.T) {
	s := rke1World(t)
	for kind, state := range map[operations.Kind]records.ClusterState{operations.KindSnapshot: records.ClusterActive, operations.KindRotateCertificates: records.ClusterUpdating} {
		s.Operation = &operations.Operation{ID: "op-1", Kind: kind, State: operations.Running}
		if c := Decide(s).Cluster.Status; c.State != state {
			t.Errorf("%s: %+v", kind, c)
		}
	}
}

func TestAnRKE1HostGoesWithTheState(t *testing.T) {
	s := rke1World(t)
	m := *s.Machines[0].Machine
	m.Deleting = s.Now
	s.Machines[0].Machine, s.RKE1.Record = &m, &records.RKEState{Hosts: []string{"10.0.0.2"}}
	if d := Decide(s); len(d.Machines) != 1 || !d.Machines[0].Remove || d.Cluster.Remove {
		t.Errorf("decision %s", d)
	}
	s.Cluster.Deleting, s.Cluster.Leave.Uninstall, s.RKE1.Record = s.Now, true, nil
	if d := Decide(s); !d.Cluster.Remove {
		t.Errorf("decision %s", d)
	}
}
