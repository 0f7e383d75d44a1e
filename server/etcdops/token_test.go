package etcdops

import (
	"errors"
	"strings"
	"testing"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
)

func (b *bench) secrets() records.ClusterSecrets {
	d, _ := b.ClusterSecrets.Get(string(key))
	return d.Value
}

// TestARotationOfTheServerToken stores the new token with the operation, which has its hash alone. One that failed is followed by one
// with the same token, since etcd may have it.
func TestARotationOfTheServerToken(t *testing.T) {
	b := newBench(t)
	first, err := b.asker.Begin(t.Context(), key, Request{Kind: operations.KindRotateToken, By: "user-1"})
	if err != nil {
		t.Fatal(err)
	}
	s := b.secrets()
	r, err := steps.ReadRequest(first)
	if err != nil || s.Next == nil || len(s.Next.Token) != 54 || !s.Next.Made.Equal(noon) || s.ServerToken != "word" || r.TokenHash != s.Next.Hash() {
		t.Fatalf("the secrets are %+v, the request is %+v, %v", s, r, err)
	}
	if strings.Contains(string(first.Params), s.Next.Token) {
		t.Error("the record of the operation has the token")
	}
	_, err = b.asker.Begin(t.Context(), key, Request{Kind: operations.KindRotateToken})
	if _, busy := errors.AsType[*operations.BusyError](err); !busy || b.secrets().Next.Token != s.Next.Token {
		t.Errorf("a second one: %v", err)
	}
	_, err = b.Operations.Modify(t.Context(), first.Key(), func(o operations.Operation) (operations.Operation, error) { return o.To(operations.Failed, "no", noon) })
	b.Must(nil, err)
	again, err := b.asker.Begin(t.Context(), key, Request{Kind: operations.KindRotateToken})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := steps.ReadRequest(again); err != nil || r.TokenHash != s.Next.Hash() || b.secrets().Next.Token != s.Next.Token {
		t.Errorf("the next one: %+v, %v", r, err)
	}
}

// TestSnapshotsOfEarlierTokens can be restored for as long as the cluster has their token.
func TestSnapshotsOfEarlierTokens(t *testing.T) {
	b := newBench(t)
	b.Snapshot("old", "m1", nil)
	d, _ := b.ClusterSecrets.Get(string(key))
	d.Value.Next = &records.ServerToken{Token: "fresh", Made: noon}
	next, known := d.Value.InForce(installers.HashServerToken("fresh"))
	if !known || next.ServerToken != "fresh" {
		t.Fatalf("%+v", next)
	}
	d.Value = next
	b.Must(b.ClusterSecrets.Update(t.Context(), d))
	one, _ := b.Snapshots.Get(string(key) + "/m1/old")
	if ok, why := b.asker.Restorable(one.Value); !ok {
		t.Error(why)
	}
	next.Other = nil
	d, _ = b.ClusterSecrets.Get(string(key))
	d.Value = next
	b.Must(b.ClusterSecrets.Update(t.Context(), d))
	if ok, why := b.asker.Restorable(one.Value); ok || why != "it was taken with another server token; if you have that, drover clusters token harbour --add FILE brings it" {
		t.Error(ok, why)
	}
}

// TestADraftStoresNothing.
func TestADraftStoresNothing(t *testing.T) {
	b := newBench(t)
	before := b.Store.Revision()
	o, err := b.asker.Draft(key, Request{Kind: operations.KindRotateToken})
	if err != nil || o.State != operations.Running || b.Store.Revision() != before {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := b.asker.Draft("fleet-default/none", Request{Kind: operations.KindRotateToken}); err == nil {
		t.Error("a draft for a cluster that there is not")
	}
	d, _ := b.ClusterSecrets.Get(string(key))
	for range records.MaxServerTokens {
		d.Value.Other = append(d.Value.Other, records.ServerToken{Token: "t"})
	}
	b.Must(b.ClusterSecrets.Update(t.Context(), d))
	_, err = b.asker.Draft(key, Request{Kind: operations.KindRotateToken})
	if _, refused := errors.AsType[*admission.InvalidError](err); !refused || !strings.Contains(err.Error(), "no more are kept") {
		t.Error(err)
	}
}

// TestATokenThatWasBrought makes a snapshot of before restorable, and the operation has the hash of the token that it was listed with.
func TestATokenThatWasBrought(t *testing.T) {
	b := newBench(t)
	hash := installers.HashServerToken("0ld-word")
	b.Snapshot("old", "m1", func(s *records.Snapshot) { s.TokenHash = hash })
	ask := Request{Kind: operations.KindRestore, Request: steps.Request{Snapshot: "old"}}
	_, err := b.asker.Begin(t.Context(), key, ask)
	if _, refused := errors.AsType[*admission.InvalidError](err); !refused || !strings.Contains(err.Error(), "drover clusters token harbour --add FILE brings it") {
		t.Fatal(err)
	}
	d, _ := b.ClusterSecrets.Get(string(key))
	if d.Value, _, err = d.Value.Bringing("0ld-word"); err != nil {
		t.Fatal(err)
	}
	b.Must(b.ClusterSecrets.Update(t.Context(), d))
	o, err := b.asker.Begin(t.Context(), key, ask)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := steps.ReadRequest(o); err != nil || r.TokenHash != hash || r.Target != "m1" {
		t.Errorf("%+v, %v", r, err)
	}
	if strings.Contains(string(o.Params)+o.Title, "0ld-word") || b.secrets().ServerToken != "word" {
		t.Errorf("the operation has the token, or the cluster has it already: %s", o.Params)
	}
}
