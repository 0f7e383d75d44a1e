package state

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/store"
)

func open(t *testing.T, dir string) *State {
	t.Helper()
	s, err := Open(t.Context(), store.Options{DataDir: dir, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Every collection keeps its documents over a restart, and the sensitive ones leave no
// plain text on the disk.
func TestCollections(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	object := func(name string) records.Object {
		return records.Object{Namespace: "fleet-default", Name: name, Created: noon, Labels: map[string]string{"a": ""}}
	}
	cases := []struct {
		name      string
		sensitive bool
		mark      string // a text of the document
		check     func(t *testing.T, s *State, create bool)
	}{
		{"clusters", true, "mark-cluster", keeps(func(s *State) *store.Collection[records.Cluster] { return s.Clusters },
			records.Cluster{Object: object("mark-cluster"), ID: "c-m-1", Spec: clusterspec.Spec{}})},
		{"cluster secrets", true, "mark-server-token", keeps(func(s *State) *store.Collection[records.ClusterSecrets] { return s.ClusterSecrets },
			records.ClusterSecrets{ServerToken: "mark-server-token"})},
		{"registration tokens", true, "mark-registration", keeps(func(s *State) *store.Collection[records.RegistrationToken] { return s.RegistrationTokens },
			records.RegistrationToken{ClusterID: "c-m-1", Name: "n", Token: "mark-registration", Created: noon})},
		{"fleets", true, "mark-fleet", keeps(func(s *State) *store.Collection[records.Fleet] { return s.Fleets },
			records.Fleet{Object: object("mark-fleet"), ID: "f-1"})},
		{"given plans", true, "mark-given", keeps(func(s *State) *store.Collection[records.GivenPlan] { return s.GivenPlans },
			records.GivenPlan{Plan: []byte(`{"error":"mark-given"}`), Concurrency: "1", At: noon})},
		{"machines", true, "mark-machine", keeps(func(s *State) *store.Collection[records.Machine] { return s.Machines },
			records.Machine{Object: object("mark-machine"), Status: records.MachineStatus{Condition: records.Condition{State: records.Active}, Since: noon}})},
		{"plan secrets", true, "bWFyay1wbGFu", keeps(func(s *State) *store.Collection[records.PlanSecret] { return s.PlanSecrets },
			records.PlanSecret{Object: object("p"), Data: map[string][]byte{"plan": []byte("mark-plan"), "empty": {}}})},
		{"operations", true, "mark-operation", keeps(func(s *State) *store.Collection[operations.Operation] { return s.Operations },
			operations.Operation{ID: "op-1", Subject: "fleet-default/key", Title: "mark-operation", State: operations.Queued, Created: noon})},
		{"rehearsals", true, "mark-held", keeps(func(s *State) *store.Collection[records.Rehearsals] { return s.Rehearsals },
			records.Rehearsals{Every: time.Hour, Fleet: "f", Since: noon, Held: &records.HeldRehearsal{Why: "mark-held", At: noon}})},
		{"events", true, "mark-cause", keeps(func(s *State) *store.Collection[records.EventPage] { return s.Events },
			records.EventPage{Events: []records.Event{{Revision: 3, At: noon, Kind: records.EventOfMachine, Key: "a/b", To: "Error", Cause: "mark-cause"}}})},
		{"objects", true, "mark-value", keeps(func(s *State) *store.Collection[objects.Object] { return s.Objects },
			objects.Object{Kind: objects.Secret, Metadata: objects.Metadata{Name: "s", Namespace: "n"}, Data: map[string][]byte{"key": []byte("mark-value")}})},
		{"users", true, "mark-user", keeps(func(s *State) *store.Collection[records.User] { return s.Users },
			records.User{ID: "u", Username: "mark-user", PasswordHash: "h", Created: noon})},
		{"user names", true, "mark-user-name", keeps(func(s *State) *store.Collection[records.UserName] { return s.UserNames },
			records.UserName{UserID: "mark-user-name"})},
		{"global roles", true, "mark-global-role", keeps(func(s *State) *store.Collection[roles.Role] { return s.GlobalRoles },
			roles.Role{ID: "gr-1", Name: "mark-global-role", Context: roles.Global})},
		{"role templates", true, "mark-role-template", keeps(func(s *State) *store.Collection[roles.Role] { return s.RoleTemplates },
			roles.Role{ID: "rt-1", Name: "mark-role-template", Context: roles.Cluster})},
		{"bindings", true, "mark-binding", keeps(func(s *State) *store.Collection[roles.Binding] { return s.Bindings },
			roles.Binding{ID: "grb-1", Role: "mark-binding", Created: noon})},
		{"projects", true, "mark-project", keeps(func(s *State) *store.Collection[records.Project] { return s.Projects },
			records.Project{ID: "c-m-1:p-abcde", ClusterID: "c-m-1", Name: "mark-project", Created: noon})},
		{"namespaces", true, "mark-namespace", keeps(func(s *State) *store.Collection[records.NamespacePage] { return s.Namespaces },
			records.NamespacePage{Projects: map[string]string{"mark-namespace": "c-m-1:p-abcde"}})},
		{"project secrets", true, "mark-project-secret", keeps(func(s *State) *store.Collection[records.ProjectSecret] { return s.ProjectSecrets },
			records.ProjectSecret{ProjectID: "c-m-1:p-abcde", Name: "s", Type: "Opaque", Data: map[string][]byte{"key": []byte("mark-project-secret")}, Created: noon})},
		{"tokens", true, "mark-key-hash", keeps(func(s *State) *store.Collection[records.Token] { return s.Tokens },
			records.Token{Name: "token-1", KeyHash: "mark-key-hash", Created: noon})},
		{"settings", false, "mark-setting", keeps(func(s *State) *store.Collection[records.Setting] { return s.Settings },
			records.Setting{Name: "server-url", Value: "mark-setting"})},
		{"replicas", false, "mark-replica", keeps(func(s *State) *store.Collection[records.Replica] { return s.Replicas },
			records.Replica{ID: "mark-replica", URL: "https://a", Started: noon})},
		{"connections", false, "mark-subject", keeps(func(s *State) *store.Collection[records.Connection] { return s.Connections },
			records.Connection{Subject: "mark-subject", Replica: "a", Since: noon})},
		{"watches", false, "mark-watch", keeps(func(s *State) *store.Collection[records.Connection] { return s.Watches },
			records.Connection{Subject: "mark-watch", Replica: "a", Since: noon})},
		{"server secrets", true, "mark-shared", keeps(func(s *State) *store.Collection[records.ServerSecret] { return s.ServerSecrets },
			records.ServerSecret{Value: "mark-shared"})},
	}
	for _, c := range cases {
		t.Run("create "+c.name, func(t *testing.T) { c.check(t, s, true) })
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	disk := contents(t, dir)
	s = open(t, dir)
	for _, c := range cases {
		t.Run("restart "+c.name, func(t *testing.T) {
			c.check(t, s, false)
			if found := bytes.Contains(disk, []byte(c.mark)); found == c.sensitive {
				t.Errorf("plain text on the disk: %v", found)
			}
		})
	}
}

// keeps creates a document, or checks that it is there.
func keeps[T any](collection func(*State) *store.Collection[T], document T) func(*testing.T, *State, bool) {
	return func(t *testing.T, s *State, create bool) {
		t.Helper()
		const key = "fleet-default/key"
		if create {
			if _, err := collection(s).Create(t.Context(), key, document); err != nil {
				t.Fatal(err)
			}
		}
		got, ok := collection(s).Get(key)
		if !ok {
			t.Fatal("the document is not there")
		}
		if diff := cmp.Diff(document, got.Value); diff != "" {
			t.Error(diff)
		}
	}
}

// contents is all files below dir, one after the other.
func contents(t *testing.T, dir string) []byte {
	t.Helper()
	var all []byte
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		all = append(all, bytes.TrimRight(content, "\x00")...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestOperationsOfACluster(t *testing.T) {
	s := open(t, t.TempDir())
	for _, o := range []operations.Operation{
		{ID: "op-2", Subject: "fleet-default/a"}, {ID: "op-1", Subject: "fleet-default/a", State: operations.Succeeded}, {ID: "op-3", Subject: "fleet-default/ab"},
	} {
		if _, err := s.Operations.Create(t.Context(), o.Key(), o); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, o := range s.OperationsOf("fleet-default/a") {
		got = append(got, o.ID)
	}
	if diff := cmp.Diff([]string{"op-1", "op-2"}, got); diff != "" {
		t.Error(diff)
	}
	if o, ok := s.OperationsByID.First("op-3"); !ok || o.Value.Subject != "fleet-default/ab" {
		t.Errorf("found %v, %v by its ID", o.Value, ok)
	}
}

// A store that was made before a collection was known opens, and keeps what it has.
func TestStoreOfBefore(t *testing.T) {
	dir := t.TempDir()
	known := store.NewCollection[records.Setting]("settings", false)
	old, err := store.Open(t.Context(), store.Options{DataDir: dir, UnsafeNoFsync: true}, known)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := known.Create(t.Context(), "server-url", records.Setting{Name: "server-url", Value: "https://a"}); err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	if d, ok := s.Settings.Get("server-url"); !ok || d.Value.Value != "https://a" {
		t.Errorf("the setting is %v, %v", d.Value, ok)
	}
	if all := s.Operations.List(); len(all) != 0 {
		t.Errorf("there are operations: %v", all)
	}
	if _, err := s.Operations.Create(t.Context(), "fleet-default/a/op-1", operations.Operation{ID: "op-1", Subject: "fleet-default/a"}); err != nil {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if _, err := Open(t.Context(), store.Options{DataDir: dir}); err == nil {
		t.Error("one data directory was opened twice")
	}
}
