// Connections to registries: whom they trust, and for how long they wait for a sign of life.

package image

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/drover-project/drover/installers/image/registries"
)

const (
	dialTimeout = 30 * time.Second
)

// connect makes a transport. It is made anew for each pull, as the files may change. HTTP/1.1 only: of HTTP/2
// one connection is read however slowly this host takes the content, and a registry that
// says nothing could not be distinguished from a disk that is slow.
func connect(t *registries.TLS, stall time.Duration, now func() time.Time) (*http.Transport, error) {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	made := &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &patient{Conn: conn, address: address, stall: stall, now: now}, nil
		},
		MaxIdleConnsPerHost:    4,
		MaxResponseHeaderBytes: 256 << 10,
	}
	config, err := t.Config()
	if err != nil {
		return nil, err
	}
	made.TLSClientConfig = config
	return made, nil
}

// Transport makes a transport to registries that this machine trusts. A connection on which nothing comes for as long as stall fails, with an
// error that says since when; 0 is a minute.
func Transport(stall time.Duration) http.RoundTripper {
	t, _ := connect(nil, orDefault(stall, defaultStall), time.Now) // errors are of files, and there are none
	return t
}

// silence is a peer that keeps the connection and says nothing.
type silence struct {
	address string
	since   time.Time
	stall   time.Duration
}

// Error says since when the peer is silent, in UTC.
func (s *silence) Error() string {
	return fmt.Sprintf("the registry stopped sending: nothing came from %s since %s, for %v", s.address, s.since.UTC().Format(time.RFC3339), s.stall)
}

// patient is a connection that gives up when nothing comes for as long as stall. What is
// sent starts the wait anew.
type patient struct {
	net.Conn
	address string
	stall   time.Duration
	now     func() time.Time
}

// Read is of net.Conn.
func (p *patient) Read(b []byte) (int, error) {
	began := p.now()
	if err := p.Conn.SetReadDeadline(time.Now().Add(p.stall)); err != nil {
		return 0, err
	}
	n, err := p.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = &silence{address: p.address, since: began, stall: p.stall}
	}
	return n, err
}

// Write is of net.Conn.
func (p *patient) Write(b []byte) (int, error) {
	if err := p.Conn.SetDeadline(time.Now().Add(p.stall)); err != nil {
		return 0, err
	}
	return p.Conn.Write(b)
}
