// Making keys and certificates: what of X.509 the format fixes.

package pki

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math"
	"math/big"
	"time"

	"github.com/drover-project/drover/rke1/pki/pemtext"
)

const (
	// lifetime is how long a new CA lasts, and a leaf unless its CA ends before.
	lifetime = 3650 * 24 * time.Hour
	keyBits  = 2048
)

// Source is what issuing takes from outside.
type Source struct {
	// Now is when certificates are issued.
	Now time.Time
	// Random gives serial numbers.
	Random io.Reader
	// NewKey makes a key of 2048 bits.
	NewKey func() (*rsa.PrivateKey, error)
}

// NewSource is one with the system's randomness.
func NewSource(now time.Time) Source {
	return Source{Now: now, Random: rand.Reader, NewKey: func() (*rsa.PrivateKey, error) {
		return rsa.GenerateKey(rand.Reader, keyBits)
	}}
}

// authority is a CA that issues: the first certificate of its entry, and its key.
type authority struct {
	certificate *x509.Certificate
	key         *rsa.PrivateKey
}

// authorityOf reads a CA that must be able to issue. Its errors say what to do.
func authorityOf(b Bundle, name string, now time.Time) (*authority, error) {
	c := b[name]
	if c.CertificatePEM == "" || c.KeyPEM == "" {
		return nil, fmt.Errorf("certificates: %s has no certificate or no key: with certificates of your own, give their directory again; else take the state file from a backup", name)
	}
	chain, err := c.certificates()
	if err != nil {
		return nil, err
	}
	key, err := c.key()
	if err != nil {
		return nil, err
	}
	if !key.PublicKey.Equal(chain[0].PublicKey) {
		return nil, fmt.Errorf("certificates: the key of %s is not that of its certificate: take the state file from a backup", name)
	}
	if !chain[0].IsCA {
		return nil, fmt.Errorf("certificates: %s is not a CA", name)
	}
	if !now.Before(chain[0].NotAfter) {
		return nil, fmt.Errorf("certificates: %s expired on %s: rotate the certificates with their CA", name, chain[0].NotAfter.Format(time.DateOnly))
	}
	return &authority{chain[0], key}, nil
}

// newCA makes the entry of a self-signed CA.
func (s Source) newCA(name string) (Certificate, error) {
	key, err := s.NewKey()
	if err != nil {
		return Certificate{}, fmt.Errorf("make the key of %s: %w", name, err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    s.Now.UTC(),
		NotAfter:     s.Now.Add(lifetime).UTC(),
		KeyUsage:     x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IsCA:         true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(s.Random, template, template, key.Public(), key)
	if err != nil {
		return Certificate{}, fmt.Errorf("issue %s: %w", name, err)
	}
	return entry(name, "", "", pemtext.OfCertificate(der), pemtext.OfKey(key)), nil
}

// newLeaf makes the entry of a leaf over a key. It ends with its CA at the latest, unlike one
// of the rke CLI: a certificate that is not accepted any more must not look valid.
func (s Source) newLeaf(l leaf, ca *authority, key *rsa.PrivateKey) (Certificate, error) {
	serial, err := rand.Int(s.Random, big.NewInt(math.MaxInt64))
	if err != nil {
		return Certificate{}, fmt.Errorf("make the serial number of %s: %w", l.name, err)
	}
	until := s.Now.Add(lifetime)
	if ca.certificate.NotAfter.Before(until) {
		until = ca.certificate.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      l.subject(),
		DNSNames:     l.names.dns,
		IPAddresses:  l.names.ips,
		NotBefore:    ca.certificate.NotBefore,
		NotAfter:     until.UTC(),
		KeyUsage:     x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  l.usages(),
	}
	der, err := x509.CreateCertificate(s.Random, template, ca.certificate, key.Public(), ca.key)
	if err != nil {
		return Certificate{}, fmt.Errorf("issue %s: %w", l.name, err)
	}
	return entry(l.name, l.stored, l.organization, pemtext.OfCertificate(der), pemtext.OfKey(key)), nil
}

// certificates reads the entry's own certificate and those behind it. The error quotes nothing of them.
func (c Certificate) certificates() ([]*x509.Certificate, error) {
	chain, err := pemtext.Certificates(c.CertificatePEM)
	if err != nil {
		return nil, fmt.Errorf("certificates: %s: %w", c.Name, err)
	}
	return chain, nil
}

// key reads the entry's key; nil is none. The error quotes nothing of it.
func (c Certificate) key() (*rsa.PrivateKey, error) {
	if c.KeyPEM == "" {
		return nil, nil
	}
	key, err := pemtext.Key(c.KeyPEM)
	if err != nil {
		return nil, fmt.Errorf("certificates: the key of %s: %w", c.Name, err)
	}
	return key, nil
}
