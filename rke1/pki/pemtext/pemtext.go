// Package pemtext reads and writes the PEM that a state and the files on hosts consist of:
// certificates, one behind the other, and RSA keys. No error quotes a text.
package pemtext

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
)

// Certificates reads all certificates of a text, of which there must be one. The error is the end of a sentence that begins with what the text is of.
func Certificates(text string) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("is not a certificate in PEM")
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("is not a certificate in PEM")
	}
	return all, nil
}

// Key reads the first RSA key of a text, of PKCS#1 or PKCS#8. The rke CLI takes no other kind. The error is the end of a sentence that begins with
// what the text is of.
func Key(text string) (*rsa.PrivateKey, error) {
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("is not an RSA key in PEM without a passphrase")
		}
		if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
			return key, nil
		}
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if key, ok := key.(*rsa.PrivateKey); ok {
				return key, nil
			}
		}
	}
}

// OfCertificate is the text of a certificate, given as DER.
func OfCertificate(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// OfKey is the text of a key, as PKCS#1.
func OfKey(key *rsa.PrivateKey) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}
