package state

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

const (
	cluster = "c-m-h4rb0r55"
	key     = records.ClusterKey("fleet-default/harbour")
	shop    = cluster + ":p-shop1"
	bank    = cluster + ":p-bank1"
)

var noon = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// bed is a record in a store, with two clusters of two projects each.
func bed(t *testing.T, adopted time.Time) *Membership {
	t.Helper()
	s, err := Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	var ops []store.Op
	for name, id := range map[string]string{"harbour": cluster, "quay": "c-m-quay2222"} {
		c := records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: name}, ID: id}
		c.Projects = records.ClusterProjects{Default: id + ":p-22222", System: id + ":p-55555", Adopted: adopted}
		ops = append(ops, s.Clusters.Creating(c.Key(), c))
		for _, short := range []string{"p-shop1", "p-bank1"} {
			p := records.Project{ID: id + ":" + short, ClusterID: id, Name: short}
			ops = append(ops, s.Projects.Creating(records.ProjectKey(p.ID), p))
		}
	}
	if _, err := s.Store.Commit(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	return &Membership{State: s, Now: func() time.Time { return noon }}
}

func TestMove(t *testing.T) {
	m := bed(t, noon)
	for i, c := range []struct {
		uid, name, from, to string
		want                string // of the error
		is                  string
	}{
		{"a", "web", "", shop, "", shop},
		{"a", "web", "", bank, ErrMoved.Error(), shop}, // the caller looked before
		{"a", "web", shop, cluster + ":p-gone1", "not", shop},
		{"a", "web", shop, "c-m-quay2222:p-shop1", "not", shop}, // a project of another cluster
		{"a", "web", shop, bank, "", bank},
		{"a", "web", bank, "", "", ""},
		{"b", "default", cluster + ":p-22222", "", "", ""},
		{"c", "kube-system", cluster + ":p-55555", shop, "", shop},
		{"d", "kube-public", shop, bank, ErrMoved.Error(), cluster + ":p-55555"},
		{"", "web", "", shop, "its UID is", ""},
		{strings.Repeat("x", 65), "web", "", shop, "its UID is", ""},
	} {
		err := m.Move(t.Context(), cluster, c.uid, c.name, c.from, c.to)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d: %v, want %q", i, err, c.want)
		}
		if is := m.In(cluster).Of(c.uid, c.name); is != c.is {
			t.Errorf("%d: it is in %q, want %q", i, is, c.is)
		}
	}
	// The UID of another cluster's namespace says nothing here.
	if is := m.In("c-m-quay2222").Of("c", "web"); is != "" {
		t.Errorf("in another cluster: %q", is)
	}
}

// TestManyAtOnce: whatever comes at the same moment is recorded, and a project that goes takes its namespaces out.
func TestManyAtOnce(t *testing.T) {
	m := bed(t, noon)
	var all sync.WaitGroup
	const many = 40
	for i := range many {
		all.Go(func() {
			if err := m.Move(t.Context(), cluster, fmt.Sprint("uid-", i), "web", "", shop); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(m.In(cluster).Recorded); n != many {
		t.Errorf("%d are recorded, want %d", n, many)
	}
	d, _ := m.State.Projects.Get(records.ProjectKey(shop))
	if _, err := m.State.Store.Commit(t.Context(), append(LeavingProject(m.State, cluster, shop), m.State.Projects.Deleting(d.Key, d.Revision))...); err != nil {
		t.Fatal(err)
	}
	for uid, project := range m.In(cluster).Recorded {
		if project != "" {
			t.Errorf("%s is in %q still", uid, project)
		}
	}
	if err := m.Forget(t.Context(), cluster, []string{"uid-1", "uid-2", "unknown"}); err != nil || len(m.In(cluster).Recorded) != many-2 {
		t.Errorf("%d are left, %v", len(m.In(cluster).Recorded), err)
	}
	_, err := m.State.Store.Commit(t.Context(), m.State.RemovingPeople(cluster)...)
	if pages := m.State.Namespaces.ListIn(""); err != nil || len(pages) != 0 {
		t.Errorf("of a cluster that was removed %d pages are left, %v", len(pages), err)
	}
}

func TestAdopt(t *testing.T) {
	m := bed(t, time.Time{})
	if err := m.Move(t.Context(), cluster, "moved", "moved", "", bank); err != nil { // before the first look
		t.Fatal(err)
	}
	marks := map[Namespace]string{
		{"a", "web"}: shop, {"moved", "moved"}: shop, {"b", "gone"}: cluster + ":p-gone1", {"c", "theirs"}: "c-m-quay2222:p-shop1", {"d", "none"}: "",
		{"e", "default"}: cluster + ":p-22222", {"f", "kube-public"}: "", {"g", "kube-system"}: shop, {"h", "cattle-system"}: "c-other:p-bank1", {"", "nameless"}: shop,
	}
	for i := range 5000 {
		marks[Namespace{fmt.Sprint("many-", i), fmt.Sprint("many-", i)}] = bank
	}
	if err := m.Adopt(t.Context(), key, marks); err != nil {
		t.Fatal(err)
	}
	k := m.In(cluster)
	got := map[string]string{}
	for uid, project := range k.Recorded {
		if !strings.HasPrefix(uid, "many-") {
			got[uid] = project
		}
	}
	want := map[string]string{"a": shop, "moved": bank, "f": "", "g": shop, "h": ""}
	if diff := cmp.Diff(want, got); diff != "" || len(k.Recorded) != len(want)+5000 || !k.Adopted.Equal(noon) {
		t.Errorf("%d, adopted at %s: %s", len(k.Recorded), k.Adopted, diff)
	}
	// Once: after that no mark chooses a project in the cluster.
	if err := m.Adopt(t.Context(), key, map[Namespace]string{{"z", "late"}: bank}); err != nil || m.In(cluster).Of("z", "late") != "" {
		t.Errorf("a second time: %q, %v", m.In(cluster).Of("z", "late"), err)
	}
	// A cluster that is new has nothing to adopt, and a page has an end.
	m = bed(t, noon)
	if err := m.Adopt(t.Context(), key, marks); err != nil || len(m.In(cluster).Recorded) != 0 {
		t.Errorf("of a new cluster %d are recorded, %v", len(m.In(cluster).Recorded), err)
	}
	page := map[string]string{}
	for i := range maxPage {
		page[fmt.Sprint(i)] = shop
	}
	if _, err := m.State.Namespaces.Create(t.Context(), records.NamespacePageKey(cluster, "x"), records.NamespacePage{Projects: page}); err != nil {
		t.Fatal(err)
	}
	if err := m.Move(t.Context(), cluster, "x", "web", "", bank); err == nil || errors.Is(err, ErrMoved) || !strings.Contains(err.Error(), "at most 4096") {
		t.Errorf("a page that is full: %v", err)
	}
}
