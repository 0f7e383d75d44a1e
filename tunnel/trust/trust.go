// Package trust is how an agent comes to trust a server's CA: by a checksum that it was
// given, or by a proof from a server that knows the agent's registration token. Nothing
// here is ever trusted because it was merely received.
//
// Checksum and proof are Rancher's: GET /cacerts with the headers X-Cattle-Nonce and
// Authorization answers with X-Cattle-Hash.
package trust

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
)

// maxBundle bounds a bundle of certificates, in bytes.
const maxBundle = 1 << 20

// Checksum is the lower-case hex SHA-256 of a bundle's text, white space around it removed
// and one newline added. Order, comments and line breaks inside count.
func Checksum(bundle []byte) string {
	sum := sha256.Sum256(append(bytes.TrimSpace(bundle), '\n'))
	return hex.EncodeToString(sum[:])
}

// Credential is what an agent shows of its token to ask for a proof: base64 of its SHA-256.
func Credential(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Proof is what only a holder of the token can say of a bundle, for one nonce: base64 of
// HMAC-SHA512 over nonce, zero byte, body, zero byte. The body is that of the answer, its
// last newline included.
func Proof(token, nonce string, body []byte) string {
	return base64.StdEncoding.EncodeToString(proof(token, nonce, body))
}

func proof(token, nonce string, body []byte) []byte {
	mac := hmac.New(sha512.New, []byte(token))
	for _, part := range [][]byte{[]byte(nonce), {0}, body, {0}} {
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// Proven says whether a proof holds. It takes the same time for all proofs of one length.
func Proven(token, nonce string, body []byte, hash string) bool {
	got, err := base64.StdEncoding.DecodeString(hash)
	return err == nil && token != "" && hmac.Equal(got, proof(token, nonce, body))
}

// Nonce is fresh: 32 random bytes in base64.
func Nonce() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// Pool reads a bundle: PEM certificates and nothing else but text between them. The error says which block is none, or that there is none.
func Pool(bundle []byte) (*x509.CertPool, error) {
	if len(bundle) > maxBundle {
		return nil, fmt.Errorf("a bundle of certificates of %d bytes: at most %d are taken", len(bundle), maxBundle)
	}
	pool := x509.NewCertPool()
	n := 0
	for rest := bundle; ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("PEM block %d is a %.40q, not a CERTIFICATE", n+1, block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d cannot be read: %w", n+1, err)
		}
		pool.AddCert(certificate)
	}
	if n == 0 {
		return nil, errors.New("there is no PEM certificate in it")
	}
	return pool, nil
}
