package hostservice

import (
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// certificate writes one that ends some time.
func certificate(t *testing.T, file string, end time.Time, ca bool) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	made := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "harbour"}, NotBefore: end.AddDate(-1, 0, 0), NotAfter: end, IsCA: ca, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(nil, made, made, public, private)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCertificates: their ends are reported, and of what is not a certificate nothing.
func TestCertificates(t *testing.T) {
	root := t.TempDir()
	end := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	in := func(name string) string { return filepath.Join(root, "data", name) }
	certificate(t, in("server/tls/serving-kube-apiserver.crt"), end, false)
	certificate(t, in("server/tls/server-ca.crt"), end.AddDate(9, 0, 0), true)
	certificate(t, in("server/tls/kube-scheduler/kube-scheduler.crt"), end.AddDate(0, -1, 0), false)
	certificate(t, in("agent/serving-kubelet.crt"), end, false)
	certificate(t, in("agent/serving-kubelet.key"), end, false) // by its name a key
	certificate(t, in("elsewhere/one.crt"), end, false)
	write(t, in("server/tls/broken.crt"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	write(t, in("server/tls/secret.crt"), "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
	if err := os.Symlink(in("elsewhere/one.crt"), in("agent/linked.crt")); err != nil {
		t.Fatal(err)
	}
	s := start(t, Options{Root: root, Owner: os.Getuid()})
	code, text := ask(t, s, "/v1/certificates?dir=/data")
	var answer struct {
		Certificates []Certificate `json:"certificates"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s: %v", code, text, err)
	}
	want := []Certificate{
		{"server/tls/server-ca.crt", end.AddDate(9, 0, 0), true}, {"server/tls/serving-kube-apiserver.crt", end, false},
		{"server/tls/kube-scheduler/kube-scheduler.crt", end.AddDate(0, -1, 0), false}, {"agent/serving-kubelet.crt", end, false},
	}
	if diff := cmp.Diff(want, answer.Certificates); diff != "" {
		t.Error(diff)
	}
	for _, dir := range []string{"", "data", "/", "/data/../etc", "/data/"} {
		if code, _ := ask(t, s, "/v1/certificates?dir="+url.QueryEscape(dir)); code != http.StatusBadRequest {
			t.Errorf("dir %q: %d", dir, code)
		}
	}
	if code, text := ask(t, s, "/v1/certificates?dir=/nowhere"); code != http.StatusOK || text != "{\"certificates\":[]}\n" {
		t.Errorf("without a distribution: %d %s", code, text)
	}
}
