// How soon a right is in force everywhere: the keeper of rights of the leader over many clusters, each with an API that holds
// objects in memory and answers at once, so that what is measured is the keeper's own part.

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	kubetest "k8s.io/client-go/testing"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/controllers/rights"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const (
	rightsUsers    = 10_000
	rightsBindings = 1000
	rightsClusters = 200
	rightsSoon     = 5 * time.Second
)

// farm is many clusters with one store.
type farm struct {
	state    *state.State
	clusters map[records.ClusterKey]string // management IDs
	apis     map[records.ClusterKey]*fake.Clientset
	// writes is how many objects were written in any cluster, held those that bind newcomer and in which clusters.
	writes   atomic.Int64
	mu       sync.Mutex
	newcomer string
	held     map[records.ClusterKey]bool
	all      chan struct{}
}

// rights measures how soon a binding is in force in all clusters.
func (b *bench) rights(ctx context.Context) (err error) {
	dir := filepath.Join(b.dir, "rights")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	empty := inUse()
	f := &farm{clusters: map[records.ClusterKey]string{}, apis: map[records.ClusterKey]*fake.Clientset{}, held: map[records.ClusterKey]bool{}}
	if f.state, err = state.Open(ctx, store.Options{DataDir: dir, UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.state.Close()) }()
	b.say("rights: %d users, %d bindings", rightsUsers, rightsBindings)
	if err := f.people(ctx); err != nil {
		return err
	}
	b.table.note(fmt.Sprintf("memory of a server's state with %d users and %d bindings", rightsUsers, rightsBindings), inMiB(inUse()-empty))
	for i := range rightsClusters {
		key := records.ClusterKey(fmt.Sprintf("fleet-default/c%03d", i))
		f.clusters[key], f.apis[key] = clusterID(i), f.api(key)
	}
	keeper := rights.NewKeeper(rights.Options{
		Stored: f, Find: f.state.Role, Projects: noProjects{}, Reports: func() bool { return false },
		Client: func(key records.ClusterKey) (kubernetes.Interface, error) { return f.apis[key], nil },
		Sweep:  func(context.Context, records.ClusterKey, func(string) bool) error { return nil },
		Logger: slog.New(slog.DiscardHandler),
	})
	working, stop := context.WithCancel(ctx)
	began := time.Now()
	_, wait := reconcile.Begin(working, keeper.Worker(rights.Watches(f.state)...), slog.New(slog.DiscardHandler))
	defer func() { stop(); wait() }()
	b.say("rights: %d clusters are brought to what people may do in them", rightsClusters)
	if err := f.quiet(ctx); err != nil {
		return err
	}
	b.table.note(fmt.Sprintf("all rights in %d clusters after a start, %d objects", rightsClusters, f.writes.Load()), inMillis(time.Since(began)-noWrites))
	return b.rightsSoon(ctx, f)
}

// Staying are all clusters.
func (f *farm) Staying() []records.ClusterKey { return slices.Collect(maps.Keys(f.clusters)) }

// Cluster is the ID of a cluster.
func (f *farm) Cluster(key records.ClusterKey) (string, bool) {
	id, ok := f.clusters[key]
	return id, ok
}

// Secrets are none.
func (*farm) Secrets(string) []records.ProjectSecret { return nil }

// Differs keeps nothing.
func (*farm) Differs(context.Context, records.ClusterKey, []string) error { return nil }

func clusterID(i int) string { return fmt.Sprintf("c-m-%08d", i) }

// api is a cluster's, which notes who is bound there.
func (f *farm) api(key records.ClusterKey) *fake.Clientset {
	api := fake.NewClientset()
	api.PrependReactor("*", "*", func(a kubetest.Action) (bool, runtime.Object, error) {
		switch a.GetVerb() {
		case "create", "update", "patch", "delete":
			f.writes.Add(1)
		}
		if made, ok := a.(kubetest.CreateAction); ok {
			if binding, ok := made.GetObject().(*rbacv1.ClusterRoleBinding); ok {
				f.bound(key, binding)
			}
		}
		return false, nil, nil
	})
	return api
}

// bound notes that the newcomer has a right in a cluster.
func (f *farm) bound(key records.ClusterKey, binding *rbacv1.ClusterRoleBinding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, subject := range binding.Subjects {
		if f.newcomer != "" && subject.Name == f.newcomer && !f.held[key] {
			if f.held[key] = true; len(f.held) == len(f.clusters) {
				close(f.all)
			}
		}
	}
}

// noProjects is the record of clusters whose namespaces are in no project.
type noProjects struct{}

func (noProjects) In(string) state.Memberships {
	return state.Memberships{ClusterProjects: records.ClusterProjects{Adopted: time.Now()}}
}
func (n noProjects) Latest(_ context.Context, id string) (state.Memberships, error) {
	return n.In(id), nil
}
func (noProjects) Adopt(context.Context, records.ClusterKey, map[state.Namespace]string) error {
	return nil
}
func (noProjects) Forget(context.Context, string, []string) error { return nil }

// people makes the users and the bindings, five in each cluster.
func (f *farm) people(ctx context.Context) error {
	for i := range rightsUsers {
		id := fmt.Sprintf("u-%05d", i)
		if _, err := f.state.Users.Create(ctx, id, records.User{ID: id, Username: "user" + id}); err != nil {
			return err
		}
	}
	for i := range rightsBindings {
		cluster := clusterID(i % rightsClusters)
		b := roles.Binding{ID: fmt.Sprintf("%s:crtb-%05d", cluster, i), Role: "cluster-member", ClusterID: cluster, Subject: roles.Subject{User: fmt.Sprintf("local://u-%05d", i*7%rightsUsers)}}
		if _, err := f.state.Bindings.Create(ctx, b.ID, b); err != nil {
			return err
		}
	}
	return nil
}

// Bindings are those of a cluster.
func (f *farm) Bindings(id string) (all []roles.Binding) {
	for _, of := range []string{id, ""} {
		for _, d := range f.state.BindingsByCluster.Find(of) {
			all = append(all, d.Value)
		}
	}
	return all
}

// EnabledUser is the user of a principal.
func (f *farm) EnabledUser(principal string) (string, bool) {
	id, local := roles.LocalUserID(principal)
	d, ok := f.state.Users.Get(id)
	return id, local && ok && !d.Value.Disabled
}

// Uses says whether a user may use a cluster.
func (f *farm) Uses(userID, clusterID string) bool {
	d, ok := f.state.Users.Get(userID)
	grants := f.state.GrantsOf(d.Value)
	return ok && auth.May(auth.Identity{UserID: userID, Grants: grants, Admin: grants.Everything()}, auth.Proxy, auth.OfCluster(clusterID))
}

// noWrites is how long nothing is written once all is as it should be.
const noWrites = 2 * time.Second

// quiet waits until nothing is written any more.
func (f *farm) quiet(ctx context.Context) error {
	for last := int64(-1); ; {
		now := f.writes.Load()
		if now == last && now > 0 {
			return nil
		}
		last = now
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(noWrites):
		}
	}
}

// rightsSoon gives a newcomer a role at the whole server, which concerns every cluster, and waits for the last.
func (b *bench) rightsSoon(ctx context.Context, f *farm) error {
	var slowest time.Duration
	for round := range 3 {
		id := fmt.Sprintf("u-new-%d", round)
		if _, err := f.state.Users.Create(ctx, id, records.User{ID: id, Username: id}); err != nil {
			return err
		}
		f.mu.Lock()
		f.newcomer, f.all = id, make(chan struct{})
		clear(f.held)
		f.mu.Unlock()
		began := time.Now()
		grb := roles.Binding{ID: fmt.Sprintf("grb-new-%d", round), Role: roles.Admin, Subject: roles.Subject{User: roles.LocalUser(id)}}
		if _, err := f.state.Bindings.Create(ctx, grb.ID, grb); err != nil {
			return err
		}
		select {
		case <-f.all:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Minute):
			f.mu.Lock()
			defer f.mu.Unlock()
			return fmt.Errorf("after two minutes the binding is in %d of %d clusters", len(f.held), len(f.clusters))
		}
		slowest = max(slowest, time.Since(began))
	}
	b.table.measure(fmt.Sprintf("a new binding is in all %d clusters, slowest of 3", rightsClusters), inMillis(slowest), float64(slowest), "≤ 5 s", float64(rightsSoon))
	return nil
}
