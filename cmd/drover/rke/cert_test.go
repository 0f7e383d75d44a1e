package rke_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/cmd/drover/rke"
	"github.com/drover-project/drover/rke1/state"
)

const certCluster = `
nodes:
- {address: 10.0.0.1, user: core, role: [controlplane, etcd, worker]}
`

// runIn runs `drover rke` on the cluster.yml of a directory.
func runIn(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := (&rke.App{Out: &out, Err: &errs, Environ: func(string) string { return "" }}).Command()
	cmd.SetArgs(append(args, "--config", filepath.Join(dir, "cluster.yml")))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(context.WithoutCancel(t.Context()))
	return out.String(), err
}

// TestCertificatesOfAnotherCA asks for certificates, has them signed, and makes a cluster's state of them.
func TestCertificatesOfAnotherCA(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cluster.yml"), []byte(certCluster), 0o600); err != nil {
		t.Fatal(err)
	}
	certs := filepath.Join(dir, "cluster_certs")
	if _, err := runIn(t, dir, "cert", "generate-csr"); err != nil {
		t.Fatal(err)
	}
	key := func() string {
		text, err := os.ReadFile(filepath.Join(certs, "kube-apiserver-key.pem"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := key()
	if out, err := runIn(t, dir, "cert", "generate-csr"); err != nil || key() != before {
		t.Errorf("a second time: %s, %v, another key %v", out, err, key() != before)
	}
	if _, err := runIn(t, dir, "up", "--init", "--custom-certs"); err == nil || !strings.Contains(err.Error(), "kube-ca.pem is missing") {
		t.Errorf("without certificates: %v", err)
	}
	sign(t, certs)
	if _, err := runIn(t, dir, "up", "--init", "--custom-certs"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "cluster.rkestate"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := state.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if ca := s.Desired.Certificates["kube-ca"]; ca.KeyPEM != "" || ca.CertificatePEM == "" || s.Desired.Certificates["kube-apiserver"].KeyPEM != before {
		t.Error("the state has other certificates")
	}
	// What cannot be issued here is not rotated here, and not made anew without a word.
	if _, err := runIn(t, dir, "up", "--init"); err == nil || !strings.Contains(err.Error(), "certificates of your own") {
		t.Errorf("without --custom-certs: %v", err)
	}
}

// sign answers every request in a directory, by a CA whose certificate it puts there, too.
func sign(t *testing.T, dir string) {
	t.Helper()
	caKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "theirs"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	write := func(name string, template *x509.Certificate, public any) {
		der, err := x509.CreateCertificate(rand.Reader, template, ca, public, caKey)
		if err != nil {
			t.Fatal(err)
		}
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		if err := os.WriteFile(filepath.Join(dir, name+".pem"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("kube-ca", ca, &caKey.PublicKey)
	requests, err := filepath.Glob(filepath.Join(dir, "*-csr.pem"))
	if err != nil || len(requests) != 8 {
		t.Fatalf("%d requests, %v", len(requests), err)
	}
	for i, name := range requests {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(text)
		r, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		write(strings.TrimSuffix(filepath.Base(name), "-csr.pem"), &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 2)), Subject: r.Subject, DNSNames: r.DNSNames, IPAddresses: r.IPAddresses, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		}, r.PublicKey)
	}
}
