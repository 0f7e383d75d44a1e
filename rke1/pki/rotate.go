// Rotation: new keys and certificates, and the way of a cluster from one CA to another.

package pki

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/pki/pemtext"
)

// Rotation is what to issue anew.
type Rotation struct {
	// CA makes both CAs and every leaf new, and services means nothing.
	CA bool
	// Services are those whose leaves to issue; none means every leaf.
	Services []string
}

// Services are the words of Rotation.Services.
func Services() []string {
	return []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "etcd"}
}

// Rotate is the bundle with new keys and certificates: what the cluster shall have in the end.
// Alternative names are those of the config of now. The key that signs service account tokens
// stays, because every token would end with it; its certificate is issued again when all leaves
// are. Expired leaves are no hindrance, and with Rotation.CA an expired CA is none. A bundle without the CA's key is an error that says so.
func Rotate(cfg *config.Cluster, before Bundle, r Rotation, src Source, o Options) (Bundle, []Change, error) {
	// Management servers send one service without a name for none.
	r.Services = slices.DeleteFunc(slices.Clone(r.Services), func(s string) bool { return s == "" })
	for _, s := range r.Services {
		if !slices.Contains(Services(), s) {
			return nil, nil, fmt.Errorf("rotate certificates: %q is not a service; there are %s", s, strings.Join(Services(), ", "))
		}
	}
	if len(before) == 0 {
		return nil, nil, errors.New("rotate certificates: the cluster has none yet")
	}
	if before[CA].KeyPEM == "" {
		return nil, nil, errors.New("rotate certificates: the state has no CA key, so its certificates are of an outside authority: issue them there and give their directory")
	}
	m := newMaker(cfg, before, src, o)
	if r.CA {
		if err := m.authorities(); err != nil {
			return nil, nil, err
		}
	}
	all := r.CA || len(r.Services) == 0
	wanted, err := leaves(cfg)
	if err != nil {
		return nil, nil, err
	}
	if err := m.fill(wanted, func(l leaf) bool { return all || slices.Contains(r.Services, l.service) }); err != nil {
		return nil, nil, err
	}
	if all {
		if err := m.renewServiceAccount(wanted[0]); err != nil {
			return nil, nil, err
		}
	}
	return m.bundle, m.changes, nil
}

// renewServiceAccount issues the certificate beside the key of tokens again, as the API server's.
// Nothing reads it, but one that has expired would be warned of for ever.
func (m *maker) renewServiceAccount(api leaf) error {
	key, err := m.bundle[ServiceAccount].key()
	if err != nil {
		return err
	}
	l := api
	l.name, l.stored = ServiceAccount, ServiceAccount
	issuer, err := m.issuer(CA)
	if err != nil {
		return err
	}
	c, err := m.src.newLeaf(l, issuer, key)
	if err != nil {
		return err
	}
	m.put(c, "over the same key", serviceAccountLine)
	return nil
}

// Stage is one step of a rotation: deploy the bundle on every host, restart what reads it, and go
// on when all are well.
type Stage struct {
	// Title says what the step brings: "trust the new CA beside the old one".
	Title  string
	Bundle Bundle
}

// Stages are the steps from the bundle that hosts have to the wanted bundle, so that at
// every instant each component trusts each other one. The last is always the wanted bundle. With the
// same CAs there is only that step; with a new CA, hosts first trust both, then get the new
// leaves, then lose the old CA. They follow from the two bundles alone: after a crash, ask
// again with the one that every host has. Its errors name the certificate that does not parse.
func Stages(now, wanted Bundle) ([]Stage, error) {
	only := []Stage{{"deploy the certificates", wanted}}
	last := Stage{"trust the new CA alone", wanted}
	if len(now) == 0 {
		return only, nil
	}
	both, fresh := maps.Clone(now), maps.Clone(wanted)
	change, trusted := false, true
	for _, name := range []string{CA, RequestHeaderCA} {
		from, err := pemtext.Certificates(now[name].CertificatePEM)
		if err != nil {
			return nil, fmt.Errorf("certificates: %s that the hosts have: %w", name, err)
		}
		to, err := pemtext.Certificates(wanted[name].CertificatePEM)
		if err != nil {
			return nil, fmt.Errorf("certificates: %s: %w", name, err)
		}
		if from[0].Equal(to[0]) {
			if len(from) > len(to) {
				only = []Stage{last}
			}
			continue
		}
		change = true
		trusted = trusted && slices.ContainsFunc(from, to[0].Equal)
		// The first certificate is the one whose key the entry has.
		oldPEM, newPEM := pemtext.OfCertificate(from[0].Raw), pemtext.OfCertificate(to[0].Raw)
		both[name] = now[name].holding(oldPEM + newPEM)
		fresh[name] = wanted[name].holding(newPEM + oldPEM)
	}
	if !change {
		return only, nil
	}
	for _, b := range []Bundle{both, fresh} {
		admin := b[Admin]
		admin.Config = trusting(admin.Config, b[CA].CertificatePEM)
		b[Admin] = admin
	}
	stages := []Stage{
		{"trust the new CA beside the old one", both},
		{"new certificates, with both CAs trusted", fresh},
		last,
	}
	if trusted {
		return stages[1:], nil
	}
	return stages, nil
}

// holding is the entry with other certificates in it.
func (c Certificate) holding(certificates string) Certificate {
	c.CertificatePEM = certificates
	return c
}
