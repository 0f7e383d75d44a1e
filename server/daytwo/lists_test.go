package daytwo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/clusterspec/etcdspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/planner/ops"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/turns"
)

// TestWhoseTokenASnapshotWasTakenWith is known of those on the hosts of the cluster; what it lists of a bucket may be another cluster's, and
// what a name of a file cannot be is no snapshot.
func TestWhoseTokenASnapshotWasTakenWith(t *testing.T) {
	b := newBench(t)
	d, _ := b.Clusters.Get(string(key))
	m := &Mirror{State: b.State, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
	is := func(node, location string) listed {
		var one listed
		one.Spec.NodeName, one.Spec.Location, one.Status.CreationTime = node, location, noon
		return one
	}
	got := map[string]string{}
	for _, s := range m.snapshots(found{cluster: d.Value, answered: true, items: []listed{
		is("pier-m1", "file:///d/one"), is("s3", "s3://bucket/two"), is("pier-m1", "file:///d/\u202egpj.exe"),
	}}) {
		got[s.Name()] = s.TokenHash
	}
	if want := map[string]string{"one": ops.TokenHash("word"), "two": ""}; !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWhenTheMirrorForgets: a snapshot that was just taken need not be listed yet, and one that is listed no more is known for a while.
func TestWhenTheMirrorForgets(t *testing.T) {
	b := newBench(t)
	now := noon
	m := &Mirror{State: b.State, Client: api(t, &[]map[string]any{}), Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}
	b.snapshot("one", "m1", func(s *records.Snapshot) { s.Created = noon.Add(-30 * time.Second) })
	for _, step := range []struct {
		at      time.Time
		missing bool
		kept    bool
	}{{noon, false, true}, {noon.Add(time.Minute), true, true}, {noon.Add(forgetAfter), true, true}, {noon.Add(forgetAfter + 2*time.Minute), false, false}} {
		now = step.at
		if err := m.Refresh(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if d, kept := b.Snapshots.Get(string(key) + "/m1/one"); kept != step.kept || d.Value.Missing.IsZero() == step.missing {
			t.Errorf("at %s it is kept %v, missing since %s", step.at, kept, d.Value.Missing)
		}
	}
}

// TestWhatIsKeptOfSnapshotsIsBounded, whatever a cluster lists.
func TestWhatIsKeptOfSnapshotsIsBounded(t *testing.T) {
	b := newBench(t)
	var items []map[string]any
	for i := range maxSnapshots {
		items = append(items, item(fmt.Sprint(i), "pier-m1", fmt.Sprint("file:///d/", i)))
	}
	m := &Mirror{State: b.State, Client: api(t, &items), Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
	if err := m.Refresh(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	items = append(items[1:], item("more", "pier-m1", "file:///d/more"))
	if err := m.Refresh(t.Context(), key); err == nil || !strings.Contains(err.Error(), "has more than 500 snapshots") || len(b.Snapshots.ListIn(string(key)+"/")) != maxSnapshots {
		t.Errorf("%v, and %d are kept", err, len(b.Snapshots.ListIn(string(key)+"/")))
	}
}

// TestTheSameFile: a snapshot in a bucket is that of a host when the name and the size are.
func TestTheSameFile(t *testing.T) {
	b := newBench(t)
	b.snapshot("one", "m1", func(s *records.Snapshot) { s.By, s.SHA256, s.Size = "op-1", "aa", 4128 })
	m := &Mirror{State: b.State, Now: func() time.Time { return noon }}
	d, _ := b.Clusters.Get(string(key))
	for size, want := range map[int64]string{4128: "aa", 4129: ""} {
		s := m.descended(records.Snapshot{Cluster: key, Machine: records.SnapshotInS3, File: "s3://harbour/one", Size: size, Created: noon.Add(-2 * fresh)}, d.Value)
		if s.SHA256 != want || (s.By != "") != (want != "") {
			t.Errorf("of %d bytes it is %+v", size, s)
		}
	}
}

// TestWhoBeginsTheClusterAnew with a snapshot from a bucket is a machine that has etcd and stays; of several copies on hosts the one counts
// that can be restored.
func TestWhoBeginsTheClusterAnew(t *testing.T) {
	b := newBench(t)
	for name, m := range map[string]records.Machine{
		"m0": {Roles: records.Roles{ControlPlane: true}}, "l0": {Roles: records.Roles{Etcd: true, ControlPlane: true}, NodeName: "pier-l0", Object: records.Object{Deleting: noon}},
	} {
		m.Namespace, m.Name, m.UID, m.ClusterName = "fleet-default", name, name, "harbour"
		b.must(b.Machines.Create(t.Context(), m.Key(), m))
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
	b.snapshot("one", "m1", func(s *records.Snapshot) { s.Fault = "no space left" })
	b.snapshot("one", "m2", nil)
	b.snapshot("there", "m2", nil)
	for name, want := range map[string]string{"one": "m2", "/d/there": "m2"} {
		ask := Ask{Kind: ops.KindRestore, Request: ops.Request{Snapshot: name}}
		if err := b.asker.fits(d.Value, &ask); err != nil || ask.Request.Target != want {
			t.Errorf("%s: %q, %v", name, ask.Request.Target, err)
		}
	}
	// A path that one machine has a snapshot at is on another machine whatever that has there.
	ask := Ask{Kind: ops.KindRestore, Request: ops.Request{Snapshot: "/d/there", Target: "m1"}}
	if err := b.asker.fits(d.Value, &ask); err != nil || ask.Request.Target != "m1" || ask.Request.TokenHash != "" {
		t.Errorf("a file of a person's own: %+v, %v", ask.Request, err)
	}
}

// TestWhatIsNotTheServersToChange: a cluster that was handed over keeps the settings of its bucket.
func TestWhatIsNotTheServersToChange(t *testing.T) {
	b := newBench(t)
	b.keys("AKIA", "hush")
	b.bucket(&etcdspec.S3{Bucket: "harbour", CloudCredentialName: "fleet-default:keys"})
	b.must(b.Clusters.Modify(t.Context(), string(key), func(c records.Cluster) (records.Cluster, error) { c.Exported = &records.Exported{}; return c, nil }))
	m := &Mirror{State: b.State, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }} // a client would be asked for
	if err := m.deliver(t.Context(), key); err != nil {
		t.Error(err)
	}
}

// TestAFileOfAnotherSizeIsLetGo, and a host sends no more than it said.
func TestAFileOfAnotherSizeIsLetGo(t *testing.T) {
	b := newBench(t)
	b.snapshot("one", "m1", func(s *records.Snapshot) { s.Size = 9 })
	for name, c := range map[string]struct {
		length int64
		closed bool
	}{"another size": {4, true}, "the size": {9, false}} {
		body := &endless{}
		f := hostsOf{"m1": refuses(500, "")}.files(b)
		f.Ask = func(_ context.Context, _ records.Subject, _ string, _ http.Header) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, ContentLength: c.length, Header: http.Header{}, Body: body}, nil
		}
		opened, text, err := b.open(f, FileWish{Snapshot: "one"})
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

// TestADocumentIsFollowedOnce: what another server has begun a moment ago is neither begun again nor said to have failed.
func TestADocumentIsFollowedOnce(t *testing.T) {
	b := newBench(t)
	r := &Requests{Asker: &b.asker, Logger: slog.New(slog.DiscardHandler)}
	b.document(etcdspec.Requests{RotateCertificates: &etcdspec.RotateCertificates{Generation: 1}})
	before, _ := b.Clusters.Get(string(key))
	ask := due(before.Value)[0]
	reconciled(t, r)
	ask.Turn = turns.Queue
	if _, err := b.asker.Begin(t.Context(), key, ask); err == nil || !strings.Contains(err.Error(), "was asked for that before") || len(b.OperationsOf(key)) != 1 {
		t.Errorf("once more: %v", err)
	}
	started, _ := b.Clusters.Get(string(key))
	b.ends(operations.Succeeded)
	reconciled(t, r)
	// A generation counts on, whether or not the document has it.
	b.document(etcdspec.Requests{})
	reconciled(t, r)
	b.document(etcdspec.Requests{RotateCertificates: &etcdspec.RotateCertificates{Generation: 1}})
	reconciled(t, r)
	if all := b.OperationsOf(key); len(all) != 1 {
		t.Errorf("the same generation begins %d operations", len(all))
	}
	// Who has looked before the next request began says nothing of it.
	old := started
	b.must(b.Clusters.Modify(t.Context(), string(key), func(c records.Cluster) (records.Cluster, error) {
		c.Requests = map[string]records.Requested{ops.KindCertificates: {Value: "another", Operation: "op-2", Phase: PhaseStarted}}
		return c, nil
	}))
	if err := r.follow(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if now, _ := b.Clusters.Get(string(key)); now.Value.Requests[ops.KindCertificates].Phase != PhaseStarted {
		t.Errorf("it says %+v", now.Value.Requests)
	}
}
