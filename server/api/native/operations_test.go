package native_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/test/apibed"
)

func operationIDs(t *testing.T, r apibed.Result) (ids []string, next string) {
	t.Helper()
	var page apitypes.List[apitypes.OperationSummary]
	if err := json.Unmarshal(r.Raw, &page); err != nil {
		t.Fatalf("%v: %s", err, r.Raw)
	}
	for _, o := range page.Data {
		ids = append(ids, o.ID)
	}
	return ids, page.Continue
}

func TestListOperations(t *testing.T) {
	b := apibed.New(t)
	for id, cluster := range map[string]string{"op-1": "fleet-default/harbour", "op-2": "fleet-default/harbour", "op-3": "fleet-default/harbour-2", "op-4": "other/harbour"} {
		b.AddOperation(id, func(o *operations.Operation) { o.Subject = cluster })
	}
	for _, c := range []struct {
		query string
		want  []string
	}{
		{"", []string{"op-3", "op-1", "op-2", "op-4"}}, // in the order of keys
		{"?cluster=fleet-default/harbour", []string{"op-1", "op-2"}},
		{"?cluster=fleet-default%2Fharbour-2", []string{"op-3"}},
		{"?cluster=fleet-default/nothing", nil},
	} {
		got, _ := operationIDs(t, b.Get("/v1-drover/operations"+c.query))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.query, diff)
		}
	}
	var all []string
	for next := ""; ; {
		ids, more := operationIDs(t, b.Get("/v1-drover/operations?limit=3"+next))
		all = append(all, ids...)
		if more == "" {
			break
		}
		next = "&continue=" + more
	}
	if diff := cmp.Diff([]string{"op-3", "op-1", "op-2", "op-4"}, all); diff != "" {
		t.Error("page by page:", diff)
	}
	for _, bad := range []string{"harbour", "/harbour", "fleet-default/", "a/b/c"} {
		for _, follow := range []string{"", "&follow=true"} {
			if r := b.Request("GET", "/v1-drover/operations?cluster="+bad+follow, b.Admin, ""); r.Status != http.StatusUnprocessableEntity || !strings.Contains(r.Text("message"), "is not of the form NAMESPACE/NAME") {
				t.Errorf("%s: %d %s", bad, r.Status, r.Raw)
			}
		}
	}
}

// What people ask is taken where it fits, and otherwise refused with a sentence and nothing changed.
func TestAskOfOperations(t *testing.T) {
	failed := func(o *operations.Operation) {
		*o = o.WithTask(operations.Task{ID: "m", State: operations.TaskFailed}, apibed.Start)
	}
	for _, c := range []struct {
		name, ask string
		shape     func(*operations.Operation)
		other     operations.State // of another operation of the cluster; empty for none
		want      operations.State // empty for 409
		says      string
	}{
		{name: "abort a running one", ask: "abort", want: operations.Stopping},
		{name: "abort a queued one", ask: "abort", shape: func(o *operations.Operation) { o.State = operations.Queued }, other: operations.Running, want: operations.Aborted},
		{name: "abort what has ended", ask: "abort", shape: func(o *operations.Operation) { o.State = operations.Succeeded }, says: "operation op-1 has ended and is succeeded"},
		{name: "abort twice", ask: "abort", shape: func(o *operations.Operation) { o.State = operations.Stopping }, says: "operation op-1 is stopping already, and finishes what was begun"},
		{name: "retry a failed one", ask: "retry", shape: func(o *operations.Operation) { o.State = operations.Failed }, other: operations.Succeeded, want: operations.Running},
		{name: "retry a failed task", ask: "retry", shape: failed, other: operations.Queued, want: operations.Running},
		{name: "retry what runs well", ask: "retry", says: "operation op-1 runs, and none of its tasks has failed"},
		{name: "retry while another runs", ask: "retry", shape: func(o *operations.Operation) { o.State = operations.Failed }, other: operations.Running,
			says: "operation op-1 cannot run now, since operation op-2 (upgrade), asked for by user-admin, has been running since 2026-09-01T10:00:00Z"},
		{name: "retry what is not carried out twice", ask: "retry", shape: func(o *operations.Operation) { o.State, o.Once = operations.Failed, true },
			says: `operation op-1 has failed, and "upgrade" is not carried out twice: ask for it anew`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := apibed.New(t)
			before := b.AddOperation("op-1", c.shape)
			if c.other != "" {
				b.AddOperation("op-2", func(o *operations.Operation) { o.State = c.other })
			}
			b.Pass(time.Minute)
			r := b.Request("POST", "/v1-drover/operations/op-1/"+c.ask, b.Admin, "")
			stored, _ := b.State.Operations.Get(before.Key())
			if c.want == "" {
				if r.Status != http.StatusConflict || r.Text("message") != c.says {
					t.Errorf("%d %s", r.Status, r.Raw)
				}
				if diff := cmp.Diff(before, stored.Value); diff != "" {
					t.Error("a refused request changed it", diff)
				}
				return
			}
			if r.Status != http.StatusOK || r.Text("state") != string(c.want) || stored.Value.State != c.want {
				t.Fatalf("%d, stored as %s, want %s: %s", r.Status, stored.Value.State, c.want, r.Raw)
			}
			if c.ask == "abort" && (stored.Value.Abort == nil || stored.Value.Abort.By != "user-admin" || !stored.Value.Abort.At.Equal(b.Now())) {
				t.Errorf("asked by %v", stored.Value.Abort)
			}
			if c.ask == "retry" && stored.Value.Retry != 1 {
				t.Errorf("retries: %d", stored.Value.Retry)
			}
		})
	}
}

// Two who ask for the same at once: one is served, the other refused.
func TestAskOfOperationsAtOnce(t *testing.T) {
	b := apibed.New(t)
	b.AddOperation("op-1", func(o *operations.Operation) { o.State = operations.Failed })
	const askers = 8
	answers := make(chan apibed.Result, askers)
	for range askers {
		go func() { answers <- b.Request("POST", "/v1-drover/operations/op-1/retry", b.Admin, "") }()
	}
	counts := map[int]int{}
	for range askers {
		counts[(<-answers).Status]++
	}
	if diff := cmp.Diff(map[int]int{http.StatusOK: 1, http.StatusConflict: askers - 1}, counts); diff != "" {
		t.Error(diff)
	}
	if d, _ := b.State.Operations.Get("fleet-default/harbour/op-1"); d.Value.Retry != 1 {
		t.Errorf("%d retries were written", d.Value.Retry)
	}
}

// followed reads the lines of an answer that goes on.
func followed(ctx context.Context, b *apibed.Bed, t *testing.T, target string) (next func() string) {
	t.Helper()
	web := httptest.NewServer(b.Handler)
	t.Cleanup(web.Close)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.Admin)
	answer, err := web.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%d %s", answer.StatusCode, answer.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(answer.Body)
	return func() string {
		for lines.Scan() {
			if text := lines.Text(); text != "" {
				var o apitypes.Operation
				if err := json.Unmarshal([]byte(text), &o); err != nil {
					return err.Error()
				}
				return fmt.Sprintf("%s %s %d/%d, %d tasks, %d lines", o.ID, o.State, o.Done, o.Total, len(o.Tasks), len(o.Log))
			}
		}
		return "the end"
	}
}

func TestFollowOperations(t *testing.T) {
	b := apibed.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	key := b.AddOperation("op-1", nil).Key()
	change := func(change func(operations.Operation) (operations.Operation, error)) {
		t.Helper()
		if _, err := b.State.Operations.Modify(ctx, key, change); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(got, want string) {
		t.Helper()
		if got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	list := followed(ctx, b, t, "/v1-drover/operations?follow=true&cluster=fleet-default/harbour")
	one := followed(ctx, b, t, "/v1-drover/operations/op-1?follow=true")
	expect(list(), "op-1 running 0/0, 0 tasks, 0 lines")
	expect(one(), "op-1 running 0/0, 0 tasks, 0 lines")
	b.AddOperation("op-2", func(o *operations.Operation) { o.Subject = "fleet-default/quay" })
	change(func(o operations.Operation) (operations.Operation, error) {
		return o.WithTask(operations.Task{ID: "m", State: operations.TaskSucceeded}, apibed.Start), nil
	})
	expect(list(), "op-1 running 1/1, 0 tasks, 0 lines")
	expect(one(), "op-1 running 1/1, 1 tasks, 1 lines")
	b.AddOperation("op-3", nil)
	change(func(o operations.Operation) (operations.Operation, error) {
		return o.To(operations.Succeeded, "", apibed.Start)
	})
	expect(list(), "op-3 running 0/0, 0 tasks, 0 lines")
	expect(list(), "op-1 succeeded 1/1, 0 tasks, 0 lines")
	expect(one(), "op-1 succeeded 1/1, 1 tasks, 2 lines")
	if err := b.State.Operations.Delete(ctx, key, 0); err != nil {
		t.Fatal(err)
	}
	expect(one(), "the end")
	if err := b.Auth.RevokeToken(ctx, "token-admin"); err != nil {
		t.Fatal(err)
	}
	expect(list(), "the end")
}
