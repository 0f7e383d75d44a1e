package snapshots

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/installers/snapshots/bucket"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/test/harbour"
	"github.com/drover-project/drover/test/s3server"
)

// TestWhoseTokenASnapshotWasTakenWith is known of those on the hosts of the cluster; what it lists of a bucket may be another cluster's, and
// what a name of a file cannot be is no snapshot.
func TestWhoseTokenASnapshotWasTakenWith(t *testing.T) {
	b := newBench(t)
	f := (&Controller{State: b.State}).found(key, b.cluster())
	is := func(node, location string) listed {
		var one listed
		one.Spec.NodeName, one.Spec.Location, one.Status.CreationTime = node, location, noon
		return one
	}
	f.answered, f.items = true, []listed{is("pier-m1", "file:///d/one"), is("s3", "s3://bucket/two"), is("pier-m1", "file:///d/\u202egpj.exe")}
	got := map[string]string{}
	for _, s := range f.snapshots() {
		got[s.Name()] = s.TokenHash
	}
	if want := map[string]string{"one": installers.HashServerToken("word"), "two": ""}; !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWhenASnapshotIsForgotten: a snapshot that was just taken need not be listed yet, and one that is listed no more is known for a while.
func TestWhenASnapshotIsForgotten(t *testing.T) {
	b := newBench(t)
	now := noon
	m := &Controller{State: b.State, Client: api(t, &[]map[string]any{}), Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}
	b.Snapshot("one", "m1", func(s *records.Snapshot) { s.Created = noon.Add(-30 * time.Second) })
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

// TestWhatIsKeptOfSnapshotsIsBounded, whatever a cluster lists; what it lists no more makes room.
func TestWhatIsKeptOfSnapshotsIsBounded(t *testing.T) {
	b := newBench(t)
	now := noon
	var items []map[string]any
	for i := range maxSnapshots {
		items = append(items, item(fmt.Sprint(i), "pier-m1", fmt.Sprint("file:///d/", i)))
	}
	m := &Controller{State: b.State, Client: api(t, &items), Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}
	kept := func(name string) bool {
		_, is := b.Snapshots.Get(string(key) + "/m1/" + name)
		return is
	}
	if err := m.Refresh(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	items = append(items[1:], item("more", "pier-m1", "file:///d/more"))
	if err := m.Refresh(t.Context(), key); err == nil || !strings.Contains(err.Error(), "has more than 500 snapshots") || len(b.Snapshots.ListIn(string(key)+"/")) != maxSnapshots || kept("more") {
		t.Errorf("%v, and %d are kept", err, len(b.Snapshots.ListIn(string(key)+"/")))
	}
	now = noon.Add(2 * forgetAfter)
	if _ = m.Refresh(t.Context(), key); kept("0") {
		t.Error("a snapshot that is listed no more is kept because there are many")
	}
	if err := m.Refresh(t.Context(), key); err != nil || !kept("more") {
		t.Errorf("though there is room, the next one is not kept: %v", err)
	}
}

// TestTheSameFile: a snapshot in a bucket is that of a host when the name and the size are.
func TestTheSameFile(t *testing.T) {
	b := newBench(t)
	b.Snapshot("one", "m1", func(s *records.Snapshot) { s.By, s.SHA256, s.Size = "op-1", "aa", 4128 })
	f := (&Controller{State: b.State}).found(key, b.cluster())
	for size, want := range map[int64]string{4128: "aa", 4129: ""} {
		s := f.descended(records.Snapshot{Cluster: key, Machine: records.SnapshotInS3, File: "s3://harbour/one", Size: size, Created: noon.Add(-2 * fresh)}, noon)
		if s.SHA256 != want || (s.By != "") != (want != "") {
			t.Errorf("of %d bytes it is %+v", size, s)
		}
	}
}

// TestWhatIsNotTheServersToChange: a cluster that was handed over keeps the settings of its bucket.
func TestWhatIsNotTheServersToChange(t *testing.T) {
	b := newBench(t)
	b.Keys("AKIA", "hush")
	b.Bucket(&clusterspec.S3{Bucket: "harbour", CloudCredentialName: "fleet-default:keys"})
	b.Must(b.Clusters.Modify(t.Context(), string(key), func(c records.Cluster) (records.Cluster, error) { c.Exported = &records.Exported{}; return c, nil }))
	m := &Controller{State: b.State, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }} // a client would be asked for
	if err := b.deliver(m); err != nil {
		t.Error(err)
	}
}

// TestNoTokenIsKnownOfOlderSnapshots: what was taken before the token in force was made is looked at when it is restored.
func TestNoTokenIsKnownOfOlderSnapshots(t *testing.T) {
	for name, c := range map[string]struct {
		made time.Time
		want string
	}{"before": {noon, ""}, "after": {noon.Add(-2 * time.Hour), installers.HashServerToken("word")}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			d, _ := b.ClusterSecrets.Get(string(key))
			d.Value.Made = c.made
			b.Must(b.ClusterSecrets.Update(t.Context(), d))
			items := []map[string]any{item("scheduled", "pier-m2", "file:///d/scheduled")}
			m := &Controller{State: b.State, Client: api(t, &items), Now: func() time.Time { return noon }}
			if err := m.Refresh(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			if one, _ := b.Snapshots.Get(string(key) + "/m2/scheduled"); one.Value.TokenHash != c.want {
				t.Errorf("it has the hash %q, want %q", one.Value.TokenHash, c.want)
			}
		})
	}
}

// TestHashesOfTokensAreOfTheirForm: what a bucket or a cluster says of a snapshot's token is shown to people and compared, and is a hash
// or nothing. An object that says nothing of a token, and has no time in its name, is no snapshot.
func TestHashesOfTokensAreOfTheirForm(t *testing.T) {
	b := newBench(t)
	_, settings, put := harbour.S3(t, "../../..")
	b.Keys(s3server.AccessKey, s3server.SecretKey)
	b.Bucket(&settings)
	hash := installers.HashServerToken("word")
	for name, said := range map[string]string{
		"good-1700000000": hash, "upper-1700000000": strings.ToUpper(hash), "long-1700000000": hash + "0", "short-1700000000": hash[1:], "markup-1700000000": "<b>123456789", "named": hash, "other": "0123456789AB",
	} {
		put("a/"+name, said, 10)
	}
	m := &Controller{State: b.State, Client: func(records.ClusterKey) (kubernetes.Interface, error) { return nil, errors.New("no tunnel") }, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
	_ = m.Refresh(t.Context(), key)
	got := map[string]string{}
	for _, d := range b.Snapshots.ListIn(string(key) + "/s3/") {
		got[d.Value.Name()] = d.Value.TokenHash
	}
	if want := map[string]string{"good-1700000000": hash, "upper-1700000000": "", "long-1700000000": "", "short-1700000000": "", "markup-1700000000": "", "named": hash}; !maps.Equal(got, want) {
		t.Errorf("of a bucket: %q, want %q", got, want)
	}
	for said, want := range map[string]string{hash: hash, strings.ToUpper(hash): "", "<b>123456789": ""} {
		var one listed
		one.Spec.Location, one.Spec.NodeName, one.Metadata.Annotations = "file:///d/one", "pier-m1", map[string]string{"etcd.rke2.cattle.io/snapshot-token-hash": said}
		if s, ok := snapshot(key, one, map[string]string{"pier-m1": "m1"}); !ok || s.TokenHash != want {
			t.Errorf("of a cluster: %q, want %q", s.TokenHash, want)
		}
	}
}

// TestDesired: what is written of what was found.
func TestDesired(t *testing.T) {
	is := func(node, location, fault string) listed {
		var one listed
		one.Spec.SnapshotName, one.Spec.NodeName, one.Spec.Location, one.Status.CreationTime = "one", node, location, noon
		if fault != "" {
			one.Status.Error = &struct {
				Message string `json:"message"`
			}{fault}
		}
		return one
	}
	record := func(machine, file string, missing time.Time) store.Document[records.Snapshot] {
		s := records.Snapshot{Cluster: key, Machine: machine, File: file, Created: noon.Add(-time.Hour), Missing: missing}
		return store.Document[records.Snapshot]{Key: s.Key(), Revision: 7, Value: s}
	}
	for name, c := range map[string]struct {
		answered, opened bool
		items            []listed
		kept             []store.Document[records.Snapshot]
		want             []string
	}{
		"listed twice":                       {answered: true, items: []listed{is("n1", "file:///d/one", ""), is("n1", "file:///d/one", "")}, want: []string{"m1/one new"}},
		"the same in another directory":      {answered: true, items: []listed{is("n1", "file:///e/one", "")}, kept: []store.Document[records.Snapshot]{record("m1", "/d/one", time.Time{})}, want: []string{"m1/one at /e/one"}},
		"listed again":                       {answered: true, items: []listed{is("n1", "file:///d/one", "")}, kept: []store.Document[records.Snapshot]{record("m1", "/d/one", noon)}, want: []string{"m1/one at /d/one"}},
		"as it was":                          {answered: true, items: []listed{is("n1", "file:///d/one", "")}, kept: []store.Document[records.Snapshot]{record("m1", "/d/one", time.Time{})}},
		"nobody answered":                    {kept: []store.Document[records.Snapshot]{record("m1", "/d/one", time.Time{}), record("s3", "s3://b/one", time.Time{})}},
		"the bucket alone answered":          {opened: true, kept: []store.Document[records.Snapshot]{record("m1", "/d/one", time.Time{}), record("s3", "s3://b/one", time.Time{})}, want: []string{"s3/one missing"}},
		"in S3 by the cluster alone":         {answered: true, items: []listed{is("s3", "s3://b/one", "")}, want: []string{"s3/one new"}},
		"in S3, which was opened":            {answered: true, opened: true, items: []listed{is("s3", "s3://b/one", "")}},
		"what could not be brought there":    {answered: true, opened: true, items: []listed{is("s3", "", "Access Denied")}, want: []string{"s3/one new"}},
		"a machine that the cluster has not": {answered: true, items: []listed{is("n9", "file:///d/one", "")}},
	} {
		t.Run(name, func(t *testing.T) {
			f := found{cluster: records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "harbour"}}, machines: map[string]string{"n1": "m1"}, kept: c.kept, answered: c.answered, opened: c.opened, items: c.items}
			changes, full := desired(f, noon)
			var got []string
			for _, one := range changes {
				text := strings.TrimPrefix(one.Key, string(key)+"/")
				switch {
				case one.Revision == 0:
					text += " new"
				case !one.Value.Missing.IsZero():
					text += " missing"
				default:
					text += " at " + one.Value.File
				}
				got = append(got, text)
			}
			if full != nil || !slices.Equal(got, c.want) {
				t.Errorf("%q, %v; want %q", got, full, c.want)
			}
		})
	}
	for size, want := range map[int64]bool{0: false, 1: true} {
		if _, is := withContent(records.Snapshot{}, bucket.Object{Name: "one-1700000000", Size: size}); is != want {
			t.Errorf("an object of %d bytes is a snapshot: %v", size, is)
		}
	}
}

// TestWhatDoesNotAnswer is a wait, and asked again when all others are.
func TestWhatDoesNotAnswer(t *testing.T) {
	b := newBench(t)
	c := &Controller{State: b.State, Client: func(records.ClusterKey) (kubernetes.Interface, error) { return nil, errors.New("no tunnel") }, Now: func() time.Time { return noon }}
	if r, err := c.reconcile(t.Context(), string(key)); err != nil || r.After != every || r.Wait == nil || !strings.Contains(r.Wait.Cause, "no tunnel") {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := c.reconcile(t.Context(), "fleet-default/none"); err != nil || !r.Gone {
		t.Errorf("a cluster that is not there: %+v, %v", r, err)
	}
}
