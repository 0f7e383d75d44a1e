package directories

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/directories/logins"
	"github.com/drover-project/drover/server/outgoing"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/test/githubstandin"
)

var began = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// gitHub is a controller whose desk has a GitHub.
func gitHub(t *testing.T) (*Controller, *githubstandin.GitHub) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	now := func() time.Time { return began }
	a := auth.New(st, now, log)
	d, err := logins.New(logins.Options{
		State: st, Auth: a, People: &people.People{State: st, Auth: a, Now: now, Log: log}, Secret: "shared by all servers", Now: now, Logger: log, Outgoing: &outgoing.Outgoing{},
		Settings: settings.New(st.Settings, func(string) string { return "" }, settings.Defaults{ServerURL: "https://drover.example"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	g, stop := githubstandin.Start("https://drover.example"+logins.ReturnPath, githubstandin.Person{ID: 12345, Login: "octo", Orgs: []int64{9}})
	t.Cleanup(stop)
	c := records.Directory{Kind: records.GitHub, Access: records.Unrestricted, GitHub: &records.GitHubDirectory{URL: g.URL, CA: g.CA, ClientID: githubstandin.ClientID, ClientSecret: githubstandin.ClientSecret}}
	if _, err := st.Directories.Create(t.Context(), c.Kind, c); err != nil {
		t.Fatal(err)
	}
	return &Controller{d}, g
}

// through logs in through a browser, up to where the page is.
func through(t *testing.T, c *Controller, g *githubstandin.GitHub) (logins.Arrived, error) {
	t.Helper()
	at, cookie, err := c.SetOut(t.Context(), records.GitHub, logins.Request{To: "/dashboard"})
	if err != nil {
		t.Fatal(err)
	}
	back, err := g.Authorize(at)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(back)
	if err != nil {
		t.Fatal(err)
	}
	return c.Return(t.Context(), logins.Returned{State: u.Query().Get("state"), Code: u.Query().Get("code"), Cookie: cookie}, "192.0.2.1:1")
}

// TestWhoIsAskedAbout: a user whose token is refused loses what they have by the directory, and keeps it while the directory is away; about
// a user who has no token there, or who is not due, nothing is asked.
func TestWhoIsAskedAbout(t *testing.T) {
	c, g := gitHub(t)
	arrived, err := through(t, c, g)
	if err != nil {
		t.Fatal(err)
	}
	id := arrived.User.ID
	groups := func() []string {
		u, _ := c.State.Users.Get(id)
		return u.Value.Groups
	}
	g.Refuse("fail")
	_, err = c.Refresh(t.Context(), id)
	if _, away := errors.AsType[*directories.UnavailableError](err); !away || len(groups()) != 1 {
		t.Errorf("while it is away: %v, in %q", err, groups())
	}
	g.Refuse("")
	g.Is(githubstandin.Person{ID: 12345, Login: "octo", Orgs: []int64{8, 9}})
	if u, err := c.Refresh(t.Context(), id); err != nil || !slices.Equal(u.Groups, []string{"github_org://8", "github_org://9"}) {
		t.Errorf("in another organization: %q, %v", u.Groups, err)
	}
	g.Revoke()
	if u, err := c.Refresh(t.Context(), id); err != nil || len(u.Groups) != 0 {
		t.Errorf("once its token is refused: %q, %v", u.Groups, err)
	}
	if _, err := c.Refresh(t.Context(), id); !errors.Is(err, directories.ErrNothingToAsk) {
		t.Errorf("without a token: %v", err)
	}
	_, err = c.Refresh(t.Context(), "u-nobody")
	if _, none := errors.AsType[*store.NotFoundError](err); !none {
		t.Errorf("nobody: %v", err)
	}
	for name, tc := range map[string]struct {
		change func(*records.User)
		due    bool
	}{
		"asked an hour ago": {func(*records.User) {}, true},
		"asked later":       {func(u *records.User) { u.Asked = began.Add(-time.Hour + time.Second) }, false},
		"disabled":          {func(u *records.User) { u.Disabled = true }, false},
		"of this server":    {func(u *records.User) { u.Elsewhere = nil }, false},
	} {
		u := records.User{Elsewhere: []string{"github_user://12345"}, Asked: began.Add(-time.Hour)}
		if tc.change(&u); asks(u, began, time.Hour) != tc.due {
			t.Errorf("%s: due %t", name, !tc.due)
		}
	}
}

// TestALookAtEverybody asks about all users who have a token here and are due.
func TestALookAtEverybody(t *testing.T) {
	c, g := gitHub(t)
	arrived, err := through(t, c, g)
	if err != nil {
		t.Fatal(err)
	}
	id := arrived.User.ID
	asked := func(ctx context.Context) int {
		before := len(g.Asked())
		c.look(ctx)
		return len(g.Asked()) - before
	}
	later := began.Add(365 * 24 * time.Hour)
	c.Now = func() time.Time { return later }
	if n := asked(t.Context()); n != 0 {
		t.Errorf("about somebody without a token here: %d questions", n)
	}
	if _, err := c.State.Tokens.Create(t.Context(), "token-a", records.Token{Name: "token-a", UserID: id}); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if n := asked(over); n != 0 {
		t.Errorf("after the end: %d questions", n)
	}
	g.Is(githubstandin.Person{ID: 12345, Login: "octo", Orgs: []int64{7}})
	if asked(t.Context()) == 0 {
		t.Error("nobody is asked about")
	}
	if u, _ := c.State.Users.Get(id); !slices.Equal(u.Value.Groups, []string{"github_org://7"}) {
		t.Errorf("in %q", u.Value.Groups)
	}
	g.Is(githubstandin.Person{ID: 54321, Login: "other"})
	later = later.Add(365 * 24 * time.Hour)
	if c.look(t.Context()); c.State.TokensByUser.Count(id) != 0 {
		t.Error("whoever's token is somebody else's now keeps their tokens")
	}
}
