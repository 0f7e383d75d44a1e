package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/pki/pkitest"
	"github.com/drover-project/drover/rke1/state"
)

var birth = time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC)

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
func deployedWork(t *testing.T, cfg *config.Cluster) Work {
	t.Helper()
	s, _, err := Init(Work{Config: cfg}, pkitest.Source(birth, 0))
	if err != nil {
		t.Fatal(err)
	}
	return Work{Config: cfg, Before: s.Deployed()}
}

func rotated(t *testing.T, w Work, what pki.Rotation, now time.Time) *rotation {
	t.Helper()
	ro, err := rotationOf(w, what, pkitest.Source(now, 8))
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
		if ro.resumed || ro.next.Desired.Config.RotateCertificates == nil {
			t.Fatalf("%v: begins resumed %v", what, ro.resumed)
		}
		want := 1
		if what.CA {
			want = 3
		}
		w.Before = ro.next
		for n := want; n > 0; n-- {
			ro := rotated(t, w, what, birth)
			if (n < want || !what.CA) && !ro.resumed || len(ro.stages) != n {
				t.Fatalf("%v: %d steps are left of %d, resumed %v", what, len(ro.stages), n, ro.resumed)
			}
			if diff := cmp.Diff(w.Before.Desired.Certificates, ro.next.Desired.Certificates); diff != "" {
				t.Fatalf("%v: the goal has changed: %s", what, diff)
			}
			next := *ro.next
			next.Current.Certificates = ro.stages[0].Bundle
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
	fresh := Work{Config: clusterConfig()}
	inCA := deployedWork(t, clusterConfig())
	inCA.Before = rotated(t, inCA, pki.Rotation{CA: true}, birth).next
	inLeaves := deployedWork(t, clusterConfig())
	inLeaves.Before = rotated(t, inLeaves, pki.Rotation{}, birth).next
	restoring := deployedWork(t, clusterConfig())
	from, _, err := restoredState(restoring, &source{}, RestoreWish{Name: "one", LocalState: true}, pkitest.Source(birth, 8))
	if err != nil {
		t.Fatal(err)
	}
	restoring.Before = from
	up := func(w Work) error { _, _, err := Init(w, pkitest.Source(birth, 8)); return err }
	rotate := func(what pki.Rotation) func(Work) error {
		return func(w Work) error { _, err := rotationOf(w, what, pkitest.Source(birth, 8)); return err }
	}
	key := func(w Work) error { _, _, err := keyRotation(w); return err }
	for _, tt := range []struct {
		name string
		work Work
		do   func(Work) error
		want string // of the sentence; "" lets it go on
	}{
		{"up in a new CA", inCA, up, "drover rke cert rotate --rotate-ca"},
		{"up in new leaves, which it deploys", inLeaves, up, ""},
		{"up in a restore", restoring, up, "drover rke etcd snapshot-restore --name one"},
		{"leaves in a new CA", inCA, rotate(pki.Rotation{}), "drover rke cert rotate --rotate-ca"},
		{"the CA in new leaves", inLeaves, rotate(pki.Rotation{CA: true}), "`drover rke cert rotate`"},
		{"rotate in a restore", restoring, rotate(pki.Rotation{}), "not"},
		{"rotate nothing", fresh, rotate(pki.Rotation{}), "drover rke up"},
		{"a key in a new CA", inCA, key, "drover rke cert rotate --rotate-ca"},
		{"a key of nothing", deployedWork(t, clusterConfig()), key, "secrets_encryption_config"},
	} {
		err := tt.do(tt.work)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestRotateWhatHasEnded: what has ended cannot be kept working step by step.
func TestRotateWhatHasEnded(t *testing.T) {
	w := deployedWork(t, clusterConfig())
	ro := rotated(t, w, pki.Rotation{CA: true}, birth.AddDate(11, 0, 0))
	if !ro.ended || len(ro.stages) != 1 || ro.stages[0].Bundle[pki.CA] != ro.next.Desired.Certificates[pki.CA] {
		t.Errorf("ended %v, %d steps", ro.ended, len(ro.stages))
	}
	if ro := rotated(t, w, pki.Rotation{}, birth.AddDate(1, 0, 0)); ro.ended {
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
	c := rotated(t, w, pki.Rotation{}, birth).next.Desired.Config
	if c.KubernetesVersion != "v1.30.5-rancher1-1" || len(c.Nodes) != 2 || c.Nodes[0].User != "other" || !slices.Equal(c.Authentication.SANs, []string{"api.example.com"}) {
		t.Errorf("it deploys %+v", c)
	}
}

// TestKeyRotationGoesOn holds that one that was interrupted anywhere goes on with its own key.
func TestKeyRotationGoesOn(t *testing.T) {
	w := deployedWork(t, encrypted())
	next, steps, err := keyRotation(w)
	if err != nil || len(steps) != 2 {
		t.Fatal(steps, err)
	}
	goal := next.Desired.Encryption
	for i, is := range append([]string{w.Before.Current.Encryption}, steps...) {
		w.Before = &state.State{Desired: next.Desired, Current: next.Current}
		w.Before.Current.Encryption = is
		again, left, err := keyRotation(w)
		if err != nil || again.Desired.Encryption != goal || left[len(left)-1] != goal {
			t.Errorf("interrupted after step %d: %v, another key %v", i, err, again != nil && again.Desired.Encryption != goal)
		}
	}
	// A run of up in between has deployed it.
	w.Before = &state.State{Desired: next.Desired, Current: next.Desired}
	if again, _, err := keyRotation(w); err != nil || again.Desired.Encryption != goal {
		t.Errorf("after up: %v", err)
	}
}

func TestStoredAs(t *testing.T) {
	const prefix = "k8s:enc:aescbc:v1:k-2:"
	for value, want := range map[string][2]bool{ // with the prefix, in plain text
		prefix + "\x00\x01":          {true, false},
		"k8s:enc:aescbc:v1:k-1:\x00": {false, false},
		"k8s\x00\n\x0c\n\x02v1":      {false, true},
		"":                           {false, true},
	} {
		if is := [2]bool{storedAs(value, prefix), storedAs(value, "")}; is != want {
			t.Errorf("%q: %v", value, is)
		}
	}
}

func TestChooseSnapshot(t *testing.T) {
	good := func(sum string, withState bool) *Snapshot { return &Snapshot{Size: 1, Sum: sum, State: withState} }
	for _, tt := range []struct {
		name   string
		found  map[string]*Snapshot
		others []string
		from   string
		want   string
	}{
		{"one has it", map[string]*Snapshot{"a": nil, "b": good("1", true)}, nil, "b", ""},
		{"one with the state", map[string]*Snapshot{"a": good("1", false), "b": good("1", true)}, nil, "b", ""},
		{"a broken one does not count", map[string]*Snapshot{"a": {Broken: true}, "b": good("1", true)}, nil, "b", ""},
		{"they differ", map[string]*Snapshot{"a": good("1", true), "b": good("2", true)}, nil, "", "not consistent"},
		{"nobody", map[string]*Snapshot{"a": nil}, []string{"x", "y"}, "", "there are x, y"},
		{"all broken", map[string]*Snapshot{"a": {Broken: true}}, nil, "", "cannot be opened on a"},
	} {
		from, err := choose("one", tt.found, tt.others)
		if from != tt.from || tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %q, %v", tt.name, from, err)
		}
	}
}

func TestReadSnapshot(t *testing.T) {
	for _, tt := range []struct {
		output []string
		want   *Snapshot
	}{
		{[]string{"other two", "size 12", "sum abc", "state"}, &Snapshot{Host: "a", Size: 12, Sum: "abc", State: true}},
		{[]string{"other two", "size 12"}, &Snapshot{Host: "a", Size: 12, Broken: true}}, // an archive without data
		{[]string{"other two", "broken"}, &Snapshot{Host: "a", Broken: true}},
		{[]string{"other two"}, nil},
	} {
		is, others := readSnapshot("a", tt.output)
		if diff := cmp.Diff(tt.want, is); diff != "" || !slices.Equal(others, []string{"two"}) {
			t.Errorf("%q: %v %s", tt.output, others, diff)
		}
	}
}

func TestSnapshotNames(t *testing.T) {
	for _, name := range []string{SnapshotName(birth, false), SnapshotName(birth, true), "c-abc-rs-1", "one"} {
		if err := CheckSnapshotName(name); err != nil {
			t.Error(err)
		}
	}
	if name := SnapshotName(birth, true); strings.Contains(name, ":") {
		t.Errorf("%s is safe for no file system", name)
	}
	for _, name := range []string{"", "-rf", "../etc", "a b", "a/b", "*", strings.Repeat("a", 300)} {
		if CheckSnapshotName(name) == nil {
			t.Errorf("%q is taken", name)
		}
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
		{"not encrypted any more", old, clusterConfig(), birth, false, "set enabled: true"},
		{"long ago", old, encrypted(), birth.AddDate(11, 0, 0), false, "--use-local-state"},
	} {
		next, stale, err := restoredState(Work{Config: tt.cfg}, &source{state: tt.was}, RestoreWish{Name: "one"}, pkitest.Source(tt.now, 8))
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err != nil || stale != tt.stale || next.Current.Config != nil || !next.Desired.Config.Restore.Restore || tt.cfg.Restore.Restore ||
			next.Desired.Certificates[pki.CA] != tt.was.Current.Certificates[pki.CA] || !tt.stale && next.Desired.Encryption != tt.was.Current.Encryption {
			t.Errorf("%s: stale %v, %v", tt.name, stale, err)
		}
	}
}

func TestNoSecretsInSentences(t *testing.T) {
	c := withBucket(clusterConfig(), &config.S3Backup{AccessKey: "AKIA", SecretKey: "hunter2"})
	failed := fmt.Errorf("upload: %w", &onhost.FailedError{Host: "a", Name: "n", Code: 1, Output: []string{"key AKIA secret hunter2", "aHVudGVyMg=="}})
	err := masked(failed, secretsOf(c))
	if text := err.Error(); strings.Contains(text, "AKIA") || strings.Contains(text, "hunter2") || strings.Contains(text, "aHVudGVyMg") || !strings.Contains(text, "***") {
		t.Error(text)
	}
	if other := errors.New("other"); masked(other, secretsOf(c)) != other {
		t.Error("an error without output is changed")
	}
	if clusterConfig().Services.Etcd.BackupConfig != nil || c.Services.Etcd.BackupConfig.IntervalHours == 0 {
		t.Error("the config of a bucket")
	}
}
