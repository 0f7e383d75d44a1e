package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

func TestImportedCluster(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	agent := &records.ClusterAgent{Address: "10.43.0.1:443", CA: "ca", Token: "secret-token"}
	open, lost := observed.Tunnel{Connected: true, Since: now.Add(-time.Hour)}, observed.Tunnel{Since: now.Add(-time.Hour), Reason: "no answer"}
	reached := observed.API{Reachable: true, Version: "v1.34.4+k3s1"}
	for _, tc := range []struct {
		name     string
		agent    *records.ClusterAgent
		tunnel   observed.Tunnel
		api      observed.API
		before   records.ClusterStatus
		deleting bool
		state    records.ClusterState
		text     string
		removed  bool
		again    time.Duration // when it is looked at again
	}{
		{name: "nobody has come", state: records.ClusterPending, text: "waits for its agent: apply in it what `drover clusters import office` prints"},
		{name: "it is reached", agent: agent, tunnel: open, api: reached, state: records.ClusterActive},
		{name: "its API does not answer yet", agent: agent, tunnel: open, api: observed.API{Cause: "unauthorized"}, state: records.ClusterPending, text: "does not answer through it: unauthorized"},
		{name: "its API does not answer any more", agent: agent, tunnel: open, api: observed.API{Cause: "unauthorized"}, before: records.ClusterStatus{Initialized: true, State: records.ClusterActive}, state: records.ClusterUnavailable, text: "unauthorized"},
		{name: "its agent is gone", agent: agent, tunnel: lost, before: records.ClusterStatus{Initialized: true, State: records.ClusterActive}, state: records.ClusterUnavailable, text: "its agent is not connected since 2026-05-01T11:00:00Z (no answer); in the cluster: kubectl"},
		{name: "its agent is gone since a moment", agent: agent, tunnel: observed.Tunnel{Since: now.Add(-time.Second)}, before: records.ClusterStatus{Initialized: true, State: records.ClusterActive, Ready: true}, state: records.ClusterActive, again: 14 * time.Second},
		{name: "its agent came and went before it was reached", agent: agent, tunnel: lost, state: records.ClusterPending, text: "prints again"},
		{name: "it leaves, and nobody ever came", deleting: true, removed: true},
		{name: "it leaves, and its agent cleans up", agent: agent, tunnel: open, api: reached, deleting: true, state: records.ClusterRemoving, text: "being removed by its agent", again: 15 * time.Second},
		{name: "it leaves, and is clean", agent: &records.ClusterAgent{CA: "ca", Cleaned: now}, tunnel: open, deleting: true, removed: true},
		{name: "it leaves, and nobody is there to clean", agent: agent, tunnel: lost, deleting: true, removed: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := pass.Snapshot{Now: now, Leading: now.Add(-2 * time.Hour), API: tc.api, Import: pass.Import{Agent: tc.agent, Tunnel: tc.tunnel}}
			s.Cluster = records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "office", Generation: 1}, ID: "c-abcde", Status: tc.before}
			if tc.deleting {
				s.Cluster.Deleting, s.Cluster.Leave.Uninstall = now.Add(-time.Minute), true
			}
			d := Decide(s)
			if d.Cluster.Remove != tc.removed {
				t.Fatalf("removed: %t", d.Cluster.Remove)
			}
			if tc.removed {
				return
			}
			if d.Cluster.Status == nil {
				d.Cluster.Status = &tc.before
			}
			got := *d.Cluster.Status
			if d.Again != tc.again {
				t.Errorf("looked at again after %v", d.Again)
			}
			if got.State != tc.state || !strings.Contains(got.Message, tc.text) || (got.Message == "") != (tc.text == "") || strings.Contains(got.Message, "secret") {
				t.Errorf("%s: %s", got.State, got.Message)
			}
			if want := tc.api.Reachable; want && !tc.deleting && (!got.Ready || !got.Initialized || !got.Connected || got.Version != tc.api.Version) {
				t.Errorf("status: %+v", got)
			}
			s.Cluster.Status = got
			if again := Decide(s); !again.Empty() {
				t.Errorf("decided again, it writes %+v", again.Cluster)
			}
		})
	}
}

func TestASecondClusterWithOneManifestIsShown(t *testing.T) {
	s := pass.Snapshot{Now: time.Now(), API: observed.API{Reachable: true}, Import: pass.Import{Agent: &records.ClusterAgent{Address: "a:1", Token: "t", Refused: "an agent of another Kubernetes came"}}}
	s.Cluster = records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "office"}}
	w := Decide(s).Cluster.Status.Warning
	if w.Code != string(catalogue.ImportedTwice) || w.Cause != "an agent of another Kubernetes came" || !strings.Contains(w.NextStep, "drover clusters import office --replace") {
		t.Errorf("warning: %+v", w)
	}
	if _, ok := catalogue.Find(catalogue.ImportedTwice); !ok {
		t.Error("the catalogue does not have it")
	}
}
