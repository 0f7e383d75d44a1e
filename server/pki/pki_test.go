package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAuthorityIsKeptAndCertificateFollowsNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	first, err := Open(dir, clock)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir, clock)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.PEM, again.PEM) || !bytes.HasSuffix(first.PEM, []byte("-----\n")) {
		t.Error("the authority changed between two starts, or does not end with one newline")
	}
	for _, name := range []string{"ca.key"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	names := Names{DNS: []string{"mgmt.example"}, IPs: []net.IP{net.ParseIP("192.0.2.7")}}
	one := certificate(t, again, names)
	if same := certificate(t, again, names); !bytes.Equal(one.Raw, same.Raw) {
		t.Error("the same names gave another certificate")
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(first.PEM)
	for _, host := range []string{"mgmt.example", "192.0.2.7"} {
		if _, err := one.Verify(x509.VerifyOptions{Roots: pool, DNSName: host, CurrentTime: now}); err != nil {
			t.Errorf("verify for %s: %v", host, err)
		}
	}
	names.DNS = append(names.DNS, "other.example")
	two := certificate(t, again, names)
	if bytes.Equal(one.Raw, two.Raw) {
		t.Error("a new name did not give a new certificate")
	}
	now = now.Add(310 * 24 * time.Hour)
	if three := certificate(t, again, names); bytes.Equal(two.Raw, three.Raw) {
		t.Error("a certificate near its end was not renewed")
	}
}

func certificate(t *testing.T, a *Authority, names Names) *x509.Certificate {
	t.Helper()
	pair, err := a.Certificate(names)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestRenewingLooksAgainAfterADay(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	a, err := Open(t.TempDir(), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	get, err := a.Renewing(Names{DNS: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	serve := func() *tls.Certificate {
		t.Helper()
		c, err := get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := serve()
	now = now.Add(320 * 24 * time.Hour)
	if bytes.Equal(first.Certificate[0], serve().Certificate[0]) {
		t.Error("the listener still serves the old certificate")
	}
}

// The other half stays as it is: a new authority over an old key would look like a restored one.
func TestAHalfLostAuthorityIsNotReplaced(t *testing.T) {
	for lost, kept := range map[string]string{"ca.key": "ca.crt", "ca.crt": "ca.key"} {
		dir := t.TempDir()
		if _, err := Open(dir, time.Now); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(filepath.Join(dir, kept))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, lost)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, time.Now); err == nil || !strings.Contains(err.Error(), kept+" exists without") || !strings.Contains(err.Error(), lost+": restore it from a backup") {
			t.Errorf("without %s: %v", lost, err)
		}
		if after, err := os.ReadFile(filepath.Join(dir, kept)); err != nil || !bytes.Equal(before, after) {
			t.Errorf("without %s, %s was changed: %v", lost, kept, err)
		}
	}
}

func TestServersShareAnAuthority(t *testing.T) {
	first, second := t.TempDir(), filepath.Join(t.TempDir(), "made", "by adopt")
	a, err := Open(first, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := a.Bundle()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // taking over again changes nothing
		if err := Adopt(second, bundle); err != nil {
			t.Fatal(err)
		}
		b, err := Open(second, time.Now)
		if err != nil || !bytes.Equal(a.PEM, b.PEM) {
			t.Fatalf("the authority was not taken over: %v", err)
		}
		if _, err := b.Certificate(Names{DNS: []string{"b.example"}}); err != nil {
			t.Errorf("it cannot sign: %v", err)
		}
	}
	other := t.TempDir()
	if _, err := Open(other, time.Now); err != nil {
		t.Fatal(err)
	}
	if err := Adopt(other, bundle); err == nil || !strings.Contains(err.Error(), "move "+other+" away") {
		t.Errorf("an authority of the server's own was replaced: %v", err)
	}
	if err := Adopt(t.TempDir(), a.PEM); err == nil {
		t.Error("an authority without its key was taken")
	}
}
