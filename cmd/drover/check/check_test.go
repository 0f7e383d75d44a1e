package check

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/pki"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/store/keyring"
)

// well is a host on which nothing is wrong: a server that was never started.
func well(t *testing.T) Input {
	t.Helper()
	program := filepath.Join(t.TempDir(), "drover")
	write(t, program, "program", 0o755)
	return Input{
		DataDir: filepath.Join(t.TempDir(), "data"), Listen: "127.0.0.1:0", ServerURL: "https://127.0.0.1:8443", Program: program,
		Environ: func(string) string { return "" }, Now: time.Now,
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// certified writes a certificate of an authority for names and times, and returns the files of certificate, key and authority.
func certified(t *testing.T, name string, begins, ends time.Time) (cert, key, ca string) {
	t.Helper()
	dir := t.TempDir()
	sign := func(file string, template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if parent == nil {
			parent, signer = template, own
		}
		raw, err := x509.CreateCertificate(rand.Reader, template, parent, &own.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		text, err := x509.MarshalPKCS8PrivateKey(own)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, file+".crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})), 0o600)
		write(t, filepath.Join(dir, file+".key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})), 0o600)
		is, err := x509.ParseCertificate(raw)
		if err != nil {
			t.Fatal(err)
		}
		return is, own
	}
	root, rootKey := sign("ca", &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "office"}, NotBefore: begins, NotAfter: ends, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	sign("server", &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: begins, NotAfter: ends, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, root, rootKey)
	return filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"), filepath.Join(dir, "ca.crt")
}

// stored has a server's store made in the data directory, with a document that is encrypted.
func stored(t *testing.T, in *Input) {
	t.Helper()
	documents := store.NewCollection[string]("secrets", true)
	s, err := store.Open(t.Context(), store.Options{DataDir: in.DataDir, UnsafeNoFsync: true}, documents)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"gone", "kept"} {
		if _, err := documents.Create(t.Context(), key, "secret"); err != nil {
			t.Fatal(err)
		}
	}
	d, _ := documents.Get("gone")
	must(t, documents.Delete(t.Context(), "gone", d.Revision))
	must(t, s.Close())
}

// joined has a store that knows the authority of the data directory, which is made.
func joined(t *testing.T, in *Input) {
	t.Helper()
	stored(t, in)
	own, err := pki.Open(filepath.Join(in.DataDir, "tls"), time.Now)
	must(t, err)
	secrets := store.NewCollection[map[string]string]("serversecrets", true)
	s, err := store.Open(t.Context(), store.Options{DataDir: in.DataDir, UnsafeNoFsync: true}, secrets)
	must(t, err)
	_, err = secrets.Create(t.Context(), "authority-checksum", map[string]string{"value": own.Checksum()})
	must(t, err)
	must(t, s.Close())
}

// another is a key file of another server.
func another(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.key")
	_, err := keyring.Make(path)
	must(t, err)
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// TestEachFaultHasItsFinding: one fault is one finding that is not ok, and nothing else is.
func TestEachFaultHasItsFinding(t *testing.T) {
	now := time.Now()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	given := func(in *Input, name string, begins, ends time.Time) {
		in.CertFile, in.CertKeyFile, in.CAFile = certified(t, name, begins, ends)
		in.ServerURL = "https://localhost:8443"
	}
	for _, c := range []struct {
		name  string
		fault func(*Input)
		check string
		level Level
		says  string
	}{
		{"none", func(*Input) {}, "", OK, ""},
		{"a clock in the past", func(in *Input) { in.Now = func() time.Time { return now.AddDate(-1, 0, 0) } }, "clock", Error, "before this program was put here"},
		{"a data directory that is a file", func(in *Input) { write(t, in.DataDir, "", 0o600) }, "data directory", Error, "is no directory"},
		{"one that others may read", func(in *Input) { must(t, os.MkdirAll(in.DataDir, 0o755)); must(t, os.Chmod(in.DataDir, 0o755)) }, "data directory", Warning, "has mode 0755"},
		{"a store without its key", func(in *Input) { write(t, filepath.Join(in.DataDir, "etcd", "x"), "", 0o600) }, "key file", Error, "encryption.key is missing"},
		{"the key of another store", func(in *Input) {
			stored(t, in)
			write(t, filepath.Join(in.DataDir, "encryption.key"), another(t), 0o600)
		}, "key file", Error, "2 records in the store are encrypted with key "},
		{"a key file that is none", func(in *Input) {
			stored(t, in)
			write(t, filepath.Join(in.DataDir, "encryption.key"), "nonsense", 0o600)
		}, "key file", Error, "line 1"},
		{"a store that is damaged", func(in *Input) {
			stored(t, in)
			write(t, filepath.Join(in.DataDir, "etcd", "member", "snap", "db"), strings.Repeat("damaged", 4096), 0o600)
		}, "store", Error, "cannot be read"},
		{"a store with its key", func(in *Input) { stored(t, in) }, "", OK, ""},
		{"a store with its authority", func(in *Input) { joined(t, in) }, "", OK, ""},
		{"the authority of another server", func(in *Input) {
			joined(t, in)
			must(t, os.RemoveAll(filepath.Join(in.DataDir, "tls")))
			_, err := pki.Open(filepath.Join(in.DataDir, "tls"), time.Now)
			must(t, err)
		}, "authority", Error, "and hosts have joined an authority with"},
		{"no authority any more", func(in *Input) {
			joined(t, in)
			must(t, os.RemoveAll(filepath.Join(in.DataDir, "tls")))
		}, "authority", Error, "is missing, and the store knows an authority"},
		{"an authority that is none", func(in *Input) {
			joined(t, in)
			write(t, filepath.Join(in.DataDir, "tls", "ca.crt"), "nonsense", 0o600)
		}, "authority", Error, "is not a certificate"},
		{"half an authority", func(in *Input) { write(t, filepath.Join(in.DataDir, "tls", "ca.crt"), "", 0o600) }, "authority", Error, "one of ca.crt and ca.key is missing"},
		{"a port that is taken", func(in *Input) { in.Listen = taken.Addr().String() }, "port", Error, "address already in use"},
		{"no server-url", func(in *Input) { in.ServerURL = "" }, "server-url", Warning, "no address is given"},
		{"no URL", func(in *Input) { in.ServerURL = "drover.example.com" }, "server-url", Error, "is no URL such as"},
		{"a port that is left out", func(in *Input) { in.ServerURL = "https://127.0.0.1" }, "server-url", Warning, "leads to port 443"},
		{"an unknown name", func(in *Input) { in.ServerURL = "https://drover.invalid:8443" }, "server-url", Error, "drover.invalid is not known"},
		{"an etcd that is away", func(in *Input) { in.Endpoints = []string{"http://127.0.0.1:1"} }, "store", Error, "does not answer"},
		{"a proxy that is none", func(in *Input) {
			in.Environ = func(name string) string { return map[string]string{"HTTPS_PROXY": "proxy"}[name] }
		}, "proxy", Error, "is no URL such as"},
		{"a proxy to itself", func(in *Input) {
			in.ServerURL = "https://192.0.2.1:8443"
			in.Environ = func(name string) string {
				return map[string]string{"HTTPS_PROXY": "http://user:hunter2@proxy.lan:3128"}[name]
			}
		}, "proxy", Warning, "proxy.lan:3128 would carry requests to the server itself"},
		{"a certificate", func(in *Input) { given(in, "localhost", now.Add(-time.Hour), now.AddDate(1, 0, 0)) }, "", OK, ""},
		{"of another name", func(in *Input) { given(in, "elsewhere", now.Add(-time.Hour), now.AddDate(1, 0, 0)) }, "certificate", Error, "is not good for localhost"},
		{"that has ended", func(in *Input) { given(in, "localhost", now.AddDate(-1, 0, 0), now.Add(-time.Hour)) }, "certificate", Error, "counts from"},
		{"that ends soon", func(in *Input) { given(in, "localhost", now.Add(-time.Hour), now.AddDate(0, 0, 5)) }, "certificate", Warning, "ends in 5 days"},
		{"of an unknown authority", func(in *Input) { given(in, "localhost", now.Add(-time.Hour), now.AddDate(1, 0, 0)); in.CAFile = "" }, "certificate", Error, "unknown authority"},
		{"with another key", func(in *Input) {
			given(in, "localhost", now.Add(-time.Hour), now.AddDate(1, 0, 0))
			_, in.CertKeyFile, _ = certified(t, "localhost", now, now.AddDate(1, 0, 0))
		}, "certificate", Error, "private key does not match"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := well(t)
			c.fault(&in)
			found := Run(t.Context(), in)
			found = slices.DeleteFunc(found, func(f Finding) bool { // of the machine that the test runs on
				return f.Check == "limits" || f.Check == "disk space" || f.Check == "disk"
			})
			if Worst(found) != c.level {
				t.Errorf("the worst is %s, want %s", Worst(found), c.level)
			}
			for _, f := range found {
				if f.Level == OK {
					continue
				}
				if f.Check != c.check || f.Level != c.level || !strings.Contains(f.Says, c.says) || f.Do == "" {
					t.Errorf("found %+v", f)
				}
				if strings.Contains(f.Says+f.Do, "hunter2") {
					t.Error("the password of the proxy is in it")
				}
				c.check = "" // it was found
			}
			if c.level != OK && c.check != "" {
				t.Errorf("not found: %+v", found)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTheDiskIsLeftAsItWas: what is written to measure it is gone.
func TestTheDiskIsLeftAsItWas(t *testing.T) {
	in := well(t)
	must(t, os.MkdirAll(in.DataDir, 0o700))
	found := disk(t.Context(), in)
	if len(found) != 2 || !strings.Contains(found[1].Says, "the slowest of 40 durable writes took") {
		t.Error(found)
	}
	if left, err := os.ReadDir(in.DataDir); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if found := disk(ended, in); found[1].Level != Error {
		t.Error(found)
	}
}

// TestAnswers: a server lives that answers its own request, and not one that refuses it, hangs, or was never started.
func TestAnswers(t *testing.T) {
	release := make(chan struct{})
	for _, c := range []struct {
		name  string
		serve http.HandlerFunc
		want  bool
	}{
		{"answers", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("pong")) }, true},
		{"refuses", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, false},
		{"hangs", func(http.ResponseWriter, *http.Request) { <-release }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewTLSServer(c.serve)
			defer server.Close()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "local-url"), server.URL+"\n", 0o600)
			within := time.Minute
			if c.name == "hangs" {
				within = 50 * time.Millisecond
				time.AfterFunc(time.Second, func() { close(release) })
			}
			if is := Answers(t.Context(), dir, within); is != c.want {
				t.Errorf("it says %t", is)
			}
		})
	}
	if Answers(t.Context(), t.TempDir(), time.Minute) {
		t.Error("a server that was never started answers")
	}
}
