package native_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// to brings a machine into a state.
func to(b *apibed.Bed, key string, state records.MachineState, cause string) {
	b.T.Helper()
	if _, err := b.State.Machines.Modify(b.T.Context(), key, func(m records.Machine) (records.Machine, error) {
		m.Status.Condition, m.Status.Since = records.Condition{State: state, Cause: cause}, b.Now()
		return m, nil
	}); err != nil {
		b.T.Fatal(err)
	}
}

func eventText(e apitypes.Event) string {
	return fmt.Sprintf("%s %s %s→%s", e.Cluster, e.Name, e.From, e.To)
}

func TestListEvents(t *testing.T) {
	b := apibed.New(t)
	harbour := b.AddCluster("harbour", "c-m-h4rb0r55", nil)
	quay := b.AddCluster("quay", "c-m-qqqqqqqq", nil)
	pier := b.AddMachine(harbour, "000000000001", func(m *records.Machine) { m.NodeName = "pier-1" })
	b.AddMachine(quay, "000000000009", nil)
	b.Pass(time.Hour)
	to(b, pier.Key(), records.Failed, "no space left")
	all := []string{"harbour harbour →pending", "quay quay →pending", "harbour pier-1 →Registering", "quay custom-000000000009 →Registering", "harbour pier-1 Registering→Error"}
	for _, c := range []struct {
		query string
		want  []string
	}{
		{"", all},
		{"?cluster=c-m-h4rb0r55", []string{all[0], all[2], all[4]}},
		{"?cluster=nothing", nil},
		{"?since=59m", all[4:]},
		{"?since=61m", all},
		{"?since=0s&cluster=c-m-qqqqqqqq", nil},
	} {
		var page apitypes.List[apitypes.Event]
		if err := json.Unmarshal(b.Get("/v1-drover/events"+c.query).Raw, &page); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range page.Data {
			got = append(got, eventText(e))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.query, diff)
		}
	}
	var got []string
	for next, pages := "", 0; pages == 0 || next != ""; pages++ {
		var page apitypes.List[apitypes.Event]
		if err := json.Unmarshal(b.Get("/v1-drover/events?limit=2"+next).Raw, &page); err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Data {
			got = append(got, eventText(e))
		}
		if next = ""; page.Continue != "" {
			next = "&continue=" + page.Continue
		}
		if pages > 3 {
			t.Fatal("the pages have no end")
		}
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Error("page by page:", diff)
	}
	for _, bad := range []string{"1", "-1h", "yesterday"} {
		if r := b.Request("GET", "/v1-drover/events?since="+bad, b.Admin, ""); r.Status != http.StatusUnprocessableEntity || !strings.Contains(r.Text("message"), "is not a duration") {
			t.Errorf("%s: %d %s", bad, r.Status, r.Raw)
		}
	}
}

// Who follows gets what there is and what comes, once each, until the token ends.
func TestFollowEvents(t *testing.T) {
	b := apibed.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	harbour := b.AddCluster("harbour", "c-m-h4rb0r55", nil)
	web := httptest.NewServer(b.Handler)
	defer web.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+"/v1-drover/events?follow=true&cluster=c-m-h4rb0r55", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.Admin)
	answer, err := web.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	next := func() string {
		t.Helper()
		for lines.Scan() {
			if text := lines.Text(); text != "" {
				var e apitypes.Event
				if err := json.Unmarshal([]byte(text), &e); err != nil {
					t.Fatal(err)
				}
				return eventText(e)
			}
		}
		return "the end"
	}
	expect := func(want string) {
		t.Helper()
		if got := next(); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	expect("harbour harbour →pending")
	pier := b.AddMachine(harbour, "000000000001", nil)
	expect("harbour custom-000000000001 →Registering")
	// Written down meanwhile: nothing comes twice.
	kept, stop := context.WithCancel(ctx)
	_, wait := reconcile.Begin(kept, b.Events.Worker(), slog.New(slog.DiscardHandler))
	stop()
	wait()
	if len(b.State.Events.List()) != 1 {
		t.Fatal("nothing is written down")
	}
	b.AddMachine(b.AddCluster("quay", "c-m-qqqqqqqq", nil), "000000000009", nil)
	both := b.AddMachine(harbour, "000000000002", nil)
	expect("harbour custom-000000000002 →Registering")
	// Two in one revision.
	one, _ := b.State.Machines.Get(pier.Key())
	two, _ := b.State.Machines.Get(both.Key())
	one.Value.Status.State, two.Value.Status.State = records.Active, records.Active
	if _, err := b.State.Store.Commit(ctx, b.State.Machines.Updating(two), b.State.Machines.Updating(one)); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{next(): true, next(): true}
	want := map[string]bool{"harbour custom-000000000001 Registering→Active": true, "harbour custom-000000000002 Registering→Active": true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := b.Auth.RevokeToken(ctx, "token-admin"); err != nil {
		t.Fatal(err)
	}
	expect("the end")
}

// TestEventsAreShownByTheRightsOfNow: a caller who follows events gets none of a cluster that was taken from them meanwhile.
func TestEventsAreShownByTheRightsOfNow(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	harbour, quay := b.AddCluster("harbour", "c-m-h4rb0r55", nil), b.AddCluster("quay", "c-m-qqqqqqqq", nil)
	id, token := b.Person("ann", "user")
	member := func(cluster string) string {
		return b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-member","userId":%q}`, cluster, id))
	}
	member("c-m-h4rb0r55")
	taken := member("c-m-qqqqqqqq")
	next := linesAs(ctx, b, token, "/v1-drover/events?follow=true")
	seen := map[string]bool{}
	for range 2 {
		var e apitypes.Event
		if err := json.Unmarshal([]byte(next()), &e); err != nil {
			t.Fatal(err)
		}
		seen[eventText(e)] = true
	}
	if !seen["harbour harbour →pending"] || !seen["quay quay →pending"] {
		t.Fatalf("%v", seen)
	}
	if r := b.Request("DELETE", "/v3/clusterroletemplatebindings/"+taken, b.Admin, ""); r.Status != http.StatusOK && r.Status != http.StatusNoContent {
		t.Fatalf("%d %s", r.Status, r.Raw)
	}
	time.Sleep(50 * time.Millisecond) // the follower waits again
	b.AddMachine(quay, "000000000009", nil)
	b.AddMachine(harbour, "000000000001", nil)
	var e apitypes.Event
	if err := json.Unmarshal([]byte(next()), &e); err != nil || eventText(e) != "harbour custom-000000000001 →Registering" {
		t.Errorf("%v: %s", err, eventText(e))
	}
}
