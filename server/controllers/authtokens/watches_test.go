package authtokens

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/test/bed/reconciletest"
)

// TestWatches: a change concerns the clusters whose tokens depend on it, and no others.
func TestWatches(t *testing.T) {
	s, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for id, key := range map[string]string{"c-m-1": "fleet-default/harbour", "c-m-2": "fleet-default/pier"} {
		if _, err := s.Clusters.Create(t.Context(), key, records.Cluster{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	queue := reconciletest.Record(t, Watches(s))
	const harbour, pier, all = "fleet-default/harbour", "fleet-default/pier", reconciletest.All
	for _, tc := range []struct {
		name  string
		write func() error
		want  []string
	}{
		{"a binding in a cluster", func() error {
			_, err := s.Bindings.Create(t.Context(), "b1", roles.Binding{ID: "b1", ClusterID: "c-m-1"})
			return err
		}, []string{harbour}},
		{"a binding that moves", func() error {
			_, err := s.Bindings.Modify(t.Context(), "b1", func(b roles.Binding) (roles.Binding, error) { b.ClusterID = "c-m-2"; return b, nil })
			return err
		}, []string{harbour, pier}},
		{"a binding that goes", func() error { return s.Bindings.Delete(t.Context(), "b1", 0) }, []string{pier}},
		{"a binding at the server", func() error {
			_, err := s.Bindings.Create(t.Context(), "b2", roles.Binding{ID: "b2"})
			return err
		}, []string{all}},
		{"a binding in a cluster that is gone", func() error {
			_, err := s.Bindings.Create(t.Context(), "b3", roles.Binding{ID: "b3", ClusterID: "c-m-3"})
			return err
		}, nil},
		{"a role", func() error {
			_, err := s.RoleTemplates.Create(t.Context(), "rt-1", roles.Role{ID: "rt-1"})
			return err
		}, []string{all}},
		{"the image", func() error {
			_, err := s.Settings.Create(t.Context(), "agent-image", records.Setting{})
			return err
		}, []string{all}},
		{"another setting", func() error {
			_, err := s.Settings.Create(t.Context(), "ui-brand", records.Setting{})
			return err
		}, nil},
		{"a token of a cluster", func() error {
			_, err := s.Tokens.Create(t.Context(), "t1", records.Token{Name: "t1", ClusterID: "c-m-2"})
			return err
		}, []string{pier}},
		{"a token of the server", func() error {
			_, err := s.Tokens.Create(t.Context(), "t2", records.Token{Name: "t2"})
			return err
		}, nil},
		{"a new user", func() error {
			_, err := s.Users.Create(t.Context(), "u-1", records.User{ID: "u-1"})
			return err
		}, []string{all}},
		{"a user who was asked about", func() error {
			_, err := s.Users.Modify(t.Context(), "u-1", func(u records.User) (records.User, error) { u.DisplayName = "Ann"; return u, nil })
			return err
		}, nil},
		{"a user who is disabled", func() error {
			_, err := s.Users.Modify(t.Context(), "u-1", func(u records.User) (records.User, error) { u.Disabled = true; return u, nil })
			return err
		}, []string{all}},
		{"another document of a cluster", func() error {
			_, err := s.Clusters.Modify(t.Context(), harbour, func(c records.Cluster) (records.Cluster, error) { c.Generation++; return c, nil })
			return err
		}, []string{harbour}},
		{"the status of a cluster", func() error {
			_, err := s.Clusters.Modify(t.Context(), harbour, func(c records.Cluster) (records.Cluster, error) { c.Status.Message = "x"; return c, nil })
			return err
		}, nil},
		{"a cluster that goes", func() error { return s.Clusters.Delete(t.Context(), harbour, 0) }, []string{harbour}},
	} {
		if err := tc.write(); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if got := queue.Take(); !slices.Equal(got, tc.want) {
			t.Errorf("%s queues %q, want %q", tc.name, got, tc.want)
		}
	}
}
