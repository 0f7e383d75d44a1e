package daytwo

import (
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/planner/ops"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/s3server"
)

func (b *bench) secrets() records.ClusterSecrets {
	d, _ := b.ClusterSecrets.Get(string(key))
	return d.Value
}

// TestARotationOfTheServerToken stores the new token with the operation, which has its hash alone. One that failed is followed by one
// with the same token, since etcd may have it.
func TestARotationOfTheServerToken(t *testing.T) {
	b := newBench(t)
	first, err := b.asker.Begin(t.Context(), key, Ask{Kind: ops.KindToken, By: "user-1"})
	if err != nil {
		t.Fatal(err)
	}
	s := b.secrets()
	r, err := ops.ReadRequest(first)
	if err != nil || s.Next == nil || len(s.Next.Token) != 54 || !s.Next.Made.Equal(noon) || s.ServerToken != "word" || r.TokenHash != ops.TokenHash(s.Next.Token) {
		t.Fatalf("the secrets are %+v, the request is %+v, %v", s, r, err)
	}
	if strings.Contains(string(first.Params), s.Next.Token) {
		t.Error("the record of the operation has the token")
	}
	_, err = b.asker.Begin(t.Context(), key, Ask{Kind: ops.KindToken})
	if _, busy := errors.AsType[*operations.BusyError](err); !busy || b.secrets().Next.Token != s.Next.Token {
		t.Errorf("a second one: %v", err)
	}
	_, err = b.Operations.Modify(t.Context(), first.Key(), func(o operations.Operation) (operations.Operation, error) { return o.To(operations.Failed, "no", noon) })
	b.must(nil, err)
	again, err := b.asker.Begin(t.Context(), key, Ask{Kind: ops.KindToken})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := ops.ReadRequest(again); err != nil || r.TokenHash != ops.TokenHash(s.Next.Token) || b.secrets().Next.Token != s.Next.Token {
		t.Errorf("the next one: %+v, %v", r, err)
	}
}

// TestSnapshotsOfEarlierTokens can be restored for as long as the cluster has their token.
func TestSnapshotsOfEarlierTokens(t *testing.T) {
	b := newBench(t)
	b.snapshot("old", "m1", nil)
	d, _ := b.ClusterSecrets.Get(string(key))
	d.Value.Next = &records.ServerToken{Token: "fresh", Made: noon}
	next, known := ops.InForce(d.Value, ops.TokenHash("fresh"))
	if !known || next.ServerToken != "fresh" {
		t.Fatalf("%+v", next)
	}
	d.Value = next
	b.must(b.ClusterSecrets.Update(t.Context(), d))
	one, _ := b.Snapshots.Get(string(key) + "/m1/old")
	if ok, why := b.asker.Restorable(one.Value); !ok {
		t.Error(why)
	}
	next.Other = nil
	d, _ = b.ClusterSecrets.Get(string(key))
	d.Value = next
	b.must(b.ClusterSecrets.Update(t.Context(), d))
	if ok, why := b.asker.Restorable(one.Value); ok || why != "it was taken with another server token; if you have that, drover clusters token harbour --add FILE brings it" {
		t.Error(ok, why)
	}
}

// TestTheMirrorKnowsNoTokenOfOlderSnapshots: what was taken before the token in force was made is looked at when it is restored.
func TestTheMirrorKnowsNoTokenOfOlderSnapshots(t *testing.T) {
	for name, c := range map[string]struct {
		made time.Time
		want string
	}{"before": {noon, ""}, "after": {noon.Add(-2 * time.Hour), ops.TokenHash("word")}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			d, _ := b.ClusterSecrets.Get(string(key))
			d.Value.Made = c.made
			b.must(b.ClusterSecrets.Update(t.Context(), d))
			items := []map[string]any{item("scheduled", "pier-m2", "file:///d/scheduled")}
			m := &Mirror{State: b.State, Client: api(t, &items), Now: func() time.Time { return noon }}
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
	_, settings, put := real(t)
	b.keys(s3server.AccessKey, s3server.SecretKey)
	b.bucket(&settings)
	hash := ops.TokenHash("word")
	for name, said := range map[string]string{
		"good-1700000000": hash, "upper-1700000000": strings.ToUpper(hash), "long-1700000000": hash + "0", "short-1700000000": hash[1:], "markup-1700000000": "<b>123456789", "named": hash, "other": "0123456789AB",
	} {
		put("a/"+name, said, 10)
	}
	m := &Mirror{State: b.State, Client: func(records.ClusterKey) (kubernetes.Interface, error) { return nil, errors.New("no tunnel") }, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
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

// TestADraftStoresNothing.
func TestADraftStoresNothing(t *testing.T) {
	b := newBench(t)
	before := b.Store.Revision()
	o, err := b.asker.Draft(key, Ask{Kind: ops.KindToken})
	if err != nil || o.State != operations.Running || b.Store.Revision() != before {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := b.asker.Draft("fleet-default/none", Ask{Kind: ops.KindToken}); err == nil {
		t.Error("a draft for a cluster that there is not")
	}
	d, _ := b.ClusterSecrets.Get(string(key))
	for range ops.MaxTokens {
		d.Value.Other = append(d.Value.Other, records.ServerToken{Token: "t"})
	}
	b.must(b.ClusterSecrets.Update(t.Context(), d))
	_, err = b.asker.Draft(key, Ask{Kind: ops.KindToken})
	if _, refused := errors.AsType[*InvalidError](err); !refused || !strings.Contains(err.Error(), "no more are kept") {
		t.Error(err)
	}
}

// TestATokenThatWasBrought makes a snapshot of before restorable, and the operation has the hash of the token that it was listed with.
func TestATokenThatWasBrought(t *testing.T) {
	b := newBench(t)
	hash := ops.TokenHash("0ld-word")
	b.snapshot("old", "m1", func(s *records.Snapshot) { s.TokenHash = hash })
	ask := Ask{Kind: ops.KindRestore, Request: ops.Request{Snapshot: "old"}}
	_, err := b.asker.Begin(t.Context(), key, ask)
	if _, refused := errors.AsType[*InvalidError](err); !refused || !strings.Contains(err.Error(), "drover clusters token harbour --add FILE brings it") {
		t.Fatal(err)
	}
	d, _ := b.ClusterSecrets.Get(string(key))
	if d.Value, _, err = ops.Bringing(d.Value, "0ld-word"); err != nil {
		t.Fatal(err)
	}
	b.must(b.ClusterSecrets.Update(t.Context(), d))
	o, err := b.asker.Begin(t.Context(), key, ask)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := ops.ReadRequest(o); err != nil || r.TokenHash != hash || r.Target != "m1" {
		t.Errorf("%+v, %v", r, err)
	}
	if strings.Contains(string(o.Params)+o.Title, "0ld-word") || b.secrets().ServerToken != "word" {
		t.Errorf("the operation has the token, or the cluster has it already: %s", o.Params)
	}
}
