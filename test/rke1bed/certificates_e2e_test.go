//go:build e2e

package rke1bed_test

// The certificates of a cluster of one host, as RKE1 names them.

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"
)

const sslDir = "/etc/kubernetes/ssl/"

// authority signs what a test needs.
type authority struct {
	*testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kube-ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	a := &authority{T: t, key: key, pem: block("CERTIFICATE", der)}
	a.certificate, err = x509.ParseCertificate(der)
	must(t, err)
	return a
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// pair is a certificate and its key, in PEM.
type pair struct{ certificate, key []byte }

// issue signs a certificate for both ends of a connection. Its key is RSA, as the service accounts' tokens need one.
func (a *authority) issue(name, organization string, addresses ...string) pair {
	a.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(a.T, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	must(a.T, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 43, 0, 1)},
	}
	if organization != "" {
		template.Subject.Organization = []string{organization}
	}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	must(a.T, err)
	return pair{block("CERTIFICATE", der), block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))}
}

// kubeconfig leads to a server with the files of a certificate.
func kubeconfig(server, authority, certificate, key string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- {name: local, cluster: {certificate-authority: %s, server: "%s"}}
contexts:
- {name: local, context: {cluster: local, user: local}}
current-context: local
users:
- {name: local, user: {client-certificate: %s, client-key: %s}}
`, authority, server, certificate, key)
}
