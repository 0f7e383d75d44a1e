// How the server is reached: its listener, its names and its certificate.

package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
)

// address is where the server listens, and by which certificate.
type address struct {
	names    names
	listener net.Listener
	tls      *tls.Config
	// caPEM is what agents pin; empty when a public authority signed the certificate.
	caPEM []byte
}

func (d *data) listen(ctx context.Context) (err error) {
	var config net.ListenConfig
	d.listener, err = config.Listen(ctx, "tcp", d.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w; if another program has the port (ss -ltnp shows it), stop it or choose another with --listen", d.Listen, err)
	}
	d.names, err = hostNames(d.listener.Addr(), d.TLSNames, d.ServerURL, d.PeerURL)
	return err
}

// certify gives the listener its certificate: a given one, or one of the server's own.
func (d *data) certify(ctx context.Context) error {
	// HTTP/1.1 alone: an idle agent then costs a quarter of what HTTP/2's machinery holds for
	// it, and websockets work for every client. Big records keep a plan to a few writes.
	d.tls = &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: aeadSuites(), NextProtos: []string{"http/1.1"}, DynamicRecordSizingDisabled: true}
	if d.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(d.CertFile, d.KeyFile)
		if err != nil {
			return fmt.Errorf("read the certificate given by --tls-cert and --tls-key: %w", err)
		}
		d.tls.Certificates = []tls.Certificate{pair}
		if d.CAFile == "" {
			return nil
		}
		if d.caPEM, err = os.ReadFile(d.CAFile); err != nil {
			return fmt.Errorf("read the authority given by --tls-ca: %w", err)
		}
		return nil
	}
	authority, err := d.authority(ctx)
	if err != nil {
		return err
	}
	d.caPEM = authority.PEM
	d.tls.GetCertificate, err = authority.Renewing(d.names.certificate())
	return err
}

// aeadSuites are the suites of TLS 1.2 that authenticate what they encrypt. Go's own choice has
// suites with CBC too, which scanners report. Those of TLS 1.3 are all of this kind.
func aeadSuites() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}
