// What each run makes of the bundle before it: what is missing is made, what no longer fits
// the config is issued again over the key it had, what no host needs any more goes.

package pki

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/pki/pemtext"
)

// Options are what a bundle holds beside the config.
type Options struct {
	// Kubeconfig is where the admin kubeconfig goes on the machine that runs the engine,
	// as state.FilesOf gives it. "" means ./kube_config_cluster.yml.
	Kubeconfig string
}

// Action is what happens to an entry.
type Action string

// Actions on an entry.
const (
	Created  Action = "created"
	Reissued Action = "reissued"
	Removed  Action = "removed"
)

// Change is one difference between a bundle and the one before.
type Change struct {
	Name   string
	Action Action
	// Why is a reason to read after the name: "its host is gone".
	Why string
	// Line is how the rke CLI logs it, which people search logs for.
	Line string
}

// Make is the bundle that a config asks for, from the one of the run before, or of nothing for a
// new cluster. The one before stays as it is. Keys stay with their entries, kube-admin is issued
// on every run, and expiry is not looked at: that is for Expiries and Rotate. Its errors say
// which entry or field is at fault and what to do.
func Make(cfg *config.Cluster, before Bundle, src Source, o Options) (Bundle, []Change, error) {
	m := newMaker(cfg, before, src, o)
	if len(before) == 0 {
		if err := m.authorities(); err != nil {
			return nil, nil, err
		}
	}
	wanted, err := leaves(cfg)
	if err != nil {
		return nil, nil, err
	}
	if err := m.fill(wanted, func(leaf) bool { return false }); err != nil {
		return nil, nil, err
	}
	return m.bundle, m.changes, nil
}

// maker makes one bundle.
type maker struct {
	cfg     *config.Cluster
	src     Source
	options Options
	bundle  Bundle
	changes []Change
	issuers map[string]*authority
}

func newMaker(cfg *config.Cluster, before Bundle, src Source, o Options) *maker {
	m := &maker{cfg: cfg, src: src, options: o, bundle: maps.Clone(before), issuers: map[string]*authority{}}
	if m.bundle == nil {
		m.bundle = Bundle{}
	}
	return m
}

// authorities makes both CAs new.
func (m *maker) authorities() error {
	if err := m.authority(CA, "Generating CA kubernetes certificates"); err != nil {
		return err
	}
	return m.authority(RequestHeaderCA, "Generating Kubernetes API server aggregation layer requestheader client CA certificates")
}

func (m *maker) authority(name, line string) error {
	c, err := m.src.newCA(name)
	if err != nil {
		return err
	}
	m.put(c, "a CA of its own", line)
	return nil
}

// fill makes what the CAs issue. renew says which leaves to issue with a new key in any case.
func (m *maker) fill(wanted []leaf, renew func(leaf) bool) error {
	if m.bundle[RequestHeaderCA].CertificatePEM == "" && m.bundle[CA].KeyPEM != "" {
		// Clusters from before the aggregation layer have none. What a lost one signed is not accepted.
		m.bundle[ProxyClient] = m.bundle[ProxyClient].holding("")
		if err := m.authority(RequestHeaderCA, "Generating Kubernetes API server aggregation layer requestheader client CA certificates"); err != nil {
			return err
		}
	}
	for _, l := range wanted {
		if err := m.leaf(l, renew(l)); err != nil {
			return err
		}
		if l.name == APIServer {
			m.serviceAccount()
			if m.bundle[ServiceAccount].CertificatePEM == "" {
				// The rke CLI takes the certificate of another entry in the place of none.
				if err := m.renewServiceAccount(l); err != nil {
					return err
				}
			}
		}
	}
	if err := m.externalEtcd(); err != nil {
		return err
	}
	m.prune(wanted)
	return m.adminKubeconfig()
}

// leaf issues one certificate if there is a reason to.
func (m *maker) leaf(l leaf, anew bool) error {
	issuer, err := m.issuer(l.issuer)
	if err != nil {
		return err
	}
	before := m.bundle[l.name]
	key, err := before.key()
	if err != nil {
		return err
	}
	why := "missing"
	if before.CertificatePEM != "" {
		chain, err := before.certificates()
		if err != nil {
			return err
		}
		switch {
		case anew:
			why = "rotated"
		case l.renew == everyRun:
			why = "made on every run"
		case l.renew == ifNamesDiffer && !l.names.same(chain[0], true),
			l.renew == ifNameSetsDiffer && !l.names.same(chain[0], false):
			why = "its names have changed"
		default:
			return nil
		}
	}
	if key == nil || anew {
		if key, err = m.src.NewKey(); err != nil {
			return fmt.Errorf("make the key of %s: %w", l.name, err)
		}
	}
	made, err := m.src.newLeaf(l, issuer, key)
	if err != nil {
		return err
	}
	m.put(made, why, l.line)
	return nil
}

func (m *maker) issuer(name string) (*authority, error) {
	if a := m.issuers[name]; a != nil {
		return a, nil
	}
	a, err := authorityOf(m.bundle, name, m.src.Now)
	if err != nil {
		return nil, err
	}
	m.issuers[name] = a
	return a, nil
}

// serviceAccount gives the key that signs tokens, if there is none: the API server's first one.
func (m *maker) serviceAccount() {
	if m.bundle[ServiceAccount].KeyPEM != "" {
		return
	}
	api := m.bundle[APIServer]
	m.put(entry(ServiceAccount, ServiceAccount, "", api.CertificatePEM, api.KeyPEM), "missing", serviceAccountLine)
}

const serviceAccountLine = "Generating Service account token key"

// externalEtcd copies the certificates that the config has for an etcd that is not the cluster's.
func (m *maker) externalEtcd() error {
	e := m.cfg.Services.Etcd
	if len(e.ExternalURLs) == 0 {
		return nil
	}
	for _, given := range []struct{ name, field, certificate, key string }{
		{EtcdClient, "cert", e.Cert, e.Key},
		{EtcdClientCA, "ca_cert", e.CACert, ""},
	} {
		chain, err := pemtext.Certificates(given.certificate)
		if err != nil {
			return fmt.Errorf("services.etcd.%s: %w", given.field, err)
		}
		// The format has one certificate here.
		c := entry(given.name, "", "", pemtext.OfCertificate(chain[0].Raw), "")
		if given.key != "" || given.name == EtcdClient {
			key, err := pemtext.Key(given.key)
			if err != nil {
				return fmt.Errorf("services.etcd.key: %w", err)
			}
			c.KeyPEM = pemtext.OfKey(key)
		}
		if m.bundle[given.name] != c {
			m.put(c, "given by the config", "Generating "+given.name+" certificate and key")
		}
	}
	return nil
}

// prune takes out what belongs to hosts that are gone, or to an external etcd that is not used.
func (m *maker) prune(wanted []leaf) {
	keep := map[string]bool{}
	for _, l := range wanted {
		keep[l.name] = true
	}
	if len(m.cfg.Services.Etcd.ExternalURLs) > 0 {
		keep[EtcdClient], keep[EtcdClientCA] = true, true
	}
	for _, name := range slices.Sorted(maps.Keys(m.bundle)) {
		if ofHost(name) && !keep[name] {
			delete(m.bundle, name)
			m.changes = append(m.changes, Change{name, Removed, "no host uses it any more", "[certificates] Deleting unused certificate: " + name})
		}
	}
}

// adminKubeconfig renews the kubeconfig of kube-admin: its CA, certificate or address may be new.
func (m *maker) adminKubeconfig() error {
	planes := with(m.cfg, config.RoleControlPlane)
	if len(planes) == 0 {
		return fmt.Errorf("nodes: none has the role %s, and kube-admin needs an address", config.RoleControlPlane)
	}
	admin := m.bundle[Admin]
	admin.Config = AdminKubeconfig(m.bundle, m.cfg.ClusterName, planes[0].Address)
	admin.ConfigPath = m.options.Kubeconfig
	admin.ConfigPath = cmp.Or(admin.ConfigPath, "./kube_config_cluster.yml")
	m.bundle[Admin] = admin
	return nil
}

// put enters a certificate and notes the change.
func (m *maker) put(c Certificate, why, line string) {
	action := Created
	if m.bundle[c.Name].CertificatePEM != "" {
		action = Reissued
	}
	m.bundle[c.Name] = c
	m.changes = append(m.changes, Change{c.Name, action, why, "[certificates] " + strings.TrimSpace(line)})
}
