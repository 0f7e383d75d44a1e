// Package s3server starts a real S3 server for tests: versitygw, built from its Go module into the cache of the test bed. Its
// dependencies are pinned in tools.mod, apart from the product's own. Buckets are directories, and objects files in them, so that tests see
// what is stored and can damage it.
package s3server

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/test/bed/lockfile"
)

// The keys of a server.
const (
	AccessKey = "AKIAHARBOUR"
	SecretKey = "hunter2-of-the-harbour"
)

// Options say what a server is like.
type Options struct {
	// Module is the root directory of drover's sources. Required.
	Module string
	// Dir is for what the server keeps. Required; empty.
	Dir string
	// IP is the address to listen at. Default: 127.0.0.1.
	IP string
	// certificate and key are files in PEM for TLS, and ca trusts them.
	certificate, key string
	ca               []byte
}

// Server is a server that answers.
type Server struct {
	// Endpoint is its host:port.
	Endpoint string
	dir      string
	command  *exec.Cmd
	ended    chan error
}

// Build makes the program if it is not in the cache yet, which takes minutes the first time.
func Build(ctx context.Context, module string) (program string, err error) {
	if module, err = filepath.Abs(module); err != nil {
		return "", err
	}
	mod := filepath.Join(module, "test", "s3server", "tools.mod")
	text, err := os.ReadFile(mod)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	dir, err := cache()
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "versitygw-"+hex.EncodeToString(sum[:6]))
	lock, err := lockfile.Take(ctx, filepath.Join(dir, "versitygw.lock"), lockfile.Exclusive)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	build := exec.CommandContext(ctx, "go", "build", "-modfile="+mod, "-ldflags=-s -w", "-o", program+".new", "github.com/versity/versitygw/cmd/versitygw")
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build versitygw: %w: %s", err, out)
	}
	return program, os.Rename(program+".new", program)
}

// cache is the test bed's, or the user's own for who may not write there.
func cache() (string, error) {
	dir := cmp.Or(os.Getenv("DROVER_CACHE"), "/var/cache/drover")
	err := os.MkdirAll(dir, 0o755)
	if errors.Is(err, os.ErrPermission) {
		if dir, err = os.UserCacheDir(); err == nil {
			dir = filepath.Join(dir, "drover")
			err = os.MkdirAll(dir, 0o755)
		}
	}
	return dir, err
}

// StartTLS starts a server with TLS, and returns the CA that it is known by, in PEM.
func StartTLS(ctx context.Context, o Options) (s *Server, ca []byte, err error) {
	o.IP = cmp.Or(o.IP, "127.0.0.1")
	o.certificate, o.key = filepath.Join(o.Dir, "cert.pem"), filepath.Join(o.Dir, "key.pem")
	certificate, key, err := Authority(net.ParseIP(o.IP))
	if err != nil {
		return nil, nil, err
	}
	o.ca = certificate
	for file, text := range map[string][]byte{o.certificate: certificate, o.key: key} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, nil, err
		}
	}
	s, err = Start(ctx, o)
	return s, certificate, err
}

// Authority is a certificate in PEM for an address, which signs itself, with its key.
func Authority(ip net.IP) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "harbour"}, IPAddresses: []net.IP{ip},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}

// Start starts a server and returns when it answers.
func Start(ctx context.Context, o Options) (*Server, error) {
	program, err := Build(ctx, o.Module)
	if err != nil {
		return nil, err
	}
	o.IP = cmp.Or(o.IP, "127.0.0.1")
	free, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(o.IP, "0"))
	if err != nil {
		return nil, err
	}
	s := &Server{Endpoint: free.Addr().String(), dir: filepath.Join(o.Dir, "buckets"), ended: make(chan error, 1)}
	if err := free.Close(); err != nil {
		return nil, err
	}
	meta := filepath.Join(o.Dir, "meta")
	for _, dir := range []string{s.dir, meta} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	args := []string{"--port", s.Endpoint, "--quiet"}
	scheme, trust := "http", &tls.Config{}
	if o.certificate != "" {
		args = append(args, "--cert", o.certificate, "--key", o.key)
		scheme, trust.RootCAs = "https", x509.NewCertPool()
		trust.RootCAs.AppendCertsFromPEM(o.ca)
	}
	s.command = exec.Command(program, append(args, "posix", "--sidecar", meta, "--disableotmp", s.dir)...)
	s.command.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	output, err := os.Create(filepath.Join(o.Dir, "log"))
	if err != nil {
		return nil, err
	}
	defer output.Close()
	s.command.Stdout, s.command.Stderr = output, output
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	go func() { s.ended <- s.command.Wait() }()
	if err := s.await(ctx, scheme, trust); err != nil {
		text, _ := os.ReadFile(output.Name())
		return nil, errors.Join(fmt.Errorf("%w: %s", err, text), s.Close())
	}
	return s, nil
}

// await asks until there is an answer.
func (s *Server) await(ctx context.Context, scheme string, trust *tls.Config) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("versitygw does not answer"))
	defer cancel()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}}
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+s.Endpoint+"/", nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err == nil {
			return answer.Body.Close()
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case err := <-s.ended:
			s.ended <- err
			return fmt.Errorf("versitygw ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// MakeBucket makes a bucket.
func (s *Server) MakeBucket(name string) error { return os.Mkdir(filepath.Join(s.dir, name), 0o755) }

// File is where an object is stored.
func (s *Server) File(bucket, key string) string { return filepath.Join(s.dir, bucket, key) }

// Close ends the server.
func (s *Server) Close() error {
	if err := s.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.ended
	return nil
}
