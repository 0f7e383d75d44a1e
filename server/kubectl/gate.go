// The way of one line's requests: connections that its process hands over, one by one, on the socket that it was started
// with. Nothing listens, and the process needs no network.

package kubectl

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"github.com/drover-project/drover/server/auth"
)

// mostConnections of one line are open at once.
const mostConnections = 64

// gate asks the server's handler what a line's process asks, as the person who typed.
type gate struct {
	handler http.Handler
	line    Line
	handed  *handed
	// theirs is the process's end of the socket.
	theirs *os.File
	server *http.Server
}

// open makes a gate; its requests end with ctx.
func open(ctx context.Context, handler http.Handler, line Line) (*gate, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the way for kubectl: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "way"), os.NewFile(uintptr(pair[1]), "way")
	defer ours.Close()
	socket, err := net.FileConn(ours)
	if err != nil {
		_ = theirs.Close() // nothing was sent on it
		return nil, fmt.Errorf("open the way for kubectl: %w", err)
	}
	g := &gate{handler: handler, line: line, handed: &handed{socket.(*net.UnixConn)}, theirs: theirs}
	g.server = &http.Server{
		Handler: g, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog: log.New(io.Discard, "", 0), // a line that was stopped in the middle of an answer is nothing to report
	}
	go func() { _ = g.server.Serve(netutil.LimitListener(g.handed, mostConnections)) }() // ends with close
	return g, nil
}

func (g *gate) close() {
	_ = g.theirs.Close() // the process has its own
	_ = g.server.Close()
}

// handed are the connections that a process hands over: a message has one end of a pair of sockets.
type handed struct{ socket *net.UnixConn }

// Accept implements net.Listener.
func (h *handed) Accept() (net.Conn, error) {
	for {
		text, rights := make([]byte, 1), make([]byte, syscall.CmsgSpace(4))
		n, nRights, _, _, err := h.socket.ReadMsgUnix(text, rights)
		if err != nil {
			return nil, err
		}
		if n == 0 && nRights == 0 {
			return nil, io.EOF
		}
		if conn := connection(rights[:nRights]); conn != nil {
			return conn, nil
		}
	}
}

// connection is what a message hands over; nil when that is no connection.
func connection(rights []byte) net.Conn {
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	var found net.Conn
	for _, m := range messages {
		descriptors, err := syscall.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, descriptor := range descriptors {
			file := os.NewFile(uintptr(descriptor), "connection")
			if conn, err := net.FileConn(file); err == nil {
				if unix, ok := conn.(*net.UnixConn); ok && found == nil {
					found = unix
				} else {
					_ = conn.Close() // not ours to speak on
				}
			}
			_ = file.Close() // conn has its own
		}
	}
	return found
}

// Close implements net.Listener.
func (h *handed) Close() error { return h.socket.Close() }

// Addr implements net.Listener.
func (h *handed) Addr() net.Addr { return h.socket.LocalAddr() }

// fromProxies are headers that the server believes of proxies in front of it.
var fromProxies = []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Api-Host", "X-Api-Url-Prefix"}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	return "Bearer none" // never: the caller is logged in
}
