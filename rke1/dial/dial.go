// Package dial reaches the hosts of an RKE1 cluster. An engine needs two things of a host:
// its Docker socket, and connections that begin on the host itself to its own ports. Both
// come from a Dialer, which is an SSH connection of the command line or a tunnel that the
// host opened to a server.
package dial

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docker/docker/client"

	"github.com/drover-project/drover/tunnel/answers"
)

// A Dialer opens a connection that begins on the host. Networks are "unix" with the path
// of a socket, and "tcp" with host and port as the host sees them.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Tentative is a connection that looks open before it is known whether the host could open it. Who reads from it hears of a
// refusal there; who has to know before asks with Open.
type Tentative interface {
	// Confirm waits until the host has refused the connection, which is the error, or has had its time to do so. It is called
	// before anything is read or written.
	Confirm(ctx context.Context) error
}

// Open opens a connection that the host has not refused.
func Open(ctx context.Context, dial Dialer, network, address string) (net.Conn, error) {
	conn, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if t, ok := conn.(Tentative); ok {
		if err := t.Confirm(ctx); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// DefaultSocket is where Docker listens on a host.
const DefaultSocket = "/var/run/docker.sock"

const (
	// idleLimit is how long a connection to a Docker socket is kept for the next call.
	idleLimit = 30 * time.Second
	// idleConnections is how many of them; an engine works on a host with few calls at a time.
	idleConnections = 4
)

// Docker is a client of a host's Docker engine, which counts its calls. Its answers are bounded: a host is not trusted, and its
// connections lead to it alone. Errors name the host by its address. The API version is
// negotiated with the first call. Close it to end its idle connections. An empty socket means
// DefaultSocket.
func Docker(dial Dialer, address, socket string, calls *atomic.Int64) (*client.Client, error) {
	socket = cmp.Or(socket, DefaultSocket)
	over := func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, "unix", socket) }
	bounded := &answers.Transport{From: "the Docker engine of host " + address, Of: answer, Next: counted{calls: calls, Transport: &http.Transport{
		DialContext: over, MaxIdleConnsPerHost: idleConnections, IdleConnTimeout: idleLimit, DisableCompression: true,
		MaxResponseHeaderBytes: answers.HeaderBytes,
	}}}
	if strings.Contains(address, ":") {
		address = "[" + address + "]"
	}
	docker, err := client.NewClientWithOpts(
		// The URL is for sentences, and never dialled: every connection is the dialer's. It has to be one that
		// Docker's client speaks HTTP with, and to come before the transport, which it would change.
		client.WithHost("http://"+address),
		client.WithHTTPClient(&http.Client{Transport: bounded}),
		client.WithAPIVersionNegotiation(),
	)
	if err != nil {
		return nil, fmt.Errorf("client of the Docker engine at %s: %w", socket, err)
	}
	return docker, nil
}

// counted counts the requests that go through it.
type counted struct {
	*http.Transport
	calls *atomic.Int64
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	return c.Transport.RoundTrip(r)
}
