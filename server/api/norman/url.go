// Links are absolute, so what they begin with has to be found out for every request;
// and paths are taken apart before they are decoded, since an id may hold a slash.

package norman

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Origin finds the URL under which a client sees the server.
type Origin struct {
	// Trusted are the proxies whose forwarded headers are believed; from any other client they are ignored.
	Trusted []netip.Prefix
	// ServerURL is the setting server-url, or "". When it is https and names the host of
	// the request, links are https even though the connection is not.
	ServerURL func() string
}

// URLs of a request.
func (o Origin) URLs(r *http.Request) URLs {
	scheme, host, prefix := "http", r.Host, ""
	if r.TLS != nil {
		scheme = "https"
	}
	if o.ServerURL != nil {
		if u, err := url.Parse(o.ServerURL()); err == nil && u.Scheme == "https" && strings.EqualFold(u.Host, r.Host) {
			scheme = "https"
		}
	}
	if o.trusts(remote(r)) {
		forwarded, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Host"), ",")
		for _, h := range []string{strings.TrimSpace(forwarded), r.Header.Get("X-API-Host")} {
			if h != "" {
				host = h
			}
		}
		switch proto := strings.ToLower(r.Header.Get("X-Forwarded-Proto")); proto {
		case "https", "wss":
			scheme = "https"
		case "http", "ws":
			scheme = "http"
		}
		if p := strings.Trim(r.Header.Get("X-API-URL-Prefix"), "/"); p != "" {
			prefix = "/" + p
		}
	}
	return URLs{Base: scheme + "://" + host + prefix}
}

// Source is the address of the client: that of the connection, or, behind trusted
// proxies, the last one in X-Forwarded-For that is none of them.
func (o Origin) Source(r *http.Request) string {
	source := remote(r)
	if !o.trusts(source) {
		return source
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && o.trusts(source); i-- {
		if hop := strings.TrimSpace(hops[i]); hop != "" {
			source = hop
		}
	}
	return source
}

func (o Origin) trusts(address string) bool {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	for _, p := range o.Trusted {
		if p.Contains(ip.Unmap()) {
			return true
		}
	}
	return false
}

func remote(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// URLs writes the links of one answer.
type URLs struct {
	// Base is scheme, host and prefix, without a slash at the end.
	Base string
	// Path replaces the path of the schema's version: for the sub-API of one cluster or project.
	Path string
}

// At is a URL below the server's.
func (u URLs) At(path string, segments ...string) string {
	if u.Path != "" {
		path = u.Path
	}
	var b strings.Builder
	b.WriteString(u.Base)
	b.WriteString(path)
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}

// Collection is the URL of a type, in lower case.
func (u URLs) Collection(s Schema) string { return u.At(s.Version.Path, strings.ToLower(s.Plural)) }

// Resource is the URL of one resource.
func (u URLs) Resource(s Schema, id string) string { return u.At(s.Version.Path, s.Plural, id) }

// Path is a request's path, taken apart.
type Path struct {
	// Segments are decoded; doubled slashes and one at the end are left out.
	Segments []string
}

// SplitPath takes an escaped path apart (url.URL.EscapedPath). The error names the segment with a wrong escape.
func SplitPath(escaped string) (Path, error) {
	var p Path
	for part := range strings.SplitSeq(escaped, "/") {
		if part == "" {
			continue
		}
		segment, err := url.PathUnescape(part)
		if err != nil {
			return Path{}, fmt.Errorf("path segment %q: %w", part, err)
		}
		p.Segments = append(p.Segments, segment)
	}
	return p, nil
}
