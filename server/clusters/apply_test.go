package clusters_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	control "github.com/drover-project/drover/server/controllers/clusters"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// bed is a store with an Applier, whose previews are the controller's, which does not run.
type bed struct {
	*testing.T
	state   *state.State
	applier *clusters.Applier
	known   *versions.Data
}

func newBed(t *testing.T) *bed {
	t.Helper()
	log, now := slog.New(slog.DiscardHandler), func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	known, err := versions.Load("")
	if err != nil {
		t.Fatal(err)
	}
	data := func() *versions.Data { return known }
	decides := control.New(control.Options{
		State: st, Versions: data, InstallerImage: func() string { return "" }, Nodes: noNodes{}, Hosts: noHosts{},
		API:    func(records.ClusterKey) observed.API { return observed.API{Cause: "no tunnel is open"} },
		Logger: log, Now: now,
	})
	return &bed{T: t, state: st, known: known, applier: &clusters.Applier{State: st, Preview: decides.Preview, Versions: data, Now: now}}
}

type noNodes struct{}

func (noNodes) Work(records.ClusterKey) map[records.MachineKey]observed.NodeWork { return nil }

// noHosts has no host connected.
type noHosts struct{}

func (noHosts) Watching(string) (time.Time, bool)      { return time.Time{}, false }
func (noHosts) Tunnel(records.Subject) observed.Tunnel { return observed.Tunnel{} }

func (noNodes) Want(records.ClusterKey, []pass.NodeOrder) {}

func (b *bed) apply(text string) []clusters.Result {
	b.Helper()
	docs, err := clusterspec.Parse([]byte(text), b.known)
	if err != nil {
		b.Fatal(err)
	}
	results, err := b.applier.Apply(b.Context(), docs, clusters.Request{Who: auth.Identity{UserID: "user-x", Admin: true}})
	if err != nil {
		b.Fatal(err)
	}
	return results
}

const harbour = `{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {}}}`

// TestApplyGoesOnAfterAnotherWrite: a cluster that another writer changes between the look at it and the write is looked at again.
func TestApplyGoesOnAfterAnotherWrite(t *testing.T) {
	b := newBed(t)
	b.apply(harbour)
	docs, err := clusterspec.Parse([]byte(strings.Replace(harbour, "rkeConfig: {}", "rkeConfig: {provisionGeneration: 1}", 1)), b.known)
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	results, err := b.applier.Apply(t.Context(), docs, clusters.Request{Who: auth.Identity{UserID: "user-x", Admin: true}, Allow: func(*records.Cluster) error {
		if looked++; looked > 1 {
			return nil
		}
		_, err := b.state.Clusters.Modify(t.Context(), "fleet-default/harbour", func(c records.Cluster) (records.Cluster, error) {
			c.Status.Message = "another write"
			return c, nil
		})
		return err
	}})
	if err != nil || results[0].Action != clusters.Configured || looked != 2 {
		t.Errorf("looked at %d times: %+v, %v", looked, results, err)
	}
}

func TestApplyIsWholeOrNothing(t *testing.T) {
	b := newBed(t)
	if got := b.apply(harbour); got[0].Action != clusters.Created || !strings.HasPrefix(got[0].ID, "c-m-") || len(got[0].ID) != 12 {
		t.Errorf("first apply = %+v", got)
	}
	if got := b.apply(harbour); got[0].Action != clusters.Unchanged {
		t.Errorf("second apply = %+v", got)
	}
	changed := strings.Replace(harbour, "rkeConfig: {}", "rkeConfig: {provisionGeneration: 1}", 1)
	if got := b.apply(changed); got[0].Action != clusters.Configured {
		t.Errorf("changed apply = %+v", got)
	}
	d, _ := b.state.Clusters.Get("fleet-default/harbour")
	if d.Value.Generation != 2 {
		t.Errorf("generation = %d", d.Value.Generation)
	}
	if _, ok := b.state.RegistrationTokens.Get(d.Value.ID + "/default-token"); !ok {
		t.Error("no registration token")
	}

	// The second document of this stream cannot be taken, so the first is not either.
	d.Value.Status.Version = "v1.34.4+k3s1"
	if _, err := b.state.Store.Commit(t.Context(), b.state.Clusters.Updating(d)); err != nil {
		t.Fatal(err)
	}
	known, err := versions.Load("")
	if err != nil {
		t.Fatal(err)
	}
	stream := strings.Replace(harbour, "harbour", "quay", 1) + "\n---\n" + strings.Replace(harbour, "v1.34.4", "v1.33.6", 1)
	docs, err := clusterspec.Parse([]byte(stream), known)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.applier.Apply(t.Context(), docs, clusters.Request{Who: auth.Identity{UserID: "user-x", Admin: true}}); err == nil || !strings.Contains(err.Error(), "cannot go back") {
		t.Errorf("err = %v", err)
	}
	if _, ok := b.state.Clusters.Get("fleet-default/quay"); ok {
		t.Error("a refused stream stored a cluster")
	}
	other := strings.Replace(harbour, "{name: harbour}", "{name: harbour, namespace: elsewhere}", 1)
	docs, err = clusterspec.Parse([]byte(other), known)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.applier.Apply(t.Context(), docs, clusters.Request{Who: auth.Identity{UserID: "user-x", Admin: true}}); !errors.Is(err, records.ErrNotUnique) {
		t.Errorf("err = %v", err)
	}
}

func TestDryRunStoresNothing(t *testing.T) {
	b := newBed(t)
	known, err := versions.Load("")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := clusterspec.Parse([]byte(harbour), known)
	if err != nil {
		t.Fatal(err)
	}
	revision := b.state.Store.Revision()
	results, err := b.applier.Apply(t.Context(), docs, clusters.Request{Who: auth.Identity{UserID: "user-x", Admin: true}, DryRun: true})
	if err != nil || results[0].Action != clusters.Created || b.state.Store.Revision() != revision {
		t.Errorf("results = %+v, err = %v, revision %d → %d", results, err, revision, b.state.Store.Revision())
	}
}
