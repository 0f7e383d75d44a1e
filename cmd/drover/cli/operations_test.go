package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/cmd/drover/output"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/views"
)

// upgradeSteps are an operation as it was at each of its steps until it ends in a state.
func upgradeSteps(t *testing.T, end apitypes.OperationState, reason string) []apitypes.Operation {
	t.Helper()
	at := func(seconds int) time.Time {
		return time.Date(2026, 1, 2, 12, 0, seconds, 0, time.UTC)
	}
	o, err := operations.Begin(operations.Operation{
		ID: "op-bcdfghjk", Kind: "upgrade", Subject: "fleet-default/harbour", Title: "Upgrade harbour to v1.34.4+k3s1", By: "user-admin", Created: at(0),
	}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	o = o.WithTask(apitypes.Task{ID: "custom-1", Host: "pier-1", State: apitypes.TaskRunning, Progress: "applying plan", Attempts: 1}, at(1))
	o = o.WithTask(apitypes.Task{ID: "custom-2", Host: "pier-2"}, at(1))
	var steps []apitypes.Operation
	step := func(next operations.Operation) {
		o = next
		steps = append(steps, views.OfOperation(store.Document[operations.Operation]{Key: o.Key(), Revision: 1, Value: o}))
	}
	step(o)
	step(o.WithWait(&apitypes.Wait{Object: "machine custom-1", Host: "pier-1", Cause: "etcd does not answer", NextStep: "look at its log"}, at(2)))
	step(o.WithTask(apitypes.Task{ID: "custom-1", Host: "pier-1", State: apitypes.TaskSucceeded, Attempts: 1}, at(3)).WithWait(nil, at(3)))
	ended, err := o.To(end, reason, at(4))
	if err != nil {
		t.Fatal(err)
	}
	step(ended)
	return steps
}

// streams plays an operation that is followed: each connection sends its part of the lines and
// ends; the last one stays open.
func streams(t *testing.T, parts ...[]apitypes.Operation) http.HandlerFunc {
	var asked atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		i := int(asked.Add(1)) - 1
		if r.URL.RawQuery != "follow=true&gone=true" || i >= len(parts) {
			t.Errorf("asked for %s, number %d", r.URL, i+1)
			return
		}
		io.WriteString(w, "\n")
		for _, o := range parts[i] {
			if err := json.NewEncoder(w).Encode(o); err != nil {
				t.Error(err)
			}
		}
		if i == len(parts)-1 {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}
}

// times are what a test does not hold: the clock of the operation in the place of the person.
var times = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d  `)

func TestOperationsWait(t *testing.T) {
	done := upgradeSteps(t, apitypes.OperationSucceeded, "")
	const (
		first  = "op-bcdfghjk  upgrade of fleet-default/harbour is running, 0/2 tasks done\n"
		middle = "waiting for machine custom-1 on pier-1: etcd does not answer\ncustom-1: succeeded\n"
	)
	for _, c := range []struct {
		name  string
		parts [][]apitypes.Operation
		flags string
		code  int
		out   string
		errs  string
	}{
		{name: "it succeeds", parts: [][]apitypes.Operation{done}, out: first + middle + "succeeded\n"},
		{name: "it has succeeded before", parts: [][]apitypes.Operation{done[3:]}, out: "op-bcdfghjk  upgrade of fleet-default/harbour is succeeded, 1/2 tasks done\n"},
		{name: "it fails", parts: [][]apitypes.Operation{upgradeSteps(t, apitypes.OperationFailed, "pier-2 is full")}, code: 1, out: first + middle + "failed: pier-2 is full\n",
			errs: "error: operation op-bcdfghjk failed: pier-2 is full; `drover operations show op-bcdfghjk` has its tasks, `drover operations retry op-bcdfghjk` tries them again\n"},
		{name: "it is aborted", parts: [][]apitypes.Operation{upgradeSteps(t, apitypes.OperationAborted, "")}, code: 1, out: first + middle + "aborted\n", errs: "error: operation op-bcdfghjk is aborted\n"},
		{name: "the connection is lost", parts: [][]apitypes.Operation{done[:2], done[1:]}, out: first + middle + "succeeded\n",
			errs: "the server's answer ended (EOF); asked again\n"},
		{name: "it takes too long", parts: [][]apitypes.Operation{done[:2]}, flags: "--timeout 3s", code: 1,
			out:  first + "waiting for machine custom-1 on pier-1: etcd does not answer\n",
			errs: "error: wait for operation op-bcdfghjk: timed out after 3s; it is running and waits for machine custom-1 on pier-1: etcd does not answer\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := playServer(t, map[string]http.HandlerFunc{"GET /v1-drover/operations/op-bcdfghjk": streams(t, c.parts...)})
			code, out, errs := a.run(t.Context(), strings.Fields("operations wait op-bcdfghjk "+c.flags)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if diff := cmp.Diff(c.out, times.ReplaceAllString(out, "")) + cmp.Diff(c.errs, errs); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("for programs", func(t *testing.T) {
		a := playServer(t, map[string]http.HandlerFunc{"GET /v1-drover/operations/op-bcdfghjk": streams(t, upgradeSteps(t, apitypes.OperationFailed, "full"))})
		code, out, _ := a.run(t.Context(), "operations", "wait", "op-bcdfghjk", "-o", "json")
		var got apitypes.Operation
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 1 || got.State != apitypes.OperationFailed {
			t.Errorf("%d, %v: %s", code, err, out)
		}
	})
	t.Run("removed meanwhile", func(t *testing.T) {
		following := streams(t, done[:1], nil)
		var asked atomic.Int64
		a := playServer(t, map[string]http.HandlerFunc{"GET /v1-drover/operations/op-bcdfghjk": func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) > 1 {
				refuses(http.StatusNotFound)(w, r)
				return
			}
			following(w, r)
		}})
		if code, _, errs := a.run(t.Context(), "operations", "wait", "op-bcdfghjk"); code != 4 || !strings.Contains(errs, "error: follow operation op-bcdfghjk: the server says 404") {
			t.Errorf("%d: %s", code, errs)
		}
	})
	t.Run("Ctrl-C", func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		a := playServer(t, map[string]http.HandlerFunc{"GET /v1-drover/operations/op-bcdfghjk": func(w http.ResponseWriter, r *http.Request) {
			interrupt()
			<-r.Context().Done()
		}})
		if code, _, errs := a.run(ctx, "operations", "wait", "op-bcdfghjk"); code != 130 || errs != "" {
			t.Errorf("%d: %s", code, errs)
		}
	})
}

func TestOperationsShow(t *testing.T) {
	steps := upgradeSteps(t, apitypes.OperationFailed, "pier-2 is full")
	routes := func(o apitypes.Operation) map[string]http.HandlerFunc {
		encoded, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]http.HandlerFunc{"GET /v1-drover/operations/op-bcdfghjk": says(string(encoded))}
	}
	agos := regexp.MustCompile(` \(\d+d( ago)?\)|\d+d`)
	for _, c := range []struct {
		name string
		o    apitypes.Operation
		want string
	}{
		{"while it waits", steps[1], `id             op-bcdfghjk
cluster        fleet-default/harbour
kind           upgrade
title          Upgrade harbour to v1.34.4+k3s1
asked for by   user-admin
state          running
created        2026-01-02T12:00:00Z AGO
started        2026-01-02T12:00:00Z AGO
done           0/2
waiting for    machine custom-1 on pier-1
cause          etcd does not answer
since          2026-01-02T12:00:02Z AGO
next step      look at its log

TASK       STATE     HOST     SINCE   ATTEMPTS   PROGRESS
custom-1   running   pier-1   AGO    1          applying plan
custom-2   pending   pier-2   AGO    0          -

2026-01-02T12:00:00Z  running
2026-01-02T12:00:01Z  custom-1: running
`},
		{"in the end", steps[3], `id             op-bcdfghjk
cluster        fleet-default/harbour
kind           upgrade
title          Upgrade harbour to v1.34.4+k3s1
asked for by   user-admin
state          failed
reason         pier-2 is full
created        2026-01-02T12:00:00Z AGO
started        2026-01-02T12:00:00Z AGO
ended          2026-01-02T12:00:04Z AGO
done           1/2

TASK       STATE       HOST     SINCE   ATTEMPTS   PROGRESS
custom-1   succeeded   pier-1   AGO    1          -
custom-2   pending     pier-2   AGO    0          -

2026-01-02T12:00:00Z  running
2026-01-02T12:00:01Z  custom-1: running
2026-01-02T12:00:03Z  custom-1: succeeded
2026-01-02T12:00:04Z  failed: pier-2 is full
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := playServer(t, routes(c.o)).run(t.Context(), "operations", "show", "op-bcdfghjk")
			out = agos.ReplaceAllStringFunc(out, func(text string) string {
				if text[0] == ' ' {
					return " AGO"
				}
				return "AGO"
			})
			out = regexp.MustCompile(`AGO +`).ReplaceAllString(out, "AGO    ")
			if diff := cmp.Diff(c.want, out); diff != "" || code != 0 {
				t.Errorf("%d %s\n%s", code, errs, diff)
			}
		})
	}
	t.Run("watched", func(t *testing.T) {
		a := playServer(t, map[string]http.HandlerFunc{"GET /v1-drover/operations/op-bcdfghjk": streams(t, steps)})
		code, out, errs := a.run(t.Context(), "operations", "show", "op-bcdfghjk", "-w")
		_, news, found := strings.Cut(out, "custom-1: running\n")
		want := "waiting for machine custom-1 on pier-1: etcd does not answer\ncustom-1: succeeded\nfailed: pier-2 is full\n"
		if diff := cmp.Diff(want, times.ReplaceAllString(news, "")); diff != "" || !found || code != 0 {
			t.Errorf("%d %s\n%s\n%s", code, errs, diff, out)
		}
	})
}

func TestOperationsList(t *testing.T) {
	a := playServer(t, map[string]http.HandlerFunc{
		"GET /v1-drover/clusters": says(`{"data":[{"id":"c-m-1","namespace":"fleet-default","name":"harbour"}]}`),
		"GET /v1-drover/operations": func(w http.ResponseWriter, r *http.Request) {
			switch cluster := r.URL.Query().Get("cluster"); cluster {
			case "":
				io.WriteString(w, `{"data":[{"id":"op-1","cluster":"fleet-default/harbour","kind":"change","state":"succeeded","done":2,"total":2,"created":"2026-01-02T12:00:00Z"},
					{"id":"op-2","cluster":"fleet-default/harbour","kind":"upgrade","state":"running","by":"user-admin","done":1,"total":3,"created":"2026-01-03T12:00:00Z","wait":{"object":"node pier-1"}}]}`)
			case "fleet-default/harbour", "fleet-default/gone":
				io.WriteString(w, `{"data":[{"id":"op-of-`+cluster+`"}]}`)
			default:
				t.Errorf("asked for operations of %q", cluster)
			}
		},
	})
	code, out, errs := a.run(t.Context(), "operations", "ls")
	want := `ID CLUSTER KIND STATE DONE BY AGE WAITING FOR
op-2 fleet-default/harbour upgrade running 1/3 user-admin AGE node pier-1
op-1 fleet-default/harbour change succeeded 2/2 - AGE -
`
	out = regexp.MustCompile(`\d+d`).ReplaceAllString(regexp.MustCompile(` +`).ReplaceAllString(out, " "), "AGE")
	if diff := cmp.Diff(want, out); diff != "" || code != 0 {
		t.Errorf("%d %s\n%s", code, errs, diff)
	}
	for _, cluster := range []string{"harbour", "fleet-default/harbour", "fleet-default/gone"} {
		want := "op-of-fleet-default/" + strings.TrimPrefix(cluster, "fleet-default/")
		if code, out, errs := a.run(t.Context(), "operations", "ls", "--cluster", cluster); code != 0 || !strings.Contains(out, want) {
			t.Errorf("of %s: %d %s%s", cluster, code, out, errs)
		}
	}
	if code, _, errs := a.run(t.Context(), "operations", "ls", "--cluster", "nowhere"); code != 4 || !strings.Contains(errs, `there is no cluster "nowhere"`) {
		t.Errorf("of no cluster: %d %s", code, errs)
	}
	if code, out, _ := a.run(t.Context(), "__complete", "operations", "abort", "op-"); code != 0 || !strings.HasPrefix(out, "op-2\nop-1\n:") {
		t.Errorf("completed by %q", out)
	}
}

func TestOperationsAsk(t *testing.T) {
	a := playServer(t, map[string]http.HandlerFunc{
		"POST /v1-drover/operations/op-1/abort": says(`{"id":"op-1","state":"stopping"}`),
		"POST /v1-drover/operations/op-2/abort": says(`{"id":"op-2","state":"aborted"}`),
		"POST /v1-drover/operations/op-1/retry": says(`{"id":"op-1","state":"running"}`),
		"POST /v1-drover/operations/op-2/retry": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			io.WriteString(w, `{"type":"error","status":409,"code":"Conflict","message":"operation op-2 is aborted, and only what has failed can be tried again"}`)
		},
		"/": refuses(http.StatusNotFound),
	})
	for _, c := range []struct {
		command   string
		code      int
		out, errs string
	}{
		{"abort op-1", 0, "operation op-1 is stopping; `drover operations wait op-1` waits for its end\n", ""},
		{"abort op-2", 0, "operation op-2 is aborted\n", ""},
		{"retry op-1", 0, "operation op-1 is running; `drover operations wait op-1` waits for its end\n", ""},
		{"retry op-2", 1, "", "error: retry an operation: operation op-2 is aborted, and only what has failed can be tried again\n"},
		{"abort op-3", 4, "", "error: abort an operation: the server says 404\n"},
		{"show op-3", 4, "", "error: show operation op-3: the server says 404\n"},
		{"wait op-3", 4, "", "error: follow operation op-3: the server says 404\n"},
		{"wait op-3 -o xml", 2, "", "error: -o xml: the formats are " + output.Usage + "\n"},
		{"wait", 2, "", "error: drover operations wait needs ID, as in `drover operations wait ID`\n"},
	} {
		t.Run(c.command, func(t *testing.T) {
			code, out, errs := a.run(t.Context(), append([]string{"operations"}, strings.Fields(c.command)...)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if diff := cmp.Diff(c.out, out) + cmp.Diff(c.errs, errs); diff != "" {
				t.Error(diff)
			}
		})
	}
}
