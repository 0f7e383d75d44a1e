// Whether a bundle is what it says it is, and how long it lasts.

package pki

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/rke1/pki/pemtext"
)

// Verify says everything that is wrong with a bundle, dates aside, joined: a certificate or key that
// cannot be read, a key that is another certificate's, a leaf that its CA did not sign, an entry
// without its names and paths. Only the certificate beside the key of service account tokens may be
// of any name or none, because nothing reads it. Errors quote no certificate and no key.
func Verify(b Bundle) error {
	if b[CA].CertificatePEM == "" {
		return fmt.Errorf("certificates: %s is missing", CA)
	}
	var faults []error
	chains := map[string][]*x509.Certificate{}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		c := b[name]
		if c.Name != name || c.EnvName == "" || c.Path == "" || c.KeyEnvName == "" || c.KeyPath == "" {
			faults = append(faults, fmt.Errorf("certificates: %s lacks its name, its variables or its paths, so hosts could not get it", name))
			continue
		}
		key, err := c.key()
		if err != nil {
			faults = append(faults, err)
		}
		if c.KeyPEM == "" && !mayLackKey(name) {
			faults = append(faults, fmt.Errorf("certificates: %s has no key", name))
		}
		if name == ServiceAccount {
			continue
		}
		chain, err := c.certificates()
		if err != nil {
			faults = append(faults, err)
			continue
		}
		chains[name] = chain
		if key != nil && !key.PublicKey.Equal(chain[0].PublicKey) {
			faults = append(faults, fmt.Errorf("certificates: the key of %s is not that of its certificate", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(chains)) {
		issuer := issuerOf(name)
		if issuer == "" {
			continue
		}
		if !signed(chains[name][0], chains[name][1:], chains[issuer]) {
			faults = append(faults, fmt.Errorf("certificates: %s is not signed by %s", name, issuer))
		}
	}
	return errors.Join(faults...)
}

func mayLackKey(name string) bool {
	return name == CA || name == RequestHeaderCA || name == EtcdClientCA
}

// issuerOf is the entry that signed another, or "" where that does not matter.
func issuerOf(name string) string {
	switch name {
	case CA, RequestHeaderCA, ServiceAccount, EtcdClient, EtcdClientCA:
		return ""
	case ProxyClient:
		return RequestHeaderCA
	}
	return CA
}

// signed says whether one of the roots signed a certificate, or one between that a root signed.
func signed(c *x509.Certificate, between, roots []*x509.Certificate) bool {
	for _, root := range roots {
		if c.CheckSignatureFrom(root) == nil {
			return true
		}
	}
	for i, middle := range between {
		if c.CheckSignatureFrom(middle) == nil && signed(middle, between[i+1:], roots) {
			return true
		}
	}
	return false
}

// SameCA says whether two bundles have a CA of the cluster in common. Two states of one cluster do,
// also while its CA is rotated.
func SameCA(a, b Bundle) bool {
	of, err := pemtext.Certificates(a[CA].CertificatePEM)
	if err != nil {
		return false
	}
	other, err := pemtext.Certificates(b[CA].CertificatePEM)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(of, func(c *x509.Certificate) bool { return slices.ContainsFunc(other, c.Equal) })
}

// WarnBefore is how long before its end a certificate is warned of.
const WarnBefore = 90 * 24 * time.Hour

// Expiry is when an entry can no longer be used.
type Expiry struct {
	Name string
	// NotBefore and NotAfter bound its use. A certificate ends with its CA, if that ends before.
	NotBefore, NotAfter time.Time
	// By is the CA that ends before the certificate itself, or "".
	By string
}

// Expired says whether the end has come.
func (e Expiry) Expired(now time.Time) bool { return !now.Before(e.NotAfter) }

// Warning is a sentence for people.
func (e Expiry) Warning(now time.Time) string {
	end, with := e.NotAfter.UTC().Format(time.DateOnly), ""
	if e.By != "" {
		with = " with " + e.By
	}
	switch {
	case now.Before(e.NotBefore):
		return fmt.Sprintf("%s begins only at %s: a clock is wrong, here or where it was made", e.Name, e.NotBefore.UTC().Format(time.RFC3339))
	case e.Expired(now):
		return fmt.Sprintf("%s ended%s on %s: rotate the certificates", e.Name, with, end)
	}
	return fmt.Sprintf("%s ends%s on %s, in %d days: rotate the certificates", e.Name, with, end, int(e.NotAfter.Sub(now).Hours()/24))
}

// Expiries are those of a bundle, the first to end first. Its error names the entry that cannot be read.
func Expiries(b Bundle) ([]Expiry, error) {
	own := map[string]*x509.Certificate{}
	for name, c := range b {
		if name == ServiceAccount && c.CertificatePEM == "" {
			continue
		}
		chain, err := c.certificates()
		if err != nil {
			return nil, err
		}
		own[name] = chain[0]
	}
	var all []Expiry
	for name, c := range own {
		e := Expiry{Name: name, NotBefore: c.NotBefore, NotAfter: c.NotAfter}
		if issuer := own[issuerOf(name)]; issuer != nil && issuer.NotAfter.Before(e.NotAfter) {
			e.NotAfter, e.By = issuer.NotAfter, issuerOf(name)
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Expiry) int {
		return cmp.Or(a.NotAfter.Compare(b.NotAfter), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

// Warnings are the expiries to warn of: what has ended, what ends within WarnBefore, and what has not begun.
// Certificates that do not parse are errors.
func Warnings(b Bundle, now time.Time) ([]Expiry, error) {
	all, err := Expiries(b)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(e Expiry) bool {
		return !now.Before(e.NotBefore) && now.Add(WarnBefore).Before(e.NotAfter)
	}), nil
}
