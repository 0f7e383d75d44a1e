package api

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/records"
)

// linesOf begins an answer that goes on; next is its next line, or nothing at its end.
func (b *bench) linesOf(ctx context.Context, path string) (next func() string) {
	b.t.Helper()
	return b.linesAs(ctx, b.admin, path)
}

func (b *bench) linesAs(ctx context.Context, token, path string) (next func() string) {
	b.t.Helper()
	web := httptest.NewServer(b.handler)
	b.t.Cleanup(web.Close)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := web.Client().Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	return func() string {
		for lines.Scan() {
			if text := lines.Text(); text != "" {
				return text
			}
		}
		return ""
	}
}

// TestFollowFleets: a fleet comes again with what its machines do and with what is under way on it.
func TestFollowFleets(t *testing.T) {
	b := withFleet(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := b.linesOf(ctx, "/v1-drover/fleets?follow=true")
	until := func(want string) {
		t.Helper()
		for line := next(); !strings.Contains(line, want); line = next() {
			if line == "" {
				t.Fatalf("%s never came", want)
			}
		}
	}
	until(`"states":{"Waiting for plan":1}`)
	if _, err := b.st.Machines.Modify(ctx, "drover-fleets/custom-0000000000ff", func(m records.Machine) (records.Machine, error) {
		m.Status.State = records.ApplyingPlan
		return m, nil
	}); err != nil {
		t.Fatal(err)
	}
	until(`"states":{"Applying plan":1}`)
	b.want(http.StatusOK, "POST", "/v1-drover/fleets/edge/plan?label=site=north", greeting)
	until(`"kind":"plan"`)
	if err := b.st.Machines.Delete(ctx, "drover-fleets/custom-0000000000ff", 0); err != nil {
		t.Fatal(err)
	}
	until(`"machines":0`)
}

// TestFollowSnapshots: a line for each snapshot of the cluster, and for each that comes; of RKE1 they are in its state.
func TestFollowSnapshots(t *testing.T) {
	b := newBench(t)
	harbour(b)
	b.addSnapshot("/d/one")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := b.linesOf(ctx, "/v1-drover/clusters/fleet-default/harbour/snapshots?follow=true")
	if line := next(); !strings.Contains(line, `"name":"one"`) {
		t.Fatalf("first line %s", line)
	}
	b.addSnapshot("/d/two")
	if line := next(); !strings.Contains(line, `"name":"two"`) {
		t.Fatalf("then %s", line)
	}

	storeQuarry(b)
	next = b.linesOf(ctx, "/v1-drover/clusters/fleet-default/quarry/snapshots?follow=true")
	for _, name := range []string{"one", "two"} {
		if line := next(); !strings.Contains(line, `"name":"`+name+`"`) {
			t.Fatalf("of RKE1, %s: %s", name, line)
		}
	}
	if _, err := b.st.RKEStates.Modify(ctx, "fleet-default/quarry", func(s records.RKEState) (records.RKEState, error) {
		s.Snapshots = append(slices.Clone(s.Snapshots), records.RKESnapshot{ID: "c-quarr-ml-ccccc", Name: "three", At: start})
		return s, nil
	}); err != nil {
		t.Fatal(err)
	}
	for line := next(); !strings.Contains(line, `"name":"three"`); line = next() {
		if line == "" {
			t.Fatal("a new one of RKE1 never came")
		}
	}
}

// TestFollowMachines: a line for each machine, one for each change, and the end with the token.
func TestFollowMachines(t *testing.T) {
	b := newBench(t)
	cl := b.addCluster("harbour", "c-m-h4rb0r55", active)
	b.addMachine(cl, "000000000001", nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := b.linesOf(ctx, "/v1-drover/machines?follow=true&cluster=c-m-h4rb0r55")
	if line := next(); !strings.Contains(line, `"name":"custom-000000000001"`) || !strings.Contains(line, `"state":"Registering"`) {
		t.Fatalf("first line %s", line)
	}
	other := b.addCluster("quay", "c-m-qqqqqqqq", nil)
	b.addMachine(other, "000000000009", nil)
	if _, err := b.st.Machines.Modify(ctx, "fleet-default/custom-000000000001", func(m records.Machine) (records.Machine, error) {
		m.Status.State = records.Active
		return m, nil
	}); err != nil {
		t.Fatal(err)
	}
	if line := next(); !strings.Contains(line, `"state":"Active"`) {
		t.Fatalf("after the change: %s", line)
	}
	if err := b.auth.RevokeToken(ctx, "token-admin"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if line := next(); line != "" || time.Since(began) > 10*time.Second {
		t.Errorf("after the token is gone: %q after %s", line, time.Since(began))
	}
}

// TestExpiredTokenIsNamed: a client that holds the right key may learn that its time is over.
func TestExpiredTokenIsNamed(t *testing.T) {
	b := newBench(t)
	text := b.token("u-bob", records.Token{Name: "token-old", TTLMillis: 1000})
	b.pass(time.Minute)
	if r := b.request("GET", "/v3", text, ""); r.status != 401 || !strings.Contains(r.text("message"), "has expired") {
		t.Errorf("right key: %d %s", r.status, r.raw)
	}
	if r := b.request("GET", "/v3", "token-old:x", ""); r.status != 401 || r.text("message") != "must authenticate" {
		t.Errorf("wrong key: %d %s", r.status, r.raw)
	}
}

// TestFollowTellsWhatIsGone: a reader that asks for it learns it, whether a thing was removed or is no longer theirs to see, and what they see by
// a right that they get comes.
func TestFollowTellsWhatIsGone(t *testing.T) {
	b := newBench(t)
	administrated(b)
	cl, _ := harbour(b)
	pier := b.addCluster("pier", "c-m-pierpier", nil)
	annID, ann := b.person("ann", "user-base")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	admin := b.admin
	b.admin = ann
	next := b.linesOf(ctx, "/v1-drover/clusters?follow=true&gone=true")
	machines := b.linesOf(ctx, "/v1-drover/machines?follow=true&gone=true")
	b.admin = admin
	want := func(next func() string, wanted ...string) {
		t.Helper()
		line := next()
		for _, text := range wanted {
			if !strings.Contains(line, text) {
				t.Errorf("%s comes, without %s", line, text)
			}
		}
	}
	const gone = `{"id":"c-m-pierpier","name":"pier","namespace":"fleet-default","gone":true}`
	of := map[string]string{}
	for _, id := range []string{pier.ID, cl.ID} {
		of[id] = b.bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-owner","userId":%q}`, id, annID))
		want(next, `"id":"`+id+`"`, `"state":`)
	}
	want(machines, `"clusterId":"`+cl.ID)
	b.want(http.StatusNoContent, "DELETE", "/v3/clusterroletemplatebindings/"+of[pier.ID], "")
	want(next, gone)
	b.bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-owner","userId":%q}`, pier.ID, annID))
	want(next, `"id":"c-m-pierpier"`, `"state":`)
	if err := b.st.Clusters.Delete(ctx, pier.Key(), 0); err != nil {
		t.Fatal(err)
	}
	want(next, gone)
}
