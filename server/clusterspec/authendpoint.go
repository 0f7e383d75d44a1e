// The authorized cluster endpoint of any kind of cluster.

package clusterspec

import "strings"

// webhookAddress is where the webhook of the endpoint answers on each control-plane host.
const webhookAddress = ":6440/v1/authenticate"

// AuthEndpoint is the direct way into the cluster. Clusters of RKE1 have it where authentication.strategy
// names webhook, unless the webhook is one of their owner's own.
func (s Spec) AuthEndpoint() LocalClusterAuthEndpoint {
	if s.RKE1() {
		c, err := s.RKE1Config()
		if err != nil {
			return LocalClusterAuthEndpoint{} // nothing is done for a document that cannot be read
		}
		w := c.Authentication.Webhook
		own := w != nil && w.ConfigFile != "" && !strings.Contains(w.ConfigFile, webhookAddress)
		return LocalClusterAuthEndpoint{Enabled: c.Authentication.Uses("webhook") && !own}
	}
	if s.LocalClusterAuthEndpoint == nil || !s.LocalClusterAuthEndpoint.Enabled {
		return LocalClusterAuthEndpoint{}
	}
	return *s.LocalClusterAuthEndpoint
}
