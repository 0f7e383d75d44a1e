package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

// dockyard is a cluster of Docker hosts.
func dockyard(hosts ...pass.Machine) pass.Snapshot {
	c := records.Cluster{Object: records.Object{Name: "dockyard"}, Spec: clusterspec.Spec{RancherKubernetesEngineConfig: &clusterspec.RancherKubernetesEngineConfig{}}}
	return pass.Snapshot{Cluster: c, Machines: hosts, Now: noon}
}

func TestWhereDockerHostsStand(t *testing.T) {
	at := func(seconds int) time.Time {
		return time.Date(2026, 11, 21, 12, 0, seconds, 0, time.UTC)
	}
	type want struct {
		state records.MachineState
		cause string
		again time.Duration
	}
	for _, tc := range []struct {
		name    string
		state   records.MachineState
		tunnel  observed.Tunnel
		leading time.Time
		want    want
	}{
		{"new", records.Registering, observed.Tunnel{}, at(0), want{records.Registering, "n1 has registered", 0}},
		{"comes", records.Registering, observed.Tunnel{Connected: true, Since: at(59)}, at(0), want{records.Connected, "", 0}},
		{"stays", records.Connected, observed.Tunnel{Connected: true, Since: at(10)}, at(0), want{records.Connected, "", 0}},
		{"has just gone", records.Connected, observed.Tunnel{Since: at(59)}, at(0), want{records.Connected, "", 2 * time.Second}},
		{"is gone", records.Connected, observed.Tunnel{Since: at(57), Reason: "it said nothing for 21s"}, at(0), want{records.Disconnected, "12:00:57Z: it said nothing", 0}},
		{"new leader", records.Connected, observed.Tunnel{}, at(50), want{records.Connected, "", 5 * time.Second}},
		{"new leader has waited", records.Connected, observed.Tunnel{}, at(45), want{records.Disconnected, "last known at 2026-11-21T12:00:45Z", 0}},
		{"stays away", records.Disconnected, observed.Tunnel{}, at(59), want{records.Disconnected, "as it was", 0}},
		{"returns", records.Disconnected, observed.Tunnel{Connected: true, Since: at(60)}, at(0), want{records.Connected, "", 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &records.Machine{Object: records.Object{Name: "m-1"}, NodeName: "n1", Docker: &records.DockerHost{}}
			m.Status.State = tc.state
			if tc.state == records.Disconnected {
				m.Status.Cause = "as it was"
			}
			s := dockyard(pass.Machine{Machine: m, Tunnel: tc.tunnel})
			s.Now, s.Leading = at(60), tc.leading
			d := Decide(s)
			got := m.Status
			if next := of(d, "m-1").Status; next != nil {
				got = *next
			}
			if got.State != tc.want.state || !strings.Contains(got.Cause, tc.want.cause) || (got.Cause == "") != (tc.want.cause == "") || d.Again != tc.want.again {
				t.Errorf("got %+v, again in %s; want %+v", got, d.Again, tc.want)
			}
			if lost := got.State != records.Connected && tc.name != "stays away"; lost && (got.WaitingFor == "" || !strings.Contains(got.NextStep, "n1")) {
				t.Errorf("a wait without a name: %+v", got)
			}
		})
	}
}

func TestDockerClusters(t *testing.T) {
	host := func(name string, connected bool) pass.Machine {
		return pass.Machine{Machine: &records.Machine{Object: records.Object{Name: "m-" + name}, NodeName: name}, Tunnel: observed.Tunnel{Connected: connected}}
	}
	leaving := host("n9", false)
	leaving.Machine.Deleting = time.Unix(1, 0)
	var many []pass.Machine
	for name := range strings.SplitSeq("abcdefg", "") {
		many = append(many, host(name, false))
	}
	for _, tc := range []struct {
		name    string
		hosts   []pass.Machine
		state   records.ClusterState
		message string
	}{
		{"none", []pass.Machine{leaving}, records.ClusterPending, "no machine has joined; run on a host what `drover clusters join-command dockyard --docker --all-roles` prints"},
		{"all", []pass.Machine{host("a", true), host("b", true)}, records.ClusterActive, "connected hosts 2 of 2"},
		{"some", []pass.Machine{host("a", true), host("b", false), leaving}, records.ClusterActive, "connected hosts 1 of 2; not connected: b"},
		{"nobody", many, records.ClusterUnavailable, "connected hosts 0 of 7; not connected: a, b, c, d, e and 2 more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := dockyard(tc.hosts...)
			got := Decide(s).Cluster.Status
			if got == nil || got.State != tc.state || got.Message != tc.message || got.Ready || got.Connected != (tc.state == records.ClusterActive) {
				t.Errorf("got %+v", got)
			}
			if left := Decide(commit(s, Decide(s))); !left.Empty() {
				t.Errorf("after its commit the decision is not empty:\n%s", left)
			}
		})
	}
}
