package quotas_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/quotas"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

func open(t *testing.T, values map[quotas.Quota]string) *state.State {
	t.Helper()
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	set := settings.New(st.Settings, func(string) string { return "" }, settings.Defaults{})
	for name, value := range values {
		if err := set.Set(t.Context(), string(name), value); err != nil {
			t.Fatal(err)
		}
	}
	quotas.New(st, set)
	return st
}

func cluster(name, by string) records.Cluster {
	return records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: name}, ID: "c-" + name, CreatorID: by}
}

func create(ctx context.Context, st *state.State, c records.Cluster) error {
	_, err := st.Clusters.Create(ctx, c.Key(), c)
	return err
}

// TestEachQuotaIsASetting: by both names, with a bound.
func TestEachQuotaIsASetting(t *testing.T) {
	set := settings.New(open(t, nil).Settings, func(string) string { return "" }, settings.Defaults{})
	for _, quota := range []quotas.Quota{quotas.Clusters, quotas.Documents, quotas.Machines, quotas.Operations, quotas.Tokens} {
		for _, name := range []quotas.Quota{quota, quota.PerPerson()} {
			if s := set.Get(string(name)); s.Value == "" || s.Value == "0" {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
}

// TestTheServerMeetsNoQuota: what is written without a person, such as status, repairs and what a backup holds, is not refused, nor
// is a restore that a person asks for.
func TestTheServerMeetsNoQuota(t *testing.T) {
	st := open(t, map[quotas.Quota]string{quotas.Clusters: "1", quotas.Clusters.PerPerson(): "1", quotas.Operations.PerPerson(): "1", quotas.Tokens.PerPerson(): "1"})
	for i := range 3 {
		if err := create(t.Context(), st, cluster(fmt.Sprint("c", i), "u-ann")); err != nil {
			t.Error(err)
		}
	}
	ann := quotas.By(t.Context(), "u-ann")
	if err := create(ann, st, cluster("c9", "u-ann")); err == nil || !strings.Contains(err.Error(), "quota-clusters allows") {
		t.Errorf("by a person: %v", err)
	}
	begin := func(ctx context.Context, id string, kind operations.Kind) error {
		o := operations.Operation{ID: id, Kind: kind, Subject: "fleet-default/c0", By: "u-ann", State: operations.Running}
		_, err := st.Operations.Create(ctx, o.Key(), o)
		return err
	}
	if err := begin(ann, "op-1", operations.KindSnapshot); err != nil {
		t.Error(err)
	}
	if err := begin(ann, "op-2", operations.KindSnapshot); err == nil {
		t.Error("one more than the quota")
	}
	if err := begin(ann, "op-3", operations.KindRestore); err != nil {
		t.Errorf("a restore: %v", err)
	}
	if err := begin(t.Context(), "op-4", operations.KindSnapshot); err != nil {
		t.Errorf("a scheduled snapshot: %v", err)
	}
	for i := range 3 {
		login := records.Token{Name: fmt.Sprint("token-", i), UserID: "u-ann", Session: true}
		if _, err := st.Tokens.Create(ann, login.Name, login); err != nil {
			t.Errorf("a login: %v", err)
		}
	}
}

// TestManyAtOnce: requests of the same moment do not pass a quota of one server together.
func TestManyAtOnce(t *testing.T) {
	st := open(t, map[quotas.Quota]string{quotas.Clusters.PerPerson(): "5"})
	var made atomic.Int32
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if create(quotas.By(t.Context(), "u-ann"), st, cluster(fmt.Sprint("c", i), "u-ann")) == nil {
				made.Add(1)
			}
		})
	}
	all.Wait()
	if got := st.ClustersByCreator.Count("u-ann"); got > 5 || int(made.Load()) != got {
		t.Errorf("%d clusters", got)
	}
	// What failed for another reason takes no room.
	for range 10 {
		if err := create(quotas.By(t.Context(), "u-ben"), st, cluster("c-ben", "u-ben")); err != nil && strings.Contains(err.Error(), "quota") {
			t.Fatal(err)
		}
	}
	if err := create(quotas.By(t.Context(), "u-ben"), st, cluster("c-ben-2", "u-ben")); err != nil {
		t.Error(err)
	}
}
