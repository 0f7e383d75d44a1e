package desired

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func known(t *testing.T) *versions.Data {
	t.Helper()
	v, err := versions.Load(context.Background(), "", versions.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func machine(name, address string, roles records.Roles) records.Machine {
	return records.Machine{
		Object: records.Object{Namespace: "c-abcde", Name: "m-" + name}, ClusterNamespace: "fleet-default", ClusterName: "yard", ClusterID: "c-abcde",
		NodeName: name, Address: []string{address}, Roles: roles, Docker: &records.DockerHost{},
	}
}

var allRoles = records.Roles{Etcd: true, ControlPlane: true, Worker: true}

// world is a cluster of two hosts, of which the second is a worker.
func world(t *testing.T, cfg string) Snapshot {
	t.Helper()
	spec := clusterspec.RancherKubernetesEngineConfig(cfg)
	return Snapshot{
		Now: now, Versions: known(t), Connected: func(records.Machine) bool { return true },
		Cluster:  records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "yard", Generation: 1}, Spec: clusterspec.Spec{RancherKubernetesEngineConfig: &spec}},
		Machines: []records.Machine{machine("b", "10.0.0.2", records.Roles{Worker: true}), machine("a", "10.0.0.1", allRoles)},
	}
}

const plain = `{"network":{"plugin":"canal"}}`

// running is a world with an operation under way.
func running(t *testing.T, p Params) Snapshot {
	t.Helper()
	s := world(t, plain)
	if p.Stamp == "current" {
		p.Stamp = stamp(t, s)
	}
	o, err := p.With(operations.Operation{ID: "op-1", Kind: operations.KindProvision, Subject: "fleet-default/yard", State: operations.Running, Created: now, Started: now})
	if err != nil {
		t.Fatal(err)
	}
	s.Operations = []operations.Operation{o}
	return s
}

func stamp(t *testing.T, s Snapshot) string {
	t.Helper()
	text, err := Stamp(Input{Cluster: s.Cluster, Machines: s.Machines, Versions: s.Versions})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDecide(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(*testing.T) Snapshot
		want Do
		also func(Decision) bool
	}{
		{"a new cluster", func(t *testing.T) Snapshot { return world(t, plain) }, Begin, func(d Decision) bool { return d.Kind == operations.KindProvision }},
		{"hosts that are only at hand", func(t *testing.T) Snapshot { return world(t, "") }, Nothing, nil},
		{"a role is missing", func(t *testing.T) Snapshot {
			s := world(t, plain)
			s.Machines = s.Machines[:1]
			return s
		}, Nothing, nil},
		{"a needed host is away", func(t *testing.T) Snapshot {
			s := world(t, plain)
			s.Connected = func(m records.Machine) bool { return m.NodeName != "a" }
			return s
		}, Nothing, nil},
		{"paused", func(t *testing.T) Snapshot {
			s := world(t, plain)
			s.Cluster.Paused = &records.Pause{}
			return s
		}, Nothing, nil},
		{"exported", func(t *testing.T) Snapshot {
			s := world(t, plain)
			s.Cluster.Exported = &records.Exported{}
			return s
		}, Leave, nil},
		{"a config that is wrong", func(t *testing.T) Snapshot { return world(t, `{"network":{"plugin":"rope"}}`) }, Nothing, nil},
		{"done", func(t *testing.T) Snapshot {
			s := world(t, plain)
			s.Record = &records.RKEState{Done: stamp(t, s)}
			return s
		}, Nothing, nil},
		{"done with other hosts", func(t *testing.T) Snapshot {
			s := world(t, plain)
			s.Record = &records.RKEState{Done: stamp(t, s)}
			s.Machines = append(s.Machines, machine("c", "10.0.0.3", records.Roles{Worker: true}))
			return s
		}, Begin, nil},
		{"done with a host that leaves", func(t *testing.T) Snapshot {
			s := world(t, plain)
			s.Record = &records.RKEState{Done: stamp(t, s)}
			s.Machines = append(s.Machines, machine("c", "10.0.0.3", records.Roles{Worker: true}))
			s.Record.Done = stamp(t, s)
			s.Machines[2].Deleting = now
			return s
		}, Begin, nil},
		{"stopped by somebody", func(t *testing.T) Snapshot {
			s := world(t, plain)
			s.Record = &records.RKEState{Halted: stamp(t, s)}
			return s
		}, Nothing, nil},
		{"under way, by a leader that is gone", func(t *testing.T) Snapshot { return running(t, Params{Stamp: "current"}) }, Run, func(d Decision) bool { return len(d.Config.Nodes) == 2 }},
		{"under way and to stop", func(t *testing.T) Snapshot {
			s := running(t, Params{Stamp: "current"})
			s.Operations[0].State = operations.Stopping
			return s
		}, End, func(d Decision) bool { return d.State == operations.Aborted && d.Halted && d.Stamp != "" }},
		{"under way, and its agents have not come to this server yet", func(t *testing.T) Snapshot {
			s := running(t, Params{Stamp: "current"})
			s.Connected = func(records.Machine) bool { return false }
			return s
		}, Nothing, nil},
		{"between two tries", func(t *testing.T) Snapshot {
			return running(t, Params{Stamp: "current", Tries: 1, Next: now.Add(time.Minute)})
		}, Nothing,
			func(d Decision) bool { return d.Again == time.Minute }},
		{"between two tries, and somebody asks for one", func(t *testing.T) Snapshot {
			s := running(t, Params{Stamp: "current", Tries: 1, Next: now.Add(time.Minute)})
			s.Operations[0].Retry = 1
			return s
		}, Run, nil},
		{"between two tries of something else", func(t *testing.T) Snapshot {
			return running(t, Params{Stamp: "other", Tries: 1, Next: now.Add(time.Minute)})
		}, Run, nil},
		{"left to a host that is away", func(t *testing.T) Snapshot {
			s := running(t, Params{Stamp: "current", Tries: 1, Away: []string{"10.0.0.2"}})
			s.Connected = func(m records.Machine) bool { return m.NodeName == "a" }
			return s
		}, Nothing, func(d Decision) bool { return d.Again == 0 }},
		{"left to a host that is back", func(t *testing.T) Snapshot {
			return running(t, Params{Stamp: "current", Tries: 1, Away: []string{"10.0.0.2"}})
		}, Run, nil},
		{"under way with a config that has become wrong", func(t *testing.T) Snapshot {
			s := running(t, Params{Stamp: "other"})
			bad := clusterspec.RancherKubernetesEngineConfig(`{"network":{"plugin":"rope"}}`)
			s.Cluster.Spec.RancherKubernetesEngineConfig = &bad
			return s
		}, End, func(d Decision) bool { return d.State == operations.Failed && strings.Contains(d.Reason, "rope") }},
		{"forgotten", func(t *testing.T) Snapshot {
			s := world(t, plain)
			s.Cluster.Deleting = now
			return s
		}, Nothing, nil},
		{"deleted while under way", func(t *testing.T) Snapshot {
			s := running(t, Params{Stamp: "current"})
			s.Cluster.Deleting, s.Cluster.Leave.Uninstall = now, true
			return s
		}, End, func(d Decision) bool { return d.State == operations.Aborted && !d.Halted }},
		{"deleted before anything was deployed", func(t *testing.T) Snapshot {
			s := world(t, plain)
			s.Cluster.Deleting, s.Cluster.Leave.Uninstall = now, true
			return s
		}, Nothing, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, err := Decide(tc.make(t))
			if err != nil {
				t.Fatal(err)
			}
			if d.Do != tc.want || tc.also != nil && !tc.also(d) {
				t.Errorf("decision %+v, want %d", d, tc.want)
			}
		})
	}
}

func TestConfigHasTheHosts(t *testing.T) {
	s := world(t, plain)
	s.Machines[0].NodeLabels = map[string]string{"zone": "x"}
	s.Machines[0].NodeTaints = []records.Taint{{Key: "k", Value: "v", Effect: "NoSchedule"}}
	s.Machines[1].InternalAddress = []string{"192.168.0.1"}
	gone := machine("0", "10.0.0.9", allRoles)
	gone.Deleting = now
	s.Machines = append(s.Machines, gone)
	in := Input{Cluster: s.Cluster, Machines: s.Machines, Versions: s.Versions}
	c, _, err := Config(in)
	if err != nil {
		t.Fatal(err)
	}
	type node struct{ Name, Address, Internal, Hostname, User, Port, Roles string }
	var got []node
	for _, n := range c.Nodes {
		got = append(got, node{n.NodeName, n.Address, n.InternalAddress, n.HostnameOverride, n.User, n.Port, strings.Join(n.Role, ",")})
	}
	want := []node{
		{"c-abcde:m-a", "10.0.0.1", "192.168.0.1", "a", "root", "22", "etcd,controlplane,worker"},
		{"c-abcde:m-b", "10.0.0.2", "10.0.0.2", "b", "root", "22", "worker"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]config.Taint{{Key: "k", Value: "v", Effect: "NoSchedule"}}, c.Nodes[1].Taints); diff != "" || c.Nodes[1].Labels["zone"] != "x" {
		t.Error(diff, c.Nodes[1].Labels)
	}
	if c.ClusterName != "yard" {
		t.Errorf("cluster_name = %q", c.ClusterName)
	}
	// A host that comes later and sorts first is behind those that certificates were made for, and the version stays.
	before := &state.State{Desired: state.Part{Config: c}}
	c.KubernetesVersion = s.Versions.List()[len(s.Versions.List())-1]
	in.Before, in.Machines = before, append(s.Machines, machine("0a", "10.0.0.3", records.Roles{Worker: true}))
	later, _, err := Config(in)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(later.Nodes); n != 3 || later.Nodes[2].HostnameOverride != "0a" || later.KubernetesVersion != c.KubernetesVersion {
		t.Errorf("%s: %+v", later.KubernetesVersion, later.Nodes)
	}
}

func TestNeedsNameHostAndRole(t *testing.T) {
	machines := []records.Machine{machine("a", "10.0.0.1", records.Roles{Etcd: true}), machine("b", "10.0.0.2", records.Roles{Worker: true})}
	needs := Needs("yard", machines, func(m records.Machine) bool { return m.NodeName == "b" })
	if got := Sentence(needs); got != "the node agent on a, which has the role etcd, is not connected; no host with the role controlplane has registered" {
		t.Error(got)
	}
	if needs[0].Host != "a" || needs[1].NextStep != "run on a host what `drover clusters join-command yard --docker --controlplane` prints" {
		t.Errorf("%+v", needs)
	}
}

func TestCheck(t *testing.T) {
	s := world(t, `{"network":{"plugin":"rope"}}`)
	if _, err := Check(Input{Cluster: s.Cluster, Versions: s.Versions}); err == nil || !strings.Contains(err.Error(), "spec.rancherKubernetesEngineConfig.network.plugin") {
		t.Error(err)
	}
	s = world(t, plain)
	if _, err := Check(Input{Cluster: s.Cluster, Versions: s.Versions}); err != nil {
		t.Error(err)
	}
}

// made is a state as the engine begins with.
func made(t *testing.T, s Snapshot) *state.State {
	t.Helper()
	c, _, err := Config(Input{Cluster: s.Cluster, Machines: s.Machines, Versions: s.Versions})
	if err != nil {
		t.Fatal(err)
	}
	next, _, err := run.Init(run.Work{Config: c}, pki.NewSource(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestRecordAndRemoval(t *testing.T) {
	s := world(t, plain)
	first := made(t, s)
	r, err := rke.Record(records.RKEState{Done: "before"}, first)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"10.0.0.1", "10.0.0.2"}, r.Hosts); diff != "" || r.Done != "before" {
		t.Error(diff, r.Done)
	}
	back, err := rke.State(&r)
	if err != nil || len(back.Desired.Certificates) != len(first.Desired.Certificates) {
		t.Fatal(err)
	}
	if _, err := rke.Record(r, made(t, s)); err == nil || !strings.Contains(err.Error(), "another cluster") {
		t.Errorf("a state with another CA took the place: %v", err)
	}
	// The store keeps it through JSON.
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var stored records.RKEState
	if err := json.Unmarshal(text, &stored); err != nil {
		t.Fatal(err)
	}
	s.Record, s.Cluster.Deleting, s.Cluster.Leave.Uninstall = &stored, now, true
	d, err := Decide(s)
	if err != nil || d.Do != Begin || d.Kind != operations.KindUninstall {
		t.Fatalf("%v: %+v", err, d)
	}
	s.Operations = []operations.Operation{{ID: "op-1", Kind: operations.KindUninstall, Subject: "fleet-default/yard", State: operations.Running, Created: now}}
	if d, err = Decide(s); err != nil || d.Do != Run || len(d.Config.Nodes) != 2 {
		t.Fatalf("%v: %+v", err, d)
	}
}

func TestPublicHasNoPasswords(t *testing.T) {
	s := world(t, `{"privateRegistries":[{"url":"r.example","user":"u","password":"hush"}],"bastionHost":{"sshKey":"hush"},`+
		`"services":{"etcd":{"key":"hush","backupConfig":{"s3BackupConfig":{"accessKey":"a","secretKey":"hush"}}}},`+
		`"cloudProvider":{"name":"custom","customCloudProvider":"hush"},"network":{"plugin":"weave","weaveNetworkProvider":{"password":"hush"},"options":{"weave_password":"hush"}},"addons":"hush"}`)
	text, err := json.Marshal(Public(s.Cluster.Spec))
	if err != nil || strings.Contains(string(text), "hush") || !strings.Contains(string(text), `"user":"u"`) {
		t.Errorf("%v: %s", err, text)
	}
}
