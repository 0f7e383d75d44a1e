package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/cmd/drover/cli"
	"github.com/drover-project/drover/server"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/test/journey"
)

// TestWhatIsPrintedLogsIn: with the address, the user and the password that the quick start prints a person is on the page,
// and need not change anything before. The password is in no log.
func TestWhatIsPrintedLogsIn(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	dir, password := t.TempDir(), randomid.Secret()
	ctx, stop := context.WithCancel(t.Context())
	var logged bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Main(ctx, []string{"server", "--data-dir", dir, "--listen", address, "--server-url", "https://" + address}, cli.Streams{In: strings.NewReader(""), Out: &logged, Err: &logged}, environ(journey.Options{Password: password}.ServerEnv()), server.Run)
	}()
	defer func() {
		stop()
		if code := <-ended; code != 0 && code != 130 {
			t.Errorf("the server ended with %d: %s", code, logged.String())
		}
		if strings.Contains(logged.String(), password) {
			t.Error("the password is in the log")
		}
	}()

	var printed bytes.Buffer
	greet(&printed, "https://"+address, password)
	found := regexp.MustCompile(`(?s)page +(https://\S+)\n +user +(\S+)\n +password +(\S+)\n`).FindStringSubmatch(printed.String())
	if found == nil {
		t.Fatalf("printed: %s", printed.String())
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority(t, dir)}}}
	defer client.CloseIdleConnections()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		answer, err := client.Get("https://" + address + "/ping")
		if err == nil {
			_ = answer.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	answer, err := client.PostForm(strings.TrimSuffix(found[1], "/")+"/login", url.Values{"username": {found[2]}, "password": {found[3]}})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || answer.Request.URL.Path != "/dashboard/clusters" || !bytes.Contains(page, []byte("There is no cluster yet")) {
		t.Errorf("status %d at %s, %v: %s", answer.StatusCode, answer.Request.URL, err, page)
	}
}

// environ is an environment of these variables alone.
func environ(variables []string) func(string) string {
	return func(name string) string {
		for _, one := range variables {
			if value, ok := strings.CutPrefix(one, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

// authority waits for the server's own authority.
func authority(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		pem, err := os.ReadFile(filepath.Join(dir, "tls", "ca.crt"))
		pool := x509.NewCertPool()
		if err == nil && pool.AppendCertsFromPEM(pem) {
			return pool
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
