package state_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/pki/pkitest"
	"github.com/drover-project/drover/rke1/state"
)

var update = flag.Bool("update", false, "write the golden files")

var birth = time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC)

func random() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{7}) }

func cluster() *config.Cluster {
	no := false
	c := &config.Cluster{
		ClusterName: "prod", KubernetesVersion: "v1.30.5-rancher1-1", PrefixPath: "/", IgnoreDockerVersion: &no,
		Nodes: []config.Node{
			{Address: "203.0.113.10", InternalAddress: "10.0.0.10", HostnameOverride: "n1", Port: "22", User: "core", Role: []string{"controlplane", "etcd"}},
			{Address: "203.0.113.11", HostnameOverride: "n2", Port: "22", User: "core", Role: []string{"worker"}, Labels: map[string]string{"zone": "<a&b>"}},
		},
	}
	c.Services.KubeAPI.ServiceClusterIPRange = "10.43.0.0/16"
	c.Services.KubeAPI.SecretsEncryptionConfig = &config.SecretsEncryption{Enabled: true}
	c.Services.Etcd.BackupConfig = &config.BackupConfig{IntervalHours: 12, Retention: 6}
	c.Services.Kubelet.ClusterDomain = "cluster.local"
	return c
}

// next is the state of a run at a time, from the run before.
func next(t *testing.T, before *state.State, cfg *config.Cluster, now time.Time, skip int) *state.State {
	t.Helper()
	var old pki.Bundle
	if before != nil {
		old = before.Desired.Certificates
	}
	b, _, err := pki.Make(cfg, old, pkitest.Source(now, skip), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := state.Next(before, cfg, b, random())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// deployed is a cluster after its first run.
func deployed(t *testing.T) *state.State {
	t.Helper()
	s, err := state.Decode(content(t, "testdata/first.rkestate")) // held by TestBytes
	if err != nil {
		t.Fatal(err)
	}
	return s.Deployed()
}

func encoded(t *testing.T, s *state.State) []byte {
	t.Helper()
	b, err := state.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: %s", path, diff)
	}
}

func TestBytes(t *testing.T) {
	first := next(t, nil, cluster(), birth, 0)
	text := encoded(t, first)
	golden(t, "first.rkestate", text)
	if !bytes.HasSuffix(text, []byte("\n  },\n  \"currentState\": {}\n}")) {
		t.Error("nothing deployed is not {}, or the file ends in something else")
	}
	read, err := state.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if again := encoded(t, read); !bytes.Equal(text, again) {
		t.Errorf("read and written it differs: %s", cmp.Diff(string(text), string(again)))
	}
	compact, err := state.Compact(first)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Compact(&want, text); err != nil || !bytes.Equal(want.Bytes(), compact) {
		t.Errorf("the Secret's content is another: %v", err)
	}
	cfg := cluster()
	cfg.Services.KubeAPI.SecretsEncryptionConfig = nil
	if plain := encoded(t, next(t, nil, cfg, birth, 0)); bytes.Contains(plain, []byte("encryptionConfig")) {
		t.Error("encryptionConfig is there without encryption")
	}
}

// TestASecondRunChangesTheAdminAlone is the base of exports: a run on the same files
// changes one entry.
func TestASecondRunChangesTheAdminAlone(t *testing.T) {
	one := deployed(t)
	two := next(t, one, cluster(), birth.Add(time.Hour), 9)
	got, err := state.Diff(one, two)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"desiredState.certificatesBundle.kube-admin.certificatePEM", "desiredState.certificatesBundle.kube-admin.config"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if one.ChangesCA() || two.ChangesCA() {
		t.Error("a CA is said to change")
	}
}

func TestDiff(t *testing.T) {
	one := deployed(t)
	two, err := state.Decode(encoded(t, one))
	if err != nil {
		t.Fatal(err)
	}
	nodes := two.Desired.Config.Nodes
	nodes[0].Address, nodes[0].Role[0], nodes[0].User = "x", "worker", ""
	two.Desired.Config.Authentication.SANs = []string{"x"}
	two.Current.Encryption = "x"
	delete(two.Current.Certificates, pki.Proxy)
	got, err := state.Diff(one, two)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"currentState.certificatesBundle.kube-proxy", "currentState.encryptionConfig",
		"desiredState.rkeConfig.authentication.sans", "desiredState.rkeConfig.nodes[0].address",
		"desiredState.rkeConfig.nodes[0].role[0]", "desiredState.rkeConfig.nodes[0].user",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestChangesCA(t *testing.T) {
	s := deployed(t)
	b, _, err := pki.Rotate(cluster(), s.Current.Certificates, pki.Rotation{CA: true}, pkitest.Source(birth, 5), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := state.Next(s, cluster(), b, random())
	if err != nil {
		t.Fatal(err)
	}
	if !rotated.ChangesCA() || rotated.Deployed().ChangesCA() {
		t.Error("a CA on its way, or there, is not known as such")
	}
	if err := rotated.Check(state.Against{}); err != nil {
		t.Errorf("a state in the middle of a rotation: %v", err)
	}
}

func TestUnknown(t *testing.T) {
	text := string(encoded(t, deployed(t)))
	text = strings.Replace(text, `"clusterName": "prod"`, `"clusterName": "prod", "newKey": {"a": 1}, "newZero": false, "newEmpty": {"b": ""}`, 1)
	text = strings.Replace(text, `"currentState"`, `"version": 2, "currentState"`, 1)
	s, err := state.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got, err := state.Unknown([]byte(text), s)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"desiredState.rkeConfig.newKey", "version"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFilesOf(t *testing.T) {
	for _, tt := range []struct {
		config string
		want   state.Files
	}{
		{"cluster.yml", state.Files{"cluster.yml", "./cluster.rkestate", "./kube_config_cluster.yml", "./cluster_certs"}},
		{"rancher-cluster.yml", state.Files{"rancher-cluster.yml", "./rancher-cluster.rkestate", "./kube_config_rancher-cluster.yml", "./rancher-cluster_certs"}},
		{"/etc/rke/a.b.yaml", state.Files{"/etc/rke/a.b.yaml", "/etc/rke/a.b.rkestate", "/etc/rke/kube_config_a.b.yaml", "/etc/rke/a.b_certs"}},
		{"dir.d/cluster", state.Files{"dir.d/cluster", "dir.d/cluster.rkestate", "dir.d/kube_config_cluster", "dir.d/cluster_certs"}},
	} {
		if diff := cmp.Diff(tt.want, state.FilesOf(tt.config)); diff != "" {
			t.Errorf("%s: %s", tt.config, diff)
		}
	}
}

// FuzzDecode has anything read and checked: what is taken survives being written and read again.
func FuzzDecode(f *testing.F) {
	text, err := os.ReadFile("testdata/first.rkestate")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Add([]byte("{}"))
	f.Add([]byte(`{"desiredState":{"certificatesBundle":{"kube-ca":{"certificatePEM":"-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"}},"rkeConfig":{"nodes":[{}]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := state.Decode(text)
		if err != nil {
			return
		}
		if err := s.Check(state.Against{Config: cluster()}); err != nil {
			return
		}
		once, err := state.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		read, err := state.Decode(once)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := state.Encode(read); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%v\n%s\n%s", err, once, twice)
		}
	})
}

// edit changes one entry of a bundle that others may share.
func edit(p *state.Part, name string, change func(*pki.Certificate)) {
	p.Certificates = maps.Clone(p.Certificates)
	c := p.Certificates[name]
	change(&c)
	p.Certificates[name] = c
}

// TestEveryKeyOfTheConfigIsKept: a config with every key stays the same bytes inside a state.
func TestEveryKeyOfTheConfigIsKept(t *testing.T) {
	for _, name := range []string{"full", "minimal", "minimal-1.20"} {
		full := bytes.TrimSpace(content(t, "../config/testdata/"+name+".json.golden"))
		var text bytes.Buffer
		if err := json.Indent(&text, slices.Concat([]byte(`{"desiredState":{"rkeConfig":`), full, []byte(`},"currentState":{}}`)), "", "  "); err != nil {
			t.Fatal(err)
		}
		s, err := state.Decode(text.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text.String(), string(encoded(t, s))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if unknown, err := state.Unknown(text.Bytes(), s); err != nil || len(unknown) > 0 {
			t.Errorf("%s: %v, %v", name, unknown, err)
		}
	}
}
