package upgrades

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// well is a cluster of three servers with nothing in the way of an upgrade.
func well() facts {
	f := facts{
		now: noon, to: "v1.34.4+k3s1", known: true, running: []string{"v1.34.3+k3s1"}, newest: noon.Add(-time.Hour), snapshot: true,
		windowed: clusterspec.WindowState{Open: true}, details: map[string]observed.NodeDetails{},
		cluster: records.Cluster{
			Object: records.Object{Namespace: "fleet-default", Name: "harbour", Annotations: map[string]string{}},
			Spec:   clusterspec.Spec{KubernetesVersion: "v1.34.3+k3s1"}, Status: records.ClusterStatus{Initialized: true},
		},
	}
	for _, name := range []string{"pier-1", "pier-2", "pier-3"} {
		f.machines = append(f.machines, records.Machine{
			Object: records.Object{Name: name, UID: "uid-" + name}, NodeName: name, Roles: records.Roles{Etcd: true, ControlPlane: true},
			Status: records.MachineStatus{Condition: records.Condition{State: records.Active}, Node: &records.NodeRef{Name: name, Ready: true}},
		})
		f.nodes = append(f.nodes, Node{Name: name, Server: true, Known: true, Free: 20 << 30})
	}
	return f
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*facts)
		want   []string // level and code
		text   string   // a part of the first one
	}{
		{"nothing is in the way", func(*facts) {}, nil, ""},
		{"a patch level without data", func(f *facts) { f.neighbour = "v1.34.5+k3s1" }, []string{"warned version-neighbour"}, "it is taken with the settings of v1.34.5+k3s1"},
		{"a version without data", func(f *facts) { f.known, f.nearest = false, []string{"v1.34.5+k3s1"} }, []string{"refused version-unknown"}, "known are v1.34.5+k3s1"},
		{"not a version", func(f *facts) { f.to = "1.34" }, []string{"refused version-form"}, `"1.34" is not a version`},
		{"another distribution", func(f *facts) { f.to = "v1.34.4+rke2r1" }, []string{"refused distribution"}, ""},
		{"an older one", func(f *facts) { f.to = "v1.33.9+k3s1" }, []string{"refused downgrade"}, "cannot go back from v1.34.3+k3s1"},
		{"a minor line is left out", func(f *facts) { f.running = []string{"v1.32.1+k3s1"} }, []string{"refused skipped-minor"}, "from v1.32.1+k3s1, which runs"},
		{"and may be", func(f *facts) {
			f.running, f.cluster.Annotations[clusterspec.AllowSkippedMinor] = []string{"v1.32.1+k3s1"}, "true"
		}, []string{"warned skipped-minor"}, ""},
		{"half upgraded", func(f *facts) { f.running = []string{"v1.34.3+k3s1", "v1.33.1+k3s1"} }, []string{"warned mixed-versions"}, "from v1.33.1+k3s1 to v1.34.3+k3s1"},
		{"not up", func(f *facts) { f.cluster.Status.Initialized = false }, []string{"refused not-up"}, ""},
		{"a restore that has not ended", func(f *facts) { f.cluster.Status.Restoring = "op-1" }, []string{"refused restoring"}, "by operation op-1"},
		{"removed", func(f *facts) { f.cluster.Deleting = noon }, []string{"refused removing"}, ""},
		{"paused", func(f *facts) { f.cluster.Paused = &records.Pause{} }, []string{"warned paused"}, ""},
		{"a window that is not open", func(f *facts) {
			f.window, f.windowed = "Sat 22:00-04:00 UTC", clusterspec.WindowState{Change: noon.Add(3*time.Hour + 12*time.Minute)}
		}, []string{"warned window"}, "opens in 3h12m0s"},
		{"a member that is away", func(f *facts) { f.machines[1].Status.State = records.Unavailable }, []string{"refused etcd-health"}, "pier-2 is Unavailable of 3 members"},
		{"a member that does not vote", func(f *facts) {
			f.details["uid-pier-3"] = observed.NodeDetails{Voter: observed.VoterLearner}
		}, []string{"refused etcd-health"}, "pier-3 does not vote"},
		{"one member", func(f *facts) { f.machines = f.machines[:1] }, []string{"warned etcd-members"}, ""},
		{"a worker that is away", func(f *facts) {
			f.machines = append(f.machines, records.Machine{Object: records.Object{Name: "crane"}, Status: records.MachineStatus{Condition: records.Condition{State: records.Unavailable, Cause: "its host is off"}}})
		}, []string{"warned machine-not-active"}, "crane is Unavailable: its host is off"},
		{"a node of nobody", func(f *facts) { f.nodes = append(f.nodes, Node{Name: "old", NotReady: "gone"}) }, []string{"warned node-not-ready"}, "node old is not Ready: gone"},
		{"a full disk", func(f *facts) { f.nodes[0].Pressure = true }, []string{"refused disk-space"}, "DiskPressure"},
		{"little room", func(f *facts) { f.nodes[0].Free = 1 << 29 }, []string{"refused disk-space"}, "0.5 GiB of disk left, and an upgrade needs 1.0 GiB"},
		{"little room that is accepted", func(f *facts) { f.nodes[0].Free, f.accepted = 1<<29, []string{DiskSpace} }, []string{"warned disk-space"}, ""},
		{"some room", func(f *facts) { f.nodes[0].Free = 3 << 30 }, []string{"warned disk-space"}, ""},
		{"a kubelet that says nothing", func(f *facts) { f.nodes[0].Free, f.nodes[0].Known = 0, false }, nil, ""},
		{"an API that is gone", func(f *facts) {
			f.apis = []API{{"flowcontrol.apiserver.k8s.io", "v1beta3", "flowschemas", "1.32"}, {"", "v1", "componentstatuses", ""}}
		}, []string{"refused removed-apis"}, "flowcontrol.apiserver.k8s.io/v1beta3 flowschemas (gone in 1.32)"},
		{"and is looked after", func(f *facts) {
			f.apis, f.accepted = []API{{"a", "v1beta1", "b", "1.34"}}, []string{RemovedAPIs}
		}, []string{"warned removed-apis"}, ""},
		{"an API that goes later", func(f *facts) { f.apis = []API{{"a", "v1beta1", "b", "1.35"}} }, []string{"warned deprecated-apis"}, ""},
		{"a cluster that does not answer", func(f *facts) { f.unasked = "no tunnel is open" }, []string{"warned api"}, "no tunnel is open"},
		{"an old snapshot", func(f *facts) { f.newest = noon.Add(-50 * time.Hour) }, []string{"warned snapshot"}, "is 50h0m0s old; the upgrade begins with one"},
		{"no snapshot", func(f *facts) { f.newest, f.snapshot = time.Time{}, false }, []string{"warned snapshot"}, "there may be no way back"},
		{"what is refused comes first", func(f *facts) { f.cluster.Paused, f.to = &records.Pause{}, "v1.33.9+k3s1" }, []string{"refused downgrade", "warned paused"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := well()
			c.change(&f)
			found := find(f)
			var got []string
			for _, one := range found {
				got = append(got, string(one.Level)+" "+one.Code)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Fatal(diff)
			}
			if len(found) > 0 && !strings.Contains(found[0].Text, c.text) {
				t.Errorf("it says %q, without %q", found[0].Text, c.text)
			}
		})
	}
}

func TestRKE1(t *testing.T) {
	config := clusterspec.RancherKubernetesEngineConfig(`{"services":{"etcd":{}},"kubernetesVersion":"v1.30.5-rancher1-1"}`)
	for to, want := range map[string]string{
		"v1.31.2-rancher1-1": "snapshot", "v1.30.5-rancher1-2": "snapshot", "v1.29.9-rancher1-1": "downgrade", "v1.32.1-rancher1-1": "skipped-minor", "latest": "version-form",
	} {
		f := well()
		f.to, f.running, f.cluster.Spec = to, []string{"v1.30.5-rancher1-1"}, clusterspec.Spec{RancherKubernetesEngineConfig: &config}
		f.snapshot = false
		got := ""
		if found := find(f); len(found) > 0 {
			got = found[0].Code
		}
		if got != want {
			t.Errorf("%s: found %q, want %q", to, got, want)
		}
	}
	spec, err := withVersion(clusterspec.Spec{RancherKubernetesEngineConfig: &config}, "v1.31.2-rancher1-1")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(spec.RKE1Text()), `{"kubernetesVersion":"v1.31.2-rancher1-1","services":{"etcd":{}}}`; got != want {
		t.Errorf("the config is %s, want %s", got, want)
	}
}

func TestReadAPIs(t *testing.T) {
	metrics := `# HELP apiserver_requested_deprecated_apis [STABLE] Gauge of deprecated APIs
# TYPE apiserver_requested_deprecated_apis gauge
apiserver_requested_deprecated_apis{group="policy",removed_release="1.25",resource="podsecuritypolicies",subresource="",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="autoscaling",removed_release="1.26",resource="horizontalpodautoscalers",subresource="status",version="v2beta2"} 1
apiserver_request_total{group="policy"} 7
`
	got, err := readAPIs(strings.NewReader(metrics))
	if err != nil {
		t.Fatal(err)
	}
	want := []API{{"policy", "v1beta1", "podsecuritypolicies", "1.25"}, {"autoscaling", "v2beta2", "horizontalpodautoscalers/status", "1.26"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := readAPIs(strings.NewReader(strings.Repeat("a", 2<<20))); err == nil {
		t.Error("a line without an end is read")
	}
}
