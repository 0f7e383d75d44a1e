package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/drover-project/drover/server/store/keyring"
)

func TestNewerSchema(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _, _ := openNotes(t, dir)
	var got schemaRecord
	if err := json.Unmarshal(must(s.client.Get(t.Context(), schemaKey))(t).Kvs[0].Value, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(schemaRecord{Schema: 1, WrittenBy: "v0.0.0-dev"}, got); diff != "" {
		t.Error(diff)
	}
	// A newer server of the same etcd begins to migrate while this one runs.
	must(s.client.Put(t.Context(), schemaKey, `{"schema":2,"from":1,"writtenBy":"v9.1.0"}`))(t)
	<-s.Failed()
	want := "the data in " + dir + " is of a newer drover (v9.1.0, schema 2) and this is v0.0.0-dev, which knows schemas up to 1: start the newer drover, or restore a backup made by this one"
	if got := s.Err().Error(); got != want {
		t.Errorf("the running store ended with\n%s, want\n%s", got, want)
	}
	closeStore(t, s)
	refusesToOpen(t, dir, "open the store: "+want)
}

func TestDamagedSchema(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, want string }{
		{"not JSON", "x", "read /drover/schema"},
		{"none", "{}", "cannot be"},
		{"backwards", `{"schema":1,"from":1}`, "cannot be"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s, _, _ := openNotes(t, dir)
			must(s.client.Put(t.Context(), schemaKey, c.value))(t)
			<-s.Failed()
			closeStore(t, s)
			refusesToOpen(t, dir, c.want)
		})
	}
	t.Run("gone", func(t *testing.T) {
		dir := t.TempDir()
		s, notes, _ := openNotes(t, dir)
		must(notes.Create(t.Context(), "a", note{}))(t)
		must(s.client.Delete(t.Context(), schemaKey))(t)
		closeStore(t, s)
		refusesToOpen(t, dir, "the data in "+dir+" has documents but no /drover/schema")
	})
}

// rename is a migration: documents of notes get another text, those called gone are
// deleted, and one is added to secrets.
func rename(from, to string) migrationStep {
	return migrationStep{What: "rename", Change: func(documents []migratedDocument) ([]migratedDocument, error) {
		var changes []migratedDocument
		done := false
		for _, d := range documents {
			var n note
			if err := json.Unmarshal(d.Value, &n); err != nil {
				return nil, err
			}
			switch {
			case d.Key == to:
				done = true
			case d.Key == "gone":
				d.Value = nil
				changes = append(changes, d)
			case n.Text == from:
				d.Value = []byte(`{"text":"` + to + `"}`)
				changes = append(changes, d)
			}
		}
		if !done {
			changes = append(changes, migratedDocument{Collection: "secrets", Key: to, Sensitive: true, Value: []byte(`{}`)})
		}
		return changes, nil
	}}
}

func TestMigrations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, notes, secrets := openNotes(t, dir)
	var ops []Op
	for i := range 250 { // more than one transaction takes
		ops = append(ops, notes.Creating(fmt.Sprint(i), note{Text: "one"}))
	}
	ops = append(ops, secrets.Creating("s", note{Text: "one"}), notes.Creating("gone", note{}), notes.Creating("other", note{Text: "other"}))
	must(s.Commit(t.Context(), ops...))(t)
	closeStore(t, s)

	openAt := func(steps ...migrationStep) (*Store, *Collection[note], *Collection[note], error) {
		notes, secrets := NewCollection[note]("notes", false), NewCollection[note]("secrets", true)
		s, err := openWith(t.Context(), Options{DataDir: dir, UnsafeNoFsync: true}, steps, notes, secrets)
		return s, notes, secrets, err
	}
	// The second migration fails: the data is neither of schema 1 nor of 3.
	broken := migrationStep{What: "break", Change: func([]migratedDocument) ([]migratedDocument, error) { return nil, errors.New("no luck") }}
	_, _, _, err := openAt(rename("one", "two"), broken)
	if err == nil || !strings.Contains(err.Error(), "migrate the data in "+dir+" from schema 2 to 3 (break): no luck") {
		t.Errorf("a migration that fails: %v", err)
	}
	refusesToOpen(t, dir, "is of a newer drover (v0.0.0-dev, schema 3)")
	if _, _, _, err := openAt(rename("one", "two")); err == nil {
		t.Error("a server that knows only the first migration opens the data")
	}

	// A newer server whose migration works takes it up where it stood.
	s, notes, secrets, err = openAt(rename("one", "two"), rename("two", "three"))
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for _, d := range notes.List() {
		counts["notes "+d.Value.Text]++
	}
	for _, d := range secrets.List() {
		counts["secrets "+d.Key+" "+d.Value.Text]++
	}
	want := map[string]int{"notes three": 250, "notes other": 1, "secrets s three": 1, "secrets two ": 1, "secrets three ": 1}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Error(diff)
	}
	var record schemaRecord
	if err := json.Unmarshal(must(s.client.Get(t.Context(), schemaKey))(t).Kvs[0].Value, &record); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(schemaRecord{Schema: 3, WrittenBy: "v0.0.0-dev"}, record); diff != "" {
		t.Error(diff)
	}
	before := s.Revision()
	closeStore(t, s)

	s, _, _, err = openAt(rename("one", "two"), rename("two", "three"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Revision() != before {
		t.Errorf("opening migrated data wrote something: revision %d, was %d", s.Revision(), before)
	}
	closeStore(t, s)
	refusesToOpen(t, dir, "schema 3")

	fresh, err := openWith(t.Context(), Options{DataDir: filepath.Join(dir, "fresh"), UnsafeNoFsync: true}, []migrationStep{broken})
	if err != nil {
		t.Fatalf("new data has nothing to migrate: %v", err)
	}
	closeStore(t, fresh)
}

// TestAdditiveMigrations: servers of two schemas use the same data in turns and beside each other, and nothing that the newer one adds is missing
// when it comes back.
func TestAdditiveMigrations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fill := migrationStep{What: "fill", Additive: true, Change: func(documents []migratedDocument) ([]migratedDocument, error) {
		var changes []migratedDocument
		for _, d := range documents {
			var n note
			if err := json.Unmarshal(d.Value, &n); err != nil {
				return nil, err
			}
			if len(n.Body) == 0 {
				n.Body = []byte("of " + n.Text)
				var err error
				if d.Value, err = json.Marshal(n); err != nil {
					return nil, err
				}
				changes = append(changes, d)
			}
		}
		return changes, nil
	}}
	with := func(steps []migrationStep, do func(*Store, *Collection[note])) {
		t.Helper()
		notes := NewCollection[note]("notes", false)
		s, err := openWith(t.Context(), Options{DataDir: dir, UnsafeNoFsync: true}, steps, notes)
		if err != nil {
			t.Fatal(err)
		}
		do(s, notes)
		closeStore(t, s)
	}
	older, newer := []migrationStep{rename("one", "two")}, []migrationStep{rename("one", "two"), fill}
	write := func(key string) func(*Store, *Collection[note]) {
		return func(_ *Store, notes *Collection[note]) { must(notes.Create(t.Context(), key, note{Text: key}))(t) }
	}
	filled := func(keys ...string) func(*Store, *Collection[note]) {
		return func(s *Store, notes *Collection[note]) {
			for _, key := range keys {
				if d, ok := notes.Get(key); !ok || string(d.Value.Body) != "of "+key {
					t.Errorf("%s is %q, %v", key, d.Value.Body, ok)
				}
			}
		}
	}
	with(older, write("a"))
	with(newer, filled("a"))
	with(older, write("b")) // after a way back
	with(newer, func(s *Store, notes *Collection[note]) {
		filled("a", "b")(s, notes)
		var record schemaRecord
		if err := json.Unmarshal(must(s.client.Get(t.Context(), schemaKey))(t).Kvs[0].Value, &record); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(schemaRecord{Schema: 3, Reader: 2, WrittenBy: "v0.0.0-dev"}, record); diff != "" {
			t.Error(diff)
		}
	})
	// A server that runs goes on when a newer one of the same etcd has begun, and has ended.
	with(older, func(s *Store, notes *Collection[note]) {
		for _, value := range []string{`{"schema":3,"from":2,"reader":2,"writtenBy":"v9"}`, `{"schema":3,"reader":2,"writtenBy":"v9"}`} {
			must(s.client.Put(t.Context(), schemaKey, value))(t)
			write(fmt.Sprint("c", len(value)))(s, notes)
		}
		if err := s.Err(); err != nil {
			t.Errorf("the older server ended: %v", err)
		}
	})
	with(newer, filled("a", "b", "c49", "c40"))
	// Two schemas back is too far, and so is what is between one that is not additive.
	refusesToOpen(t, dir, "schema 3) and this is v0.0.0-dev, which knows schemas up to 1")
	with([]migrationStep{rename("one", "two"), fill, rename("two", "three")}, func(*Store, *Collection[note]) {})
	if _, err := openWith(t.Context(), Options{DataDir: dir, UnsafeNoFsync: true}, newer, NewCollection[note]("notes", false)); err == nil || !strings.Contains(err.Error(), "which knows schemas up to 3") {
		t.Errorf("after a step that is not additive: %v", err)
	}
}

// TestClustersAndMachinesAreEncryptedByMigration: what an older server kept in the clear is
// sealed, and neither etcd's values nor the files of its database show it any more.
func TestClustersAndMachinesAreEncryptedByMigration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const password = "hunter2-of-the-datastore"
	keep := func(steps []migrationStep, sensitive bool) (*Store, *Collection[note], *Collection[note]) {
		clusters, machines := NewCollection[note]("clusters", sensitive), NewCollection[note]("machines", sensitive)
		s, err := openWith(t.Context(), Options{DataDir: dir, UnsafeNoFsync: true}, steps, clusters, machines, NewCollection[note]("notes", false))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeStore(t, s) })
		return s, clusters, machines
	}
	s, clusters, machines := keep(nil, false)
	for i := range 150 { // more than one transaction
		must(clusters.Create(t.Context(), fmt.Sprint("c", i), note{Text: password}))(t)
	}
	must(machines.Create(t.Context(), "m", note{Body: []byte(password)}))(t)
	closeStore(t, s)
	if !strings.Contains(databaseOf(t, dir), password) {
		t.Fatal("the password is not where this test looks for it")
	}

	s, clusters, machines = keep(migrationSteps()[:1], true)
	if d, ok := clusters.Get("c149"); !ok || d.Value.Text != password || len(clusters.List()) != 150 {
		t.Errorf("%d clusters, %+v", len(clusters.List()), d.Value)
	}
	if d, ok := machines.Get("m"); !ok || string(d.Value.Body) != password {
		t.Errorf("machine %+v", d.Value)
	}
	for _, kv := range must(s.client.Get(t.Context(), documentsPrefix, clientv3.WithPrefix()))(t).Kvs {
		if !keyring.IsSealed(kv.Value) {
			t.Errorf("%s is in the clear: %q", kv.Key, kv.Value)
		}
	}
	closeStore(t, s)
	if database := databaseOf(t, dir); strings.Contains(database, password) || strings.Contains(database, "aHVudGVyMi1vZi10aGUtZGF0YXN0b3Jl") {
		t.Error("the database still has the password")
	}

	s, _, _ = keep(migrationSteps()[:1], true)
	if got := must(s.client.Get(t.Context(), schemaKey))(t).Kvs[0].Version; got != 3 {
		t.Errorf("opening migrated data wrote the schema again: version %d", got)
	}
}

// TestReferencesAreMarkedByMigration: an older server's clusters keep what they use.
func TestReferencesAreMarkedByMigration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keep := func(steps []migrationStep) (*Store, *Collection[map[string]any], *Collection[map[string]any]) {
		clusters, objects := NewCollection[map[string]any]("clusters", true), NewCollection[map[string]any]("objects", true)
		s, err := openWith(t.Context(), Options{DataDir: dir, UnsafeNoFsync: true}, steps, clusters, objects)
		if err != nil {
			t.Fatal(err)
		}
		return s, clusters, objects
	}
	s, clusters, objects := keep(migrationSteps()[:1])
	for i := range 150 { // more than one transaction
		must(objects.Create(t.Context(), fmt.Sprintf("Secret/fleet-default/mirror-%d", i), map[string]any{"kind": "Secret", "namespace": "fleet-default"}))(t)
	}
	must(clusters.Create(t.Context(), "fleet-default/harbour", map[string]any{"namespace": "fleet-default", "name": "harbour", "id": "c-m-harbour1", "spec": map[string]any{
		"rkeConfig": map[string]any{"registries": map[string]any{"configs": map[string]any{"mirror.lan": map[string]any{"authConfigSecretName": "mirror-149"}}}},
	}}))(t)
	closeStore(t, s)
	s, clusters, objects = keep(migrationSteps())
	defer closeStore(t, s)
	cluster, _ := clusters.Get("fleet-default/harbour")
	secret, _ := objects.Get("Secret/fleet-default/mirror-149")
	want := map[string]any{"Secret/fleet-default/mirror-149": map[string]any{"uid": secret.Value["uid"]}}
	if diff := cmp.Diff(want, cluster.Value["granted"]); diff != "" || secret.Value["uid"] == nil {
		t.Errorf("%v %s", secret.Value["uid"], diff)
	}
}

// databaseOf is the content of etcd's database file.
func databaseOf(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "etcd", "member", "snap", "db"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
