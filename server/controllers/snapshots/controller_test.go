package snapshots

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/harbour"
)

const key = harbour.Key

var noon = harbour.Noon

// bench is a store with what is asked of it.
type bench struct {
	*harbour.Bench
	asker etcdops.Service
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s := harbour.New(t)
	return &bench{Bench: s, asker: etcdops.Service{State: s.State, Now: func() time.Time { return noon }}}
}

func (b *bench) cluster() records.Cluster {
	d, _ := b.Clusters.Get(string(key))
	return d.Value
}

func (b *bench) deliver(c *Controller) error { return c.deliver(b.Context(), key, b.cluster()) }

// api is a cluster's API with a list of snapshots.
func api(t *testing.T, items *[]map[string]any) func(records.ClusterKey) (kubernetes.Interface, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != listPath {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "ETCDSnapshotFileList", "items": *items})
	}))
	t.Cleanup(server.Close)
	return func(records.ClusterKey) (kubernetes.Interface, error) {
		return kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	}
}

func item(name, node, location string) map[string]any {
	return map[string]any{
		"spec":   map[string]any{"snapshotName": name, "nodeName": node, "location": location},
		"status": map[string]any{"size": "5000032", "creationTime": "2026-01-02T11:00:00Z", "readyToUse": true},
	}
}

// TestWhatIsKept: it keeps what a cluster lists, knows who took it, and forgets what is gone for long.
func TestWhatIsKept(t *testing.T) {
	b := newBench(t)
	b.Snapshot("taken", "m1", func(s *records.Snapshot) { s.By, s.SHA256, s.Size, s.File = "op-1", "aa", 5000032, "/d/taken" })
	now := noon
	items := []map[string]any{item("taken", "pier-m1", "file:///d/taken"), item("scheduled", "pier-m2", "file:///d/scheduled"), item("away", "pier-m2", "s3://bucket/away"), item("foreign", "elsewhere", "file:///d/foreign")}
	m := &Controller{State: b.State, Client: api(t, &items), Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}
	refresh := func() []string {
		t.Helper()
		if err := m.Refresh(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, d := range b.Snapshots.ListIn(string(key) + "/") {
			text := d.Value.Machine + " " + d.Value.Name()
			if !d.Value.Missing.IsZero() {
				text += " missing"
			}
			found = append(found, text)
		}
		return found
	}
	if diff := cmp.Diff([]string{"m1 taken", "m2 scheduled", "s3 away"}, refresh()); diff != "" {
		t.Error(diff)
	}
	d, _ := b.Snapshots.Get(string(key) + "/m1/taken")
	if d.Value.By != "op-1" || d.Value.SHA256 != "aa" || d.Value.Spec.KubernetesVersion != "v1.34.3+k3s1" {
		t.Errorf("what was known is %+v", d.Value)
	}
	if ok, why := b.asker.Restorable(d.Value); !ok {
		t.Errorf("it cannot be restored: %s", why)
	}
	revision := b.Store.Revision()
	refresh()
	if b.Store.Revision() != revision {
		t.Error("an unchanged list was written")
	}
	items = items[1:2]
	if diff := cmp.Diff([]string{"m1 taken missing", "m2 scheduled", "s3 away missing"}, refresh()); diff != "" {
		t.Error(diff)
	}
	now = noon.Add(2 * time.Hour)
	if diff := cmp.Diff([]string{"m2 scheduled"}, refresh()); diff != "" {
		t.Error(diff)
	}
}

// TestASnapshotThatNoHostHas: what a cluster lists is its own word, and becomes a record.
func TestASnapshotThatNoHostHas(t *testing.T) {
	for name, ok := range map[string]bool{"file:///db/snapshots/one": true, "file:///db/" + strings.Repeat("a", maxPath): false} {
		item := listed{}
		item.Spec.Location, item.Spec.NodeName = name, "pier-m1"
		if s, is := snapshot("fleet-default/pier", item, map[string]string{"pier-m1": "m1"}); is != ok {
			t.Errorf("%.30s: %t, %d", name, is, len(s.File))
		}
	}
}
