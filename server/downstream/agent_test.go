package downstream

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

const clusterID = "c-m-abcdefgh"

// newAgent is an API server behind the tunnel of a cluster's agent.
func newAgent(t *testing.T) *host {
	h := newHost(t)
	h.address, h.token, h.open = "127.0.0.1:443", "the-agents-token", true
	return h
}

// announce stores what an agent said, and gives its cluster an ID.
func (h *host) announce(t *testing.T, m *Clusters, imported bool) {
	t.Helper()
	if _, err := m.State.Clusters.Modify(t.Context(), "fleet-default/harbour", func(c records.Cluster) (records.Cluster, error) {
		c.ID = clusterID
		if imported {
			c.Spec = clusterspec.Spec{}
		}
		return c, nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.State.ClusterAgents.Create(t.Context(), "fleet-default/harbour", records.ClusterAgent{Address: h.address, CA: h.ca, Token: h.token}); err != nil {
		t.Fatal(err)
	}
}

// askVia is who the API takes for the sender of a request with these credentials, and the way that it went.
func askVia(t *testing.T, over http.RoundTripper, authorization string) (string, error) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://cluster/whoami", nil)
	request.RequestURI = ""
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response, err := over.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body) + " via " + response.Header.Get(ViaHeader), err
}

// TestAnImportedClusterIsReachedByItsAgent has no host at all.
func TestAnImportedClusterIsReachedByItsAgent(t *testing.T) {
	agent := newAgent(t)
	agent.set("True", nil)
	m, changed := start(t, fleet{clusterID: agent, "fleet-default/worker": newHost(t)}, records.Machine{Object: records.Object{Namespace: "fleet-default", Name: "worker"}, ClusterName: "other"})
	agent.announce(t, m, true)
	api := await(t, m, changed, func(a observed.API) bool { return a.Reachable })
	if api.Version != "v1.34.4+k3s1" || len(api.Unlabelled) != 1 {
		t.Errorf("seen of the cluster: %+v", api)
	}
	got, err := askVia(t, m.Way("fleet-default/harbour", AdminCredentials), "")
	if err != nil || got != "Bearer the-agents-token via "+viaAgent {
		t.Errorf("a request as the administrator: %q, %v", got, err)
	}
	if got, err = askVia(t, m.Way("fleet-default/harbour", NoCredentials), "Bearer mine"); err != nil || got != "Bearer mine via "+viaAgent {
		t.Errorf("a request with its own credentials: %q, %v", got, err)
	}
	agent.cut()
	await(t, m, changed, func(a observed.API) bool {
		return !a.Reachable && a.Cause == "the tunnel of the cluster's agent is not open"
	})
}

// TestAnAgentsAPIIsHeldToThePinnedName, whatever address the agent announces.
func TestAnAgentsAPIIsHeldToThePinnedName(t *testing.T) {
	agent := newAgent(t)
	m, changed := start(t, fleet{clusterID: agent, "fleet-default/worker": newHost(t)}, records.Machine{Object: records.Object{Namespace: "fleet-default", Name: "worker"}, ClusterName: "other"})
	agent.announce(t, m, true)
	await(t, m, changed, func(a observed.API) bool { return a.Reachable })
	if _, err := m.State.ClusterAgents.Modify(t.Context(), "fleet-default/harbour", func(a records.ClusterAgent) (records.ClusterAgent, error) {
		a.Name = "api.example.com"
		return a, nil
	}); err != nil {
		t.Fatal(err)
	}
	agent.cut()
	await(t, m, changed, func(a observed.API) bool { return !a.Reachable })
	agent.reopen()
	m.tunnelChanged(clusterID)
	await(t, m, changed, func(a observed.API) bool { return strings.Contains(a.Cause, "api.example.com") })
}

// TestHostsAreTheSecondWay: the agent goes, as where the overlay is down, and the hosts' tunnels stay.
func TestHostsAreTheSecondWay(t *testing.T) {
	agent, first := newAgent(t), newHost(t)
	first.open = true
	for _, h := range []*host{agent, first} {
		h.set("True", map[string]any{machineLabel: "uid"})
	}
	m, changed := start(t, fleet{clusterID: agent, "fleet-default/custom-1": first}, controlPlane("custom-1"))
	await(t, m, changed, func(a observed.API) bool { return a.Reachable })
	came := time.Now()
	agent.mu.Lock()
	agent.since = came
	agent.mu.Unlock()
	agent.announce(t, m, false)
	through := func(want string) {
		t.Helper()
		limit := time.Now().Add(2 * time.Minute)
		for {
			got, err := askVia(t, m.Way("fleet-default/harbour", NoCredentials), "Bearer mine")
			if err != nil {
				t.Fatalf("a person sees an error: %v", err)
			}
			if strings.HasSuffix(got, " via "+want) {
				return
			}
			if time.Now().After(limit) {
				t.Fatalf("the request went another way: %s", got)
			}
		}
	}
	through(viaAgent) // which is the first way once it has settled, though the host's works
	if open := time.Since(came); open < settled {
		t.Errorf("a host's way that works was left for an agent that came %s ago", open)
	}
	agent.cut()
	through("fleet-default/custom-1")
	agent.reopen()
	m.tunnelChanged(clusterID)
	through(viaAgent)
	agent.stop(true)
	through("fleet-default/custom-1")
	agent.stop(false)
	through(viaAgent)
	first.cut()
	through(viaAgent)
}

// TestAnAgentSettles: one whose tunnel has just opened is not better yet than a host through which the API answers.
func TestAnAgentSettles(t *testing.T) {
	agent, first := newAgent(t), newHost(t)
	agent.open = false
	m, _ := start(t, fleet{clusterID: agent, "fleet-default/custom-1": first}, controlPlane("custom-1"))
	agent.announce(t, m, false)
	w := &watcher{clusters: m, key: "fleet-default/harbour"}
	now := m.Now()
	for _, tc := range []struct {
		name  string
		since time.Time
		over  records.Subject
		open  bool
		wait  time.Duration
		agent bool
	}{
		{"not connected", now, "fleet-default/custom-1", false, 0, false},
		{"it is the way", now, clusterID, true, 0, false},
		{"come just now", now, "fleet-default/custom-1", true, settled, true},
		{"there for a while", now.Add(-time.Minute), "fleet-default/custom-1", true, settled - time.Minute, true},
	} {
		agent.mu.Lock()
		agent.open, agent.since = tc.open, tc.since
		agent.mu.Unlock()
		got, wait := w.better(&connection{subject: tc.over})
		if (got != "") != tc.agent || wait.Round(time.Second) != tc.wait {
			t.Errorf("%s: %q after %s", tc.name, got, wait)
		}
	}
}

func TestWhatAnUnreachableClusterIsToldBy(t *testing.T) {
	m, _ := start(t, fleet{"fleet-default/custom-1": newHost(t)}, controlPlane("custom-1"))
	if err := m.unreached("fleet-default/none"); !errors.Is(err, ErrNoControlPlane) {
		t.Errorf("a cluster that does not exist: %v", err)
	}
	if _, err := m.State.Clusters.Create(t.Context(), "fleet-default/brought", records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "brought"}}); err != nil {
		t.Fatal(err)
	}
	if api := m.API("fleet-default/brought"); api.Cause != errNoAgent.Error() {
		t.Errorf("an import without an agent: %+v", api)
	}
}
