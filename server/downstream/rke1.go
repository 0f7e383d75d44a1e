// Clusters of RKE1: the server has their keys itself, and their nodes have no label with the machine's UID.

package downstream

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/drover-project/drover/installers/kubeconfig"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke"
)

// rke1Credentials are the administrator's of a cluster, by its state: those that are deployed, which API servers take in each step of
// a rotation, and the CAs of before and after it.
func rke1Credentials(key records.ClusterKey, r records.RKEState) (*rest.Config, error) {
	s, err := rke.State(&r)
	if err != nil {
		return nil, fmt.Errorf("read the state of cluster %s: %w", key, err)
	}
	if s == nil {
		return nil, fmt.Errorf("cluster %s has no state yet", key)
	}
	ca, admin := s.Desired.Certificates[pki.CA], s.Desired.Certificates[pki.Admin]
	if is := s.Current.Certificates; is[pki.CA].CertificatePEM != "" && is[pki.Admin].CertificatePEM != "" {
		if is[pki.CA].CertificatePEM != ca.CertificatePEM {
			ca.CertificatePEM += is[pki.CA].CertificatePEM
		}
		admin = is[pki.Admin]
	}
	if ca.CertificatePEM == "" || admin.CertificatePEM == "" {
		return nil, fmt.Errorf("the state of cluster %s has no certificate of its administrator", key)
	}
	k := kubeconfig.Config{CA: []byte(ca.CertificatePEM), Certificate: []byte(admin.CertificatePEM), Key: []byte(admin.KeyPEM)}
	if err := k.Check(); err != nil {
		return nil, fmt.Errorf("use the certificate of the administrator in the state of cluster %s: %w", key, err)
	}
	return &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: k.CA, CertData: k.Certificate, KeyData: k.Key}}, nil
}

// identity is the UID of the machine of a node; empty when it has none. A node of RKE1 is known by its name, which is that of
// its host.
func (w *watcher) identity(node *corev1.Node) string {
	if uid := node.Labels[machineLabel]; uid != "" {
		return uid
	}
	for _, d := range w.clusters.State.MachinesByCluster.Find(w.key) {
		if m := d.Value; m.Docker != nil && strings.EqualFold(m.NodeName, node.Name) {
			return m.UID
		}
	}
	return ""
}

// recorded is the UID of the node that a machine was last seen to have; empty for none.
func (w *watcher) recorded(machine string) string {
	for _, d := range w.clusters.State.MachinesByCluster.Find(w.key) {
		if node := d.Value.Status.Node; d.Value.UID == machine && node != nil {
			return node.UID
		}
	}
	return ""
}
