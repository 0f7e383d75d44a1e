// What happened to a cluster while it was in other hands.

package export

import (
	"maps"
	"slices"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
)

// Elsewhere are the paths in which a state that was found in the cluster differs from the one that is remembered: what
// another run has changed since. How hosts are reached and the administrator's certificate do not count, as an
// export and each run of the command line change them. Its error is that of a state that cannot be encoded.
func Elsewhere(remembered, found *state.State, known config.Versions) ([]string, error) {
	return state.Diff(essence(remembered, known), essence(found, known))
}

// essence is a state without what differs between two owners of the same cluster.
func essence(s *state.State, known config.Versions) *state.State {
	part := func(p state.Part) state.Part {
		if p.Config == nil {
			return p
		}
		c := *asked(p, known).Config
		c.Restore = config.Restore{}
		c.SSHKeyPath, c.SSHCertPath, c.SSHAgentAuth, c.BastionHost = "", "", false, config.BastionHost{}
		c.Nodes = slices.Clone(c.Nodes)
		for i := range c.Nodes {
			n := &c.Nodes[i]
			n.NodeName, n.Port, n.User = "", "", ""
			n.SSHAgentAuth, n.SSHKey, n.SSHKeyPath, n.SSHCert, n.SSHCertPath = false, "", "", "", ""
		}
		b := maps.Clone(p.Certificates)
		delete(b, pki.Admin)
		return state.Part{Config: &c, Certificates: b, Encryption: p.Encryption}
	}
	return &state.State{Desired: part(s.Desired), Current: part(s.Current)}
}
