//go:build e2e

package directories

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/cmd/drover/cli"
	"github.com/drover-project/drover/server"
	"github.com/drover-project/drover/test/bed"
)

// drover is a server that runs, with its command line.
type drover struct {
	*testing.T
	dir, url string
}

func start(t *testing.T) *drover {
	t.Helper()
	d := &drover{T: t, dir: t.TempDir()}
	address := free(t)
	d.url = "https://" + address
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- cli.Main(ctx, []string{"server", "--data-dir", d.dir, "--listen", address, "--server-url", d.url, "--assets", t.TempDir(), "--log-level", "warn"},
			cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: os.Stderr}, func(string) string { return "" }, server.Run)
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-done; code != 0 && code != 130 {
			t.Errorf("the server ended with %d", code)
		}
	})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	await(t, "the server", func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+"/ping", nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		_ = answer.Body.Close()
		_, err = os.Stat(filepath.Join(d.dir, "admin-token"))
		return err
	})
	return d
}

// onPage logs in on the page by a directory, with the form that a browser sends: the status of the answer, whether there is a
// session, and what a person reads.
func (d *drover) onPage(directory, username, password string) (status int, session bool, text string) {
	d.Helper()
	client := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	form := url.Values{"directory": {directory}, "username": {username}, "password": {password}}
	r, err := http.NewRequestWithContext(d.Context(), http.MethodPost, d.url+"/dashboard/login", strings.NewReader(form.Encode()))
	if err != nil {
		d.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := client.Do(r)
	if err != nil {
		d.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		d.Fatal(err)
	}
	for _, c := range answer.Cookies() {
		session = session || c.Name == "R_SESS" && c.Value != ""
	}
	return answer.StatusCode, session, string(body)
}

func await(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := bed.Await(ctx, what, 50*time.Millisecond, check); err != nil {
		t.Fatal(err)
	}
}

func free(t *testing.T) string {
	t.Helper()
	address, err := bed.FreeAddress(t.Context(), netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// output is written by a command and read by a test at the same time.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}
func (o *output) String() string { o.mu.Lock(); defer o.mu.Unlock(); return o.text.String() }

// person has contexts of their own; the administrator has none.
func (d *drover) run(person, in string, out io.Writer, args ...string) int {
	environ := func(name string) string {
		switch {
		case name == "HOME" && person != "":
			return filepath.Join(d.dir, "home-"+person)
		case name == "DROVER_DATA_DIR" && person == "":
			return d.dir
		case name == "DROVER_DATA_DIR":
			return filepath.Join(d.dir, "nothing")
		}
		return ""
	}
	return cli.Main(d.Context(), args, cli.Streams{In: strings.NewReader(in), Out: out, Err: out}, environ, nil)
}

// want insists on an end, and on what is said.
func (d *drover) want(code int, person, in, says string, args ...string) string {
	d.Helper()
	var out output
	got := d.run(person, in, &out, args...)
	if got != code && (code != 1 || got == 0) || !strings.Contains(out.String(), says) {
		d.Errorf("%s: drover %s ends with %d, wanted %d and %q:\n%s", person, strings.Join(args, " "), got, code, says, out.String())
	}
	return out.String()
}

// login is the command line of a login by a password.
func (d *drover) login(provider, username string) []string {
	return []string{"login", d.url, "--ca-file", filepath.Join(d.dir, "tls", "ca.crt"), "--provider", provider, "--username", username}
}

// certificate is a self-signed one of 127.0.0.1.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}
