// How forms that the server renders show that they are of its own pages: the first field has what scripts
// repeat in a header.

package auth

import (
	"bufio"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// tokenLength is that of auth.FormToken, in characters.
const tokenLength = 32

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
	body := bufio.NewReaderSize(r.Body, len(field)+tokenLength)
	begin, _ := body.Peek(len(field) + tokenLength) // of a body that is shorter, or cannot be read, it is no token
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
	if token, ok := strings.CutPrefix(string(begin), field); ok && len(token) == tokenLength && !strings.ContainsAny(token, "\r\n") {
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
