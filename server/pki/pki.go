// Package pki gives the server a certificate that agents can trust: an authority of
// its own, made on the first start and kept for ten years, and a certificate signed by
// it, renewed by itself and whenever the names the server goes by change. Agents pin
// the authority by its checksum, so the authority never changes by itself.
package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/plans/durable"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	serverLife    = 365 * 24 * time.Hour
	renewBefore   = 60 * 24 * time.Hour
)

// Authority signs the server's certificate.
type Authority struct {
	// PEM is the authority's certificate as /cacerts serves it, with one newline at its end.
	PEM  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	dir  string
	now  func() time.Time
}

// Open reads the authority of a directory, or makes it when there is neither certificate
// nor key. One without the other is refused: hosts have pinned the certificate.
func Open(dir string, now func() time.Time) (*Authority, error) {
	a := &Authority{dir: dir, now: now}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of certificates: %w", err)
	}
	certFile, keyFile := filepath.Join(dir, certName), filepath.Join(dir, keyName)
	cert, key, err := readPair(certFile, keyFile)
	if err == nil {
		a.cert, a.key, a.PEM = cert, key, encodeCert(cert.Raw)
		return a, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for there, missing := range map[string]string{certFile: keyFile, keyFile: certFile} {
		if _, err := os.Stat(there); err == nil {
			return nil, fmt.Errorf("%s exists without %s: restore it from a backup; without one, remove what is left of both, start once with --new-authority, "+
				"and join all hosts again", there, missing)
		}
	}
	if err := a.make(); err != nil {
		return nil, err
	}
	return a, writePair(certFile, keyFile, a.PEM, a.key)
}

// Names of the authority's files.
const (
	certName = "ca.crt"
	keyName  = "ca.key"
)

// Exists says whether a directory has anything of an authority.
func Exists(dir string) bool {
	for _, name := range []string{certName, keyName} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// Checksum is the hex SHA-256 of what /cacerts serves, as agents pin it.
func (a *Authority) Checksum() string {
	sum := sha256.Sum256(a.PEM)
	return hex.EncodeToString(sum[:])
}

// Bundle is the authority's certificate and key as PEM, for servers that share it. It returns an error where the key cannot be encoded.
func (a *Authority) Bundle() ([]byte, error) {
	key, err := encodeKey(a.key)
	if err != nil {
		return nil, err
	}
	return append(bytes.Clone(a.PEM), key...), nil
}

// Adopt puts the authority that a bundle holds into a directory that has none yet. One
// that is there already and is another is refused: hosts may have pinned it.
func Adopt(dir string, bundle []byte) error {
	certFile, keyFile := filepath.Join(dir, certName), filepath.Join(dir, keyName)
	shared, key, err := parsePair(bundle, bundle)
	if err != nil {
		return fmt.Errorf("read the authority that all servers of the store share: %w", err)
	}
	own, _, err := readPair(certFile, keyFile)
	switch {
	case err == nil && own.Equal(shared):
		return nil
	case err == nil:
		return fmt.Errorf("the authority in %s is not the one that all servers of the store share: "+
			"move %s away to take over the shared one; hosts that joined by this server's own have to join again", dir, dir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of certificates: %w", err)
	}
	return writePair(certFile, keyFile, encodeCert(shared.Raw), key)
}

func (a *Authority) make() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the authority's key: %w", err)
	}
	now := a.now()
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{Organization: []string{"drover"}, CommonName: fmt.Sprintf("drover-ca@%d", now.Unix())},
		NotBefore:    now.Add(-time.Hour), NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return fmt.Errorf("make the authority's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		return fmt.Errorf("read the authority's new certificate: %w", err)
	}
	a.cert, a.key, a.PEM = cert, key, encodeCert(raw)
	return nil
}

// Names are what a server goes by: DNS names and addresses.
type Names struct {
	DNS []string
	IPs []net.IP
}

// Certificate is a certificate for these names that is valid for a while yet: the stored one if it fits, else a new one, which is stored. Errors are
// the files'.
func (a *Authority) Certificate(names Names) (*tls.Certificate, error) {
	certFile, keyFile := filepath.Join(a.dir, "server.crt"), filepath.Join(a.dir, "server.key")
	cert, key, err := readPair(certFile, keyFile)
	if err == nil && a.fits(cert, names) {
		return a.pair(cert.Raw, key), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the server's key: %w", err)
	}
	now := a.now()
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{Organization: []string{"drover"}, CommonName: "drover"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(serverLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: names.DNS, IPAddresses: names.IPs, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign the server's certificate: %w", err)
	}
	if err := writePair(certFile, keyFile, encodeCert(raw), key); err != nil {
		return nil, err
	}
	return a.pair(raw, key), nil
}

// Renewing is a certificate source for a TLS listener: the names' certificate, looked at anew each day, so that a server that runs for a year keeps a
// valid one. The errors are those of Certificate.
func (a *Authority) Renewing(names Names) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	current, err := a.Certificate(names)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	looked := a.now()
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		if a.now().Sub(looked) > 24*time.Hour {
			looked = a.now()
			if renewed, err := a.Certificate(names); err == nil {
				current = renewed
			}
		}
		return current, nil
	}, nil
}

// pair carries the authority behind the certificate, so that a client that pins it by checksum sees it.
func (a *Authority) pair(raw []byte, key *ecdsa.PrivateKey) *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{raw, a.cert.Raw}, PrivateKey: key}
}

func (a *Authority) fits(cert *x509.Certificate, names Names) bool {
	if a.now().After(cert.NotAfter.Add(-renewBefore)) || cert.CheckSignatureFrom(a.cert) != nil {
		return false
	}
	for _, name := range names.DNS {
		if !slices.Contains(cert.DNSNames, name) {
			return false
		}
	}
	for _, ip := range names.IPs {
		if !slices.ContainsFunc(cert.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}

func readPair(certFile, keyFile string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certPEM, err := os.ReadFile(certFile)
	if err != nil {
		return nil, nil, fmt.Errorf("read certificate: %w", err)
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("read key: %w", err)
	}
	cert, key, err := parsePair(certPEM, keyPEM)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s and %s: %w", certFile, keyFile, err)
	}
	return cert, key, nil
}

func parsePair(certPEM, keyPEM []byte) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, errors.New("the key is of another kind than drover makes")
	}
	return pair.Leaf, key, nil
}

// writePair writes the key first, since the certificate is what others see.
func writePair(certFile, keyFile string, certPEM []byte, key *ecdsa.PrivateKey) error {
	keyPEM, err := encodeKey(key)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(keyFile, keyPEM, 0o600); err != nil {
		return err
	}
	return durable.WriteFile(certFile, certPEM, 0o644)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func encodeCert(raw []byte) []byte {
	return append(bytes.TrimRight(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), "\n"), '\n')
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		// crypto/rand does not fail on the systems drover runs on; 1 is still a valid serial number.
		return big.NewInt(1)
	}
	return n
}
