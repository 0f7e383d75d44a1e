// What a state must be before it is relied on. The rke CLI takes a state that it cannot read for
// none, makes new certificates and so ends the cluster; here each fault has a sentence.

package state

import (
	"errors"
	"fmt"
	"slices"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/pki"
)

// Against is what a state is checked against.
type Against struct {
	// Config is the cluster.yml that is about to be used with it, or nil.
	Config *config.Cluster
	// OwnCertificates says that the certificates are of an outside authority, which may keep the CA's key.
	OwnCertificates bool
}

// Check says everything that keeps a state from being used, joined. Dates are not looked at: a
// cluster whose certificates have expired needs its state more than any other. Each error names the part of the state.
func (s *State) Check(a Against) error {
	if s.Desired.Config == nil && s.Desired.Certificates == nil && s.Current.Config == nil && s.Current.Certificates == nil {
		return errors.New("there is no cluster in it")
	}
	faults := []error{s.Desired.check("desiredState", a)}
	// A cluster that was never deployed has an empty one, and one that is restored from a snapshot.
	if s.Current.Config != nil || s.Current.Certificates != nil {
		faults = append(faults, s.Current.check("currentState", a))
	}
	if a.Config != nil && s.Desired.Config != nil && !s.sharesHost(a.Config) {
		faults = append(faults, fmt.Errorf("it is the state of another cluster: none of its nodes (%s, …) has an address of the config", firstAddress(s.Desired.Config)))
	}
	return errors.Join(faults...)
}

func (p *Part) check(name string, a Against) error {
	if p.Config == nil || len(p.Config.Nodes) == 0 {
		return fmt.Errorf("%s.rkeConfig: has no nodes", name)
	}
	ca := p.Certificates[pki.CA]
	if ca.CertificatePEM == "" {
		return fmt.Errorf("%s.certificatesBundle.%s: has no certificate", name, pki.CA)
	}
	var faults []error
	if ca.KeyPEM == "" && !a.OwnCertificates {
		faults = append(faults, fmt.Errorf("%s.certificatesBundle.%s: has no key, so nothing could be issued (with certificates of your own, say so)", name, pki.CA))
	}
	if err := pki.Verify(p.Certificates); err != nil {
		faults = append(faults, fmt.Errorf("%s: %w", name, err))
	}
	if encrypts(p.Config) && p.Encryption == "" {
		faults = append(faults, fmt.Errorf("%s.encryptionConfig: is missing, and Secrets are encrypted: with a new key they could not be read", name))
	}
	return errors.Join(faults...)
}

// sharesHost says whether a config has an address of a host that the state knows.
func (s *State) sharesHost(cfg *config.Cluster) bool {
	for _, part := range []*config.Cluster{s.Desired.Config, s.Current.Config} {
		if part == nil {
			continue
		}
		for _, n := range part.Nodes {
			if slices.ContainsFunc(cfg.Nodes, func(other config.Node) bool { return other.Address == n.Address }) {
				return true
			}
		}
	}
	return false
}

func firstAddress(cfg *config.Cluster) string {
	if len(cfg.Nodes) == 0 {
		return "none"
	}
	return cfg.Nodes[0].Address
}

// MayReplace says why this state must not take the place of another, or nil: it would lose the CA's key, or
// the cluster. A keeper of states asks it, beside Check, before a state is overwritten. The error says what would be lost.
func (s *State) MayReplace(before *State) error {
	if before.Desired.Certificates[pki.CA].KeyPEM != "" && s.Desired.Certificates[pki.CA].KeyPEM == "" {
		return fmt.Errorf("the new state lacks the key of %s, which the one there has", pki.CA)
	}
	for _, a := range []pki.Bundle{s.Desired.Certificates, s.Current.Certificates} {
		for _, b := range []pki.Bundle{before.Desired.Certificates, before.Current.Certificates} {
			if pki.SameCA(a, b) {
				return nil
			}
		}
	}
	return errors.New("the state there is of another cluster or from before a rotation: they have no CA in common")
}
