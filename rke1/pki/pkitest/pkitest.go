// Package pkitest is for tests that need certificates: keys that are made already, because
// making them takes a second each, and the same in every run, so that golden files can hold what
// is made of them.
package pkitest

import (
	"crypto/rsa"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/drover-project/drover/rke1/pki"
)

// text is sixteen keys in PEM. They protect nothing.
//
//go:embed keys.pem
var text []byte

// keys reads them, once, because that takes longer than signing by them.
var keys = sync.OnceValues(func() ([]*rsa.PrivateKey, error) {
	var all []*rsa.PrivateKey
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return all, nil
		}
		key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("keys.pem: %w", err)
		}
		all = append(all, key)
	}
})

// Source gives the same keys and serial numbers, in the same order, each time it is made with the
// same skip, which leaves out as many of the first keys. After sixteen keys it begins anew.
func Source(now time.Time, skip int) pki.Source {
	given := skip
	next := func() (*rsa.PrivateKey, error) {
		all, err := keys()
		if err != nil {
			return nil, err
		}
		key := all[given%len(all)]
		given++
		return key, nil
	}
	return pki.Source{Now: now, Random: rand.NewChaCha8([32]byte{byte(skip)}), NewKey: next} // #nosec G115 -- one of few
}
