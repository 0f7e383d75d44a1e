package pki_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/pki/pkitest"
)

// directory is what a person would give who issued a cluster's certificates.
func directory(b pki.Bundle) fstest.MapFS {
	dir := fstest.MapFS{"notes.txt": {Data: []byte("x")}, "kube-node-csr.pem": {Data: []byte("a request")}}
	for name, c := range b {
		dir[name+".pem"] = &fstest.MapFile{Data: []byte(c.CertificatePEM)}
		if c.KeyPEM != "" {
			dir[name+"-key.pem"] = &fstest.MapFile{Data: []byte(c.KeyPEM)}
		}
	}
	return dir
}

func TestCustom(t *testing.T) {
	cfg := cluster()
	issued := fresh(t, cfg)
	dir := directory(issued)
	delete(dir, "kube-ca-key.pem")
	given, err := pki.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := pki.Custom(cfg, given, pki.Options{Kubeconfig: "./kube_config_x.yml"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(issued)), slices.Sorted(maps.Keys(b))); diff != "" {
		t.Error(diff)
	}
	// Those of another authority carry their own name where the others have system: before it.
	if node, proxy, admin := b[pki.Node], b[pki.Proxy], b[pki.Admin]; node.CommonName != "system:node" || node.OUName != "system:nodes" ||
		proxy.CommonName != "kube-proxy" || admin.OUName != "system:masters" || admin.ConfigPath != "./kube_config_x.yml" || admin.Config != issued[pki.Admin].Config {
		t.Errorf("stored names: %q %q, %q, %q %q", node.CommonName, node.OUName, proxy.CommonName, admin.OUName, admin.ConfigPath)
	}
	if _, _, err := pki.Make(cfg, b, pkitest.Source(birth, 0), pki.Options{}); err == nil || !strings.Contains(err.Error(), "give their directory again") {
		t.Errorf("a run without the directory: %v", err)
	}
}

func TestCustomWithoutTheOptional(t *testing.T) {
	cfg := cluster()
	issued := fresh(t, cfg)
	// The client of the aggregation layer is signed by kube-ca then.
	issued[pki.ProxyClient] = renamed(issued[pki.Scheduler], pki.ProxyClient)
	dir := directory(issued)
	for _, file := range []string{"kube-service-account-token.pem", "kube-service-account-token-key.pem", "kube-apiserver-requestheader-ca.pem", "kube-apiserver-requestheader-ca-key.pem"} {
		delete(dir, file)
	}
	given, err := pki.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := pki.Custom(cfg, given, pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if header := b[pki.RequestHeaderCA]; header.CertificatePEM != b[pki.CA].CertificatePEM || header.KeyPEM != "" {
		t.Errorf("request-header CA: %+v", header)
	}
	if b[pki.ServiceAccount].KeyPEM != b[pki.APIServer].KeyPEM {
		t.Error("the key of tokens is not the API server's")
	}
}

func renamed(c pki.Certificate, name string) pki.Certificate {
	c.Name = name
	return c
}

func TestCustomRefuses(t *testing.T) {
	issued := fresh(t, cluster())
	stranger, _, err := pki.Make(cluster(), nil, pkitest.Source(birth, 8), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(fstest.MapFS)
		want   string
	}{
		{"no CA", func(d fstest.MapFS) { delete(d, "kube-ca.pem") }, "kube-ca.pem is missing"},
		{"two missing", func(d fstest.MapFS) { delete(d, "kube-proxy.pem"); delete(d, "kube-node-key.pem") },
			"kube-proxy.pem is missing\ncertificates of your own: kube-proxy-key.pem is missing\ncertificates of your own: kube-node-key.pem is missing"},
		{"an etcd host", func(d fstest.MapFS) { delete(d, "kube-etcd-db-example-com-key.pem") }, "kube-etcd-db-example-com-key.pem is missing"},
		// The rke CLI compares the names of issuers, which are equal here.
		{"of another CA", func(d fstest.MapFS) {
			d["kube-proxy.pem"].Data = []byte(stranger[pki.Proxy].CertificatePEM)
			d["kube-proxy-key.pem"].Data = []byte(stranger[pki.Proxy].KeyPEM)
		}, "kube-proxy is not signed by kube-ca"},
		{"another key", func(d fstest.MapFS) { d["kube-proxy-key.pem"].Data = []byte(stranger[pki.CA].KeyPEM) }, "the key of kube-proxy is not that of its certificate"},
		{"not PEM", func(d fstest.MapFS) { d["kube-proxy.pem"].Data = []byte("hunter2") }, "kube-proxy.pem: is not a certificate in PEM"},
		{"a key that is none", func(d fstest.MapFS) { d["kube-proxy-key.pem"].Data = []byte("hunter2") }, "kube-proxy-key.pem: is not an RSA key in PEM without a passphrase"},
		{"too large", func(d fstest.MapFS) { d["kube-proxy.pem"].Data = make([]byte, 65537) }, "read kube-proxy.pem: larger than 65536 bytes"},
	} {
		dir := directory(issued)
		tt.change(dir)
		given, err := pki.ReadDir(dir)
		if err == nil {
			_, err = pki.Custom(cluster(), given, pki.Options{})
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v, want %q in it", tt.name, err, tt.want)
		}
	}
}

func TestRequests(t *testing.T) {
	cfg := cluster()
	first, err := pki.Requests(cfg, nil, pkitest.Source(birth, 0))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	dir := fstest.MapFS{}
	for _, name := range slices.Sorted(maps.Keys(first)) {
		block, _ := pem.Decode([]byte(first[name].CSRPEM))
		r, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.CheckSignature(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		fmt.Fprintf(&text, "%s %s, %s: %v %v\n", block.Type, name, r.Subject, r.DNSNames, r.IPAddresses)
		for _, e := range r.Extensions {
			fmt.Fprintf(&text, "  %v %x\n", e.Id, e.Value)
		}
		dir[name+"-csr.pem"] = &fstest.MapFile{Data: []byte(first[name].CSRPEM)}
		dir[name+"-key.pem"] = &fstest.MapFile{Data: []byte(first[name].KeyPEM)}
	}
	golden(t, "requests.golden", []byte(text.String()))

	read, err := pki.ReadRequests(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, read); diff != "" {
		t.Error(diff)
	}
	delete(dir, "kube-proxy-csr.pem")
	if read, err = pki.ReadRequests(dir); err != nil {
		t.Fatal(err)
	}
	cfg.Authentication.SANs = nil
	second, err := pki.Requests(cfg, read, pkitest.Source(birth, 5))
	if err != nil {
		t.Fatal(err)
	}
	for name := range second {
		if second[name].KeyPEM != first[name].KeyPEM {
			t.Errorf("%s has another key", name)
		}
		if changed := second[name].CSRPEM != first[name].CSRPEM; changed != (name == pki.APIServer) {
			t.Errorf("%s: another request: %v", name, changed)
		}
	}
}
