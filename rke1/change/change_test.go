package change_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/pki/pkitest"
	"github.com/drover-project/drover/rke1/state"
)

var birth = time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC)

// random gives the same each time.
func random() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{7}) }

func clusterConfig() *config.Cluster {
	c := &config.Cluster{
		ClusterName: "prod", KubernetesVersion: "v1.30.5-rancher1-1", PrefixPath: "/",
		Nodes: []config.Node{
			{Address: "10.0.0.1", Port: "22", User: "core", Role: []string{"controlplane", "etcd"}},
			{Address: "10.0.0.2", Port: "22", User: "core", Role: []string{"worker"}},
		},
	}
	c.Services.KubeAPI.ServiceClusterIPRange = "10.43.0.0/16"
	c.Services.Kubelet.ClusterDomain = "cluster.local"
	return c
}

func encrypted() *config.Cluster {
	c := clusterConfig()
	c.Services.KubeAPI.SecretsEncryptionConfig = &config.SecretsEncryption{Enabled: true}
	return c
}

// deployedWork is a cluster that is deployed, and a run on it.
func deployedWork(t *testing.T, cfg *config.Cluster) change.Cluster {
	t.Helper()
	b, _, err := pki.Make(cfg, nil, pkitest.Source(birth, 0), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := state.Next(nil, cfg, b, rand.NewChaCha8([32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	return change.Cluster{Config: cfg, Before: s.Deployed()}
}

func rotated(t *testing.T, w change.Cluster, what pki.Rotation, now time.Time) *change.Rotation {
	t.Helper()
	ro, err := change.RotationOf(w, what, pkitest.Source(now, 8))
	if err != nil {
		t.Fatal(err)
	}
	return ro
}

// TestRotationGoesOn takes the steps of a rotation one by one, with an interruption after each.
func TestRotationGoesOn(t *testing.T) {
	for _, what := range []pki.Rotation{{}, {Services: []string{"etcd"}}, {CA: true}} {
		w := deployedWork(t, clusterConfig())
		began := w.Before.Current.Certificates
		ro := rotated(t, w, what, birth)
		if ro.Resumed || ro.Next.Desired.Config.RotateCertificates == nil {
			t.Fatalf("%v: begins resumed %v", what, ro.Resumed)
		}
		want := 1
		if what.CA {
			want = 3
		}
		w.Before = ro.Next
		for n := want; n > 0; n-- {
			ro := rotated(t, w, what, birth)
			if (n < want || !what.CA) && !ro.Resumed || len(ro.Stages) != n {
				t.Fatalf("%v: %d steps are left of %d, resumed %v", what, len(ro.Stages), n, ro.Resumed)
			}
			if diff := cmp.Diff(w.Before.Desired.Certificates, ro.Next.Desired.Certificates); diff != "" {
				t.Fatalf("%v: the goal has changed: %s", what, diff)
			}
			next := *ro.Next
			next.Current.Certificates = ro.Stages[0].Bundle
			w.Before = &next
			if err := next.Check(state.Against{}); err != nil {
				t.Errorf("%v: %v", what, err)
			}
		}
		if pki.SameCA(began, w.Before.Current.Certificates) == what.CA {
			t.Errorf("%v: the CA", what)
		}
	}
}

func TestWorkThatHasToWait(t *testing.T) {
	fresh := change.Cluster{Config: clusterConfig()}
	inCA := deployedWork(t, clusterConfig())
	inCA.Before = rotated(t, inCA, pki.Rotation{CA: true}, birth).Next
	inLeaves := deployedWork(t, clusterConfig())
	inLeaves.Before = rotated(t, inLeaves, pki.Rotation{}, birth).Next
	restoring := deployedWork(t, clusterConfig())
	from, _, err := change.Restored(restoring, nil, "one", pkitest.Source(birth, 8), random())
	if err != nil {
		t.Fatal(err)
	}
	restoring.Before = from
	up := func(w change.Cluster) error { return change.Unfinished(w.Before) }
	rotate := func(what pki.Rotation) func(change.Cluster) error {
		return func(w change.Cluster) error {
			_, err := change.RotationOf(w, what, pkitest.Source(birth, 8))
			return err
		}
	}
	key := func(w change.Cluster) error { _, _, err := change.KeyRotation(w, random()); return err }
	for _, tt := range []struct {
		name string
		work change.Cluster
		do   func(change.Cluster) error
		want string // of the sentence; "" lets it go on
	}{
		{"up in a new CA", inCA, up, "the rotation of the cluster's CA was interrupted and is not finished: ResumeCA"},
		{"up in new leaves, which it deploys", inLeaves, up, ""},
		{"up in a restore", restoring, up, "is not finished: ResumeRestore one"},
		{"leaves in a new CA", inCA, rotate(pki.Rotation{}), "another rotation of certificates was interrupted and is not finished: ResumeCA"},
		{"the CA in new leaves", inLeaves, rotate(pki.Rotation{CA: true}), "another rotation of certificates was interrupted and is not finished: ResumeCertificates"},
		{"rotate in a restore", restoring, rotate(pki.Rotation{}), "not"},
		{"rotate nothing", fresh, rotate(pki.Rotation{}), "nothing of the cluster is deployed yet: BringUp"},
		{"a key in a new CA", inCA, key, "the rotation of the cluster's CA was interrupted and is not finished: ResumeCA"},
		{"a key of nothing", deployedWork(t, clusterConfig()), key, "no Secret is encrypted: Encrypt"},
	} {
		err := tt.do(tt.work)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(said(err), tt.want)) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestRotateWhatHasEnded: what has ended cannot be kept working step by step.
func TestRotateWhatHasEnded(t *testing.T) {
	w := deployedWork(t, clusterConfig())
	ro := rotated(t, w, pki.Rotation{CA: true}, birth.AddDate(11, 0, 0))
	if !ro.Ended || len(ro.Stages) != 1 || ro.Stages[0].Bundle[pki.CA] != ro.Next.Desired.Certificates[pki.CA] {
		t.Errorf("ended %v, %d steps", ro.Ended, len(ro.Stages))
	}
	if ro := rotated(t, w, pki.Rotation{}, birth.AddDate(1, 0, 0)); ro.Ended {
		t.Error("ended after a year")
	}
}

// TestRotationLeavesTheRest: what else cluster.yml says stays for up, but for how hosts are reached, and names of the API.
func TestRotationLeavesTheRest(t *testing.T) {
	w := deployedWork(t, clusterConfig())
	w.Config = clusterConfig()
	w.Config.KubernetesVersion = "v1.31.1-rancher1-1"
	w.Config.Nodes[0].User = "other"
	w.Config.Nodes = append(w.Config.Nodes, config.Node{Address: "10.0.0.3", Role: []string{"worker"}})
	w.Config.Authentication.SANs = []string{"api.example.com"}
	c := rotated(t, w, pki.Rotation{}, birth).Next.Desired.Config
	if c.KubernetesVersion != "v1.30.5-rancher1-1" || len(c.Nodes) != 2 || c.Nodes[0].User != "other" || !slices.Equal(c.Authentication.SANs, []string{"api.example.com"}) {
		t.Errorf("it deploys %+v", c)
	}
}

// TestRotationAfterAFinishedOne: the rke CLI leaves rotateCertificates in both parts of a state once it has finished.
func TestRotationAfterAFinishedOne(t *testing.T) {
	later := func(w change.Cluster, what pki.Rotation) *change.Rotation {
		ro, err := change.RotationOf(w, what, pkitest.Source(birth, 3))
		if err != nil {
			t.Fatal(err)
		}
		return ro
	}
	finished := func(services ...string) change.Cluster {
		w := deployedWork(t, clusterConfig())
		next := *rotated(t, w, pki.Rotation{Services: services}, birth).Next
		next.Current = next.Desired
		again, _, err := pki.Make(w.Config, next.Desired.Certificates, pkitest.Source(birth, 9), pki.Options{})
		if err != nil || again[pki.Admin] == next.Desired.Certificates[pki.Admin] {
			t.Fatal("the administrator's certificate is not made anew", err)
		}
		next.Current.Certificates = again
		w.Before = &next
		return w
	}
	for _, tt := range []struct {
		name   string
		before []string
		what   pki.Rotation
		change string // an entry of the bundle that has to change
	}{
		{"the same service again", []string{"kubelet"}, pki.Rotation{Services: []string{"kubelet"}}, pki.Node},
		{"another service", []string{"kubelet"}, pki.Rotation{Services: []string{"kube-proxy"}}, pki.Proxy},
		{"all", []string{"kube-scheduler"}, pki.Rotation{}, pki.Node},
		{"all again", nil, pki.Rotation{}, pki.Scheduler},
		{"the CA", nil, pki.Rotation{CA: true}, pki.CA},
	} {
		w := finished(tt.before...)
		is := w.Before.Current.Certificates[tt.change].CertificatePEM
		ro := later(w, tt.what)
		if ro.Resumed || len(ro.Changes) == 0 || ro.Next.Desired.Certificates[tt.change].CertificatePEM == is {
			t.Errorf("%s: resumed %v, %d changes", tt.name, ro.Resumed, len(ro.Changes))
		}
		// Interrupted before its end was written down, it is gone on with.
		w.Before = &state.State{Desired: ro.Next.Desired, Current: ro.Next.Current}
		w.Before.Current.Certificates = ro.Next.Desired.Certificates
		if again := later(w, tt.what); !again.Resumed {
			t.Errorf("%s: its end was forgotten", tt.name)
		}
	}
	// The rke CLI was interrupted in the second of two rotations of the same service.
	w := finished("kubelet")
	open := later(w, pki.Rotation{Services: []string{"kubelet"}}).Next
	open.Current.Config = open.Desired.Config
	w.Before = open
	if ro := later(w, pki.Rotation{Services: []string{"kubelet"}}); !ro.Resumed {
		t.Error("a rotation that the rke CLI did not finish begins anew")
	}
}

// TestRotationGoesOnByOtherWays: the way to a host may be another by then.
func TestRotationGoesOnByOtherWays(t *testing.T) {
	w := deployedWork(t, clusterConfig())
	w.Before = rotated(t, w, pki.Rotation{}, birth).Next
	w.Config = clusterConfig()
	w.Config.Nodes[1].User = "other"
	if c := rotated(t, w, pki.Rotation{}, birth).Next.Desired.Config; c.Nodes[1].User != "other" || c.RotateCertificates == nil {
		t.Errorf("it goes on by %+v", c.Nodes)
	}
}

// TestKeyRotationGoesOn holds that one that was interrupted anywhere goes on with its own key.
func TestKeyRotationGoesOn(t *testing.T) {
	w := deployedWork(t, encrypted())
	next, steps, err := change.KeyRotation(w, random())
	if err != nil || len(steps) != 2 {
		t.Fatal(steps, err)
	}
	goal := next.Desired.Encryption
	for i, is := range append([]string{w.Before.Current.Encryption}, steps...) {
		w.Before = &state.State{Desired: next.Desired, Current: next.Current}
		w.Before.Current.Encryption = is
		again, left, err := change.KeyRotation(w, random())
		if err != nil || again.Desired.Encryption != goal || left[len(left)-1] != goal {
			t.Errorf("interrupted after step %d: %v, another key %v", i, err, again != nil && again.Desired.Encryption != goal)
		}
	}
	// A run of up in between has deployed it.
	w.Before = &state.State{Desired: next.Desired, Current: next.Desired}
	if again, _, err := change.KeyRotation(w, random()); err != nil || again.Desired.Encryption != goal {
		t.Errorf("after up: %v", err)
	}
}

func TestRestoredState(t *testing.T) {
	old := deployedWork(t, encrypted()).Before
	plain := deployedWork(t, clusterConfig()).Before
	for _, tt := range []struct {
		name  string
		was   *state.State
		cfg   *config.Cluster
		now   time.Time
		stale bool
		want  string
	}{
		{"as it was", old, encrypted(), birth, false, ""},
		{"encrypted since", plain, encrypted(), birth, true, ""},
		{"not encrypted any more", old, clusterConfig(), birth, false, "are encrypted, and the config has no services.kube-api.secrets_encryption_config: EncryptMeanwhile"},
		{"long ago", old, encrypted(), birth.AddDate(11, 0, 0), false, "have ended: KeepState"},
	} {
		next, stale, err := change.Restored(change.Cluster{Config: tt.cfg}, tt.was, "one", pkitest.Source(tt.now, 8), random())
		if tt.want != "" {
			if err == nil || !strings.Contains(said(err), tt.want) {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err != nil || stale != tt.stale || next.Current.Config != nil || !next.Desired.Config.Restore.Restore || tt.cfg.Restore.Restore ||
			next.Desired.Certificates[pki.CA] != tt.was.Current.Certificates[pki.CA] || !tt.stale && next.Desired.Encryption != tt.was.Current.Encryption {
			t.Errorf("%s: stale %v, %v", tt.name, stale, err)
		}
	}
	// A try before this one may have written Secrets with a key of its own.
	again := change.Cluster{Config: encrypted(), Before: old}
	first, _, err := change.Restored(again, nil, "one", pkitest.Source(birth, 8), random())
	if err != nil {
		t.Fatal(err)
	}
	again.Before = first
	if _, stale, err := change.Restored(again, nil, "one", pkitest.Source(birth, 8), random()); err != nil || !stale {
		t.Errorf("the second try: stale %v, %v", stale, err)
	}
}

// said is an error with its steps by their names.
func said(err error) string {
	names := map[advice.Kind]string{
		advice.BringUp: "BringUp", advice.ResumeRestore: "ResumeRestore", advice.ResumeCA: "ResumeCA", advice.ResumeCertificates: "ResumeCertificates",
		advice.Encrypt: "Encrypt", advice.EncryptMeanwhile: "EncryptMeanwhile", advice.KeepState: "KeepState",
	}
	return advice.Error(err, func(s advice.Step) string {
		return strings.TrimSpace(names[s.Kind] + " " + s.Snapshot)
	}).Error()
}
