package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// clock is the time of a test.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func open(t *testing.T) (*Auth, *state.State, *clock) {
	t.Helper()
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &clock{at: time.Date(2026, 9, 1, 10, 0, 0, 0, time.UTC)}
	return cheap(st, c), st, c
}

// cheap hashes fast; everything else is as in the product.
func cheap(st *state.State, c *clock) *Auth {
	a := New(st, c.now, slog.New(slog.DiscardHandler))
	a.UnsafeCheapPasswords()
	return a
}

func addUser(t *testing.T, a *Auth, st *state.State, id, password string) records.User {
	t.Helper()
	hash, err := a.hash(t.Context(), password)
	if err != nil {
		t.Fatal(err)
	}
	u := records.User{ID: id, Username: strings.TrimPrefix(id, "user-"), DisplayName: "U", PasswordHash: hash, Created: a.now()}
	if _, err := st.Users.Create(t.Context(), id, u); err != nil {
		t.Fatal(err)
	}
	return u
}

func issue(t *testing.T, a *Auth, token records.Token) (string, records.Token) {
	t.Helper()
	text, stored, err := a.IssueToken(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	return text, stored
}

func TestCarriers(t *testing.T) {
	a, st, _ := open(t)
	addUser(t, a, st, "user-one", "correct horse")
	addUser(t, a, st, "user-two", "correct horse")
	one, _ := issue(t, a, records.Token{UserID: "user-one"})
	two, _ := issue(t, a, records.Token{UserID: "user-two"})
	std, urlSafe := base64.StdEncoding, base64.URLEncoding
	// The name makes the text contain + and / in the standard alphabet.
	odd, _ := issue(t, a, records.Token{UserID: "user-one", Name: "token->>>???"})
	if !strings.ContainsAny(std.EncodeToString([]byte(odd)), "+/") {
		t.Fatal("the odd token does not show the difference of the alphabets")
	}
	for _, c := range []struct {
		name, authorization, cookie, want string
	}{
		{"bearer", "Bearer " + one, "", "user-one"},
		{"bearer in another case", "bEARER  " + one, "", "user-one"},
		{"ext token", "Bearer ext/" + one, "", "user-one"},
		{"basic", "Basic " + std.EncodeToString([]byte(one)), "", "user-one"},
		{"basic, standard alphabet", "Basic " + std.EncodeToString([]byte(odd)), "", "user-one"},
		{"basic, URL alphabet", "basic " + urlSafe.EncodeToString([]byte(odd)), "", "user-one"},
		{"basic without padding", "Basic " + base64.RawURLEncoding.EncodeToString([]byte(one)), "", "user-one"},
		{"cookie", "", one, "user-one"},
		{"header wins over cookie", "Bearer " + one, two, "user-one"},
		{"a bad header is not saved by a cookie", "Bearer x:y", two, ""},
		{"an unknown scheme is not saved by a cookie", "Digest x", two, ""},
		{"nothing", "", "", ""},
		{"two colons", "Bearer " + one + ":x", "", ""},
		{"no colon", "Bearer token", "", ""},
		{"wrong key", "Bearer " + one + "x", "", ""},
		{"key of another", "Bearer " + strings.Split(one, ":")[0] + ":" + strings.Split(two, ":")[1], "", ""},
		{"unknown name", "Bearer token-zzzzz:" + strings.Split(one, ":")[1], "", ""},
		{"empty key", "Bearer " + strings.Split(one, ":")[0] + ":", "", ""},
		{"the stored hash is not a key", "Bearer " + hashAsKey(st, one), "", ""},
		{"not base64", "Basic %%%", "", ""},
		{"very long", "Bearer " + strings.Repeat("a", 600) + ":b", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/v3", nil)
			if c.authorization != "" {
				r.Header.Set("Authorization", c.authorization)
			}
			if c.cookie != "" {
				r.AddCookie(&http.Cookie{Name: "R_SESS", Value: c.cookie})
			}
			who, err := a.Authenticate(r)
			if who.UserID != c.want {
				t.Errorf("user %q, want %q", who.UserID, c.want)
			}
			if (err == nil) != (c.want != "") || err != nil && (!errors.Is(err, ErrUnauthenticated) || err.Error() != "must authenticate") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func hashAsKey(st *state.State, text string) string {
	name, _, _ := strings.Cut(text, ":")
	d, _ := st.Tokens.Get(name)
	return name + ":" + d.Value.KeyHash
}

func TestTokensEnd(t *testing.T) {
	a, st, passing := open(t)
	for _, c := range []struct {
		name string
		do   func(t *testing.T, a *Auth, st *state.State, c *clock, token records.Token)
		ends bool
	}{
		{"nothing happens", func(*testing.T, *Auth, *state.State, *clock, records.Token) {}, false},
		{"just before its end", func(_ *testing.T, _ *Auth, _ *state.State, c *clock, _ records.Token) {
			c.add(time.Hour - time.Millisecond)
		}, false},
		{"its time is over", func(_ *testing.T, _ *Auth, _ *state.State, c *clock, _ records.Token) { c.add(time.Hour) }, true},
		{"revoked", func(t *testing.T, a *Auth, _ *state.State, _ *clock, token records.Token) {
			if err := a.RevokeToken(t.Context(), token.Name); err != nil {
				t.Fatal(err)
			}
			if err := a.RevokeToken(t.Context(), token.Name); err != nil {
				t.Errorf("again: %v", err)
			}
		}, true},
		{"disabled", func(t *testing.T, _ *Auth, st *state.State, _ *clock, token records.Token) {
			modify(t, st.Tokens, token.Name, func(x *records.Token) { x.Disabled = true })
		}, true},
		{"its user is disabled", func(t *testing.T, _ *Auth, st *state.State, _ *clock, token records.Token) {
			modify(t, st.Users, token.UserID, func(u *records.User) { u.Disabled = true })
		}, true},
		{"its user is gone", func(t *testing.T, _ *Auth, st *state.State, _ *clock, token records.Token) {
			if err := st.Users.Delete(t.Context(), token.UserID, 0); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := "user-" + c.name
			addUser(t, a, st, id, "correct horse")
			text, token := issue(t, a, records.Token{UserID: id, TTLMillis: time.Hour.Milliseconds()})
			c.do(t, a, st, passing, token)
			if _, err := a.Check(text); (err != nil) != c.ends {
				t.Errorf("error %v, want one: %v", err, c.ends)
			}
		})
	}
}

// TestASessionThatRests is over after a while without a request, and is put off by each; tokens that people made for programs are not.
func TestASessionThatRests(t *testing.T) {
	a, st, c := open(t)
	addUser(t, a, st, "u-ann", "correct horse battery")
	session, record := issue(t, a, records.Token{UserID: "u-ann", Session: true})
	made, _ := issue(t, a, records.Token{UserID: "u-ann"})
	limit := time.Hour
	a.Uses.Rest = func() time.Duration { return limit }
	check := func(when string, text string, want error) {
		t.Helper()
		if _, err := a.Check(text); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, not %v", when, err, want)
		}
	}
	c.add(59 * time.Minute)
	check("before its first request", session, nil)
	a.Uses.Note(record.Name)
	c.add(59 * time.Minute)
	check("an hour less a minute after it was used", session, nil)
	c.add(3 * time.Minute)
	check("later", session, ErrIdle)
	check("later", session, ErrUnauthenticated)
	check("one for a program", made, nil)
	a.Uses.Note(record.Name) // as another server may have seen it used before this one was asked
	check("used elsewhere", session, nil)
	c.add(100 * time.Hour)
	limit = 0
	check("without a limit", session, nil)
}

func modify[T any](t *testing.T, c *store.Collection[T], key string, change func(*T)) {
	t.Helper()
	if _, err := c.Modify(t.Context(), key, func(v T) (T, error) { change(&v); return v, nil }); err != nil {
		t.Fatal(err)
	}
}

func TestTokenIsStoredAsHash(t *testing.T) {
	a, st, _ := open(t)
	addUser(t, a, st, "user-one", "correct horse")
	text, token := issue(t, a, records.Token{UserID: "user-one"})
	name, key, _ := strings.Cut(text, ":")
	stored, ok := st.Tokens.Get(name)
	if !ok || !strings.HasPrefix(name, "token-") || len(name) != len("token-xxxxx") || len(key) != 54 {
		t.Fatalf("token %q with a key of %d characters", name, len(key))
	}
	if strings.Contains(fmt.Sprintf("%+v", stored.Value), key) || !token.Expires.IsZero() {
		t.Errorf("stored: %+v", stored.Value)
	}
	if _, _, err := a.IssueToken(t.Context(), records.Token{UserID: "user-one", Name: name}); err == nil {
		t.Error("a name was given twice")
	}
	if _, _, err := a.IssueToken(t.Context(), records.Token{UserID: "user-none"}); err == nil {
		t.Error("a token without a user")
	}
}

func TestForgery(t *testing.T) {
	a, st, _ := open(t)
	addUser(t, a, st, "user-one", "correct horse")
	text, _ := issue(t, a, records.Token{UserID: "user-one"})
	right := forgeryToken(text)
	for _, c := range []struct {
		name, method, target, csrf string
		header                     map[string]string
		bearer                     bool
		want                       error
	}{
		{name: "reading needs nothing", method: "GET", target: "/v3"},
		{name: "writing without", method: "POST", target: "/v3", want: ErrForged},
		{name: "writing with a cookie only", method: "DELETE", target: "/v3", csrf: "abc", want: ErrForged},
		{name: "header repeats", method: "PUT", target: "/v3", csrf: right, header: map[string]string{"X-API-CSRF": right}},
		{name: "query repeats", method: "POST", target: "/v3?CSRF=" + right, csrf: right},
		{name: "header differs", method: "POST", target: "/v3", csrf: right, header: map[string]string{"X-API-CSRF": "abd"}, want: ErrForged},
		{name: "a planted cookie", method: "POST", target: "/v3", csrf: "abc", header: map[string]string{"X-API-CSRF": "abc"}, want: ErrForged},
		{name: "both empty", method: "POST", target: "/v3", header: map[string]string{"X-API-CSRF": ""}, want: ErrForged},
		{name: "a header needs nothing", method: "POST", target: "/v3", bearer: true},
		{
			name: "websocket of a page of ours", method: "GET", target: "/v3/subscribe",
			header: map[string]string{"Upgrade": "websocket", "Origin": "https://example.com"},
		},
		{
			name: "websocket of another site's page", method: "GET", target: "/v3/subscribe",
			header: map[string]string{"Upgrade": "websocket", "Origin": "https://evil.example"}, want: ErrOrigin,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, c.target, nil)
			for k, v := range c.header {
				r.Header.Set(k, v)
			}
			if c.csrf != "" {
				r.AddCookie(&http.Cookie{Name: "CSRF", Value: c.csrf})
			}
			if c.bearer {
				r.Header.Set("Authorization", "Bearer "+text)
			} else {
				r.AddCookie(&http.Cookie{Name: "R_SESS", Value: text})
			}
			if _, err := a.Authenticate(r); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

func TestCookies(t *testing.T) {
	w := httptest.NewRecorder()
	SetSession(w, "token-a:b", time.Date(2026, 9, 1, 10, 0, 0, 0, time.UTC))
	EnsureForgeryCookie(w, httptest.NewRequest("GET", "/", nil))
	set := w.Result().Cookies()
	if len(set) != 2 || set[0].Name != "R_SESS" || !set[0].HttpOnly || !set[0].Secure || set[0].SameSite != http.SameSiteLaxMode || set[0].Path != "/" {
		t.Errorf("session cookie: %v", w.Header())
	}
	if set[1].Name != "CSRF" || len(set[1].Value) != 32 || set[1].HttpOnly || !set[1].Secure {
		t.Errorf("CSRF cookie: %v", w.Header())
	}
	again, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	r.AddCookie(set[1])
	EnsureForgeryCookie(again, r)
	if len(again.Result().Cookies()) != 0 {
		t.Error("a CSRF cookie was replaced")
	}
	end := httptest.NewRecorder()
	EndSession(end)
	for _, c := range end.Result().Cookies() {
		if c.MaxAge >= 0 || c.Value != "" {
			t.Errorf("cookie %s stays", c.Name)
		}
	}
}

func TestPurge(t *testing.T) {
	a, st, c := open(t)
	addUser(t, a, st, "user-one", "correct horse")
	issue(t, a, records.Token{UserID: "user-one", Name: "token-short", TTLMillis: 1000})
	issue(t, a, records.Token{UserID: "user-one", Name: "token-later", TTLMillis: time.Hour.Milliseconds()})
	issue(t, a, records.Token{UserID: "user-one", Name: "token-never"})
	c.add(time.Hour)
	if err := a.Purge(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, token := range a.Tokens() {
		names = append(names, token.Name)
	}
	if got := fmt.Sprint(names); got != "[token-later token-never]" {
		t.Errorf("left: %s", got)
	}
}
