package etcdops

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
)

// TestWhoBeginsTheClusterAnew with a snapshot from a bucket is a machine that has etcd and stays; of several copies on hosts the one counts
// that can be restored.
func TestWhoBeginsTheClusterAnew(t *testing.T) {
	b := newBench(t)
	for name, m := range map[string]records.Machine{
		"m0": {Roles: records.Roles{ControlPlane: true}}, "l0": {Roles: records.Roles{Etcd: true, ControlPlane: true}, NodeName: "pier-l0", Object: records.Object{Deleting: noon}},
	} {
		m.Namespace, m.Name, m.UID, m.ClusterName = "fleet-default", name, name, "harbour"
		b.Must(b.Machines.Create(t.Context(), m.Key(), m))
	}
	d, _ := b.Clusters.Get(string(key))
	for _, c := range []struct{ named, node, want string }{
		{"", "", "m1"}, {"", "pier-m2", "m2"}, {"m2", "pier-m1", "m2"}, {"", "pier-l0", "m1"}, {"l0", "", ""}, {"m0", "", ""},
	} {
		got, err := b.asker.target(d.Value, c.named, records.Snapshot{Node: c.node})
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("named %q, taken by %q: %q, %v", c.named, c.node, got, err)
		}
	}
	b.Snapshot("one", "m1", func(s *records.Snapshot) { s.Fault = "no space left" })
	b.Snapshot("one", "m2", nil)
	b.Snapshot("there", "m2", nil)
	for name, want := range map[string]string{"one": "m2", "/d/there": "m2"} {
		ask := Request{Kind: operations.KindRestore, Request: steps.Request{Snapshot: name}}
		if err := b.asker.complete(d.Value, &ask); err != nil || ask.Request.Target != want {
			t.Errorf("%s: %q, %v", name, ask.Request.Target, err)
		}
	}
	// A path that one machine has a snapshot at is on another machine whatever that has there.
	ask := Request{Kind: operations.KindRestore, Request: steps.Request{Snapshot: "/d/there", Target: "m1"}}
	if err := b.asker.complete(d.Value, &ask); err != nil || ask.Request.Target != "m1" || ask.Request.TokenHash != "" {
		t.Errorf("a file of a person's own: %+v, %v", ask.Request, err)
	}
}

// TestAFileOfAnotherSizeIsLetGo, and a host sends no more than it said.
func TestAFileOfAnotherSizeIsLetGo(t *testing.T) {
	b := newBench(t)
	b.Snapshot("one", "m1", func(s *records.Snapshot) { s.Size = 9 })
	for name, c := range map[string]struct {
		length int64
		closed bool
	}{"another size": {4, true}, "the size": {9, false}} {
		body := &endless{}
		f := hostsOf{"m1": refuses(500, "")}.files(b)
		f.Ask = func(_ context.Context, _ records.Subject, _ string, _ http.Header) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, ContentLength: c.length, Header: http.Header{}, Body: body}, nil
		}
		opened, text, err := b.open(f, FileRequest{Snapshot: "one"})
		if c.closed {
			if _, none := errors.AsType[*NoFileError](err); !none || !body.closed {
				t.Errorf("%s: %v, closed %v", name, err, body.closed)
			}
			continue
		}
		if err != nil || opened.Size != 9 || text != "xxxxxxxxx" {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
}

// endless is a body that does not end in a MiB.
type endless struct {
	read   int
	closed bool
}

func (e *endless) Read(p []byte) (int, error) {
	if e.read += len(p); e.read > 1<<20 {
		return 0, errors.New("more was read than was said")
	}
	return copy(p, strings.Repeat("x", len(p))), nil
}

func (e *endless) Close() error { e.closed = true; return nil }
