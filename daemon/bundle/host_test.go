package bundle

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kube-apiserver"}, NotAfter: time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere.crt")
	for path, content := range map[string][]byte{
		filepath.Join(dir, "server", "tls", "server.crt"): text,
		filepath.Join(dir, "server-key.pem"):              text,
		filepath.Join(dir, "data", "skipped.crt"):         text,
		filepath.Join(dir, "large.crt"):                   append(text, make([]byte, maxCertificate)...),
		filepath.Join(dir, "none.crt"):                    []byte("no certificate"),
		elsewhere:                                         text,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(elsewhere, filepath.Join(dir, "link.crt")); err != nil {
		t.Fatal(err)
	}
	got, err := certificates(t.Context(), dir, filepath.Join(dir, "missing"))
	want := "2027-01-02T03:04:05Z  " + filepath.Join(dir, "server", "tls", "server.crt") + "  kube-apiserver\n"
	if err != nil || strings.TrimLeft(got, "\n") != want {
		t.Errorf("certificates %q (%v), want %q", got, err, want)
	}
}
