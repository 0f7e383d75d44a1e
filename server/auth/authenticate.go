// How a credential arrives in a request, and whether it is good; what is shown once to all who may do the same.

package auth

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
)

// Authenticate says who sent the request. The token "<name>:<key>" comes as Bearer, as
// Basic (in either alphabet of base64), or, when there is no Authorization header at
// all, in the cookie R_SESS. A request with the cookie that changes something needs
// the CSRF token too.
//
// The errors are ErrUnauthenticated (ErrExpired and ErrUserDisabled among them), ErrForged, ErrOrigin and ErrCutOff.
func (a *Auth) Authenticate(r *http.Request) (Identity, error) {
	text, byCookie := credential(r)
	who, err := a.Check(text)
	if err != nil {
		return Identity{}, err
	}
	if byCookie {
		if err := checkForgery(r, text); err != nil {
			return Identity{}, err
		}
	}
	return who, nil
}

// ActsAs says whether a request is to be done in the name of another user, as kubectl --as asks for. Only clusters do that: what
// this server itself is asked for is refused then, as it would be done in the caller's own name.
func ActsAs(r *http.Request) bool {
	for name := range r.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			return true
		}
	}
	return false
}

// ActsAsRefusal is the sentence of that refusal.
const ActsAsRefusal = "acting as another user (--as, --as-group) is possible in clusters alone, not with what this server keeps; leave it out, or log in as that user"

// Check is the identity behind the text of a token, or ErrUnauthenticated, or ErrCutOff.
func (a *Auth) Check(text string) (Identity, error) {
	if _, stale := a.state.Store.Stale(); stale {
		return Identity{}, ErrCutOff
	}
	name, key, ok := splitToken(text)
	if !ok {
		return Identity{}, ErrUnauthenticated
	}
	// The key is hashed and compared whether or not the token exists.
	token, exists := a.state.Tokens.Get(name)
	good := subtle.ConstantTimeCompare([]byte(randomid.Hash(key)), []byte(token.Value.KeyHash)) == 1
	if !exists || !good || token.Value.Disabled {
		return Identity{}, ErrUnauthenticated
	}
	if Expired(token.Value, a.now()) {
		return Identity{}, ErrExpired
	}
	if a.Uses.Rested(token.Value) {
		return Identity{}, ErrIdle
	}
	user, ok := a.state.Users.Get(token.Value.UserID)
	if !ok {
		return Identity{}, ErrUnauthenticated
	}
	if user.Value.Disabled {
		return Identity{}, ErrUserDisabled
	}
	return a.IdentityOf(user.Value, token.Value), nil
}

// Named is the name of the token that a request carries, good or not, if there is one of that name: what else is
// in its place could be a secret.
func (a *Auth) Named(r *http.Request) string {
	text, _ := credential(r)
	name, _, ok := splitToken(text)
	if _, exists := a.state.Tokens.Get(name); !ok || !exists {
		return ""
	}
	return name
}

// IdentityOf is the user who asks with a token, with what they may do at this moment.
func (a *Auth) IdentityOf(user records.User, token records.Token) Identity {
	grants := a.state.GrantsOf(user)
	return Identity{
		UserID: user.ID, Username: user.Username, DisplayName: user.DisplayName, Grants: grants, Admin: grants.Everything(),
		MustChangePassword: user.MustChange, TokenName: token.Name, ClusterID: token.ClusterID,
		Session: token.Session, Expires: token.Expires,
	}
}

// Expired says whether the token's time is over.
func Expired(t records.Token, now time.Time) bool {
	return !t.Expires.IsZero() && !now.Before(t.Expires)
}

// maxToken bounds the text of a token, in bytes.
const maxToken = 512

// splitToken takes "<name>:<key>" apart; it has exactly one colon.
func splitToken(text string) (name, key string, ok bool) {
	if len(text) > maxToken {
		return "", "", false
	}
	text = strings.TrimPrefix(text, "ext/") // the same tokens by the name newer clients give them
	name, key, ok = strings.Cut(text, ":")
	return name, key, ok && name != "" && key != "" && !strings.Contains(key, ":")
}

// credential finds the text of the token. A header wins over a cookie, also a bad one.
func credential(r *http.Request) (text string, byCookie bool) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, value, _ := strings.Cut(header, " ")
		value = strings.TrimSpace(value)
		switch strings.ToLower(scheme) {
		case "bearer":
			return value, false
		case "basic":
			return decodeBasic(value), false
		}
		return "", false
	}
	if c, err := r.Cookie(SessionCookie); err == nil {
		return c.Value, true
	}
	return "", false
}

// decodeBasic takes the standard and the URL alphabet, with and without padding.
func decodeBasic(value string) string {
	value = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(value, "="))
	text, err := base64.RawStdEncoding.DecodeString(value)
	if err != nil {
		return ""
	}
	return string(text)
}

// checkForgery refuses what a page of another server could make a browser send.
func checkForgery(r *http.Request, session string) error {
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		if origin := r.Header.Get("Origin"); origin != "" {
			u, err := url.Parse(origin)
			if err != nil || !strings.EqualFold(u.Host, r.Host) {
				return ErrOrigin
			}
		}
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return nil
	}
	cookie, err := r.Cookie(ForgeryCookie)
	if err != nil || cookie.Value != forgeryToken(session) {
		return ErrForged
	}
	given := r.Header.Get(ForgeryHeader)
	if given == "" {
		given = r.URL.Query().Get("CSRF")
	}
	if subtle.ConstantTimeCompare([]byte(given), []byte(cookie.Value)) != 1 {
		return ErrForged
	}
	return nil
}

// anyUser is the ID of users in general: no user has it.
const anyUser = "(anybody)"

// Anybody is who may do what who may do, and has no name, no token and nothing of their own: what is made for them holds
// nothing of a person, and may be shown to all whose Rights are the same.
func (who Identity) Anybody() Identity {
	if who.UserID == "" {
		return Identity{}
	}
	return Identity{UserID: anyUser, Grants: who.Grants, Admin: who.Admin, ClusterID: who.ClusterID, MustChangePassword: who.MustChangePassword}
}

// Rights names what a user may do to all that no user owns. It is different for two of whom one may do more.
func (who Identity) Rights() string {
	sum := who.Grants.Sum()
	return fmt.Sprintf("%v %v %v %q %q %s", who.UserID != "", who.Admin, who.MustChangePassword, who.ClusterID, who.PlanSecret, hex.EncodeToString(sum[:]))
}
