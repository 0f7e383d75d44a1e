package daytwo

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/clusterspec/etcdspec"
	"github.com/drover-project/drover/server/objects"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/planner/ops"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/turns"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const key = records.ClusterKey("fleet-default/harbour")

// bench is a store with a cluster of two machines.
type bench struct {
	*testing.T
	*state.State
	asker Asker
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	b := &bench{T: t, State: s, asker: Asker{State: s, Now: func() time.Time { return noon }}}
	cluster := records.Cluster{
		Object: records.Object{Namespace: "fleet-default", Name: "harbour", UID: "u", Generation: 3}, ID: "c-m-h4rb0r55",
		Spec:   clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1", RKEConfig: &clusterspec.RKEConfig{MachineGlobalConfig: map[string]any{"debug": true}}},
		Status: records.ClusterStatus{Initialized: true},
	}
	b.must(s.Clusters.Create(t.Context(), string(key), cluster))
	b.must(s.ClusterSecrets.Create(t.Context(), string(key), records.ClusterSecrets{ServerToken: "word"}))
	for _, name := range []string{"m1", "m2"} {
		m := records.Machine{
			Object: records.Object{Namespace: "fleet-default", Name: name, UID: name}, ClusterName: "harbour", NodeName: "pier-" + name, Roles: records.Roles{Etcd: true, ControlPlane: true},
		}
		b.must(s.Machines.Create(t.Context(), m.Key(), m))
	}
	return b
}

func (b *bench) must(_ any, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) snapshot(name, machine string, change func(*records.Snapshot)) {
	b.Helper()
	s := records.Snapshot{
		Cluster: key, Machine: machine, File: "/d/" + name, Size: 1, Created: noon.Add(-time.Hour), TokenHash: ops.TokenHash("word"),
		Spec: clusterspec.Spec{KubernetesVersion: "v1.34.3+k3s1", RKEConfig: &clusterspec.RKEConfig{MachineGlobalConfig: map[string]any{"debug": false}}},
	}
	if change != nil {
		change(&s)
	}
	b.must(b.Snapshots.Create(b.Context(), s.Key(), s))
}

func TestWhatIsRefused(t *testing.T) {
	b := newBench(t)
	b.snapshot("one", "m1", nil)
	b.snapshot("twice", "m1", nil)
	b.snapshot("twice", "m2", nil)
	b.snapshot("foreign", "m1", func(s *records.Snapshot) { s.TokenHash = "0123456789ab" })
	b.snapshot("failed", "m1", func(s *records.Snapshot) { s.Fault = "no space left" })
	b.snapshot("lost", "m9", nil)
	leaving := records.Machine{Object: records.Object{Namespace: "fleet-default", Name: "m3", UID: "m3"}, ClusterName: "harbour"}
	leaving.Deleting = noon
	b.must(b.Machines.Create(t.Context(), leaving.Key(), leaving))
	b.snapshot("leaving", "m3", nil)
	b.snapshot("pruned", "m1", func(s *records.Snapshot) { s.Missing = noon })
	for _, c := range []struct {
		name string
		ask  Ask
		want string
	}{
		{"a name that is none", Ask{Kind: ops.KindSnapshot, Request: ops.Request{Name: "a b"}}, "cannot begin the name of a snapshot"},
		{"a service that is none", Ask{Kind: ops.KindCertificates, Request: ops.Request{Services: []string{"cron"}}}, `"cron" is not a service`},
		{"no such snapshot", Ask{Kind: ops.KindRestore, Request: ops.Request{Snapshot: "two"}}, `has no snapshot "two"`},
		{"two of a name", Ask{Kind: ops.KindRestore, Request: ops.Request{Snapshot: "twice"}}, "2 machines have a snapshot twice"},
		{"a file without a machine", Ask{Kind: ops.KindRestore, Request: ops.Request{Snapshot: "/root/x"}}, "on which host"},
		{"a file and a mode", Ask{Kind: ops.KindRestore, Mode: ModeAll, Request: ops.Request{Snapshot: "/root/x", Target: "m1"}}, "does not know what the cluster was"},
		{"a path for a shell", Ask{Kind: ops.KindRestore, Request: ops.Request{Snapshot: "/root/$(x)", Target: "m1"}}, "neither the path of a snapshot"},
		{"no such mode", Ask{Kind: ops.KindRestore, Mode: "some", Request: ops.Request{Snapshot: "one"}}, "is not a mode"},
		{"another token", Ask{Kind: ops.KindRestore, Request: ops.Request{Snapshot: "foreign"}}, "another server token"},
		{"a failed one", Ask{Kind: ops.KindRestore, Request: ops.Request{Snapshot: "failed"}}, "could not be taken: no space left"},
		{"of a machine that is gone", Ask{Kind: ops.KindRestore, Request: ops.Request{Snapshot: "lost"}}, "has no machine m9 any more"},
		{"of a machine that leaves", Ask{Kind: ops.KindRestore, Request: ops.Request{Snapshot: "leaving"}}, "has no machine m3 any more"},
		{"one that was pruned", Ask{Kind: ops.KindRestore, Request: ops.Request{Snapshot: "pruned"}}, "is not listed any more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := b.asker.Begin(t.Context(), key, c.ask)
			if _, ok := errors.AsType[*InvalidError](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an InvalidError with %q", err, c.want)
			}
		})
	}
	if all := b.OperationsOf(key); len(all) != 0 {
		t.Errorf("there are the operations %+v", all)
	}
}

// TestWhileTheClusterIsNotThatOfOneMoment: nothing but a restore begins between a restore that did not end and one that does, and
// nothing at all on a cluster that goes.
func TestWhileTheClusterIsNotThatOfOneMoment(t *testing.T) {
	b := newBench(t)
	b.snapshot("one", "m1", nil)
	change := func(f func(*records.Cluster)) {
		b.must(b.Clusters.Modify(t.Context(), string(key), func(c records.Cluster) (records.Cluster, error) { f(&c); return c, nil }))
	}
	refused := func(want string, ask Ask) {
		t.Helper()
		_, err := b.asker.Begin(t.Context(), key, ask)
		if _, ok := errors.AsType[*InvalidError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an InvalidError with %q", ask.Kind, err, want)
		}
		if _, err := b.asker.Draft(key, ask); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a draft of %s: %v", ask.Kind, err)
		}
	}
	restore := Ask{Kind: ops.KindRestore, Request: ops.Request{Snapshot: "one"}}
	others := []string{ops.KindSnapshot, ops.KindCertificates, ops.KindCA, ops.KindToken, ops.KindKeys}
	change(func(c *records.Cluster) { c.Deleting = noon })
	for _, kind := range append(others, ops.KindRestore) {
		refused("is being removed", Ask{Kind: kind, Request: restore.Request})
	}
	change(func(c *records.Cluster) { c.Deleting, c.Spec = time.Time{}, clusterspec.Spec{} })
	for _, kind := range append(others, ops.KindRestore) {
		refused("is imported", Ask{Kind: kind, Request: restore.Request})
	}
	change(func(c *records.Cluster) {
		c.Spec = clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1", RKEConfig: &clusterspec.RKEConfig{}}
		c.Status.Restoring = "op-h4lf0"
	})
	for _, kind := range others {
		refused("by operation op-h4lf0 has not come to its end", Ask{Kind: kind})
	}
	if all := b.OperationsOf(key); len(all) != 0 {
		t.Errorf("there are the operations %+v", all)
	}
	if _, err := b.asker.Begin(t.Context(), key, restore); err != nil {
		t.Errorf("the restore that would end it: %v", err)
	}
}

// TestOfTwoRequestsInOneMoment the second is checked again, with what has become of the cluster; not without end.
func TestOfTwoRequestsInOneMoment(t *testing.T) {
	for name, c := range map[string]struct {
		changes int // of the cluster, each just before the request is stored
		change  func(*records.Cluster)
		want    error
		tries   int
	}{
		"one change":             {1, func(c *records.Cluster) { c.Status.Message += "x" }, nil, 2},
		"four":                   {4, func(c *records.Cluster) { c.Status.Message += "x" }, nil, 5},
		"changes without end":    {100, func(c *records.Cluster) { c.Status.Message += "x" }, &store.ConflictError{}, 5},
		"a change that forbids":  {1, func(c *records.Cluster) { c.Deleting = noon }, &InvalidError{}, 1},
		"a change of settings":   {1, func(c *records.Cluster) { c.Generation = 9 }, nil, 2},
		"nothing changes at all": {0, nil, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tries := 0
			b.asker.Now = func() time.Time {
				if tries++; tries <= c.changes {
					b.must(b.Clusters.Modify(t.Context(), string(key), func(is records.Cluster) (records.Cluster, error) { c.change(&is); return is, nil }))
				}
				return noon
			}
			o, err := b.asker.Begin(t.Context(), key, Ask{Kind: ops.KindCertificates})
			_, conflict := errors.AsType[*store.ConflictError](err)
			_, refused := errors.AsType[*InvalidError](err)
			switch c.want.(type) {
			case *store.ConflictError:
				if !conflict {
					t.Errorf("%v, want a conflict", err)
				}
			case *InvalidError:
				if !refused {
					t.Errorf("%v, want a refusal", err)
				}
			default:
				if d, _ := b.Clusters.Get(string(key)); err != nil || o.Generation != d.Value.Generation || len(b.OperationsOf(key)) != 1 {
					t.Errorf("%+v, %v", o, err)
				}
			}
			if tries != c.tries {
				t.Errorf("tried %d times, want %d", tries, c.tries)
			}
		})
	}
}

// TestARestoreBringsNoRight: a document of before that names what the cluster may not use now is not taken.
func TestARestoreBringsNoRight(t *testing.T) {
	b := newBench(t)
	secret := objects.Object{Kind: objects.Secret, UID: "uid-1", Metadata: objects.Metadata{Namespace: "fleet-default", Name: "mirror"}}
	b.must(b.Objects.Create(t.Context(), secret.Key(), secret))
	b.snapshot("one", "m2", func(s *records.Snapshot) {
		rke := *s.Spec.RKEConfig
		rke.Registries = &clusterspec.Registries{Configs: map[string]clusterspec.RegistryConfig{"mirror.lan": {AuthConfigSecretName: "mirror"}}}
		s.Spec.RKEConfig = &rke
	})
	for _, c := range []struct {
		mode    string
		granted map[string]records.Granted
		refused bool
	}{
		{ModeAll, nil, true}, {ModeAll, map[string]records.Granted{secret.Key(): {UID: "uid-0"}}, true},
		{ModeNone, nil, false}, {ModeVersion, nil, false}, {ModeAll, map[string]records.Granted{secret.Key(): {UID: "uid-1"}}, false},
	} {
		d, _ := b.Clusters.Get(string(key))
		d.Value.Granted = c.granted
		ask := Ask{Kind: ops.KindRestore, Mode: c.mode, Request: ops.Request{Snapshot: "one"}}
		if err := b.asker.fits(d.Value, &ask); (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "would name secret fleet-default/mirror again") {
			t.Errorf("mode %s with %v: %v", c.mode, c.granted, err)
		}
	}
}

// TestRestoreIsAnOperation with the snapshot's place, and with what the cluster becomes again.
func TestRestoreIsAnOperation(t *testing.T) {
	for mode, want := range map[string]struct {
		version string
		debug   any
	}{ModeNone: {"", nil}, ModeVersion: {"v1.34.3+k3s1", true}, ModeAll: {"v1.34.3+k3s1", false}} {
		t.Run(mode, func(t *testing.T) {
			b := newBench(t)
			b.snapshot("one", "m2", nil)
			o, err := b.asker.Begin(t.Context(), key, Ask{Kind: ops.KindRestore, Mode: mode, Request: ops.Request{Snapshot: "one"}, By: "user-1"})
			if err != nil {
				t.Fatal(err)
			}
			r, err := ops.ReadRequest(o)
			if err != nil || o.State != operations.Running || o.By != "user-1" || r.Target != "m2" || r.Snapshot != "/d/one" {
				t.Fatalf("the operation is %+v, %v", o, err)
			}
			switch {
			case mode == ModeNone && r.Spec != nil:
				t.Errorf("the cluster becomes %+v", r.Spec)
			case mode != ModeNone && (r.Spec.KubernetesVersion != want.version || r.Spec.RKEConfig.MachineGlobalConfig["debug"] != want.debug):
				t.Errorf("the cluster becomes %+v", r.Spec)
			}
			_, err = b.asker.Begin(t.Context(), key, Ask{Kind: ops.KindSnapshot})
			if _, busy := errors.AsType[*operations.BusyError](err); !busy {
				t.Errorf("a second operation: %v", err)
			}
			if second, err := b.asker.Begin(t.Context(), key, Ask{Kind: ops.KindSnapshot, Turn: turns.Queue}); err != nil || second.State != operations.Queued {
				t.Errorf("a queued one: %+v, %v", second, err)
			}
		})
	}
}

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

// TestTheMirror keeps what a cluster lists, knows who took it, and forgets what is gone for long.
func TestTheMirror(t *testing.T) {
	b := newBench(t)
	b.snapshot("taken", "m1", func(s *records.Snapshot) { s.By, s.SHA256, s.Size, s.File = "op-1", "aa", 5000032, "/d/taken" })
	now := noon
	items := []map[string]any{item("taken", "pier-m1", "file:///d/taken"), item("scheduled", "pier-m2", "file:///d/scheduled"), item("away", "pier-m2", "s3://bucket/away"), item("foreign", "elsewhere", "file:///d/foreign")}
	m := &Mirror{State: b.State, Client: api(t, &items), Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}
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

// TestWhatCannotBeBegunYet: clusters of other kinds and those that have not been up are told why nothing begins on them, as is one whose
// bucket is none, before a snapshot that would not get there.
func TestWhatCannotBeBegunYet(t *testing.T) {
	b := newBench(t)
	b.snapshot("one", "m1", nil)
	all := []string{ops.KindSnapshot, ops.KindCertificates, ops.KindCA, ops.KindToken, ops.KindKeys, ops.KindRestore}
	bucket := &clusterspec.RKEConfig{ETCD: &etcdspec.ETCD{S3: &etcdspec.S3{Bucket: "harbour", CloudCredentialName: "fleet-default:keys"}}}
	for name, c := range map[string]struct {
		change func(*records.Cluster)
		kinds  []string
		want   string
	}{
		"one of RKE1": {func(c *records.Cluster) {
			c.Spec.RancherKubernetesEngineConfig = &clusterspec.RancherKubernetesEngineConfig{}
		}, all, "is one of RKE1"},
		"one that was never up":         {func(c *records.Cluster) { c.Status.Initialized = false }, all[:5], "has not been up yet"},
		"none that a restore can be on": {func(c *records.Cluster) { c.Status.Initialized = false }, all[5:], "wait until its first machine is active"},
		"one without its bucket's keys": {func(c *records.Cluster) { c.Spec.RKEConfig = bucket }, all[:1], "there is no secret fleet-default/keys"},
	} {
		d, _ := b.Clusters.Get(string(key))
		c.change(&d.Value)
		for _, kind := range c.kinds {
			ask := Ask{Kind: kind, Request: ops.Request{Snapshot: "one"}}
			err := b.asker.fits(d.Value, &ask)
			if _, ok := errors.AsType[*InvalidError](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %v, want %q", name, kind, err, c.want)
			}
		}
	}
	if err := b.asker.fits(records.Cluster{Spec: clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1", RKEConfig: bucket}, Status: records.ClusterStatus{Initialized: true}}, &Ask{Kind: ops.KindCertificates}); err != nil {
		t.Errorf("what needs no bucket: %v", err)
	}
}

// TestWhetherASnapshotIsTakenBefore a restore or a change of CAs is for the request or the cluster's document to say.
func TestWhetherASnapshotIsTakenBefore(t *testing.T) {
	b := newBench(t)
	b.snapshot("one", "m1", nil)
	for _, c := range []struct {
		annotation    string
		request, want bool
	}{{"", false, false}, {"", true, true}, {"true", false, true}, {"false", false, false}, {"false", true, true}} {
		for _, kind := range []string{ops.KindRestore, ops.KindCA} {
			d, _ := b.Clusters.Get(string(key))
			d.Value.Annotations = map[string]string{clusterspec.NoSnapshot: c.annotation}
			ask := Ask{Kind: kind, Request: ops.Request{NoSnapshot: c.request}}
			if kind == ops.KindRestore {
				ask.Request.Snapshot = "one"
			}
			if err := b.asker.fits(d.Value, &ask); err != nil || ask.Request.NoSnapshot != c.want {
				t.Errorf("%s with %q and %v: none is taken %v, %v", kind, c.annotation, c.request, ask.Request.NoSnapshot, err)
			}
		}
	}
}
