package pki_test

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/installers/kubeconfig"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/pki/pkitest"
)

var update = flag.Bool("update", false, "write the golden files")

// A node config has the same twelve fields.
var _ = nodeconfig.Certificate(pki.Certificate{})

var birth = time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC)

const day = 24 * time.Hour

// cluster has a node of all roles behind two addresses, one of etcd alone, and a worker.
func cluster() *config.Cluster {
	c := &config.Cluster{
		ClusterName: "prod",
		Nodes: []config.Node{
			{Address: "203.0.113.10", InternalAddress: "10.0.0.10", HostnameOverride: "n1", Role: []string{"controlplane", "etcd", "worker"}},
			{Address: "db.example.com", InternalAddress: "db.example.com", HostnameOverride: "db.example.com", Role: []string{"etcd"}},
			{Address: "203.0.113.12", HostnameOverride: "n3", Role: []string{"worker"}},
		},
		Authentication: config.Authentication{SANs: []string{"k8s.example.com", "198.51.100.1"}},
	}
	c.Services.KubeAPI.ServiceClusterIPRange = "10.43.0.0/16"
	c.Services.Kubelet.ClusterDomain = "cluster.local"
	return c
}

// fresh is the bundle of a new cluster.
func fresh(t *testing.T, cfg *config.Cluster) pki.Bundle {
	t.Helper()
	b, _, err := pki.Make(cfg, nil, pkitest.Source(birth, 0), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func again(t *testing.T, cfg *config.Cluster, before pki.Bundle, now time.Time) (pki.Bundle, []string) {
	t.Helper()
	b, changes, err := pki.Make(cfg, before, pkitest.Source(now, 12), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b, said(changes)
}

func said(changes []pki.Change) []string {
	var all []string
	for _, c := range changes {
		all = append(all, fmt.Sprintf("%s %s: %s", c.Name, c.Action, c.Why))
	}
	return all
}

func parsed(t *testing.T, c pki.Certificate) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(c.CertificatePEM))
	if block == nil {
		t.Fatalf("%s has no certificate", c.Name)
	}
	x, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return x
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

// TestEveryEntry holds all that the format fixes, in words: the twelve fields, and what is in
// the certificates. The bytes of keys and signatures are in the golden file of the state.
func TestEveryEntry(t *testing.T) {
	cfg := cluster()
	cfg.Services.Kubelet.GenerateServingCertificate = true
	b := fresh(t, cfg)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(b)) {
		c, x := b[name], parsed(t, b[name])
		fmt.Fprintf(&text, "%s\n  certificate: issuer %s, subject %s, serial 0 %v, %s to %s, usage %d, extended %d, CA %v\n  names: %v %v\n",
			name, x.Issuer, x.Subject, x.SerialNumber.Sign() == 0, x.NotBefore.Format(time.DateTime), x.NotAfter.Format(time.DateTime), x.KeyUsage, x.ExtKeyUsage, x.IsCA, x.DNSNames, x.IPAddresses)
		if x.SerialNumber.Cmp(new(big.Int).Lsh(big.NewInt(1), 63)) >= 0 || x.SignatureAlgorithm != x509.SHA256WithRSA {
			t.Errorf("%s: serial %v, %v", name, x.SerialNumber, x.SignatureAlgorithm)
		}
		if !strings.HasPrefix(c.KeyPEM, "-----BEGIN RSA PRIVATE KEY-----\n") || !strings.HasSuffix(c.KeyPEM, "-----END RSA PRIVATE KEY-----\n") {
			t.Errorf("%s: the key is not PKCS#1 with a newline at the end", name)
		}
		c.CertificatePEM, c.KeyPEM = "", ""
		if name == pki.Admin {
			c.Config = "" // TestAdminKubeconfig
		}
		fields, err := json.MarshalIndent(c, "  ", "  ")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "  %s\n", fields)
	}
	golden(t, "entries.golden", []byte(text.String()))
	if err := pki.Verify(b); err != nil {
		t.Error(err)
	}
}

// TestChainsHold has the standard library believe the certificates, as components will.
func TestChainsHold(t *testing.T) {
	b := fresh(t, cluster())
	roots := func(name string) *x509.CertPool {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(b[name].CertificatePEM)) {
			t.Fatalf("%s is no root", name)
		}
		return pool
	}
	for _, tt := range []struct {
		name, root, dns string
		usage           x509.ExtKeyUsage
		fails           bool
	}{
		{name: pki.APIServer, root: pki.CA, dns: "kubernetes.default.svc.cluster.local", usage: x509.ExtKeyUsageServerAuth},
		{name: pki.APIServer, root: pki.CA, dns: "10.43.0.1", usage: x509.ExtKeyUsageServerAuth},
		{name: pki.APIServer, root: pki.CA, dns: "203.0.113.12", usage: x509.ExtKeyUsageServerAuth, fails: true}, // a worker's
		{name: pki.APIServer, root: pki.CA, usage: x509.ExtKeyUsageClientAuth},
		{name: "kube-etcd-10-0-0-10", root: pki.CA, dns: "db.example.com", usage: x509.ExtKeyUsageServerAuth},
		{name: "kube-etcd-db-example-com", root: pki.CA, dns: "k8s.example.com", usage: x509.ExtKeyUsageServerAuth, fails: true}, // the API server's alone
		{name: pki.Node, root: pki.CA, usage: x509.ExtKeyUsageClientAuth},
		{name: pki.Node, root: pki.CA, usage: x509.ExtKeyUsageServerAuth, fails: true},
		{name: pki.ProxyClient, root: pki.RequestHeaderCA, usage: x509.ExtKeyUsageClientAuth},
		{name: pki.ProxyClient, root: pki.CA, usage: x509.ExtKeyUsageClientAuth, fails: true},
	} {
		_, err := parsed(t, b[tt.name]).Verify(x509.VerifyOptions{
			Roots: roots(tt.root), DNSName: tt.dns, CurrentTime: birth.Add(day), KeyUsages: []x509.ExtKeyUsage{tt.usage},
		})
		if (err != nil) != tt.fails {
			t.Errorf("%s by %s for %q, usage %d: %v", tt.name, tt.root, tt.dns, tt.usage, err)
		}
	}
}

func TestNamesInOrder(t *testing.T) {
	cfg := cluster()
	cfg.Nodes[2].Role = []string{"controlplane"}
	cfg.Services.KubeAPI.ServiceClusterIPRange = "10.43.0.0/16,fd42::/112"
	api := parsed(t, fresh(t, cfg)[pki.APIServer])
	wantDNS := []string{"n1", "n3", "k8s.example.com", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if diff := cmp.Diff(wantDNS, api.DNSNames); diff != "" {
		t.Error(diff)
	}
	wantIPs := "[203.0.113.10 10.0.0.10 203.0.113.12 198.51.100.1 127.0.0.1 10.43.0.1 fd42::1]"
	if got := fmt.Sprint(api.IPAddresses); got != wantIPs {
		t.Errorf("addresses %s, want %s", got, wantIPs)
	}
}

func TestKeysAreTheirOwn(t *testing.T) {
	b := fresh(t, cluster())
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if other, twice := seen[b[name].KeyPEM]; twice && name != pki.ServiceAccount {
			t.Errorf("%s and %s have one key", name, other)
		}
		seen[b[name].KeyPEM] = name
	}
	if b[pki.ServiceAccount].KeyPEM != b[pki.APIServer].KeyPEM || b[pki.ServiceAccount].CertificatePEM != b[pki.APIServer].CertificatePEM {
		t.Error("the first key of tokens is not the API server's")
	}
}

// TestWhatARunReissues is the table of reasons: nothing but kube-admin without one.
func TestWhatARunReissues(t *testing.T) {
	const admin = "kube-admin reissued: made on every run"
	both := func(text string) []string {
		return []string{admin, "kube-etcd-10-0-0-10 reissued: " + text, "kube-etcd-db-example-com reissued: " + text}
	}
	for _, tt := range []struct {
		name    string
		serving bool // of the cluster before
		change  func(*config.Cluster, pki.Bundle)
		want    []string
	}{
		{name: "nothing", change: func(*config.Cluster, pki.Bundle) {}, want: []string{admin}},
		{name: "serving, nothing", serving: true, change: func(*config.Cluster, pki.Bundle) {}, want: []string{admin}},
		{name: "another name of the API server", change: func(c *config.Cluster, _ pki.Bundle) { c.Authentication.SANs = []string{"a"} },
			want: []string{"kube-apiserver reissued: its names have changed", admin}},
		{name: "the order of its names", change: func(c *config.Cluster, _ pki.Bundle) {
			c.Nodes[1].Role = []string{"etcd", "controlplane"}
			c.Nodes[0], c.Nodes[1] = c.Nodes[1], c.Nodes[0]
		}, want: []string{"kube-apiserver reissued: its names have changed", admin}},
		{name: "the order of etcd hosts", change: func(c *config.Cluster, _ pki.Bundle) { c.Nodes[0], c.Nodes[1] = c.Nodes[1], c.Nodes[0] },
			want: []string{admin}},
		{name: "an etcd host more", change: func(c *config.Cluster, _ pki.Bundle) { c.Nodes[2].Role = []string{"etcd"} },
			want: append(both("its names have changed"), "kube-etcd-203-0-113-12 created: missing")},
		{name: "an etcd host less", change: func(c *config.Cluster, _ pki.Bundle) { c.Nodes[1].Role = []string{"worker"} },
			want: []string{admin, "kube-etcd-10-0-0-10 reissued: its names have changed", "kube-etcd-db-example-com removed: no host uses it any more"}},
		{name: "kubelets begin to serve", change: func(c *config.Cluster, _ pki.Bundle) { c.Services.Kubelet.GenerateServingCertificate = true },
			want: []string{admin, "kube-kubelet-10-0-0-10 created: missing", "kube-kubelet-db-example-com created: missing", "kube-kubelet-203-0-113-12 created: missing"}},
		{name: "a kubelet's name", serving: true, change: func(c *config.Cluster, _ pki.Bundle) { c.Nodes[2].HostnameOverride = "other" },
			want: []string{admin, "kube-kubelet-203-0-113-12 reissued: its names have changed"}},
		{name: "kubelets stop to serve", serving: true, change: func(c *config.Cluster, _ pki.Bundle) { c.Services.Kubelet.GenerateServingCertificate = false },
			want: []string{admin, "kube-kubelet-10-0-0-10 removed: no host uses it any more", "kube-kubelet-203-0-113-12 removed: no host uses it any more", "kube-kubelet-db-example-com removed: no host uses it any more"}},
		{name: "one is missing", change: func(_ *config.Cluster, b pki.Bundle) { delete(b, pki.Scheduler) },
			want: []string{"kube-scheduler created: missing", admin}},
		{name: "no request-header CA", change: func(_ *config.Cluster, b pki.Bundle) { delete(b, pki.RequestHeaderCA) },
			want: []string{"kube-apiserver-requestheader-ca created: a CA of its own", admin, "kube-apiserver-proxy-client created: missing"}},
		{name: "no certificate beside it", change: func(_ *config.Cluster, b pki.Bundle) {
			c := b[pki.ServiceAccount]
			c.CertificatePEM = ""
			b[pki.ServiceAccount] = c
		}, want: []string{"kube-service-account-token created: over the same key", admin}},
		{name: "a key without a certificate", change: func(_ *config.Cluster, b pki.Bundle) {
			b[pki.Proxy] = pki.Certificate{KeyPEM: b[pki.Proxy].KeyPEM}
		}, want: []string{"kube-proxy created: missing", admin}},
		{name: "no key for tokens", change: func(_ *config.Cluster, b pki.Bundle) { delete(b, pki.ServiceAccount) },
			want: []string{"kube-service-account-token created: missing", admin}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := cluster()
			cfg.Nodes[1].HostnameOverride = "db.example.com"
			cfg.Services.Kubelet.GenerateServingCertificate = tt.serving
			if tt.name == "the order of its names" {
				cfg.Nodes[1].Role = []string{"etcd", "controlplane"}
			}
			before := fresh(t, cfg)
			tt.change(cfg, before)
			kept := maps.Clone(before)
			after, got := again(t, cfg, before, birth.Add(30*day))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(kept, before); diff != "" {
				t.Errorf("the bundle before was changed: %s", diff)
			}
			for name, c := range after {
				old, was := before[name]
				if was && c.KeyPEM != old.KeyPEM {
					t.Errorf("%s has another key", name)
				}
				changed := slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, name+" ") })
				if was && !changed && c != old {
					t.Errorf("%s differs and was not reported", name)
				}
			}
			if err := pki.Verify(after); err != nil {
				t.Error(err)
			}
			if _, second := again(t, cfg, after, birth.Add(30*day)); !slices.Equal(second, []string{admin}) {
				t.Errorf("a second run: %v", second)
			}
		})
	}
}

// TestLeavesEndWithTheirCA: one that is issued late does not outlive the CA.
func TestLeavesEndWithTheirCA(t *testing.T) {
	b, _ := again(t, cluster(), fresh(t, cluster()), birth.Add(1000*day))
	ca, admin := parsed(t, b[pki.CA]), parsed(t, b[pki.Admin])
	if !admin.NotAfter.Equal(ca.NotAfter) || !ca.NotAfter.Equal(birth.Add(3650*day)) || !admin.NotBefore.Equal(ca.NotBefore) {
		t.Errorf("kube-admin from %v to %v, its CA from %v to %v", admin.NotBefore, admin.NotAfter, ca.NotBefore, ca.NotAfter)
	}
}

func TestExternalEtcd(t *testing.T) {
	theirs := fresh(t, cluster())
	cfg := cluster()
	cfg.Nodes[0].Role, cfg.Nodes[1].Role = []string{"controlplane"}, []string{"worker"}
	e := &cfg.Services.Etcd
	e.ExternalURLs = []string{"https://db:2379"}
	e.Cert, e.Key, e.CACert = theirs[pki.Node].CertificatePEM, theirs[pki.Node].KeyPEM, theirs[pki.CA].CertificatePEM
	b := fresh(t, cfg)
	client, ca := b[pki.EtcdClient], b[pki.EtcdClientCA]
	if client.CertificatePEM != e.Cert || client.KeyPEM != e.Key || client.EnvName != "KUBE_ETCD_CLIENT" || client.Config != "" {
		t.Errorf("client: %+v", client)
	}
	if ca.CertificatePEM != e.CACert || ca.KeyPEM != "" || ca.Path != "/etc/kubernetes/ssl/kube-etcd-client-ca.pem" {
		t.Errorf("CA: %+v", ca)
	}
	if err := pki.Verify(b); err != nil {
		t.Error(err)
	}
	if _, got := again(t, cfg, b, birth); len(got) != 1 {
		t.Errorf("a second run: %v", got)
	}
	cfg.Services.Etcd = config.Etcd{}
	if _, got := again(t, cfg, b, birth); len(got) != 3 {
		t.Errorf("without it: %v", got)
	}
	e.Key = "not a key"
	cfg.Services.Etcd.ExternalURLs = []string{"x"}
	cfg.Services.Etcd.Cert = theirs[pki.Node].CertificatePEM
	if _, _, err := pki.Make(cfg, b, pkitest.Source(birth, 0), pki.Options{}); err == nil || !strings.Contains(err.Error(), "services.etcd.key") || strings.Contains(err.Error(), "not a key") {
		t.Errorf("error %v", err)
	}
}

func TestAdminKubeconfig(t *testing.T) {
	b := fresh(t, cluster())
	if b[pki.Admin].ConfigPath != "./kube_config_cluster.yml" {
		t.Errorf("path %s", b[pki.Admin].ConfigPath)
	}
	if k, err := kubeconfig.Read([]byte(b[pki.Admin].Config)); err != nil || k.Server != "https://203.0.113.10:6443" || string(k.Key) != b[pki.Admin].KeyPEM {
		t.Errorf("it is read as %v", err)
	}
	short := pki.Bundle{pki.CA: {CertificatePEM: "the CA"}, pki.Admin: {CertificatePEM: "the certificate", KeyPEM: "the key"}}
	golden(t, "kubeconfig.golden", []byte(pki.AdminKubeconfig(short, "prod", "203.0.113.10")))
	if got := b[pki.Admin].Config; got != pki.AdminKubeconfig(b, "prod", "203.0.113.10") || strings.HasSuffix(got, "\n") {
		t.Error("the bundle has another text")
	}
	if got := pki.AdminKubeconfig(short, "c", "fd00::1"); !strings.Contains(got, `"https://[fd00::1]:6443"`) {
		t.Error(got)
	}
}

func TestNamesOfHosts(t *testing.T) {
	for _, tt := range []struct {
		node config.Node
		want string
	}{
		{config.Node{Address: "10.0.0.1"}, "kube-etcd-10-0-0-1"},
		{config.Node{Address: "203.0.113.1", InternalAddress: "10.0.0.1"}, "kube-etcd-10-0-0-1"},
		{config.Node{Address: "DB.Example.com"}, "kube-etcd-db-example-com"},
		{config.Node{Address: "fd00::1"}, "kube-etcd-fd00--1"},
	} {
		if got := pki.EtcdName(tt.node); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.node, got, tt.want)
		}
	}
	cfg := cluster()
	cfg.Nodes[0].InternalAddress = "fd00::1"
	c := fresh(t, cfg)["kube-etcd-fd00--1"]
	if c.EnvName != "KUBE_ETCD_FD00__1" || c.KeyPath != "/etc/kubernetes/ssl/kube-etcd-fd00--1-key.pem" {
		t.Errorf("variables and files: %+v", c)
	}
}

func TestMakeRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*config.Cluster, pki.Bundle)
		now    time.Time
		want   string
	}{
		{"no CA key", func(_ *config.Cluster, b pki.Bundle) { c := b[pki.CA]; c.KeyPEM = ""; b[pki.CA] = c }, birth, "kube-ca has no certificate or no key"},
		{"no CA", func(_ *config.Cluster, b pki.Bundle) { delete(b, pki.CA) }, birth, "kube-ca has no certificate or no key"},
		{"another CA key", func(_ *config.Cluster, b pki.Bundle) { c := b[pki.CA]; c.KeyPEM = b[pki.Node].KeyPEM; b[pki.CA] = c }, birth, "key of kube-ca is not that of its certificate"},
		{"a leaf as CA", func(_ *config.Cluster, b pki.Bundle) {
			c := b[pki.CA]
			c.CertificatePEM, c.KeyPEM = b[pki.Node].CertificatePEM, b[pki.Node].KeyPEM
			b[pki.CA] = c
		}, birth, "is not a CA"},
		{"a leaf that is none", func(_ *config.Cluster, b pki.Bundle) { c := b[pki.Node]; c.CertificatePEM = "x"; b[pki.Node] = c }, birth, "kube-node: is not a certificate"},
		{"an expired CA", func(*config.Cluster, pki.Bundle) {}, birth.Add(3650 * day), "kube-ca expired on 2034-01-31: rotate"},
		{"no control plane", func(c *config.Cluster, _ pki.Bundle) { c.Nodes[0].Role = []string{"etcd"} }, birth, "none has the role controlplane"},
		{"a range that is none", func(c *config.Cluster, _ pki.Bundle) { c.Services.KubeAPI.ServiceClusterIPRange = "10.43.0.0" }, birth, "services.kube-api.service_cluster_ip_range"},
	} {
		cfg := cluster()
		b := fresh(t, cfg)
		tt.change(cfg, b)
		if _, _, err := pki.Make(cfg, b, pkitest.Source(tt.now, 0), pki.Options{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q in it", tt.name, err, tt.want)
		}
	}
}
