package rehearsals

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
)

var content = strings.Repeat("etcd", 1024) // as long as the record says

// has is a host that has the file.
func has(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	fmt.Fprint(w, content)
}

// linked begins a rehearsal of what the host of m1 alone has, and returns it with the secret of its link.
func (b *bench) linked() (operations.Operation, string) {
	b.Helper()
	o, err := b.asker.Begin(b.Context(), key, Request{Snapshot: "near", Fleet: "spare"})
	if err != nil {
		b.Fatal(err)
	}
	in := b.plan(o)
	i := slices.IndexFunc(in.Env, func(e string) bool { return strings.HasPrefix(e, "DROVER_SECRET_OPENS=") })
	if i < 0 {
		b.Fatalf("the host gets no secret: %q", in.Env)
	}
	return o, strings.TrimPrefix(in.Env[i], "DROVER_SECRET_OPENS=")
}

// fetch asks with a secret, as the machine does.
func (b *bench) fetch(secret string) *httptest.ResponseRecorder {
	b.Helper()
	mux := http.NewServeMux()
	b.asker.Routes(mux)
	r, w := httptest.NewRequest(http.MethodGet, LinkPath, nil), httptest.NewRecorder()
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	mux.ServeHTTP(w, r)
	return w
}

// TestASnapshotThatAHostAloneHas comes through the server, by a secret that is in the plan alone, and in its environment.
func TestASnapshotThatAHostAloneHas(t *testing.T) {
	b := newBench(t)
	b.host = has
	o, secret := b.linked()
	in := b.plan(o)
	for _, want := range []string{"DROVER_SECRET_LINK=https://drover.lan:8443/v3/connect/rehearsal", "DROVER_FROM=the server"} {
		if !slices.Contains(in.Env, want) {
			t.Errorf("the environment has no %s: %q", want, in.Env)
		}
	}
	if in.Args[4] != "near" || in.Args[5] != "4096" {
		t.Errorf("the arguments are %q", in.Args[3:])
	}
	if strings.Contains(strings.Join(in.Args, " "), secret) || strings.Contains(string(o.Params), secret) {
		t.Error("the secret is in the arguments, or in the record of the operation")
	}
	if given, _ := b.GivenPlans.Get(o.Key()); strings.Contains(string(given.Value.After), secret) {
		t.Error("the secret is in the plan after it")
	}
	if w := b.fetch(secret); w.Code != http.StatusOK || w.Body.String() != content || w.Header().Get("Content-Length") != "4096" {
		t.Errorf("%d %v, %d bytes", w.Code, w.Header(), w.Body.Len())
	}
	if log := b.logs.String(); !strings.Contains(log, "sent to a rehearsal with all Secrets") || !strings.Contains(log, "to=s2") || strings.Contains(log, secret) {
		t.Errorf("the log has\n%s", log)
	}
	lines, err := b.asker.Preview(t.Context(), key, Request{Snapshot: "near", Fleet: "spare"})
	if err != nil || lines[0] != "machine s2 (host-s2) of fleet spare gets near from machine m1 through the server, 0.0 MiB" {
		t.Errorf("it would do %q, %v", lines, err)
	}
}

// TestWhatALinkDoesNotOpen: nothing without its secret, and nothing when its rehearsal has ended or has lasted too long.
func TestWhatALinkDoesNotOpen(t *testing.T) {
	ended := func(change func(operations.Operation) operations.Operation) func(*bench, operations.Operation) {
		return func(b *bench, o operations.Operation) {
			b.must(b.Operations.Modify(b.Context(), o.Key(), func(o operations.Operation) (operations.Operation, error) { return change(o), nil }))
		}
	}
	for name, c := range map[string]struct {
		change func(*bench, operations.Operation)
		secret string
		status int
		want   string
	}{
		"no secret":      {secret: "-", status: 403, want: "the link opens nothing"},
		"another secret": {secret: "sesame", status: 403, want: "the link opens nothing"},
		"it was counted": {change: ended(func(o operations.Operation) operations.Operation {
			return o.WithTask(operations.Task{ID: steps.TaskRehearse, State: operations.TaskSucceeded}, noon)
		}), status: 403, want: "the link opens nothing"},
		"it is stopped": {change: ended(func(o operations.Operation) operations.Operation { o.State = operations.Stopping; return o }), status: 403, want: "the link opens nothing"},
		"an hour has gone": {
			change: func(b *bench, _ operations.Operation) { b.asker.Now = func() time.Time { return noon.Add(LinkLimit) } }, status: 403, want: "the link opens nothing",
		},
		"the host went away": {change: func(b *bench, _ operations.Operation) { b.host = nil }, status: 502, want: "on machine m1: its host has not been connected since"},
		"the cluster has dropped it": {
			change: func(b *bench, _ operations.Operation) {
				b.must(nil, b.Snapshots.Delete(b.Context(), string(key)+"/m1/near", 0))
			}, status: 404, want: "the snapshot is gone",
		},
		"the file has another size": {change: func(b *bench, _ operations.Operation) {
			b.host = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "5")
				fmt.Fprint(w, "other")
			}
		}, status: 502, want: "it was cut, or is another one"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.host = has
			o, secret := b.linked()
			if c.change != nil {
				c.change(b, o)
			}
			switch c.secret {
			case "":
			case "-":
				secret = ""
			default:
				secret = c.secret
			}
			if w := b.fetch(secret); w.Code != c.status || !strings.Contains(w.Body.String(), c.want) || strings.Contains(w.Body.String(), "etcd") {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
}

// TestS3ThatCannotBeReached is no hindrance while a host has the snapshot, too.
func TestS3ThatCannotBeReached(t *testing.T) {
	b := newBench(t)
	b.host = has
	b.snapshot("m1", "/var/lib/rancher/k3s/server/db/snapshots/off")
	for want, fault := range map[string]string{"from S3": "", "from machine m1 through the server": "it refuses"} {
		b.asker.Snapshots.Fault = func(records.ClusterKey) string { return fault }
		lines, err := b.asker.Preview(t.Context(), key, Request{Snapshot: "off", Fleet: "spare"})
		if err != nil || !strings.Contains(lines[0], want) {
			t.Errorf("with fault %q it would do %q, %v", fault, lines, err)
		}
	}
}
