// github.com or a GitHub Enterprise Server is asked by its OAuth flow who a user is, and in which organizations
// and teams.
//
// Wire source: docs.github.com, "Authorizing OAuth apps" and the REST API of version 2022-11-28.

package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/oauth2"

	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/outgoing"
	"github.com/drover-project/drover/server/records"
)

const (
	perPage  = 100
	maxPages = directories.MaxRead / perPage
)

// GitHub is one.
type GitHub struct {
	config records.GitHubDirectory
	http   *http.Client
	site   string
	api    string
}

// OpenGitHub makes one of a configuration that was checked. The error says that the CA cannot be read.
func OpenGitHub(c records.GitHubDirectory, out *outgoing.Outgoing) (*GitHub, error) {
	site := strings.TrimRight(cmp.Or(c.URL, "https://github.com"), "/")
	api := site + "/api/v3"
	if site == "https://github.com" {
		api = "https://api.github.com"
	}
	client, err := New(c.CA, out.Configured(site))
	if err != nil {
		return nil, err
	}
	return &GitHub{c, client, site, api}, nil
}

func (d *GitHub) oauth(redirect string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: d.config.ClientID, ClientSecret: d.config.ClientSecret, RedirectURL: redirect, Scopes: []string{"read:org"},
		Endpoint: oauth2.Endpoint{AuthURL: d.site + "/login/oauth/authorize", TokenURL: d.site + "/login/oauth/access_token", AuthStyle: oauth2.AuthStyleInParams},
	}
}

// Begin is one side of directories.Browsers. GitHub knows PKCE and no nonce, as it gives no ID token. It returns no error.
func (d *GitHub) Begin(_ context.Context, t directories.Trip) (string, error) {
	return d.oauth(t.Redirect).AuthCodeURL(t.State, oauth2.S256ChallengeOption(t.Verifier)), nil
}

// Finish is one side of directories.Browsers. The errors are those that the interface names.
func (d *GitHub) Finish(ctx context.Context, t directories.Trip, code string) (directories.Person, error) {
	ctx, cancel := context.WithTimeout(ctx, directories.Timeout)
	defer cancel()
	token, err := d.oauth(t.Redirect).Exchange(context.WithValue(ctx, oauth2.HTTPClient, d.http), code, oauth2.VerifierOption(t.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		if refused.ErrorCode == "bad_verification_code" {
			return directories.Person{}, directories.Denied("GitHub does not take the code that the browser brought: it was used already, or its time is over")
		}
	}
	if err != nil {
		return directories.Person{}, d.unavailable(ctx, "exchange the code of a login", err)
	}
	who, err := d.person(ctx, token.AccessToken)
	if errors.Is(err, directories.ErrLapsed) {
		return who, directories.Denied("GitHub does not take the token that it gave")
	}
	return who, err
}

// Again is one side of directories.Browsers. The errors are those that the interface names.
func (d *GitHub) Again(ctx context.Context, token string) (directories.Person, error) {
	ctx, cancel := context.WithTimeout(ctx, directories.Timeout)
	defer cancel()
	return d.person(ctx, token)
}

// Check is one side of directories.Browsers. The errors are those that the interface names.
func (d *GitHub) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, directories.Timeout)
	defer cancel()
	var limits struct{}
	return d.get(ctx, "", "/rate_limit", &limits)
}

// person is whom an access token is of.
func (d *GitHub) person(ctx context.Context, token string) (directories.Person, error) {
	var user struct {
		ID    int64  `json:"id"`
		Login string `json:"login"`
		Name  string `json:"name"`
	}
	if err := d.get(ctx, token, "/user", &user); err != nil {
		return directories.Person{}, err
	}
	if user.ID <= 0 {
		return directories.Person{}, directories.Denied("GitHub does not say who logged in")
	}
	who := directories.Person{Principal: directories.UserOf(records.GitHub, strconv.FormatInt(user.ID, 10)), Login: user.Login, Name: user.Name, Token: token}
	for _, sort := range []struct{ path, scheme string }{{"/user/orgs", "github_org://"}, {"/user/teams", "github_team://"}} {
		for page := 1; page <= maxPages && len(who.Groups) < directories.MaxRead; page++ {
			var some []struct {
				ID int64 `json:"id"`
			}
			query := url.Values{"per_page": {strconv.Itoa(perPage)}, "page": {strconv.Itoa(page)}}
			if err := d.get(ctx, token, sort.path+"?"+query.Encode(), &some); err != nil {
				return who, err
			}
			for _, one := range some {
				who.Groups = append(who.Groups, sort.scheme+strconv.FormatInt(one.ID, 10))
			}
			if len(some) < perPage {
				break
			}
		}
	}
	return who, nil
}

// get reads JSON.
func (d *GitHub) get(ctx context.Context, token, path string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.api+path, nil)
	if err != nil {
		return d.unavailable(ctx, "ask "+d.api, err)
	}
	r.Header.Set("Accept", "application/vnd.github+json")
	r.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	r.Header.Set("User-Agent", "drover")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := d.http.Do(r)
	if refused, ok := errors.AsType[*StatusError](err); ok && refused.Code == http.StatusUnauthorized && token != "" {
		return directories.ErrLapsed
	}
	if err != nil {
		return d.unavailable(ctx, "ask "+d.api, err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		return d.unavailable(ctx, "read an answer of "+d.api, err)
	}
	return nil
}

func (d *GitHub) unavailable(ctx context.Context, doing string, err error) error {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || ctx.Err() != nil {
		err = context.DeadlineExceeded
	} else { // the text of err may have the whole answer, tokens included
		err = errors.New(Reason(err, "its answer is not that of GitHub"))
	}
	return &directories.UnavailableError{Kind: records.GitHub, Doing: doing, Err: err}
}
