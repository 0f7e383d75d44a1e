package pki_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/pki/pkitest"
)

func TestVerify(t *testing.T) {
	other, _, err := pki.Make(cluster(), nil, pkitest.Source(birth, 8), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	edit := func(name string, change func(*pki.Certificate)) func(pki.Bundle) {
		return func(b pki.Bundle) { c := b[name]; change(&c); b[name] = c }
	}
	for _, tt := range []struct {
		name   string
		change func(pki.Bundle)
		want   string // "" is well
	}{
		{"as made", func(pki.Bundle) {}, ""},
		{"somebody else's CA without a key", edit(pki.CA, func(c *pki.Certificate) { c.KeyPEM = "" }), ""},
		{"any certificate beside the key of tokens", edit(pki.ServiceAccount, func(c *pki.Certificate) { c.CertificatePEM = other[pki.Node].CertificatePEM }), ""},
		{"no CA", func(b pki.Bundle) { delete(b, pki.CA) }, "kube-ca is missing"},
		{"another key of the CA", edit(pki.CA, func(c *pki.Certificate) { c.KeyPEM = other[pki.CA].KeyPEM }), "the key of kube-ca is not that of its certificate"},
		{"another CA", func(b pki.Bundle) { b[pki.CA] = other[pki.CA] }, "kube-apiserver is not signed by kube-ca"},
		{"another request-header CA", func(b pki.Bundle) { b[pki.RequestHeaderCA] = other[pki.RequestHeaderCA] }, "kube-apiserver-proxy-client is not signed by kube-apiserver-requestheader-ca"},
		{"a leaf of another cluster", func(b pki.Bundle) { b["kube-etcd-10-0-0-10"] = other["kube-etcd-10-0-0-10"] }, "kube-etcd-10-0-0-10 is not signed by kube-ca"},
		{"a leaf without a key", edit(pki.Proxy, func(c *pki.Certificate) { c.KeyPEM = "" }), "kube-proxy has no key"},
		{"half a certificate", edit(pki.Proxy, func(c *pki.Certificate) { c.CertificatePEM = c.CertificatePEM[:500] }), "kube-proxy: is not a certificate in PEM"},
		{"half a key", edit(pki.Proxy, func(c *pki.Certificate) { c.KeyPEM = c.KeyPEM[:500] }), "the key of kube-proxy: is not an RSA key"},
		{"PEM alone", edit(pki.Proxy, func(c *pki.Certificate) {
			*c = pki.Certificate{CertificatePEM: c.CertificatePEM, KeyPEM: c.KeyPEM}
		}), "kube-proxy lacks its name"},
	} {
		b := fresh(t, cluster())
		tt.change(b)
		err := pki.Verify(b)
		if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("%s: the error quotes: %v", tt.name, err)
		}
	}
}

func TestExpiry(t *testing.T) {
	b, _, err := pki.Rotate(cluster(), fresh(t, cluster()), pki.Rotation{Services: []string{"etcd"}}, pkitest.Source(birth.Add(20*day), 9), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	end := birth.Add(3650 * day)
	for _, tt := range []struct {
		now  time.Time
		want bool
	}{
		{birth.Add(-time.Second), true},
		{birth, false},
		{end.Add(-90*day - time.Second), false},
		{end.Add(-90 * day), true},
		{end.Add(day), true},
	} {
		warned, err := pki.Warnings(b, tt.now)
		if err != nil || (len(warned) > 0) != tt.want {
			t.Errorf("%s: %v, %v", tt.now, warned, err)
		}
	}
	all, err := pki.Expiries(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(b) || all[0].Expired(end.Add(-time.Second)) || !all[0].Expired(end) {
		t.Errorf("%v", all)
	}
}

// TestExpiryByTheCA: the rke CLI issues leaves that outlive their CA, and no verifier accepts them then.
func TestExpiryByTheCA(t *testing.T) {
	b := fresh(t, cluster())
	young, _, err := pki.Make(cluster(), nil, pkitest.Source(birth.Add(100*day), 9), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b[pki.Proxy] = young[pki.Proxy]
	all, err := pki.Expiries(b)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(e pki.Expiry) bool { return e.Name == pki.Proxy })
	for _, tt := range []struct {
		now  time.Time
		want string
	}{
		{birth, "kube-proxy begins only at 2024-05-13T04:05:06Z: a clock is wrong, here or where it was made"},
		{birth.Add(3645 * day), "kube-proxy ends with kube-ca on 2034-01-31, in 5 days: rotate the certificates"},
		{birth.Add(3650 * day), "kube-proxy ended with kube-ca on 2034-01-31: rotate the certificates"},
	} {
		if got := all[i].Warning(tt.now); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}

func TestFilesFor(t *testing.T) {
	cfg := cluster()
	cfg.Nodes = append(cfg.Nodes, config.Node{Address: "10.0.0.14", HostnameOverride: "n4", Role: []string{"controlplane"}})
	cfg.Services.Kubelet.GenerateServingCertificate = true
	cfg.Services.Etcd.UID, cfg.Services.Etcd.GID = 52034, 52035
	b := fresh(t, cfg)
	var text strings.Builder
	for i, prefix := range []string{"/", "", "/opt/rke", "/"} {
		node := cfg.Nodes[i]
		fmt.Fprintf(&text, "%s %v\n", node.Address, node.Role)
		for _, f := range pki.FilesFor(cfg, node, prefix, b) {
			fmt.Fprintf(&text, "  %s %#o %d:%d of %s\n", f.Path, f.Mode, f.UID, f.GID, f.Entry)
			c := b[f.Entry]
			want := map[string]string{"-key.pem": c.KeyPEM, ".yaml": c.Config}
			kind := strings.TrimPrefix(f.Path[strings.LastIndex(f.Path, "/")+1:], f.Entry)
			if strings.HasSuffix(f.Path, ".yaml") {
				kind = ".yaml"
			}
			if expected, other := want[kind]; other && string(f.Content) != expected || !other && string(f.Content) != c.CertificatePEM {
				t.Errorf("%s has another content", f.Path)
			}
		}
	}
	golden(t, "files.golden", []byte(text.String()))
}

func TestFilesForWithoutServing(t *testing.T) {
	cfg := cluster()
	var got []string
	for _, f := range pki.FilesFor(cfg, cfg.Nodes[2], "/", fresh(t, cfg)) {
		got = append(got, strings.TrimPrefix(f.Path, pki.Dir+"/"))
	}
	want := []string{"kube-ca.pem", "kube-node-key.pem", "kube-node.pem", "kube-proxy-key.pem", "kube-proxy.pem", "kubecfg-kube-node.yaml", "kubecfg-kube-proxy.yaml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
