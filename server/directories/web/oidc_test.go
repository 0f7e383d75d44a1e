package web

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/outgoing"
	"github.com/drover-project/drover/server/records"
)

// forger is a provider that says what a test wants, right or wrong: what a real one never does. test/directories has the
// logins at a real one.
type forger struct {
	*httptest.Server
	key      *rsa.PrivateKey
	claims   map[string]any // of the ID token, beside the usual ones
	userinfo map[string]any
	signer   *rsa.PrivateKey
	hang     chan struct{}
	problem  string
	without  bool           // an ID token
	metadata map[string]any // beside the usual
	sent     chan string    // the verifier of each code
}

func forge(t *testing.T) (*forger, *OIDC) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	f := &forger{key: key, signer: key, userinfo: map[string]any{"sub": "42"}, claims: map[string]any{}, sent: make(chan string, 10)}
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		if f.hang != nil {
			<-f.hang
		}
		all := map[string]any{
			"issuer": f.URL, "authorization_endpoint": f.URL + "/auth", "token_endpoint": f.URL + "/token", "jwks_uri": f.URL + "/keys",
			"userinfo_endpoint": f.URL + "/me", "id_token_signing_alg_values_supported": []string{"RS256"},
		}
		maps.Copy(all, f.metadata)
		reply(w, all)
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: f.key.Public(), KeyID: "k", Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("GET /me", func(w http.ResponseWriter, _ *http.Request) { reply(w, f.userinfo) })
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		f.sent <- r.FormValue("code_verifier")
		if f.problem != "" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			reply(w, map[string]string{"error": f.problem, "error_description": "hunter2"})
			return
		}
		claims := map[string]any{"iss": f.URL, "sub": "42", "aud": "drover", "nonce": "n", "exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix()}
		maps.Copy(claims, f.claims)
		text, _ := json.Marshal(claims)
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: f.signer}, (&jose.SignerOptions{}).WithHeader("kid", "k"))
		if err != nil {
			t.Error(err)
			return
		}
		signed, err := signer.Sign(text)
		if err != nil {
			t.Error(err)
			return
		}
		raw, _ := signed.CompactSerialize()
		if f.without {
			raw = ""
		}
		reply(w, map[string]any{"access_token": "a", "token_type": "Bearer", "refresh_token": "r2", "id_token": raw})
	})
	f.Server = httptest.NewTLSServer(mux)
	t.Cleanup(f.Close)
	p, err := OpenOIDC(records.OIDCDirectory{
		Issuer: f.URL, ClientID: "drover", ClientSecret: "hunter2", Scopes: []string{"offline_access"},
		CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})),
	}, new(outgoing.Outgoing).Configured(f.URL), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return f, p
}

var trip = directories.Trip{State: "s", Nonce: "n", Verifier: strings.Repeat("v", 50), Redirect: "https://drover.example/verify-auth"}

func TestIDTokens(t *testing.T) {
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprint("g", i)
	}
	for _, c := range []struct {
		name string
		make func(*forger)
		want string // of the sentence; "" lets them in
	}{
		{"a good one", func(*forger) {}, ""},
		{"ten thousand groups", func(f *forger) { f.userinfo["groups"] = many }, ""},
		{"of another client", func(f *forger) { f.claims["aud"] = "somebody-else" }, "another client than oidc.clientID"},
		{"of another issuer", func(f *forger) { f.claims["iss"] = "https://elsewhere.example" }, "another provider than oidc.issuer"},
		{"of another login", func(f *forger) { f.claims["nonce"] = "m" }, "its nonce is not that of this one"},
		{"without a nonce", func(f *forger) { f.claims["nonce"] = "" }, "its nonce is not that of this one"},
		{"whose time is over", func(f *forger) { f.claims["exp"] = 1 }, "its time is over"},
		{"signed by somebody else", func(f *forger) { f.signer = foreign }, "its signature is not by the keys"},
		{"of one, with the userinfo of another", func(f *forger) { f.userinfo["sub"] = "43" }, "about different people"},
		{"groups that are numbers", func(f *forger) { f.userinfo["groups"] = []int{1} }, "not a list of texts"},
		{"a name that is too long", func(f *forger) {
			f.claims["sub"], f.userinfo["sub"] = strings.Repeat("x", 600), strings.Repeat("x", 600)
		}, "longer than 512 bytes"},
		{"a group without a name", func(f *forger) { f.userinfo["groups"] = []string{"crew", ""} }, "not a list of texts"},
		{"nobody", func(f *forger) {
			f.claims["sub"], f.metadata = "", map[string]any{"userinfo_endpoint": ""}
		}, "says no user's name"},
		{"none, with the userinfo of somebody", func(f *forger) { f.without = true }, "gave no ID token"},
		{"a code that was used", func(f *forger) { f.problem = "invalid_grant" }, "used already"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, p := forge(t)
			c.make(f)
			who, err := p.Finish(t.Context(), trip, "code")
			if c.want == "" {
				if err != nil || who.Principal != "genericoidc_user://42" || who.Token != "r2" {
					t.Errorf("%+v %v", who, err)
				}
				return
			}
			if denied, ok := errors.AsType[*directories.DeniedError](err); !ok || !strings.Contains(denied.Reason, c.want) || strings.Contains(denied.Reason, "hunter2") {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestALoginIsOfItsBrowser: what the browser carries to the provider is of this login, and who brings the code back proves that they began it.
func TestALoginIsOfItsBrowser(t *testing.T) {
	f, p := forge(t)
	at, err := p.Begin(t.Context(), trip)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"state": trip.State, "nonce": trip.Nonce, "redirect_uri": trip.Redirect, "client_id": "drover", "prompt": "consent",
		"code_challenge": directories.Digest(trip.Verifier), "code_challenge_method": "S256", "scope": "openid offline_access",
	} {
		if got := u.Query().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if _, err := p.Finish(t.Context(), trip, "code"); err != nil {
		t.Fatal(err)
	}
	if got := <-f.sent; got != trip.Verifier {
		t.Errorf("the provider got the verifier %q", got)
	}
}

// TestWhereAProviderLeads is https, as the client's secret goes there.
func TestWhereAProviderLeads(t *testing.T) {
	for _, name := range []string{"authorization_endpoint", "token_endpoint"} {
		f, p := forge(t)
		f.metadata = map[string]any{name: "http://127.0.0.1/x"}
		if err := p.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "it names an address that is not https") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenOIDC(records.OIDCDirectory{Issuer: "https://idp.example", CA: "none"}, new(outgoing.Outgoing).Configured("https://idp.example"), time.Now); err == nil {
		t.Error("an authority that is none is that of the system")
	}
}

func TestAway(t *testing.T) {
	f, p := forge(t)
	f.problem = "invalid_client"
	_, err := p.Finish(t.Context(), trip, "code")
	if away, ok := errors.AsType[*directories.UnavailableError](err); !ok || !strings.Contains(away.Error(), "invalid_client") || strings.Contains(away.Error(), "hunter2") {
		t.Errorf("a wrong secret: %v", err)
	}
	if _, err := p.Again(t.Context(), "r"); err == nil || errors.Is(err, directories.ErrLapsed) {
		t.Errorf("a wrong secret is for somebody's refresh token: %v", err)
	}
	f.problem = "invalid_grant"
	if _, err := p.Again(t.Context(), "r"); !errors.Is(err, directories.ErrLapsed) {
		t.Errorf("a refresh token that is over: %v", err)
	}
	f.problem = ""
	f.userinfo["padding"] = strings.Repeat("x", 2<<20)
	if _, err := p.Finish(t.Context(), trip, "code"); err == nil || !strings.Contains(err.Error(), "longer than 1048576 bytes") {
		t.Errorf("an endless answer: %v", err)
	}
	f.hang = make(chan struct{})
	defer close(f.hang)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := p.Begin(ctx, trip); err == nil || !strings.Contains(err.Error(), "no answer within 10 s") {
		t.Errorf("slow: %v", err)
	}
	p.config.Issuer = "https://127.0.0.1:1"
	if err := p.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("down: %v", err)
	}
}

// TestGroupsAreBounded: a provider that names groups without end is read to a bound.
func TestGroupsAreBounded(t *testing.T) {
	many := make([]any, directories.MaxRead+1)
	for i := range many {
		many[i] = "g"
	}
	if all, err := groups(many); err != nil || len(all) != directories.MaxRead {
		t.Errorf("%d groups, %v", len(all), err)
	}
}

// TestWordsOfAProvider: of what answers instead of a provider no word is shown.
func TestWordsOfAProvider(t *testing.T) {
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"an error": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "hunter3", http.StatusForbidden) }, "it answers 403 Forbidden"},
		"text": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "hunter3")
			fmt.Fprint(w, "hunter3")
		}, "its answer is not that of a provider"},
		"another issuer":        {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"issuer":"https://hunter3"}`) }, "its answer is not that of a provider"},
		"redirects without end": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, "it redirects to other than https, too often"},
		"a redirect":            {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "http://hunter3/", http.StatusFound) }, "it redirects to other than https"},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := forge(t)
			f.Config.Handler = tt.answer
			err := p.Check(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	f, p := forge(t)
	f.problem = "hunter3 is not a code"
	if _, err := p.Finish(t.Context(), trip, "code"); err == nil || strings.Contains(err.Error(), "hunter3") || !strings.Contains(err.Error(), "it answers 400 Bad Request") {
		t.Errorf("a code that is none: %v", err)
	}
}

// TestWayToAProvider: what a provider says of itself leads to nothing inside but itself.
func TestWayToAProvider(t *testing.T) {
	inside := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
	defer inside.Close()
	f, p := forge(t)
	handler := f.Config.Handler
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/.well-known/openid-configuration" {
			at := strings.Replace(inside.URL, "127.0.0.1", "127.0.0.2", 1)
			_ = json.NewEncoder(w).Encode(map[string]string{"issuer": f.URL, "authorization_endpoint": f.URL + "/auth", "token_endpoint": at, "jwks_uri": at})
			return
		}
		handler.ServeHTTP(w, r)
	})
	if _, err := p.Finish(t.Context(), trip, "code"); err == nil || !strings.Contains(err.Error(), "the server does not connect to 127.0.0.2") {
		t.Error(err)
	}
	// Secrets that are sent to one address are not sent on to another.
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Redirect(w, r, inside.URL, http.StatusTemporaryRedirect)
			return
		}
		handler.ServeHTTP(w, r)
	})
	if _, err := p.Finish(t.Context(), trip, "code"); err == nil || !strings.Contains(err.Error(), "what is for it alone") {
		t.Error(err)
	}
}
