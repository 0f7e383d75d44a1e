package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func testNames() Names {
	return Names{
		Node: "node-a", NodeIPs: []netip.Addr{netip.MustParseAddr("10.0.4.11")}, API: []string{"api.example", "203.0.113.4"},
		ServiceIP: netip.MustParseAddr("10.43.0.1"), ClusterDomain: "cluster.local",
	}
}

// contents reads every file below dir and checks that keys are secret.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".key") && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", path, info.Mode())
		}
		b, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir+"/")] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func changed(before, after map[string]string) []string {
	var out []string
	for name, content := range after {
		if before[name] != content {
			out = append(out, name)
		}
	}
	return out
}

func TestEnsureVerifies(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	if err := Ensure(dir, testNames(), now); err != nil {
		t.Fatal(err)
	}
	contents(t, dir)
	tests := []struct {
		file, authority, host string
		usage                 x509.ExtKeyUsage
		subject               string
	}{
		{"server/tls/serving-kube-apiserver", "server/tls/server-ca", "127.0.0.1", x509.ExtKeyUsageServerAuth, "CN=kube-apiserver"},
		{"server/tls/serving-kube-apiserver", "agent/server-ca", "localhost", x509.ExtKeyUsageServerAuth, "CN=kube-apiserver"},
		{"server/tls/serving-kube-apiserver", "server/tls/server-ca", "10.43.0.1", x509.ExtKeyUsageServerAuth, "CN=kube-apiserver"},
		{"server/tls/serving-kube-apiserver", "server/tls/server-ca", "api.example", x509.ExtKeyUsageServerAuth, "CN=kube-apiserver"},
		{"server/tls/client-kube-apiserver", "server/tls/client-ca", "", x509.ExtKeyUsageClientAuth, "CN=system:apiserver,O=system:masters"},
		{"server/tls/client-admin", "server/tls/client-ca", "", x509.ExtKeyUsageClientAuth, "CN=system:admin,O=system:masters"},
		{"server/tls/client-auth-proxy", "server/tls/request-header-ca", "", x509.ExtKeyUsageClientAuth, "CN=system:auth-proxy"},
		{"server/tls/etcd/server-client", "server/tls/etcd/server-ca", "10.0.4.11", x509.ExtKeyUsageServerAuth, "CN=etcd-server"},
		{"agent/client-kubelet", "agent/client-ca", "", x509.ExtKeyUsageClientAuth, "CN=system:node:node-a,O=system:nodes"},
		{"agent/serving-kubelet", "server/tls/server-ca", "node-a", x509.ExtKeyUsageServerAuth, "CN=node-a"},
	}
	for _, tt := range tests {
		t.Run(tt.file+" for "+tt.host, func(t *testing.T) {
			chain, err := tls.LoadX509KeyPair(filepath.Join(dir, tt.file+".crt"), filepath.Join(dir, tt.file+".key"))
			if err != nil {
				t.Fatal(err)
			}
			caPEM, err := os.ReadFile(filepath.Join(dir, tt.authority+".crt"))
			if err != nil {
				t.Fatal(err)
			}
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(caPEM)
			if _, err := chain.Leaf.Verify(x509.VerifyOptions{
				Roots: roots, DNSName: tt.host, KeyUsages: []x509.ExtKeyUsage{tt.usage}, CurrentTime: now,
			}); err != nil {
				t.Error(err)
			}
			if got := chain.Leaf.Subject.String(); got != tt.subject {
				t.Errorf("subject %s, want %s", got, tt.subject)
			}
		})
	}
}

func TestEnsureKeepsAndRenews(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	apiserver := []string{"server/tls/serving-kube-apiserver.crt", "server/tls/serving-kube-apiserver.key"}
	tests := []struct {
		name  string
		names func(*Names)
		spoil func(t *testing.T, dir string)
		later time.Duration
		want  []string // files that changed; nil = none
		count int      // when the list would be long: how many
	}{
		{name: "nothing changed", later: 200 * 24 * time.Hour},
		{name: "a new name", names: func(n *Names) { n.API = append(n.API, "more.example") }, want: apiserver},
		{name: "another node name", names: func(n *Names) { n.Node = "node-b" }, count: 10}, // both kubelet's, the API server's, both etcd's
		{name: "near its end: every leaf, no authority", later: 280 * 24 * time.Hour, count: 24},
		{name: "killed between key and certificate", want: apiserver, spoil: func(t *testing.T, dir string) {
			if _, err := newKey(filepath.Join(dir, apiserver[1])); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "a truncated certificate", want: apiserver, spoil: func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, apiserver[0]), []byte("-----BEGIN"), 0o644); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, names := t.TempDir(), testNames()
			if err := Ensure(dir, names, start); err != nil {
				t.Fatal(err)
			}
			before := contents(t, dir)
			if tt.spoil != nil {
				tt.spoil(t, dir)
			}
			if tt.names != nil {
				tt.names(&names)
			}
			if err := Ensure(dir, names, start.Add(tt.later)); err != nil {
				t.Fatal(err)
			}
			got := changed(before, contents(t, dir))
			if tt.count > 0 {
				if len(got) != tt.count {
					t.Errorf("%d files changed, want %d: %v", len(got), tt.count, got)
				}
				return
			}
			less := func(a, b string) bool { return a < b }
			if diff := cmp.Diff(tt.want, got, cmpopts.SortSlices(less)); diff != "" {
				t.Errorf("changed files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnsureFinishesAnAuthorityWithItsKey(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	if err := os.MkdirAll(filepath.Join(dir, "server/tls"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := newKey(filepath.Join(dir, "server/tls/server-ca.key")); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	if err := Ensure(dir, testNames(), now); err != nil {
		t.Fatal(err)
	}
	if contents(t, dir)["server/tls/server-ca.key"] != before["server/tls/server-ca.key"] {
		t.Error("the authority's key was replaced")
	}
}

func TestEnsureRefusesALostAuthorityKey(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	if err := Ensure(dir, testNames(), now); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "server/tls/server-ca.key")); err != nil {
		t.Fatal(err)
	}
	err := Ensure(dir, testNames(), now)
	if err == nil || !strings.Contains(err.Error(), "server/tls/server-ca") {
		t.Errorf("error = %v, want one that names the authority", err)
	}
}
