// Package pkitest is for tests that need certificates: keys that are made already, because
// making them takes a second each, and the same in every run, so that golden files can hold what
// is made of them.
package pkitest

import (
	"crypto/rsa"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/drover-project/drover/rke1/pki"
)

// keys are sixteen keys in PEM. They protect nothing.
//
//go:embed keys.pem
var keys []byte

// Source gives the same keys and serial numbers, in the same order, each time it is made. After
// sixteen keys it begins anew. skip leaves out as many of the first keys, so that a second
// source of a test does not repeat the first one's.
func Source(now time.Time, skip int) pki.Source {
	rest := keys
	next := func() (*rsa.PrivateKey, error) {
		block, after := pem.Decode(rest)
		if block == nil {
			if block, after = pem.Decode(keys); block == nil {
				return nil, errors.New("keys.pem has no key")
			}
		}
		rest = after
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	}
	for range skip {
		_, rest = pem.Decode(rest)
	}
	seed := [32]byte{byte(skip)}
	return pki.Source{Now: now, Random: rand.NewChaCha8(seed), NewKey: next}
}
