package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/records"
)

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
		tunnel  Tunnel
		leading time.Time
		want    want
	}{
		{"new", records.Registering, Tunnel{}, at(0), want{records.Registering, "n1 has registered", 0}},
		{"comes", records.Registering, Tunnel{Connected: true, Since: at(59)}, at(0), want{records.Connected, "", 0}},
		{"stays", records.Connected, Tunnel{Connected: true, Since: at(10)}, at(0), want{records.Connected, "", 0}},
		{"has just gone", records.Connected, Tunnel{Since: at(59)}, at(0), want{records.Connected, "", 2 * time.Second}},
		{"is gone", records.Connected, Tunnel{Since: at(57), Reason: "it said nothing for 21s"}, at(0), want{records.Disconnected, "12:00:57Z: it said nothing", 0}},
		{"new leader", records.Connected, Tunnel{}, at(50), want{records.Connected, "", 5 * time.Second}},
		{"new leader has waited", records.Connected, Tunnel{}, at(45), want{records.Disconnected, "last known at 2026-11-21T12:00:45Z", 0}},
		{"stays away", records.Disconnected, Tunnel{}, at(59), want{records.Disconnected, "as it was", 0}},
		{"returns", records.Disconnected, Tunnel{Connected: true, Since: at(60)}, at(0), want{records.Connected, "", 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := records.Machine{Object: records.Object{Name: "m-1"}, NodeName: "n1", Docker: &records.DockerHost{}}
			m.Status.State = tc.state
			if tc.state == records.Disconnected {
				m.Status.Cause = "as it was"
			}
			d := DecideDocker(DockerSnapshot{Hosts: []DockerHost{{m, tc.tunnel}}, Now: at(60), Leading: tc.leading})
			got := d.Hosts["m-1"]
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
	host := func(name string, connected bool) DockerHost {
		return DockerHost{records.Machine{Object: records.Object{Name: "m-" + name}, NodeName: name}, Tunnel{Connected: connected}}
	}
	leaving := host("n9", false)
	leaving.Machine.Deleting = time.Unix(1, 0)
	var many []DockerHost
	for _, name := range strings.Split("abcdefg", "") {
		many = append(many, host(name, false))
	}
	for _, tc := range []struct {
		name           string
		hosts          []DockerHost
		state, message string
	}{
		{"none", []DockerHost{leaving}, ClusterPending, "no machine has joined; run on a host what `drover clusters join-command dockyard --docker --all-roles` prints"},
		{"all", []DockerHost{host("a", true), host("b", true)}, ClusterActive, "connected hosts 2 of 2"},
		{"some", []DockerHost{host("a", true), host("b", false), leaving}, ClusterActive, "connected hosts 1 of 2; not connected: b"},
		{"nobody", many, ClusterUnavailable, "connected hosts 0 of 7; not connected: a, b, c, d, e and 2 more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := DockerSnapshot{Cluster: records.Cluster{Object: records.Object{Name: "dockyard"}}, Hosts: tc.hosts}
			if got := DecideDocker(s).Cluster; got.State != tc.state || got.Message != tc.message || got.Ready {
				t.Errorf("got %+v", got)
			}
		})
	}
}
