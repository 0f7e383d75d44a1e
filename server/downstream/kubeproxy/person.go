// As whom a request is sent to a cluster.

package kubeproxy

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/downstream"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
)

const (
	userHeader  = "Impersonate-User"
	groupHeader = "Impersonate-Group"
	extraHeader = "Impersonate-Extra-"
)

// personOf is a caller as clusters know them, with the groups of directories. Who owns a cluster has all rights in it.
func (p *Proxy) personOf(caller auth.Identity, owns bool) downstream.Person {
	user, _ := p.State.Users.Get(caller.UserID) // there is one: the caller is logged in
	groups := append(slices.Clone(user.Value.Groups), "system:authenticated", "system:cattle:authenticated")
	if owns {
		groups = append(groups, "system:masters")
	}
	extra := map[string][]string{"principalid": append([]string{roles.LocalUser(caller.UserID)}, user.Value.Elsewhere...)}
	if caller.Username != "" {
		extra["username"] = []string{caller.Username}
	}
	return downstream.Person{ID: caller.UserID, Groups: groups, Extra: extra}
}

// impersonation is what a caller wants to act as: the headers of impersonation in a request.
func impersonation(h http.Header) http.Header {
	request := http.Header{}
	for name, values := range h {
		if strings.HasPrefix(name, "Impersonate-") {
			request[name] = values
		}
	}
	return request
}

// clean drops what speaks for the caller. Headers that Connection names are gone already:
// the proxy removes them before it rewrites, so no client can strip what sign sets.
func clean(h http.Header) {
	for name := range h {
		if name == "Authorization" || name == "Cookie" || strings.HasPrefix(name, "Impersonate-") ||
			strings.HasPrefix(name, "X-Remote-") || strings.HasPrefix(name, "X-Api-Tunnel-") || strings.HasPrefix(name, "X-Forwarded-") {
			h.Del(name)
		}
	}
	withoutBearer(h)
}

const (
	protocolHeader = "Sec-Websocket-Protocol"
	// bearerProtocol begins a protocol of websockets that is a token: browsers can set no header.
	bearerProtocol = "base64url.bearer.authorization.k8s.io."
)

// withoutBearer drops the caller's token out of the protocols that they offer.
func withoutBearer(h http.Header) {
	offered := h.Values(protocolHeader)
	if !slices.ContainsFunc(offered, func(line string) bool { return strings.Contains(line, bearerProtocol) }) {
		return
	}
	h.Del(protocolHeader)
	for _, line := range offered {
		for protocol := range strings.SplitSeq(line, ",") {
			if protocol = strings.TrimSpace(protocol); !strings.HasPrefix(protocol, bearerProtocol) {
				h.Add(protocolHeader, protocol)
			}
		}
	}
}

// destination sends the requests of one caller to one cluster.
type destination struct {
	proxy   *Proxy
	cluster records.Cluster
	caller  auth.Identity
	person  downstream.Person
	// request is as whom the caller, who owns the cluster, wants to act instead; empty for no other.
	request http.Header
}

// errRenewed ends a request whose body was sent, and cannot be sent again.
var errRenewed = errors.New("your account in the cluster had to be renewed: repeat the request")

// sign says who acts: the caller, or whom they want to be.
func (d *destination) sign(h http.Header, host string) {
	if len(d.request) > 0 {
		maps.Copy(h, d.request)
		return
	}
	h.Set(userHeader, d.person.ID)
	for _, group := range d.person.Groups {
		h.Add(groupHeader, group)
	}
	for key, values := range d.person.Extra {
		for _, value := range values {
			h.Add(extraHeader+key, value)
		}
	}
	h.Set(extraHeader+"Requesttokenid", d.caller.TokenName)
	h.Set(extraHeader+"Requesthost", host)
}

// RoundTrip implements http.RoundTripper. Nothing leaves without the credentials that belong to its headers.
func (d *destination) RoundTrip(r *http.Request) (*http.Response, error) {
	key := records.ClusterKey(d.cluster.Key())
	if len(d.request) > 0 {
		return d.proxy.impatient(d.proxy.Way(key, downstream.AdminCredentials), r)
	}
	for again := r.Body == nil || r.Body == http.NoBody; ; again = false {
		token, err := d.proxy.Token(r.Context(), key, d.person)
		if err != nil {
			return nil, err
		}
		sent := r.Clone(r.Context())
		sent.Header.Set("Authorization", "Bearer "+token)
		response, err := d.proxy.impatient(d.proxy.Way(key, downstream.NoCredentials), sent)
		if err != nil || response.StatusCode != http.StatusUnauthorized {
			return response, err
		}
		// The account is not what it was, as in a cluster that was restored.
		d.proxy.Refused(key, d.person.ID, token)
		if err := response.Body.Close(); err != nil {
			return nil, err
		}
		if !again {
			return nil, errRenewed
		}
	}
}
