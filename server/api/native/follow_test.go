package native_test

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
	"github.com/drover-project/drover/test/apibed"
)

// linesOf begins an answer that goes on; next is its next line, or nothing at its end.
func linesOf(ctx context.Context, b *apibed.Bed, path string) (next func() string) {
	b.T.Helper()
	return linesAs(ctx, b, b.Admin, path)
}

func linesAs(ctx context.Context, b *apibed.Bed, token, path string) (next func() string) {
	b.T.Helper()
	web := httptest.NewServer(b.Handler)
	b.T.Cleanup(web.Close)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+path, nil)
	if err != nil {
		b.T.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := web.Client().Do(r)
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { _ = answer.Body.Close() })
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
	b := apibed.WithFleet(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := linesOf(ctx, b, "/v1-drover/fleets?follow=true")
	until := func(want string) {
		t.Helper()
		for line := next(); !strings.Contains(line, want); line = next() {
			if line == "" {
				t.Fatalf("%s never came", want)
			}
		}
	}
	until(`"states":{"Waiting for plan":1}`)
	if _, err := b.State.Machines.Modify(ctx, "drover-fleets/custom-0000000000ff", func(m records.Machine) (records.Machine, error) {
		m.Status.State = records.ApplyingPlan
		return m, nil
	}); err != nil {
		t.Fatal(err)
	}
	until(`"states":{"Applying plan":1}`)
	b.Want(http.StatusOK, "POST", "/v1-drover/fleets/edge/plan?label=site=north", greeting)
	until(`"kind":"plan"`)
	if err := b.State.Machines.Delete(ctx, "drover-fleets/custom-0000000000ff", 0); err != nil {
		t.Fatal(err)
	}
	until(`"machines":0`)
}

// TestFollowSnapshots: a line for each snapshot of the cluster, and for each that comes; of RKE1 they are in its state.
func TestFollowSnapshots(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	b.AddSnapshot("/d/one")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := linesOf(ctx, b, "/v1-drover/clusters/fleet-default/harbour/snapshots?follow=true")
	if line := next(); !strings.Contains(line, `"name":"one"`) {
		t.Fatalf("first line %s", line)
	}
	b.AddSnapshot("/d/two")
	if line := next(); !strings.Contains(line, `"name":"two"`) {
		t.Fatalf("then %s", line)
	}

	storeQuarry(b)
	next = linesOf(ctx, b, "/v1-drover/clusters/fleet-default/quarry/snapshots?follow=true")
	for _, name := range []string{"one", "two"} {
		if line := next(); !strings.Contains(line, `"name":"`+name+`"`) {
			t.Fatalf("of RKE1, %s: %s", name, line)
		}
	}
	if _, err := b.State.RKEStates.Modify(ctx, "fleet-default/quarry", func(s records.RKEState) (records.RKEState, error) {
		s.Snapshots = append(slices.Clone(s.Snapshots), records.RKESnapshot{ID: "c-quarr-ml-ccccc", Name: "three", At: apibed.Start})
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
	b := apibed.New(t)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	b.AddMachine(cl, "000000000001", nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := linesOf(ctx, b, "/v1-drover/machines?follow=true&cluster=c-m-h4rb0r55")
	if line := next(); !strings.Contains(line, `"name":"custom-000000000001"`) || !strings.Contains(line, `"state":"Registering"`) {
		t.Fatalf("first line %s", line)
	}
	other := b.AddCluster("quay", "c-m-qqqqqqqq", nil)
	b.AddMachine(other, "000000000009", nil)
	if _, err := b.State.Machines.Modify(ctx, "fleet-default/custom-000000000001", func(m records.Machine) (records.Machine, error) {
		m.Status.State = records.Active
		return m, nil
	}); err != nil {
		t.Fatal(err)
	}
	if line := next(); !strings.Contains(line, `"state":"Active"`) {
		t.Fatalf("after the change: %s", line)
	}
	if err := b.Auth.RevokeToken(ctx, "token-admin"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if line := next(); line != "" || time.Since(began) > 10*time.Second {
		t.Errorf("after the token is gone: %q after %s", line, time.Since(began))
	}
}

// TestExpiredTokenIsNamed: a client that holds the right key may learn that its time is over.
func TestExpiredTokenIsNamed(t *testing.T) {
	b := apibed.New(t)
	text := b.Token("u-bob", records.Token{Name: "token-old", TTLMillis: 1000})
	b.Pass(time.Minute)
	if r := b.Request("GET", "/v3", text, ""); r.Status != 401 || !strings.Contains(r.Text("message"), "has expired") {
		t.Errorf("right key: %d %s", r.Status, r.Raw)
	}
	if r := b.Request("GET", "/v3", "token-old:x", ""); r.Status != 401 || r.Text("message") != "must authenticate" {
		t.Errorf("wrong key: %d %s", r.Status, r.Raw)
	}
}

// TestFollowTellsWhatIsGone: a reader that asks for it learns it, whether a thing was removed or is no longer theirs to see, and what they see by
// a right that they get comes.
func TestFollowTellsWhatIsGone(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	cl, _ := apibed.Harbour(b)
	pier := b.AddCluster("pier", "c-m-pierpier", nil)
	annID, ann := b.Person("ann", "user-base")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	admin := b.Admin
	b.Admin = ann
	next := linesOf(ctx, b, "/v1-drover/clusters?follow=true&gone=true")
	machines := linesOf(ctx, b, "/v1-drover/machines?follow=true&gone=true")
	b.Admin = admin
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
		of[id] = b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-owner","userId":%q}`, id, annID))
		want(next, `"id":"`+id+`"`, `"state":`)
	}
	want(machines, `"clusterId":"`+cl.ID)
	b.Want(http.StatusNoContent, "DELETE", "/v3/clusterroletemplatebindings/"+of[pier.ID], "")
	want(next, gone)
	b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-owner","userId":%q}`, pier.ID, annID))
	want(next, `"id":"c-m-pierpier"`, `"state":`)
	if err := b.State.Clusters.Delete(ctx, pier.Key(), 0); err != nil {
		t.Fatal(err)
	}
	want(next, gone)
}
