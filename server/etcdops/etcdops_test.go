package etcdops

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/test/harbour"
)

var noon = harbour.Noon

const key = harbour.Key

// bench is the store with what is asked of it.
type bench struct {
	*harbour.Bench
	asker Service
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s := harbour.New(t)
	return &bench{Bench: s, asker: Service{State: s.State, Now: func() time.Time { return noon }}}
}

func TestWhatIsRefused(t *testing.T) {
	b := newBench(t)
	b.Snapshot("one", "m1", nil)
	b.Snapshot("twice", "m1", nil)
	b.Snapshot("twice", "m2", nil)
	b.Snapshot("foreign", "m1", func(s *records.Snapshot) { s.TokenHash = "0123456789ab" })
	b.Snapshot("failed", "m1", func(s *records.Snapshot) { s.Fault = "no space left" })
	b.Snapshot("lost", "m9", nil)
	leaving := records.Machine{Object: records.Object{Namespace: "fleet-default", Name: "m3", UID: "m3"}, ClusterName: "harbour"}
	leaving.Deleting = noon
	b.Must(b.Machines.Create(t.Context(), leaving.Key(), leaving))
	b.Snapshot("leaving", "m3", nil)
	b.Snapshot("pruned", "m1", func(s *records.Snapshot) { s.Missing = noon })
	for _, c := range []struct {
		name string
		ask  Request
		want string
	}{
		{"a name that is none", Request{Kind: operations.KindSnapshot, Request: steps.Request{Name: "a b"}}, "cannot begin the name of a snapshot"},
		{"a service that is none", Request{Kind: operations.KindRotateCertificates, Request: steps.Request{Services: []string{"cron"}}}, `"cron" is not a service`},
		{"no such snapshot", Request{Kind: operations.KindRestore, Request: steps.Request{Snapshot: "two"}}, `has no snapshot "two"`},
		{"two of a name", Request{Kind: operations.KindRestore, Request: steps.Request{Snapshot: "twice"}}, "2 machines have a snapshot twice"},
		{"a file without a machine", Request{Kind: operations.KindRestore, Request: steps.Request{Snapshot: "/root/x"}}, "on which host"},
		{"a file and a mode", Request{Kind: operations.KindRestore, Mode: ModeAll, Request: steps.Request{Snapshot: "/root/x", Target: "m1"}}, "does not know what the cluster was"},
		{"a path for a shell", Request{Kind: operations.KindRestore, Request: steps.Request{Snapshot: "/root/$(x)", Target: "m1"}}, "neither the path of a snapshot"},
		{"no such mode", Request{Kind: operations.KindRestore, Mode: "some", Request: steps.Request{Snapshot: "one"}}, "is not a mode"},
		{"another token", Request{Kind: operations.KindRestore, Request: steps.Request{Snapshot: "foreign"}}, "another server token"},
		{"a failed one", Request{Kind: operations.KindRestore, Request: steps.Request{Snapshot: "failed"}}, "could not be taken: no space left"},
		{"of a machine that is gone", Request{Kind: operations.KindRestore, Request: steps.Request{Snapshot: "lost"}}, "has no machine m9 any more"},
		{"of a machine that leaves", Request{Kind: operations.KindRestore, Request: steps.Request{Snapshot: "leaving"}}, "has no machine m3 any more"},
		{"one that was pruned", Request{Kind: operations.KindRestore, Request: steps.Request{Snapshot: "pruned"}}, "is not listed any more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := b.asker.Begin(t.Context(), key, c.ask)
			if _, ok := errors.AsType[*admission.InvalidError](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an admission.InvalidError with %q", err, c.want)
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
	b.Snapshot("one", "m1", nil)
	change := func(f func(*records.Cluster)) {
		b.Must(b.Clusters.Modify(t.Context(), string(key), func(c records.Cluster) (records.Cluster, error) { f(&c); return c, nil }))
	}
	refused := func(want string, ask Request) {
		t.Helper()
		_, err := b.asker.Begin(t.Context(), key, ask)
		if _, ok := errors.AsType[*admission.InvalidError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an admission.InvalidError with %q", ask.Kind, err, want)
		}
		if _, err := b.asker.Draft(key, ask); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a draft of %s: %v", ask.Kind, err)
		}
	}
	restore := Request{Kind: operations.KindRestore, Request: steps.Request{Snapshot: "one"}}
	others := []operations.Kind{operations.KindSnapshot, operations.KindRotateCertificates, operations.KindRotateCA, operations.KindRotateToken, operations.KindRotateKeys}
	change(func(c *records.Cluster) { c.Deleting = noon })
	for _, kind := range append(others, operations.KindRestore) {
		refused("is being removed", Request{Kind: kind, Request: restore.Request})
	}
	change(func(c *records.Cluster) { c.Deleting, c.Spec = time.Time{}, clusterspec.Spec{} })
	for _, kind := range append(others, operations.KindRestore) {
		refused("is imported", Request{Kind: kind, Request: restore.Request})
	}
	change(func(c *records.Cluster) {
		c.Spec = clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1", RKEConfig: &clusterspec.RKEConfig{}}
		c.Status.Restoring = "op-h4lf0"
	})
	for _, kind := range others {
		refused("by operation op-h4lf0 has not come to its end", Request{Kind: kind})
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
		"a change that forbids":  {1, func(c *records.Cluster) { c.Deleting = noon }, &admission.InvalidError{}, 1},
		"a change of settings":   {1, func(c *records.Cluster) { c.Generation = 9 }, nil, 2},
		"nothing changes at all": {0, nil, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tries := 0
			b.asker.Now = func() time.Time {
				if tries++; tries <= c.changes {
					b.Must(b.Clusters.Modify(t.Context(), string(key), func(is records.Cluster) (records.Cluster, error) { c.change(&is); return is, nil }))
				}
				return noon
			}
			o, err := b.asker.Begin(t.Context(), key, Request{Kind: operations.KindRotateCertificates})
			_, conflict := errors.AsType[*store.ConflictError](err)
			_, refused := errors.AsType[*admission.InvalidError](err)
			switch c.want.(type) { //nolint:errorlint // is what the table says
			case *store.ConflictError:
				if !conflict {
					t.Errorf("%v, want a conflict", err)
				}
			case *admission.InvalidError:
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
	b.Must(b.Objects.Create(t.Context(), secret.Key(), secret))
	b.Snapshot("one", "m2", func(s *records.Snapshot) {
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
		ask := Request{Kind: operations.KindRestore, Mode: c.mode, Request: steps.Request{Snapshot: "one"}}
		if err := b.asker.complete(d.Value, &ask); (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "would name secret fleet-default/mirror again") {
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
			b.Snapshot("one", "m2", nil)
			o, err := b.asker.Begin(t.Context(), key, Request{Kind: operations.KindRestore, Mode: mode, Request: steps.Request{Snapshot: "one"}, By: "user-1"})
			if err != nil {
				t.Fatal(err)
			}
			r, err := steps.ReadRequest(o)
			if err != nil || o.State != operations.Running || o.By != "user-1" || r.Target != "m2" || r.Snapshot != "/d/one" {
				t.Fatalf("the operation is %+v, %v", o, err)
			}
			switch {
			case mode == ModeNone && r.Spec != nil:
				t.Errorf("the cluster becomes %+v", r.Spec)
			case mode != ModeNone && (r.Spec.KubernetesVersion != want.version || r.Spec.RKEConfig.MachineGlobalConfig["debug"] != want.debug):
				t.Errorf("the cluster becomes %+v", r.Spec)
			}
			_, err = b.asker.Begin(t.Context(), key, Request{Kind: operations.KindSnapshot})
			if _, busy := errors.AsType[*operations.BusyError](err); !busy {
				t.Errorf("a second operation: %v", err)
			}
			if second, err := b.asker.Begin(t.Context(), key, Request{Kind: operations.KindSnapshot, Turn: admission.Queue}); err != nil || second.State != operations.Queued {
				t.Errorf("a queued one: %+v, %v", second, err)
			}
		})
	}
}

// TestWhatCannotBeBegunYet: clusters of other kinds and those that have not been up are told why nothing begins on them, as is one whose
// bucket is none, before a snapshot that would not get there.
func TestWhatCannotBeBegunYet(t *testing.T) {
	b := newBench(t)
	b.Snapshot("one", "m1", nil)
	all := []operations.Kind{operations.KindSnapshot, operations.KindRotateCertificates, operations.KindRotateCA, operations.KindRotateToken, operations.KindRotateKeys, operations.KindRestore}
	bucket := &clusterspec.RKEConfig{ETCD: &clusterspec.ETCD{S3: &clusterspec.S3{Bucket: "harbour", CloudCredentialName: "fleet-default:keys"}}}
	for name, c := range map[string]struct {
		change func(*records.Cluster)
		kinds  []operations.Kind
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
			ask := Request{Kind: kind, Request: steps.Request{Snapshot: "one"}}
			err := b.asker.complete(d.Value, &ask)
			if _, ok := errors.AsType[*admission.InvalidError](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %v, want %q", name, kind, err, c.want)
			}
		}
	}
	if err := b.asker.complete(records.Cluster{Spec: clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1", RKEConfig: bucket}, Status: records.ClusterStatus{Initialized: true}}, &Request{Kind: operations.KindRotateCertificates}); err != nil {
		t.Errorf("what needs no bucket: %v", err)
	}
}

// TestWhetherASnapshotIsTakenBefore a restore or a change of CAs is for the request or the cluster's document to say.
func TestWhetherASnapshotIsTakenBefore(t *testing.T) {
	b := newBench(t)
	b.Snapshot("one", "m1", nil)
	for _, c := range []struct {
		annotation    string
		request, want bool
	}{{"", false, false}, {"", true, true}, {"true", false, true}, {"false", false, false}, {"false", true, true}} {
		for _, kind := range []operations.Kind{operations.KindRestore, operations.KindRotateCA} {
			d, _ := b.Clusters.Get(string(key))
			d.Value.Annotations = map[string]string{clusterspec.NoSnapshot: c.annotation}
			ask := Request{Kind: kind, Request: steps.Request{NoSnapshot: c.request}}
			if kind == operations.KindRestore {
				ask.Request.Snapshot = "one"
			}
			if err := b.asker.complete(d.Value, &ask); err != nil || ask.Request.NoSnapshot != c.want {
				t.Errorf("%s with %q and %v: none is taken %v, %v", kind, c.annotation, c.request, ask.Request.NoSnapshot, err)
			}
		}
	}
}
