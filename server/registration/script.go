// What install.sh is served with, and the CA that it pins.

package registration

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	drover "github.com/drover-project/drover"
	"github.com/drover-project/drover/server/api/norman"
)

// installScript serves install.sh behind lines that say where it came from.
func (g *Registration) installScript(w http.ResponseWriter, r *http.Request) {
	server, err := g.serverURL(r)
	if err != nil {
		e, _ := norman.AsError(err)
		text(w, e.Status, e.Message+"\n")
		return
	}
	norman.Uncached(w.Header())
	// In two pieces, as a copy of the whole for each client that takes its time adds up.
	head := g.scriptHeader(server)
	w.Header().Set("Content-Length", strconv.Itoa(len(head)+len(drover.InstallScript)))
	text(w, http.StatusOK, head)
	_, _ = w.Write(drover.InstallScript) // the client has gone when this fails
}

// scriptHeader sets what a host should not have to type. Names and order are those of
// Rancher, whose install.sh works behind this header too.
func (g *Registration) scriptHeader(server string) string {
	strict := "false"
	if g.settings.StrictTLS() {
		strict = "true"
	}
	var b strings.Builder
	b.WriteString("#!/usr/bin/env sh\n")
	fmt.Fprintf(&b, "export STRICT_VERIFY=%s\n", singleQuoted(strict))
	fmt.Fprintf(&b, "CATTLE_AGENT_BINARY_BASE_URL=%s\n", singleQuoted(server+"/assets"))
	fmt.Fprintf(&b, "CATTLE_SERVER=%s\n", singleQuoted(server))
	fmt.Fprintf(&b, "CATTLE_CA_CHECKSUM=%s\n", singleQuoted(g.settings.CAChecksum()))
	return b.String()
}

// maxNonce bounds what is mixed into a proof, in bytes.
const maxNonce = 1024

// cacerts serves the CA of the server. An agent that has no checksum of it but a
// registration token can ask for a proof: it sends base64(SHA-256(token)) and a nonce,
// and only a client that knows the token can make the HMAC of the answer.
func (g *Registration) cacerts(w http.ResponseWriter, r *http.Request) {
	body := g.settings.CACerts()
	nonce := r.Header.Get("X-Cattle-Nonce")
	if bearer, ok := bearerToken(r); ok && nonce != "" && len(nonce) <= maxNonce {
		if token, known := g.tokenByHash(bearer); known {
			mac := hmac.New(sha512.New, []byte(token))
			mac.Write([]byte(nonce))
			mac.Write([]byte{0})
			mac.Write([]byte(body))
			mac.Write([]byte{0})
			w.Header().Set("X-Cattle-Hash", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		}
	}
	text(w, http.StatusOK, body)
}

// tokenByHash finds a registration token by base64(SHA-256(token)).
func (g *Registration) tokenByHash(hash string) (token string, ok bool) {
	sum, err := base64.StdEncoding.Strict().DecodeString(hash)
	if err != nil {
		return "", false
	}
	d, ok := g.state.RegistrationTokensByHash.First(hex.EncodeToString(sum))
	if expires := d.Value.Expires; !ok || !expires.IsZero() && !g.now().Before(expires) {
		return "", false
	}
	return d.Value.Token, true
}
