// Whom a registry is trusted by, and as whom this host shows itself.

package registries

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/drover-project/drover/plans/durable"
)

const maxCertificate = 4 << 20

// Config is the TLS configuration for a registry; of none it is the system's. The error names the file that cannot be read or holds no certificate or
// key.
func (t *TLS) Config() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	config := &tls.Config{InsecureSkipVerify: t.InsecureSkipVerify} // #nosec G402 -- the operator's choice for this registry
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
func (t *TLS) pair() (tls.Certificate, error) {
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
