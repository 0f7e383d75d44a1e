// The cookies of a browser's session.

package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Names of the cookies, as browsers' clients know them.
const (
	SessionCookie = "R_SESS"
	ForgeryCookie = "CSRF"
	openIDCookie  = "R_OIDC_ID"
)

// ForgeryHeader repeats the cookie CSRF.
const ForgeryHeader = "X-API-CSRF"

// SetSession gives a browser its session: R_SESS, which scripts cannot read, and the cookie
// CSRF that belongs to it.
func SetSession(w http.ResponseWriter, tokenText string, expires time.Time) {
	http.SetCookie(w, &http.Cookie{
		Name: SessionCookie, Value: tokenText, Path: "/", Expires: expires,
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	})
	setForgery(w, forgeryToken(tokenText))
}

// EnsureForgeryCookie gives a browser the cookie CSRF, which its scripts repeat in the header
// X-API-CSRF. In a session it is made of the session's token: a cookie that an attacker planted
// in the browser, as a neighbour in the same domain can, proves nothing. Before a login it is
// random, and nothing is proved by it either.
func EnsureForgeryCookie(w http.ResponseWriter, r *http.Request) {
	wanted := ""
	if session, err := r.Cookie(SessionCookie); err == nil {
		wanted = forgeryToken(session.Value)
	}
	if c, err := r.Cookie(ForgeryCookie); err == nil && len(c.Value) == forgeryLength && (wanted == "" || c.Value == wanted) {
		return
	}
	for _, set := range w.Header().Values("Set-Cookie") {
		if strings.HasPrefix(set, ForgeryCookie+"=") {
			return
		}
	}
	if wanted == "" {
		var b [forgeryLength / 2]byte
		_, _ = rand.Read(b[:]) // never fails: it ends the process when the system has no randomness
		wanted = hex.EncodeToString(b[:])
	}
	setForgery(w, wanted)
}

// forgeryLength is that of the cookie CSRF, in characters.
const forgeryLength = 32

// forgeryToken is what a page of this server's repeats to show that it can read the cookie
// of its session. It says nothing about the token that it is made of.
func forgeryToken(session string) string {
	mac := hmac.New(sha256.New, []byte(session))
	mac.Write([]byte("CSRF"))
	return hex.EncodeToString(mac.Sum(nil))[:forgeryLength]
}

// FormToken is what a form that a server renders repeats in its first field, CSRF, in the session that the request comes
// from; empty without one.
func FormToken(r *http.Request) string {
	session, err := r.Cookie(SessionCookie)
	if err != nil {
		return ""
	}
	return forgeryToken(session.Value)
}

// setForgery replaces one that the answer has already: browsers take the last, scripts the first.
func setForgery(w http.ResponseWriter, value string) {
	set := w.Header()["Set-Cookie"]
	if set = slices.DeleteFunc(set, func(c string) bool { return strings.HasPrefix(c, ForgeryCookie+"=") }); set != nil {
		w.Header()["Set-Cookie"] = set
	}
	http.SetCookie(w, &http.Cookie{ // #nosec G124 -- scripts of the page read it, which is what it is for
		Name: ForgeryCookie, Value: value, Path: "/", Secure: true, SameSite: http.SameSiteLaxMode,
	})
}

// EndSession takes the cookies away from a browser.
func EndSession(w http.ResponseWriter) {
	for _, name := range []string{SessionCookie, ForgeryCookie, openIDCookie} {
		http.SetCookie(w, &http.Cookie{ // #nosec G124 -- it takes cookies away
			Name: name, Path: "/", MaxAge: -1, Secure: true, HttpOnly: name != ForgeryCookie, SameSite: http.SameSiteLaxMode,
		})
	}
}
