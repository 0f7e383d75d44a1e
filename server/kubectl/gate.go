// The way of one line's requests: a listener on this host that lives as long as the line runs.

package kubectl

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/server/auth"
)

// gate takes the requests of who knows its secret, and asks the server's handler in their place as the person who typed.
type gate struct {
	handler  http.Handler
	line     Line
	secret   string
	listener net.Listener
	server   *http.Server
}

// open makes a gate; its requests end with ctx.
func open(ctx context.Context, handler http.Handler, line Line) (*gate, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the way for kubectl: %w", err)
	}
	g := &gate{handler: handler, line: line, secret: rand.Text(), listener: listener}
	g.server = &http.Server{
		Handler: g, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog: log.New(io.Discard, "", 0), // a line that was stopped in the middle of an answer is nothing to report
	}
	go func() { _ = g.server.Serve(listener) }() // ends with close
	return g, nil
}

func (g *gate) address() string { return "http://" + g.listener.Addr().String() }

func (g *gate) close() { _ = g.server.Close() }

// fromProxies are headers that the server believes of proxies in front of it.
var fromProxies = []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Api-Host", "X-Api-Url-Prefix"}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(given), []byte(g.secret)) != 1 {
		http.Error(w, "this address is for one command of the terminal, and for nobody else", http.StatusUnauthorized)
		return
	}
	asked := g.line.Asked
	below := "/k8s/clusters/" + g.line.Cluster
	r.URL.Path = below + r.URL.Path
	if r.URL.RawPath != "" {
		r.URL.RawPath = below + r.URL.RawPath
	}
	r.RequestURI = r.URL.RequestURI()
	r.Header.Del("Cookie")
	r.Header.Set("Authorization", credential(asked))
	for _, name := range fromProxies {
		if r.Header.Del(name); asked.Header[name] != nil {
			r.Header[name] = slices.Clone(asked.Header[name])
		}
	}
	r.Host, r.RemoteAddr, r.TLS = asked.Host, asked.RemoteAddr, asked.TLS
	g.handler.ServeHTTP(w, r)
}

// credential is that of a request, as a header: a browser sends it as a cookie.
func credential(r *http.Request) string {
	if given := r.Header.Get("Authorization"); given != "" {
		return given
	}
	if session, err := r.Cookie(auth.SessionCookie); err == nil {
		return "Bearer " + session.Value
	}
	return "Bearer none" // never: whoever asks is logged in
}
