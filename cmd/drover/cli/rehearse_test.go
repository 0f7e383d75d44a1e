package cli

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/plans"
)

// watch opens a watch on the agent's Secret, by which it is there, until the test ends.
func (a *agent) watch() {
	a.Helper()
	r, err := http.NewRequestWithContext(a.Context(), http.MethodGet, a.url+strings.Replace(a.path, "/secrets/", "/secrets?watch=true&fieldSelector=metadata.name%3D", 1), nil)
	if err != nil {
		a.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+a.token)
	open, err := a.client.Do(r)
	if err != nil || open.StatusCode != http.StatusOK {
		a.Fatal(err, open)
	}
	a.Cleanup(func() { _ = open.Body.Close() })
}

// plan is the plan that the agent has, and its state.
func (a *agent) plan() (plan, state string) {
	a.Helper()
	data, _ := a.secret()["data"].(map[string]any)
	text := func(key string) string {
		encoded, _ := data[key].(string)
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			a.Fatal(err)
		}
		return string(decoded)
	}
	return text(plans.KeyPlan), text("plan-state")
}

// TestRehearseFromTheCommandLine: a file on a machine of a fleet is rehearsed, on a whole server.
func TestRehearseFromTheCommandLine(t *testing.T) {
	l := startLive(t)
	l.drover("apply", "-f", "../../../examples/k3s.yaml")
	host := l.join(l.drover("fleets", "join-command", "spare"), map[string]string{"X-Cattle-Id": strings.Repeat("c3", 31), "X-Cattle-Node-Name": "spare-1"})
	l.refused(2, "where is the snapshot to be restored?", "snapshots", "rehearse", "harbour", "/root/one")
	l.refused(1, "has no snapshot \"one\"", "snapshots", "rehearse", "harbour", "one", "--on", "spare-1")
	// A client that asks for the Secret once is not an agent that stays connected.
	l.refused(1, "is not connected", "snapshots", "rehearse", "harbour", "/root/one", "--on", "spare-1")
	if out := l.drover("clusters", "rehearsals", "harbour", "--every", "24h", "--fleet", "spare"); !strings.Contains(out, "every 24h0m0s on fleet spare") || !strings.Contains(out, "cluster harbour has no snapshot") {
		t.Errorf("the schedule is\n%s", out)
	}
	l.await("the event of a rehearsal that is held up", func() bool {
		return strings.Contains(l.drover("events", "--cluster", "harbour"), "cluster harbour has no snapshot")
	})
	host.watch()
	l.await("the agent", func() bool {
		return strings.Contains(l.drover("snapshots", "rehearse", "harbour", "/root/one", "--fleet", "spare", "--dry-run"), "reads /root/one there")
	})
	id := regexp.MustCompile(`op-\w+`).FindString(l.drover("snapshots", "rehearse", "harbour", "/root/one", "--on", "spare-1"))
	pending := func(what string) func() bool {
		return func() bool {
			plan, state := host.plan()
			return state == string(plans.StatePending) && strings.Contains(plan, what)
		}
	}
	l.await("the rehearsal's plan", pending(`"name":"rehearse"`))
	plan, _ := host.plan()
	if !strings.Contains(plan, "DROVER_SECRET_TOKEN=") || !strings.Contains(plan, "system-agent-installer-k3s:v1.34.4-k3s1") {
		t.Errorf("its plan is %s", plan)
	}
	host.report(func(o *plans.Outcome) { o.State, o.Revision = plans.StateInProgress, 1 })
	host.report(func(o *plans.Outcome) {
		o.State, o.AppliedChecksum = plans.StateSucceeded, plans.Checksum([]byte(plan))
		o.AppliedOutput = map[string][]byte{hostjob.RehearseName: []byte(`{"ok":true,"objects":412,"counts":{"nodes":3},"seconds":95}` + "\n")}
	})
	l.await("the plan after it", pending("rehearse-clean-up"))
	if plan, _ = host.plan(); strings.Contains(plan, "DROVER_SECRET_TOKEN=") {
		t.Errorf("it leaves the token in %s", plan)
	}
	host.report(func(o *plans.Outcome) { o.State, o.Revision = plans.StateInProgress, 2 })
	host.report(func(o *plans.Outcome) {
		o.State, o.AppliedChecksum = plans.StateSucceeded, plans.Checksum([]byte(plan))
	})
	if out := l.drover("operations", "wait", id); !strings.Contains(out, "succeeded") {
		t.Errorf("wait: %s", out)
	}
	if out := l.drover("operations", "show", id); !strings.Contains(out, "3 nodes, 412 objects") {
		t.Errorf("show:\n%s", out)
	}
}

// TestRehearsalsAreShown beside their snapshots, and when one was waited for.
func TestRehearsalsAreShown(t *testing.T) {
	a := playServer(t, map[string]http.HandlerFunc{
		"GET /v1-drover/clusters":                                   says(`{"data":[{"id":"fleet-default/harbour","name":"harbour","namespace":"fleet-default"}]}`),
		"POST /v1-drover/clusters/fleet-default/harbour/operations": says(`{"type":"begun","operation":{"id":"op-1","kind":"rehearse"}}`),
		"GET /v1-drover/operations/op-1":                            says(`{"id":"op-1","kind":"rehearse","state":"succeeded","log":[]}` + "\n"),
		"GET /v1-drover/clusters/fleet-default/harbour/snapshots": says(`{"data":[{"id":"s3/one","name":"one","restorable":true,
			"rehearsal":{"operation":"op-1","at":"2026-01-02T12:00:00Z","machine":"s1 (spare-1)","objects":412,"counts":{"nodes":3},"seconds":95,"unread":"gateways.example.org"}}]}`),
	})
	code, out, errs := a.run(t.Context(), "snapshots", "rehearse", "harbour", "one", "--fleet", "spare", "--wait")
	for _, want := range []string{"snapshot one can be restored: 3 nodes, 412 objects, counted in 95s on s1 (spare-1)", "not listed, as pods of the cluster convert them: gateways.example.org"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%d, and it does not say %q:\n%s%s", code, want, out, errs)
		}
	}
	if code, out, errs := a.run(t.Context(), "snapshots", "ls", "harbour"); code != 0 || !strings.Contains(out, " ago, ok (3 nodes, 412 objects)") {
		t.Errorf("%d, and ls says\n%s%s", code, out, errs)
	}
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for want, r := range map[string]*apitypes.Rehearsal{
		"-":                                     nil,
		"2h00m ago, ok (1 node, 1 object)":      {At: now.Add(-2 * time.Hour), Objects: 1, Counts: map[string]int{"nodes": 1}},
		"1m00s ago, failed: cut":                {At: now.Add(-time.Minute), Cause: "cut"},
		"1m00s ago, failed: cut (ok 1h00m ago)": {At: now.Add(-time.Minute), Cause: "cut", Good: now.Add(-time.Hour)},
	} {
		if got := rehearsed(now, r); got != want {
			t.Errorf("%+v is shown as %q, want %q", r, got, want)
		}
	}
}
