// Connections to registries: whom they trust, and for how long they wait for a sign of life.

package image

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/drover-project/drover/plans/durable"
)

const (
	dialTimeout    = 30 * time.Second
	maxCertificate = 4 << 20
)

// transport is made anew for each pull, as the files may change. HTTP/1.1 only: of HTTP/2
// one connection is read however slowly this host takes the content, and a registry that
// says nothing could not be told from a disk that is slow.
func (e endpoint) transport(t *registryTLS, stall time.Duration, now func() time.Time) (*http.Transport, error) {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	transport := &http.Transport{
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
	config, err := t.config()
	if err != nil {
		return nil, err
	}
	transport.TLSClientConfig = config
	return transport, nil
}

// config is the TLS configuration for a registry; of none it is the system's.
func (t *registryTLS) config() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	config := &tls.Config{InsecureSkipVerify: t.InsecureSkipVerify} //nolint:gosec // the operator's choice for this registry
	if t.CAFile.text != "" {
		pem, err := durable.ReadFile(t.CAFile.text, maxCertificate)
		if err != nil {
			return nil, t.CAFile.fault(err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, t.CAFile.fault(fmt.Errorf("there is no certificate in %s", t.CAFile.text))
		}
		config.RootCAs = pool
	}
	if t.CertFile.text == "" && t.KeyFile.text == "" {
		return config, nil
	}
	pair, err := t.pair()
	if err != nil {
		return nil, err
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// pair is the client's certificate and key.
func (t *registryTLS) pair() (tls.Certificate, error) {
	certificate, err := durable.ReadFile(t.CertFile.text, maxCertificate)
	if err != nil {
		return tls.Certificate{}, t.CertFile.fault(err)
	}
	key, err := durable.ReadFile(t.KeyFile.text, maxCertificate)
	if err != nil {
		return tls.Certificate{}, t.KeyFile.fault(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, t.CertFile.fault(fmt.Errorf("%s and %s are not a certificate and its key in PEM", t.CertFile.text, t.KeyFile.text))
	}
	return pair, nil
}

// silence is a peer that keeps the connection and says nothing.
type silence struct {
	address string
	since   time.Time
	stall   time.Duration
}

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
