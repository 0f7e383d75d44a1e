package trust

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const aaa = "-----BEGIN CERTIFICATE-----\nAAA=\n-----END CERTIFICATE-----"

// The vectors were made by the original.
func TestVectors(t *testing.T) {
	const checksum = "0a417de18a98ec077b9231f56bbb067e8509b9bbe5c25d2e8fe11efe65d499a2"
	for _, text := range []string{aaa, aaa + "\n", "\n " + aaa + "\r\n\n"} {
		if got := Checksum([]byte(text)); got != checksum {
			t.Errorf("Checksum(%q) = %s", text, got)
		}
	}
	if got, want := Credential("tok123"), "T24fZQVSY4Zt7bPF/iLe+wzARWSM8Lh6+sVMxkIOVkc="; got != want {
		t.Errorf("Credential = %s, want %s", got, want)
	}
	const hash = "gsRXOMO5gBTEmV2CVq3+NfuK7r6Iv8mKqNqq9QgfJ+ENx0IAixTXHE0U2E2Ya2oh19b610wbIWstkUvQJ5Xq6Q=="
	if got := Proof("tok123", "n-1", []byte(aaa+"\n")); got != hash {
		t.Errorf("Proof = %s", got)
	}
	for _, tc := range []struct {
		name, token, nonce, body, hash string
		want                           bool
	}{
		{"right", "tok123", "n-1", aaa + "\n", hash, true},
		{"other token", "tok124", "n-1", aaa + "\n", hash, false},
		{"other nonce", "tok123", "n-2", aaa + "\n", hash, false},
		{"other body", "tok123", "n-1", aaa, hash, false},
		{"no token", "", "n-1", aaa + "\n", Proof("", "n-1", []byte(aaa+"\n")), false},
		{"not base64", "tok123", "n-1", aaa + "\n", "!", false},
		{"empty", "tok123", "n-1", aaa + "\n", "", false},
	} {
		if got := Proven(tc.token, tc.nonce, []byte(tc.body), tc.hash); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}

func TestPoolRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":      "no PEM certificate",
		"hello": "no PEM certificate",
		aaa:     "certificate 1 cannot be read",
		"-----BEGIN RSA PRIVATE KEY-----\nAAA=\n-----END RSA PRIVATE KEY-----\n": "not a CERTIFICATE",
		strings.Repeat("x", maxBundle+1):                                         "at most",
	} {
		if _, err := Pool([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Pool(%.30q) = %v, want %q", text, err, want)
		}
	}
}

func TestNoncesDiffer(t *testing.T) {
	if a, b := Nonce(), Nonce(); a == b || len(a) < 22 {
		t.Errorf("nonces %q and %q", a, b)
	}
}

func TestFetch(t *testing.T) {
	const token = "tok123"
	var bundle []byte
	var answer func(w http.ResponseWriter, nonce string)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer "+Credential(token) {
			t.Errorf("authorization %q", got)
		}
		answer(w, r.Header.Get("X-Cattle-Nonce"))
	}))
	t.Cleanup(server.Close)
	bundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	other := httptest.NewTLSServer(nil)
	other.Close()
	give := func(body []byte, token string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, nonce string) {
			w.Header().Set("X-Cattle-Hash", Proof(token, nonce, body))
			w.Write(body)
		}
	}
	var unproven *NotProvenError
	for _, tc := range []struct {
		name   string
		answer func(http.ResponseWriter, string)
		ok     func(error) bool
	}{
		{"proven", give(bundle, token), func(err error) bool { return err == nil }},
		{"wrong proof", give(bundle, "guessed"), func(err error) bool { return errors.As(err, &unproven) }},
		{"no proof", func(w http.ResponseWriter, _ string) { w.Write(bundle) }, func(err error) bool { return errors.As(err, &unproven) }},
		{"no certificate", give([]byte("hello\n"), token), func(err error) bool { return err != nil && !errors.As(err, &unproven) }},
		{"error", func(w http.ResponseWriter, _ string) { w.WriteHeader(503) }, func(err error) bool { return err != nil && strings.Contains(err.Error(), "503") }},
		{"endless", func(w http.ResponseWriter, _ string) { io.CopyN(w, zeros{}, 2<<20) }, func(err error) bool { return err != nil }},
		{"redirect", func(w http.ResponseWriter, _ string) { w.Header().Set("Location", "/x"); w.WriteHeader(302) }, func(err error) bool { return err != nil && strings.Contains(err.Error(), "302") }},
	} {
		answer = tc.answer
		unproven = nil
		got, err := Fetch(t.Context(), Server{URL: server.URL + "/cacerts", Token: token})
		if !tc.ok(err) || err == nil && string(got) != string(bundle) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	// A server of another name that hands on the proof of the right one: its certificate is by another authority, or for
	// another name.
	answer = give(bundle, token)
	for name, at := range map[string]string{"another name": strings.Replace(server.URL, "127.0.0.1", "localhost", 1), "another authority": impostor(t, server.Config.Handler)} {
		if _, err := Fetch(t.Context(), Server{URL: at + "/cacerts", Token: token}); err == nil || !strings.Contains(err.Error(), "did not sign") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// impostor answers as the handler does, with a certificate of its own for the same address.
func impostor(t *testing.T, handler http.Handler) (url string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(handler)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func TestOutdated(t *testing.T) {
	for err, want := range map[error]bool{
		fmt.Errorf("connect: %w", x509.UnknownAuthorityError{}):                   true,
		x509.CertificateInvalidError{Reason: x509.Expired}:                        true,
		x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}:            false,
		x509.HostnameError{Host: "example.com", Certificate: &x509.Certificate{}}: false,
		errors.New("connection refused"):                                          false,
	} {
		if Outdated(err) != want {
			t.Errorf("Outdated(%v) is not %t", err, want)
		}
	}
	if Outdated(nil) {
		t.Error("a connection that opened is taken for one that failed")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
