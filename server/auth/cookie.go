// The cookies of a browser's session.

package auth

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// Names of the cookies, as browsers' clients know them.
const (
	SessionCookie = "R_SESS"
	ForgeryCookie = "CSRF"
	openIDCookie  = "R_OIDC_ID"
)

// SetSession gives a browser its session: R_SESS, which scripts cannot read.
func SetSession(w http.ResponseWriter, tokenText string, expires time.Time) {
	http.SetCookie(w, &http.Cookie{
		Name: SessionCookie, Value: tokenText, Path: "/", Expires: expires,
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	})
}

// EnsureForgeryCookie gives a browser that has none the cookie CSRF, which its scripts
// repeat in the header X-API-CSRF.
func EnsureForgeryCookie(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(ForgeryCookie); err == nil && len(c.Value) == 32 {
		return
	}
	for _, set := range w.Header().Values("Set-Cookie") {
		if strings.HasPrefix(set, ForgeryCookie+"=") {
			return
		}
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process when the system has no randomness
	http.SetCookie(w, &http.Cookie{
		Name: ForgeryCookie, Value: hex.EncodeToString(b[:]), Path: "/", Secure: true, SameSite: http.SameSiteLaxMode,
	})
}

// EndSession takes the cookies away from a browser.
func EndSession(w http.ResponseWriter) {
	for _, name := range []string{SessionCookie, ForgeryCookie, openIDCookie} {
		http.SetCookie(w, &http.Cookie{
			Name: name, Path: "/", MaxAge: -1, Secure: true, HttpOnly: name != ForgeryCookie, SameSite: http.SameSiteLaxMode,
		})
	}
}
