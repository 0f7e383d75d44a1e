// Keys and certificates as pairs of files.

package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/drover-project/drover/test/standin/atomicfile"
)

// pair is a certificate and its key.
type pair struct {
	key     *ecdsa.PrivateKey
	cert    *x509.Certificate
	certPEM []byte
}

// ensureAuthority reads or makes the authority file.crt and file.key. The key is written first, so that an authority
// cut off in the middle is finished with its own key.
func ensureAuthority(file, name string, now time.Time) (*pair, error) {
	certPEM, err := os.ReadFile(file + ".crt")
	if err == nil {
		return readAuthority(file, certPEM)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key, err := ensureKey(file + ".key")
	if err != nil {
		return nil, err
	}
	subject := pkix.Name{CommonName: fmt.Sprintf("%s@%d", name, now.Unix())}
	template := &x509.Certificate{
		Subject: subject, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(authorityLife), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
	}
	p, err := sign(template, key, nil)
	if err != nil {
		return nil, err
	}
	return p, atomicfile.Write(file+".crt", p.certPEM, 0o644)
}

func readAuthority(file string, certPEM []byte) (*pair, error) {
	cert, err := parseCert(certPEM)
	if err != nil {
		return nil, fmt.Errorf("%s.crt: %w; restore it, or remove the data directory", file, err)
	}
	key, err := readKey(file + ".key")
	if err != nil {
		return nil, fmt.Errorf("the certificate is there but its key is not: %w; restore it, or remove the data directory", err)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("%s.key does not belong to %s.crt; restore them, or remove the data directory", file, filepath.Base(file))
	}
	return &pair{key: key, cert: cert, certPEM: certPEM}, nil
}

// ensureLeaf makes file.crt and file.key anew unless they are as wanted. The .crt holds the authority after the leaf.
func ensureLeaf(file string, want leaf, ca *pair, now time.Time) error {
	if usable(file, want, ca, now) {
		return nil
	}
	key, err := newKey(file + ".key")
	if err != nil {
		return err
	}
	names, addresses := split(want.sans)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: want.name, Organization: want.groups}, ExtKeyUsage: want.usages,
		KeyUsage:  x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(leafLife), DNSNames: names, IPAddresses: addresses,
	}
	p, err := sign(template, key, ca)
	if err != nil {
		return err
	}
	return atomicfile.Write(file+".crt", append(p.certPEM, ca.certPEM...), 0o644)
}

// usable tells whether the pair on disk is what would be made now. Whatever cannot be read is not.
func usable(file string, want leaf, ca *pair, now time.Time) bool {
	certPEM, err := os.ReadFile(file + ".crt")
	if err != nil {
		return false
	}
	cert, err := parseCert(certPEM)
	if err != nil {
		return false
	}
	key, err := readKey(file + ".key")
	if err != nil {
		return false
	}
	names, addresses := split(want.sans)
	return key.PublicKey.Equal(cert.PublicKey) && cert.CheckSignatureFrom(ca.cert) == nil &&
		cert.Subject.CommonName == want.name && slices.Equal(cert.Subject.Organization, want.groups) &&
		slices.Equal(cert.ExtKeyUsage, want.usages) && slices.Equal(cert.DNSNames, names) &&
		slices.EqualFunc(cert.IPAddresses, addresses, net.IP.Equal) &&
		now.After(cert.NotBefore) && now.Add(RenewBefore).Before(cert.NotAfter)
}

// sign makes the certificate; without an authority it signs itself.
func sign(template *x509.Certificate, key *ecdsa.PrivateKey, ca *pair) (*pair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	parent, signer := template, crypto.Signer(key)
	if ca != nil {
		parent, signer = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &pair{key: key, cert: cert, certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// ensureServiceKey keeps the key that signs service account tokens, under both names the real one gives it.
func ensureServiceKey(dir string) error {
	if _, err := ensureKey(filepath.Join(dir, "service.key")); err != nil {
		return fmt.Errorf("service account key: %w", err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "service.key"))
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, "service.current.key"), content, 0o600)
}

func ensureKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newKey(path)
	}
	return key, err
}

func newKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, atomicfile.Write(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM key", path)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

func parseCert(content []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("no PEM certificate in it")
	}
	return x509.ParseCertificate(block.Bytes)
}
