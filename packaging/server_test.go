package packaging

// The server that a host registers with, played with a CA of its own.

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	testToken      = "bcdfghjklmnpqrstvwxz2456789bcdfghjklmnpqrstvwxz2456789"
	connectionInfo = `{"namespace":"fleet-default","secretName":"custom-0a1b2c3d4e5f-machine-plan","kubeConfig":"apiVersion: v1\n"}`
)

// authority is a CA that signs certificates for 127.0.0.1.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a authority) issue(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func checksum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// request is what the server remembers of one.
type request struct {
	path   string
	header http.Header
}

// server answers as a real one does, unless a test says otherwise for a path.
type server struct {
	*httptest.Server
	ca authority

	mu       sync.Mutex
	special  map[string][]http.HandlerFunc // by path: one a request, the last one stays
	requests []request
}

// newServer starts a server with a certificate of ca.
func newServer(t *testing.T, ca authority) *server {
	t.Helper()
	s := &server{ca: ca, special: map[string][]http.HandlerFunc{}}
	s.Server = httptest.NewUnstartedServer(s)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.issue(t)}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // refused certificates are what many tests want
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// on sets the answers for a path; requests beyond the last one get the last one.
func (s *server) on(path string, answers ...http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.special[path] = answers
}

// paths lists the requests in order.
func (s *server) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var paths []string
	for _, r := range s.requests {
		paths = append(paths, r.path)
	}
	return paths
}

// count says how often a path was asked for.
func (s *server) count(path string) int {
	return len(slices.DeleteFunc(s.paths(), func(p string) bool { return p != path }))
}

// last returns the headers of the last request for path.
func (s *server) last(path string) http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range slices.Backward(s.requests) {
		if r.path == path {
			return r.header
		}
	}
	return nil
}

// sawToken says whether any request had credentials.
func (s *server) sawToken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.requests, func(r request) bool { return r.header.Get("Authorization") != "" })
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, request{path: r.URL.Path, header: r.Header.Clone()})
	answers := s.special[r.URL.Path]
	if len(answers) > 1 {
		s.special[r.URL.Path] = answers[1:]
	}
	s.mu.Unlock()
	if len(answers) > 0 {
		answers[0](w, r)
		return
	}
	s.answer(w, r)
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/cacerts":
		w.Write(s.ca.pem)
	case "/healthz":
		fmt.Fprint(w, "ok")
	case "/v3/connect/agent":
		if r.Header.Get("Authorization") != "Bearer "+testToken {
			say(http.StatusUnauthorized, `{"type":"error","status":401,"message":"this registration token is not known"}`)(w, r)
			return
		}
		fmt.Fprint(w, connectionInfo)
	case "/assets/rancher-system-agent-amd64", "/assets/rancher-system-agent-arm64",
		"/assets/rancher-system-agent-arm", "/assets/rancher-system-agent-s390x":
		http.ServeFile(w, r, agentBinary)
	case "/assets/system-agent-uninstall.sh":
		w.Write(readFile(uninstallScript))
	case "/assets/sha256sum.txt":
		fmt.Fprint(w, s.sums())
	default:
		http.NotFound(w, r)
	}
}

// sums is the list of checksums of the assets.
func (s *server) sums() string {
	agent := checksum(readFile(agentBinary))
	text := checksum(readFile(uninstallScript)) + "  system-agent-uninstall.sh\n"
	for _, arch := range []string{"amd64", "arm64", "arm", "s390x"} {
		text += agent + "  rancher-system-agent-" + arch + "\n"
	}
	return text
}

// say answers with a status and a body; header is name, value, name, value.
func say(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func readFile(path string) []byte {
	data, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		panic(err) // a file of this checkout: nothing can be tested without it
	}
	return data
}
