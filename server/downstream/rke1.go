// Clusters of RKE1: the server has their keys itself, and their nodes have no label with the machine's UID.

package downstream

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/drover-project/drover/rke1/pki"
	rkestate "github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/server/records"
)

// rke1Credentials are the administrator's of a cluster, by its state.
func rke1Credentials(key records.ClusterKey, r records.RKEState) (*rest.Config, error) {
	s, err := rkestate.Decode(r.State)
	if err != nil {
		return nil, fmt.Errorf("read the state of cluster %s: %w", key, err)
	}
	ca, admin := s.Desired.Certificates[pki.CA], s.Desired.Certificates[pki.Admin]
	if ca.CertificatePEM == "" || admin.CertificatePEM == "" {
		return nil, fmt.Errorf("the state of cluster %s has no certificate of its administrator", key)
	}
	return &rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CAData: []byte(ca.CertificatePEM), CertData: []byte(admin.CertificatePEM), KeyData: []byte(admin.KeyPEM),
	}}, nil
}

// identity is the UID of the machine of a node; empty when it is nobody's. A node of RKE1 is known by its name, which is that of
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
