//go:build e2e

package directories

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/bed/process"
)

// provider is a real one, whose people are those that it has groups of.
type provider struct {
	*testing.T
	url, ca, file string
	settings      map[string]any
}

func startProvider(t *testing.T, redirect string) *provider {
	t.Helper()
	if _, err := os.Stat("../oidc/node_modules/oidc-provider"); err != nil {
		t.Fatalf("oidc-provider is not installed; make oidc does: %v", err)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	cert, key := certificate(t)
	_, port, err := net.SplitHostPort(free(t))
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{T: t, url: "https://127.0.0.1:" + port, ca: cert, file: filepath.Join(t.TempDir(), "provider.json"), settings: map[string]any{
		"port": number, "key": key, "cert": cert,
		"clients": []map[string]any{{
			"client_id": "drover", "client_secret": "a client's secret", "redirect_uris": []string{redirect},
			"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		}},
	}}
	p.groups(map[string][]string{"ann": {"ops", "sre"}})
	running, err := process.Start(t.Context(), process.Options{
		Path: node, Args: []string{"provider.mjs", p.file}, Dir: "../oidc", LogFile: filepath.Join(t.TempDir(), "provider.log"), ReadyLine: regexp.MustCompile(`^ready `),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = running.Kill() })
	return p
}

// groups says who there is, and in which groups.
func (p *provider) groups(all map[string][]string) {
	p.Helper()
	p.settings["groups"] = all
	text, err := json.Marshal(p.settings)
	if err == nil {
		err = os.WriteFile(p.file, text, 0o600)
	}
	if err != nil {
		p.Fatal(err)
	}
}

func trusting(t *testing.T, cas ...string) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	for _, ca := range cas {
		if !pool.AppendCertsFromPEM([]byte(ca)) {
			t.Fatal("no certificate")
		}
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

var action = regexp.MustCompile(`<form[^>]* action="([^"]+)"`)

// browse is a person at a browser who follows a URL, logs in with a name at the provider and agrees to what it asks.
func browse(t *testing.T, trust *tls.Config, at, name string) (page string, err error) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		return "", err
	}
	browser := &http.Client{Jar: jar, Transport: &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}}
	answer, err := browser.Get(at)
	for range 5 {
		if err != nil {
			return "", err
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil {
			return "", err
		}
		form := action.FindSubmatch(text)
		if form == nil {
			return string(text), nil
		}
		fields := url.Values{"prompt": {"consent"}}
		if strings.Contains(string(text), `value="login"`) {
			fields = url.Values{"prompt": {"login"}, "login": {name}, "password": {"any"}}
		}
		to, err := answer.Request.URL.Parse(html.UnescapeString(string(form[1])))
		if err != nil {
			return "", err
		}
		if answer, err = browser.PostForm(to.String(), fields); err != nil {
			return "", err
		}
	}
	return "", errors.New("the provider asks and asks")
}

var begins = regexp.MustCompile(`https://\S+/begin\?\S+`)

// through logs in through a browser and gives what the command line says.
func (d *drover) through(p *provider, person, name string) (code int, said string) {
	d.Helper()
	own, err := os.ReadFile(filepath.Join(d.dir, "tls", "ca.crt"))
	if err != nil {
		d.Fatal(err)
	}
	var out output
	done := make(chan int, 1)
	go func() {
		done <- d.run(person, "", &out, "login", d.url, "--browser", "--ca-file", filepath.Join(d.dir, "tls", "ca.crt"))
	}()
	await(d.T, "the URL to open", func(context.Context) error {
		if begins.MatchString(out.String()) {
			return nil
		}
		return fmt.Errorf("it says %q", out.String())
	})
	page, err := browse(d.T, trusting(d.T, string(own), p.ca), begins.FindString(out.String()), name)
	if err != nil {
		d.Fatalf("the browser: %v", err)
	}
	return <-done, page + out.String()
}

func TestOpenIDConnect(t *testing.T) {
	d := start(t)
	p := startProvider(t, d.url+"/verify-auth")
	d.want(0, "", fmt.Sprintf("kind: genericoidc\noidc:\n  issuer: %s\n  clientID: drover\n  clientSecret: a client's secret\n  scopes: [profile, groups, offline_access]\n  ca: %q\n", p.url, p.ca),
		"directory genericoidc is configured", "directories", "set", "-f", "-")
	d.want(0, "", "", "genericoidc answers", "directories", "test", "genericoidc")
	d.want(0, "", "", "", "bindings", "add", "--global-role", "clusters-create", "--group", "genericoidc_group://sre")

	if code, said := d.through(p, "ann", "ann"); code != 0 || !strings.Contains(said, "You are logged in") || !strings.Contains(said, "logged in to "+d.url) {
		t.Fatalf("login ends with %d: %s", code, said)
	}
	me := d.want(0, "ann", "", "genericoidc_user://ann", "whoami")
	for _, part := range []string{"genericoidc_group://ops", "genericoidc_group://sre", "clusters-create"} {
		if !strings.Contains(me, part) {
			t.Errorf("whoami has no %s:\n%s", part, me)
		}
	}
	// The refresh token is another one each time.
	for _, groups := range [][]string{{"ops"}, {"ops", "dev"}} {
		p.groups(map[string][]string{"ann": groups})
		d.want(0, "", "", "asked about user ann", "users", "refresh", "ann")
	}
	if me := d.want(0, "ann", "", "genericoidc_group://dev", "whoami"); strings.Contains(me, "sre") || strings.Contains(me, "clusters-create") {
		t.Errorf("out of a group: %s", me)
	}
	// Who is gone there has no session here.
	p.groups(map[string][]string{"ben": {}})
	d.want(0, "", "", "", "users", "refresh", "ann")
	d.want(1, "ann", "", "does not know this token", "whoami")

	d.want(0, "", "", "", "users", "disable", "ann")
	p.groups(map[string][]string{"ann": {}})
	if code, said := d.through(p, "ann", "ann"); code == 0 || !strings.Contains(said, "this user is disabled") {
		t.Errorf("disabled: %d %s", code, said)
	}
}
