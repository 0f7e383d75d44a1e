package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/outgoing"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/githubstandin"
)

const redirect = "https://drover.example/verify-auth"

func start(t *testing.T, p githubstandin.Person) (*GitHub, *githubstandin.GitHub) {
	t.Helper()
	g, stop := githubstandin.Start(redirect, p)
	t.Cleanup(stop)
	d, err := OpenGitHub(records.GitHubDirectory{URL: g.URL, CA: g.CA, ClientID: githubstandin.ClientID, ClientSecret: githubstandin.ClientSecret}, new(outgoing.Outgoing))
	if err != nil {
		t.Fatal(err)
	}
	return d, g
}

// gitHubCode goes the way of a browser.
func gitHubCode(t *testing.T, d *GitHub, trip directories.Trip) (code, state string) {
	t.Helper()
	at, err := d.Begin(t.Context(), trip)
	if err != nil {
		t.Fatal(err)
	}
	client := *d.http
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := client.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	u, err := url.Parse(answer.Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get("code"), u.Query().Get("state")
}

func TestLogin(t *testing.T) {
	var orgs []int64
	for i := range int64(250) {
		orgs = append(orgs, i+1)
	}
	d, g := start(t, githubstandin.Person{ID: 12345, Login: "octo", Name: "Octo Cat", Orgs: orgs, Teams: []int64{7}})
	trip := directories.Trip{State: "s", Verifier: strings.Repeat("v", 50), Redirect: redirect}
	got, state := gitHubCode(t, d, trip)
	if state != "s" {
		t.Errorf("state %q", state)
	}
	who, err := d.Finish(t.Context(), trip, got)
	if err != nil || who.Principal != "github_user://12345" || who.Login != "octo" || who.Name != "Octo Cat" || len(who.Groups) != 251 ||
		who.Groups[0] != "github_org://1" || who.Groups[250] != "github_team://7" {
		t.Fatalf("%+v %v", who, err)
	}
	if _, err := d.Finish(t.Context(), trip, got); !denied(err) {
		t.Errorf("a code twice: %v", err)
	}
	got, _ = gitHubCode(t, d, trip)
	if _, err := d.Finish(t.Context(), directories.Trip{Verifier: strings.Repeat("w", 50), Redirect: redirect}, got); !denied(err) {
		t.Errorf("a code of another login: %v", err)
	}
	g.Is(githubstandin.Person{ID: 12345, Login: "octo"})
	if again, err := d.Again(t.Context(), who.Token); err != nil || len(again.Groups) != 0 {
		t.Errorf("again: %+v %v", again, err)
	}
	g.Revoke()
	if _, err := d.Again(t.Context(), who.Token); !errors.Is(err, directories.ErrLapsed) {
		t.Errorf("with a token that was revoked: %v", err)
	}
}

func denied(err error) bool {
	_, ok := errors.AsType[*directories.DeniedError](err)
	return ok
}

// TestATokenThatItRefuses as soon as it has given it lets no user in, which a person reads; one that it refuses later asks them to log in again.
func TestATokenThatItRefuses(t *testing.T) {
	d, g := start(t, githubstandin.Person{ID: 12345, Login: "octo"})
	trip := directories.Trip{State: "s", Verifier: strings.Repeat("v", 50), Redirect: redirect}
	g.Refuse("its tokens")
	got, _ := gitHubCode(t, d, trip)
	if who, err := d.Finish(t.Context(), trip, got); !denied(err) || err.Error() != "GitHub does not take the token that it gave" || who.Principal != "" {
		t.Errorf("%+v, %v", who, err)
	}
	if _, err := d.Again(t.Context(), "gho_other"); !errors.Is(err, directories.ErrLapsed) {
		t.Errorf("again: %v", err)
	}
}

func TestGitHubAway(t *testing.T) {
	d, g := start(t, githubstandin.Person{ID: 1})
	for _, c := range []struct{ how, want string }{
		{"fail", "502"}, {"endless", "longer than 1048576 bytes"}, {"hang", "no answer within 10 s"},
	} {
		g.Refuse(c.how)
		ctx, cancel := t.Context(), func() {}
		if c.how == "hang" { // the bound is the same for whichever program sets it
			ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
		}
		_, err := d.Again(ctx, "gho_1")
		cancel()
		if away, ok := errors.AsType[*directories.UnavailableError](err); !ok || !strings.Contains(away.Error(), c.want) {
			t.Errorf("%s: %v", c.how, err)
		}
	}
	d.config.ClientSecret = "hunter2"
	g.Refuse("")
	if _, err := d.Finish(t.Context(), directories.Trip{Redirect: redirect}, "x"); err == nil || !strings.Contains(err.Error(), "incorrect_client_credentials") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a wrong secret: %v", err)
	}
	d.api, d.site = "https://127.0.0.1:1/api/v3", "https://127.0.0.1:1"
	if _, err := d.Again(t.Context(), "gho_1"); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("down: %v", err)
	}
}

// TestNobody: whom GitHub gives no number has no principal that is theirs alone.
func TestNobody(t *testing.T) {
	for _, id := range []int64{0, -1} {
		d, g := start(t, githubstandin.Person{ID: 5, Login: "octo"})
		trip := directories.Trip{State: "s", Verifier: strings.Repeat("v", 50), Redirect: redirect}
		got, _ := gitHubCode(t, d, trip)
		g.Is(githubstandin.Person{ID: id, Login: "octo"})
		if who, err := d.Finish(t.Context(), trip, got); !denied(err) {
			t.Errorf("number %d: %+v, %v", id, who, err)
		}
	}
}

// TestWhereItsAPIIs: github.com has its API at a host of its own, an Enterprise Server below its own address.
func TestWhereItsAPIIs(t *testing.T) {
	for given, want := range map[string]string{
		"": "https://api.github.com", "https://github.com/": "https://api.github.com", "https://git.example/": "https://git.example/api/v3", "https://github.com.example": "https://github.com.example/api/v3",
	} {
		if d, err := OpenGitHub(records.GitHubDirectory{URL: given}, new(outgoing.Outgoing)); err != nil || d.api != want {
			t.Errorf("of %q it is %q, %v", given, d.api, err)
		}
	}
}

// TestOrganizationsWithoutEnd are read to a bound, and nothing is asked after it.
func TestOrganizationsWithoutEnd(t *testing.T) {
	orgs := make([]int64, directories.MaxRead+50)
	for i := range orgs {
		orgs[i] = int64(i + 1)
	}
	d, g := start(t, githubstandin.Person{ID: 5, Orgs: orgs, Teams: []int64{7}})
	trip := directories.Trip{State: "s", Verifier: strings.Repeat("v", 50), Redirect: redirect}
	got, _ := gitHubCode(t, d, trip)
	who, err := d.Finish(t.Context(), trip, got)
	if err != nil || len(who.Groups) != directories.MaxRead || slices.ContainsFunc(g.Asked(), func(asked string) bool { return strings.HasPrefix(asked, "GET /api/v3/user/teams") }) {
		t.Errorf("%d groups, %v", len(who.Groups), err)
	}
}
