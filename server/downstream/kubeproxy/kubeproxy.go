// Package kubeproxy is the way of people to a cluster's Kubernetes API through the
// server: /k8s/clusters/<cluster id>/… . The caller acts in the cluster under their own name: a
// service account of the cluster that may impersonate just them sends the request. No credential
// of the caller reaches the cluster and none of the cluster reaches the caller.
package kubeproxy

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/connlimit"
	"github.com/drover-project/drover/server/downstream"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/tunnel"
)

// Prefix is the path below which clusters are found.
const Prefix = "/k8s/clusters/"

// maxRequests is how many requests of one person may be under way at once, watches among them.
const maxRequests = 500

// Proxy forwards requests to clusters.
type Proxy struct {
	State *state.State
	// Until calls end once an identity's credential is no longer valid, or still says no of what its user
	// may do now, until stop is called; nil is for tests whose credentials stay.
	Until func(who auth.Identity, still func(now auth.Identity) bool, end func()) (stop func())
	// Way is the way to a cluster, with the administrator's credentials on it or with none.
	Way func(records.ClusterKey, downstream.Credentials) http.RoundTripper
	// Token is a token of the account that a person has in a cluster; Refused says that the cluster
	// did not take one.
	Token   func(context.Context, records.ClusterKey, downstream.Person) (string, error)
	Refused func(cluster records.ClusterKey, userID, token string)
	// Membership records the project of a namespace that a person makes in one; nil records none.
	Membership *state.Membership
	Logger     *slog.Logger
	// Patience is how long a cluster may take to begin an answer that is not of a long-running request, and Stalled how long
	// a watcher may take nothing; 0 is defaultPatience and defaultStalled.
	Patience, Stalled time.Duration

	busy counts
}

// Serve serves a caller who is logged in, maybe by a token of one cluster. It answers with
// Kubernetes Status objects whenever the cluster itself does not answer.
func (p *Proxy) Serve(w http.ResponseWriter, r *http.Request, caller auth.Identity) {
	id, path, rawPath := split(r.URL)
	cluster, denied := p.find(id, caller)
	if denied != nil {
		send(w, *denied)
		return
	}
	owns := auth.May(caller, auth.Own, auth.OfCluster(id))
	request := impersonation(r.Header)
	if !mayImpersonate(w, request, owns) {
		return
	}
	done, ok := p.busy.begin(caller.UserID)
	if !ok {
		send(w, tooMany())
		return
	}
	defer done()
	sent := &body{ReadCloser: r.Body}
	if r.Body != http.NoBody {
		r.Body = sent
	}
	joins := p.joins(r, path, id, caller)
	to := &destination{proxy: p, cluster: cluster, caller: caller, person: p.personOf(caller, owns), request: request}
	proxy := &httputil.ReverseProxy{
		Transport:     to,
		FlushInterval: -1, // watches
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL, pr.Out.Host = &url.URL{Scheme: "https", Host: "127.0.0.1:6443", Path: path, RawPath: rawPath, RawQuery: pr.In.URL.RawQuery}, ""
			clean(pr.Out.Header)
			pr.Out.Trailer = nil // what comes behind a body speaks for no user, either
			pr.SetXForwarded()
			to.sign(pr.Out.Header, pr.In.Host)
		},
		ModifyResponse: func(answer *http.Response) error {
			warn(answer.Header, joins.made(r.Context(), answer))
			if auth.IsByCookie(r) {
				confine(answer.Header)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if cause := sent.failed(); cause != nil && r.Context().Err() == nil {
				refuse(w, http.StatusBadRequest, "BadRequest", fmt.Sprintf("the body of this request cannot be read: %v", cause))
				return
			}
			p.fail(w, r, cluster, err)
		},
		ErrorLog: slog.NewLogLogger(p.Logger.Handler(), slog.LevelDebug),
	}
	ctx, end := p.within(r.Context(), id, caller, to.person)
	defer end()
	if downstream.IsWatch(r) {
		w = &watched{ResponseWriter: w, stalled: cmp.Or(p.Stalled, defaultStalled)}
	}
	if r.Header.Get("Upgrade") != "" {
		w = upgraded{w}
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// mayImpersonate says whether a request may name another user as whom it is made, and refuses it otherwise.
func mayImpersonate(w http.ResponseWriter, request http.Header, owns bool) bool {
	switch {
	case len(request) == 0:
	case !owns:
		refuse(w, http.StatusForbidden, "Forbidden", "only who owns the cluster may act as another user in it; leave out --as and --as-group")
		return false
	case request.Get(userHeader) == "":
		refuse(w, http.StatusBadRequest, "BadRequest", "header Impersonate-User is empty: as whom?")
		return false
	}
	return true
}

// body is one of a request, and remembers why it could not be read to its end: that is the client's fault, not the cluster's.
type body struct {
	io.ReadCloser
	mu  sync.Mutex
	err error
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !errors.Is(err, http.ErrBodyReadAfterClose) {
		b.mu.Lock()
		b.err = err
		b.mu.Unlock()
	}
	return n, err
}

func (b *body) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// confine makes an answer of a cluster harmless to a browser with a session of this server: a service in the cluster, which
// its API leads to, can answer with any page. Scripts of such a page do not run, its origin is none, and it leaves nothing
// in the browser.
func confine(h http.Header) {
	for _, name := range []string{"Set-Cookie", "Clear-Site-Data", "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials"} {
		h.Del(name)
	}
	h.Set("Content-Security-Policy", "sandbox")
	h.Set("X-Content-Type-Options", "nosniff")
}

// find is the cluster of an ID, which the caller may use, or why there is none.
func (p *Proxy) find(id string, caller auth.Identity) (records.Cluster, *status) {
	d, ok := p.State.ClustersByID.First(id)
	switch {
	case ok && auth.May(caller, auth.Proxy, auth.OfCluster(id)):
		return d.Value, nil
	case ok && caller.ClusterID != "" && caller.ClusterID != id:
		return d.Value, &status{Code: http.StatusUnauthorized, Reason: "Unauthorized", Message: "this token is limited to cluster " + caller.ClusterID}
	}
	return d.Value, &status{Code: http.StatusNotFound, Reason: "NotFound", Message: fmt.Sprintf("there is no cluster %q: it was removed, or is of another server, or you may not see it", id)}
}

// within is a context that ends with the token by which a request came, and with the rights that the cluster gave it for, those of groups
// that the cluster alone knows of among them: a watch, a log or a shell lasts no longer.
func (p *Proxy) within(ctx context.Context, id string, caller auth.Identity, began downstream.Person) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	if p.Until == nil {
		return ctx, cancel
	}
	stop := p.Until(caller, func(now auth.Identity) bool {
		is := p.personOf(now, auth.May(now, auth.Own, auth.OfCluster(id)))
		lost := func(group string) bool { return !slices.Contains(is.Groups, group) }
		return auth.May(now, auth.Proxy, auth.OfCluster(id)) && !slices.ContainsFunc(began.Groups, lost)
	}, cancel)
	return ctx, func() { stop(); cancel() }
}

// fail answers when the cluster did not.
func (p *Proxy) fail(w http.ResponseWriter, r *http.Request, cluster records.Cluster, err error) {
	if r.Context().Err() == nil {
		send(w, p.failure(cluster, err))
	}
}

// failure says why a cluster did not answer.
func (p *Proxy) failure(cluster records.Cluster, err error) status {
	if _, ok := errors.AsType[*downstream.UnavailableError](err); ok {
		message := fmt.Sprintf("cluster %s (%s) cannot be reached: %v", cluster.ID, cluster.Name, err)
		if !cluster.Status.Since.IsZero() && !cluster.Status.Connected {
			message += fmt.Sprintf(" (%s since %s)", cluster.Status.State, cluster.Status.Since.UTC().Format("2006-01-02T15:04:05Z"))
		}
		// No Retry-After: kubectl and client-go would wait for minutes and never show the cause.
		return status{Code: http.StatusServiceUnavailable, Reason: "ServiceUnavailable", Message: message}
	}
	if errors.Is(err, errHangs) {
		return status{Code: http.StatusGatewayTimeout, Reason: "Timeout", Message: fmt.Sprintf("cluster %s (%s) has taken the request and not answered it for %s: its API server may hang", cluster.ID, cluster.Name, cmp.Or(p.Patience, defaultPatience))}
	}
	if errors.Is(err, errRenewed) {
		return status{Code: http.StatusServiceUnavailable, Reason: "ServiceUnavailable", Message: fmt.Sprintf("cluster %s (%s): %v", cluster.ID, cluster.Name, err)}
	}
	p.Logger.Info("request to a cluster failed", "cluster", cluster.Key(), "error", err)
	return status{Code: http.StatusBadGateway, Reason: "ServiceUnavailable", Message: fmt.Sprintf("cluster %s (%s): %v", cluster.ID, cluster.Name, err)}
}

// split cuts /k8s/clusters/<id> off, in both forms of the path, so that escaped slashes stay escaped.
func split(u *url.URL) (id, path, rawPath string) {
	id, path, _ = strings.Cut(strings.TrimPrefix(u.Path, Prefix), "/")
	if u.RawPath != "" {
		_, rawPath, _ = strings.Cut(strings.TrimPrefix(u.RawPath, Prefix), "/")
		rawPath = "/" + rawPath
	}
	return id, "/" + path, rawPath
}

// paused is how long a user may read nothing of a shell or a forwarded port, as on the other side of the tunnel.
const paused = tunnel.PatientStall

// upgraded gives a caller's connection away with what was sent on it before the answer, which httputil.ReverseProxy would lose.
type upgraded struct{ http.ResponseWriter }

// Hijack implements http.Hijacker.
func (w upgraded) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, err := tunnel.Hijack(w.ResponseWriter)
	if err != nil {
		return nil, nil, err
	}
	connlimit.Patient(conn, paused)
	return conn, bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn)), nil
}

// Unwrap is found by http.ResponseController.
func (w upgraded) Unwrap() http.ResponseWriter { return w.ResponseWriter }
