package liar

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/drover-project/drover/tunnel"
)

// tunnel opens a tunnel to the server and answers its dials until that can never work, or ctx ends.
func (p *Played) tunnel(ctx context.Context, path string, header http.Header, dial tunnel.DialFunc) error {
	return tunnel.NewClient(tunnel.ClientOptions{
		URL: "wss" + strings.TrimPrefix(p.server, "https") + path, Header: func() http.Header { return header.Clone() }, TLS: p.tls, Dial: dial,
		Changed: func(s tunnel.Status) {
			if s.Cause != nil {
				p.note("REFUSED "+s.Cause.Error(), true)
			}
		},
	}).Run(ctx)
}

// pipes serves a handler on connections that its dial makes, until ctx ends.
func pipes(ctx context.Context, h http.Handler, config *tls.Config) *piped {
	l := &piped{made: make(chan net.Conn), done: ctx.Done()}
	server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), BaseContext: func(net.Listener) context.Context { return ctx }}
	var from net.Listener = l
	if config != nil {
		from = tls.NewListener(l, config)
	}
	go func() { _ = server.Serve(from) }() // until ctx ends
	context.AfterFunc(ctx, func() { server.Close() })
	return l
}

type piped struct {
	made chan net.Conn
	done <-chan struct{}
}

func (l *piped) dial() (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.made <- there:
		return here, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Accept implements net.Listener.
func (l *piped) Accept() (net.Conn, error) {
	select {
	case c := <-l.made:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *piped) Close() error { return nil }

// Addr implements net.Listener.
func (l *piped) Addr() net.Addr { return &net.UnixAddr{Name: "liar", Net: "unix"} }

// authority is one of an API server, and that one's certificate.
type authority struct {
	// bundle is in PEM, what the API is announced with.
	bundle []byte
	config *tls.Config
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "liar"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 43, 0, 1)}, DNSNames: []string{"kubernetes", "localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &authority{
		bundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		config: &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"http/1.1"},
			ClientAuth: tls.RequestClientCert, // for which a plug-in of a kubeconfig is run
		},
	}, nil
}
