// Package kubeproxy is the way of people to a cluster's Kubernetes API through the
// server: /k8s/clusters/<cluster id>/… . The caller acts in
// the cluster under their own name, by impersonation; no credential of the caller
// reaches the cluster and none of the cluster reaches the caller.
package kubeproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/downstream"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
)

// Prefix is the path below which clusters are found.
const Prefix = "/k8s/clusters/"

// Proxy forwards requests to clusters.
type Proxy struct {
	State *state.State
	// Until calls end once an identity's credential is no longer valid, until stop is called;
	// nil is for tests whose credentials stay.
	Until func(who auth.Identity, end func()) (stop func())
	// Transport is the way to a cluster, with the administrator's credentials on it.
	Transport func(records.ClusterKey) (http.RoundTripper, error)
	Logger    *slog.Logger
}

// Serve serves a caller who is logged in, maybe by a token of one cluster. It answers with
// Kubernetes Status objects whenever the cluster itself does not answer.
func (p *Proxy) Serve(w http.ResponseWriter, r *http.Request, caller auth.Identity) {
	id, path, rawPath := split(r.URL)
	d, ok := p.State.ClustersByID.First(id)
	cluster := d.Value
	if !ok || !auth.May(caller, auth.Proxy, auth.Object{Kind: auth.Cluster, Key: id}) {
		if ok && caller.ClusterID != "" && caller.ClusterID != id {
			refuse(w, http.StatusUnauthorized, "Unauthorized", "this token is limited to cluster "+caller.ClusterID)
			return
		}
		refuse(w, http.StatusNotFound, "NotFound", fmt.Sprintf("there is no cluster %q", id))
		return
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			refuse(w, http.StatusForbidden, "Forbidden", "acting as somebody else through drover is not supported; leave out --as and --as-group")
			return
		}
	}
	transport, err := p.Transport(records.ClusterKey(cluster.Key()))
	if err != nil {
		p.unavailable(w, cluster, err)
		return
	}
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // watches
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL = &url.URL{Scheme: "https", Host: "127.0.0.1:6443", Path: path, RawPath: rawPath, RawQuery: pr.In.URL.RawQuery}
			pr.Out.Host = ""
			clean(pr.Out.Header)
			impersonate(pr.Out.Header, caller, cluster.ID)
			pr.SetXForwarded()
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				return
			}
			p.Logger.Info("request to a cluster failed", "cluster", cluster.Key(), "error", err)
			refuse(w, http.StatusBadGateway, "ServiceUnavailable", fmt.Sprintf("cluster %s (%s): %v", cluster.ID, cluster.Name, err))
		},
		ErrorLog: slog.NewLogLogger(p.Logger.Handler(), slog.LevelDebug),
	}
	// A watch, a log or a shell ends with the token that it was opened by.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if p.Until != nil {
		defer p.Until(caller, cancel)()
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

func (p *Proxy) unavailable(w http.ResponseWriter, cluster records.Cluster, err error) {
	message := fmt.Sprintf("cluster %s (%s) cannot be reached: %v", cluster.ID, cluster.Name, err)
	if !cluster.Status.Since.IsZero() && !cluster.Status.Connected {
		message += fmt.Sprintf(" (%s since %s)", cluster.Status.State, cluster.Status.Since.UTC().Format("2006-01-02T15:04:05Z"))
	}
	var known *downstream.UnavailableError
	if !errors.As(err, &known) {
		p.Logger.Warn("no way to a cluster", "cluster", cluster.Key(), "error", err)
	}
	// No Retry-After: kubectl and client-go would wait for minutes and never show the cause.
	refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable", message)
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

// clean drops what speaks for the caller. Headers that Connection names are gone already:
// the proxy removes them before it rewrites, so nobody can strip what impersonate sets.
func clean(h http.Header) {
	for name := range h {
		if name == "Authorization" || name == "Cookie" || strings.HasPrefix(name, "Impersonate-") ||
			strings.HasPrefix(name, "X-Remote-") || strings.HasPrefix(name, "X-Api-Tunnel-") || strings.HasPrefix(name, "X-Forwarded-") {
			h.Del(name)
		}
	}
}

func impersonate(h http.Header, caller auth.Identity, cluster string) {
	h.Set("Impersonate-User", caller.UserID)
	h.Add("Impersonate-Group", "system:authenticated")
	h.Add("Impersonate-Group", "system:cattle:authenticated")
	if auth.May(caller, auth.Own, auth.Object{Kind: auth.Cluster, Key: cluster}) {
		h.Add("Impersonate-Group", "system:masters")
	}
	h.Set("Impersonate-Extra-Username", caller.Username)
	h.Set("Impersonate-Extra-Requesttokenid", caller.TokenName)
}

func refuse(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	body := map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure", "reason": reason, "code": code, "message": message}
	// The status line is out; a client that is gone is its own business.
	_ = json.NewEncoder(w).Encode(body)
}
