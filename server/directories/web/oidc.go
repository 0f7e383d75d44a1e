// A provider of OpenID Connect is asked by the authorization code flow with PKCE, state and nonce, and with a
// refresh token about people who are away.

package web

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/outgoing"
	"github.com/drover-project/drover/server/records"
)

// OIDC is one; it reads its metadata for every login, as a provider may change its keys.
type OIDC struct {
	config records.OIDCDirectory
	http   *http.Client
	now    func() time.Time
}

// OpenOIDC makes one of a configuration that was checked. The error says that the CA cannot be read.
func OpenOIDC(c records.OIDCDirectory, way *outgoing.Way, now func() time.Time) (*OIDC, error) {
	client, err := New(c.CA, way)
	if err != nil {
		return nil, err
	}
	c.GroupsClaim, c.LoginClaim, c.NameClaim = cmp.Or(c.GroupsClaim, "groups"), cmp.Or(c.LoginClaim, "preferred_username"), cmp.Or(c.NameClaim, "name")
	if len(c.Scopes) == 0 {
		c.Scopes = []string{"profile", "email"}
	}
	if !slices.Contains(c.Scopes, oidc.ScopeOpenID) {
		c.Scopes = append([]string{oidc.ScopeOpenID}, c.Scopes...)
	}
	return &OIDC{c, client, now}, nil
}

// conversation is the provider as it describes itself.
type conversation struct {
	*OIDC
	metadata *oidc.Provider
	oauth    oauth2.Config
}

// ask runs what is asked of the provider, within directories.Timeout.
func (p *OIDC) ask(ctx context.Context, redirect string, do func(context.Context, conversation) error) error {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.http), directories.Timeout)
	defer cancel()
	metadata, err := oidc.NewProvider(ctx, p.config.Issuer)
	if err != nil {
		return p.unavailable(ctx, "read what "+p.config.Issuer+" says of itself", err)
	}
	for _, at := range []string{metadata.Endpoint().AuthURL, metadata.Endpoint().TokenURL} {
		if u, err := url.Parse(at); err != nil || u.Scheme != "https" {
			return &directories.UnavailableError{Kind: records.GenericOIDC, Doing: "read what " + p.config.Issuer + " says of itself", Err: errors.New("it names an address that is not https")}
		}
	}
	return do(ctx, conversation{p, metadata, oauth2.Config{
		ClientID: p.config.ClientID, ClientSecret: p.config.ClientSecret, Endpoint: metadata.Endpoint(), RedirectURL: redirect, Scopes: p.config.Scopes,
	}})
}

// Check is one side of directories.Browsers. The errors are those that the interface names.
func (p *OIDC) Check(ctx context.Context) error {
	return p.ask(ctx, "", func(context.Context, conversation) error { return nil })
}

// Begin is one side of directories.Browsers. The errors are those that the interface names.
func (p *OIDC) Begin(ctx context.Context, t directories.Trip) (at string, err error) {
	err = p.ask(ctx, t.Redirect, func(_ context.Context, c conversation) error {
		options := []oauth2.AuthCodeOption{oidc.Nonce(t.Nonce), oauth2.S256ChallengeOption(t.Verifier)}
		if slices.Contains(p.config.Scopes, oidc.ScopeOfflineAccess) { // OpenID Connect Core, 11, asks for it
			options = append(options, oauth2.SetAuthURLParam("prompt", "consent"))
		}
		at = c.oauth.AuthCodeURL(t.State, options...)
		return nil
	})
	return at, err
}

// Finish is one side of directories.Browsers. The errors are those that the interface names.
func (p *OIDC) Finish(ctx context.Context, t directories.Trip, code string) (who directories.Person, err error) {
	err = p.ask(ctx, t.Redirect, func(ctx context.Context, c conversation) error {
		token, err := c.oauth.Exchange(ctx, code, oauth2.VerifierOption(t.Verifier))
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.ErrorCode == "invalid_grant" {
			return directories.Denied("the provider does not take the code that the browser brought: it was used already, or its time is over")
		}
		if err != nil {
			return p.unavailable(ctx, "exchange the code of a login", err)
		}
		who, err = c.person(ctx, token, &t.Nonce)
		return err
	})
	return who, err
}

// Again is one side of directories.Browsers. The errors are those that the interface names.
func (p *OIDC) Again(ctx context.Context, refresh string) (who directories.Person, err error) {
	err = p.ask(ctx, "", func(ctx context.Context, c conversation) error {
		token, err := c.oauth.TokenSource(ctx, &oauth2.Token{RefreshToken: refresh}).Token()
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.ErrorCode == "invalid_grant" {
			return directories.ErrLapsed
		}
		if err != nil {
			return p.unavailable(ctx, "ask about a user", err)
		}
		who, err = c.person(ctx, token, nil)
		return err
	})
	return who, err
}

// person is whom the tokens are of. The ID token of a login has to be there and to have the login's nonce; that of a refresh may
// be absent, as the provider answers over a connection that proves who it is.
func (c conversation) person(ctx context.Context, token *oauth2.Token, nonce *string) (directories.Person, error) {
	claims := map[string]any{}
	subject := ""
	raw, _ := token.Extra("id_token").(string)
	if raw == "" && nonce != nil {
		return directories.Person{}, directories.Denied("the provider gave no ID token")
	}
	if raw != "" {
		verified, err := c.verified(ctx, raw, nonce)
		if err != nil {
			return directories.Person{}, err
		}
		if err := verified.Claims(&claims); err != nil {
			return directories.Person{}, directories.Denied("the claims of the ID token cannot be read")
		}
		subject = verified.Subject
	}
	if c.metadata.UserInfoEndpoint() != "" {
		info, err := c.metadata.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if err != nil {
			return directories.Person{}, c.unavailable(ctx, "ask for what is known of a user", err)
		}
		if subject != "" && info.Subject != subject { // OpenID Connect Core, 5.3.2
			return directories.Person{}, directories.Denied("the ID token and the userinfo of the provider are about different people")
		}
		more := map[string]any{}
		if err := info.Claims(&more); err != nil {
			return directories.Person{}, directories.Denied("the userinfo of the provider cannot be read")
		}
		maps.Copy(claims, more)
		subject = info.Subject
	}
	who := directories.Person{Principal: directories.UserOf(records.GenericOIDC, subject), Token: token.RefreshToken}
	if subject == "" || len(who.Principal) > directories.MaxPrincipal {
		return directories.Person{}, directories.Denied("the provider says no user's name, or one that is longer than %d bytes", directories.MaxPrincipal)
	}
	who.Login, _ = claims[c.config.LoginClaim].(string)
	who.Name, _ = claims[c.config.NameClaim].(string)
	var err error
	who.Groups, err = groups(claims[c.config.GroupsClaim])
	return who, err
}

// verified is an ID token of this provider, for this client, in force, of this login.
func (c conversation) verified(ctx context.Context, raw string, nonce *string) (*oidc.IDToken, error) {
	verified, err := c.metadata.VerifierContext(ctx, &oidc.Config{ClientID: c.config.ClientID, Now: c.now}).Verify(ctx, raw)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, c.unavailable(ctx, "read its keys", err)
	case err != nil:
		return nil, directories.Denied("the ID token lets no user in here: %s", c.fault(ctx, raw))
	case nonce != nil && subtle.ConstantTimeCompare([]byte(verified.Nonce), []byte(*nonce)) != 1:
		return nil, directories.Denied("the ID token is of another login: its nonce is not that of this one")
	}
	return verified, nil
}

// fault is what is wrong with an ID token, found by leaving out what it is checked for. The verifier's own words repeat the token,
// and what was answered instead of keys.
func (c conversation) fault(ctx context.Context, raw string) string {
	for _, check := range []struct {
		without oidc.Config
		fault   string
	}{
		{oidc.Config{SkipClientIDCheck: true, SkipIssuerCheck: true, SkipExpiryCheck: true}, "its signature is not by the keys that the provider shows, or those cannot be read"},
		{oidc.Config{ClientID: c.config.ClientID, SkipIssuerCheck: true, SkipExpiryCheck: true}, "its audience is another client than oidc.clientID"},
		{oidc.Config{ClientID: c.config.ClientID, SkipExpiryCheck: true}, "its issuer is another provider than oidc.issuer"},
	} {
		if _, err := c.metadata.VerifierContext(ctx, &check.without).Verify(ctx, raw); err != nil {
			return check.fault
		}
	}
	return "its time is over, or has not begun"
}

// groups reads a claim that is a list of texts, or one text.
func groups(claim any) ([]string, error) {
	switch value := claim.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{directories.GroupOf(records.GenericOIDC, value)}, nil
	case []any:
		var all []string
		for _, one := range value[:min(len(value), directories.MaxRead)] {
			text, ok := one.(string)
			if !ok || text == "" {
				return nil, directories.Denied("the claim of the groups is not a list of texts")
			}
			all = append(all, directories.GroupOf(records.GenericOIDC, text))
		}
		return all, nil
	}
	return nil, directories.Denied("the claim of the groups is not a list of texts")
}

func (p *OIDC) unavailable(ctx context.Context, doing string, err error) error {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || ctx.Err() != nil {
		err = context.DeadlineExceeded
	} else { // the text of err may have the whole answer, tokens included
		err = errors.New(Reason(err, "its answer is not that of a provider of OpenID Connect whose issuer is "+p.config.Issuer))
	}
	return &directories.UnavailableError{Kind: records.GenericOIDC, Doing: doing, Err: err}
}
