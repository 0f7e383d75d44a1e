// The cookies of a browser's session.

package auth

import (
	"bufio"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"mime"
	"net/http"
	"net/url"
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

// AddProof has a request that a page of this server makes carry what proves that: the cookie of its session, which browsers
// may have lost with their last window, and the header.
func AddProof(r *http.Request) {
	token := FormToken(r)
	if token == "" {
		return
	}
	cookies := r.Cookies()
	r.Header.Del("Cookie")
	for _, c := range cookies {
		if c.Name != ForgeryCookie {
			r.AddCookie(c)
		}
	}
	r.AddCookie(&http.Cookie{Name: ForgeryCookie, Value: token}) // #nosec G124 -- a cookie of a request
	r.Header.Set(ForgeryHeader, token)
}

// TakeProof hands the token that the form in a request's body begins with on to where auth.Authenticate looks for it. It is
// the first field of a form, so that nothing of a body has to be kept to find it; in an address it would stay in histories.
func TakeProof(r *http.Request) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // one that cannot be read is none
	if r.Method != http.MethodPost || r.Body == nil || kind != "application/x-www-form-urlencoded" || r.Header.Get(ForgeryHeader) != "" || FormToken(r) == "" {
		return
	}
	const field = ForgeryCookie + "="
	body := bufio.NewReaderSize(r.Body, len(field)+forgeryLength)
	begin, _ := body.Peek(len(field) + forgeryLength) // a shorter body, or one that cannot be read, begins with no token
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
	if token, ok := strings.CutPrefix(string(begin), field); ok && len(token) == forgeryLength && !strings.ContainsAny(token, "\r\n") {
		r.Header.Set(ForgeryHeader, token)
	}
}

// IsByCookie says that a request would be let in, if at all, by the cookie of a session: its answer is shown by a browser.
func IsByCookie(r *http.Request) bool {
	return r.Header.Get("Authorization") == "" && FormToken(r) != ""
}

// IsForeign says that a page of another server sent a form.
func IsForeign(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site != "same-origin" && site != "none"
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	at, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(at.Host, r.Host)
}
