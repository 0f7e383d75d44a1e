// Package githubstandin stands in for GitHub in tests: a server of its OAuth flow and of the requests of its REST API that a
// login needs, with people who log in without being asked. It is not GitHub, and says nothing of what GitHub does beyond its
// documents.
package githubstandin

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
)

// Credentials of the one client.
const (
	ClientID     = "drover-test"
	ClientSecret = "a client's secret"
)

// Person is who logs in.
type Person struct {
	ID    int64
	Login string
	Name  string
	// Orgs and Teams are IDs.
	Orgs, Teams []int64
}

// GitHub is a running stand-in.
type GitHub struct {
	URL string
	// CA is the certificate to trust, in PEM.
	CA string

	mu        sync.Mutex
	person    Person
	redirect  string
	refuse    string
	hang      chan struct{}
	codes     map[string]string // to the PKCE challenge
	tokens    map[string]bool
	asked     []string
	lastNames int
}

// Start starts one, of whose URLs that people are sent back to redirect is the only registered one.
func Start(redirect string, p Person) (g *GitHub, stop func()) {
	g = &GitHub{person: p, redirect: redirect, codes: map[string]string{}, tokens: map[string]bool{}, hang: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login/oauth/authorize", g.authorize)
	mux.HandleFunc("POST /login/oauth/access_token", g.token)
	mux.HandleFunc("GET /api/v3/user", g.user)
	mux.HandleFunc("GET /api/v3/user/orgs", g.list(func(p Person) []int64 { return p.Orgs }))
	mux.HandleFunc("GET /api/v3/user/teams", g.list(func(p Person) []int64 { return p.Teams }))
	mux.HandleFunc("GET /api/v3/rate_limit", func(w http.ResponseWriter, _ *http.Request) { write(w, map[string]any{}) })
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.asked = append(g.asked, r.Method+" "+r.URL.Path)
		refuse := g.refuse
		g.mu.Unlock()
		switch refuse {
		case "hang":
			select {
			case <-g.hang:
			case <-r.Context().Done():
			}
			return
		case "endless":
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`"`))
			for range 3 << 10 {
				if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<10)); err != nil {
					return
				}
			}
			return
		case "fail":
			http.Error(w, "the stand-in fails", http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	g.URL = server.URL
	g.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return g, func() { close(g.hang); server.Close() }
}

// Is changes who logs in, and what is said of them.
func (g *GitHub) Is(p Person) { g.mu.Lock(); defer g.mu.Unlock(); g.person = p }

// Refuse has every request "hang", "fail" or give an "endless" answer, or "its tokens" be none that it takes; "" ends that.
func (g *GitHub) Refuse(how string) { g.mu.Lock(); defer g.mu.Unlock(); g.refuse = how }

// Revoke makes all tokens invalid.
func (g *GitHub) Revoke() { g.mu.Lock(); defer g.mu.Unlock(); clear(g.tokens) }

// Asked are the requests that came, as "GET /path".
func (g *GitHub) Asked() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.asked...)
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (g *GitHub) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != ClientID || q.Get("redirect_uri") != g.redirect || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "the client or its redirect_uri is not registered", http.StatusBadRequest)
		return
	}
	g.mu.Lock()
	g.lastNames++
	code := "code-" + strconv.Itoa(g.lastNames)
	g.codes[code] = q.Get("code_challenge")
	g.mu.Unlock()
	http.Redirect(w, r, g.redirect+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

func (g *GitHub) token(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	challenge, ok := g.codes[r.FormValue("code")]
	delete(g.codes, r.FormValue("code"))
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	switch {
	case r.FormValue("client_id") != ClientID || r.FormValue("client_secret") != ClientSecret:
		write(w, map[string]string{"error": "incorrect_client_credentials"})
	case !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != challenge:
		write(w, map[string]string{"error": "bad_verification_code"})
	default:
		g.lastNames++
		token := "gho_" + strconv.Itoa(g.lastNames)
		g.tokens[token] = g.refuse != "its tokens"
		write(w, map[string]string{"access_token": token, "token_type": "bearer", "scope": "read:org"})
	}
}

func (g *GitHub) known(w http.ResponseWriter, r *http.Request) bool {
	const scheme = "Bearer "
	header := r.Header.Get("Authorization")
	if len(header) > len(scheme) && g.tokens[header[len(scheme):]] {
		return true
	}
	http.Error(w, `{"message":"Bad credentials"}`, http.StatusUnauthorized)
	return false
}

func (g *GitHub) user(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known(w, r) {
		write(w, map[string]any{"id": g.person.ID, "login": g.person.Login, "name": g.person.Name})
	}
}

func (g *GitHub) list(of func(Person) []int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if !g.known(w, r) {
			return
		}
		per, _ := strconv.Atoi(r.FormValue("per_page"))
		page, _ := strconv.Atoi(r.FormValue("page"))
		all := of(g.person)
		from := min(max(page-1, 0)*per, len(all))
		some := []map[string]any{}
		for _, id := range all[from:min(from+per, len(all))] {
			some = append(some, map[string]any{"id": id, "login": "g" + strconv.FormatInt(id, 10)})
		}
		write(w, some)
	}
}

// Authorize goes to a URL of the flow as a browser does, and is where it is sent back to.
func (g *GitHub) Authorize(at string) (back string, err error) {
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM([]byte(g.CA))
	client := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Get(at)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusFound {
		return "", fmt.Errorf("the stand-in of GitHub answers %s", answer.Status)
	}
	return answer.Header.Get("Location"), nil
}
