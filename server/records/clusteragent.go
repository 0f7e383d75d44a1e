// The agent of a cluster, and what the API behind it is known by.

package records

import (
	"net"
	"time"
)

// ClusterAgent is the way to a cluster's API that its cluster agent gives, and what the API is known by: CA, Name and UID are
// pinned when an agent is let in for the first time. Sensitive. Key: the cluster's key.
type ClusterAgent struct {
	// Address is host:port of the API server as the agent reaches it; empty while no agent has come.
	Address string `json:"address,omitempty"`
	// CA is the PEM of the authorities of which the API server's certificate has to be; empty while no agent was let in. A record of
	// before there was a pin has in it what the last agent sent, which is the pin from then on.
	CA string `json:"ca"`
	// Name is the host that the API server's certificate has to be for, with any address that an agent announces; see ServerName.
	Name string `json:"name,omitempty"`
	// UID is that of the cluster's namespace kube-system; empty in records of before it was asked for.
	UID string `json:"uid,omitempty"`
	// Secret is the token of the agent that this server deploys in a cluster that it provisions; empty for imported clusters, whose
	// agents come with a registration token.
	Secret string `json:"secret,omitempty"`
	// Token is that of the agent's service account.
	Token string `json:"token,omitempty"`
	// Admitted is when an agent was let in for the first time; zero before, and in records of before it was kept.
	Admitted time.Time `json:"admitted,omitzero"`
	// Seen is when an agent was let in for the first time, or with something else to say than the one before.
	Seen time.Time `json:"seen,omitzero"`
	// Refused is why an agent with a token of the cluster was turned away; empty for none since one was let in.
	Refused string `json:"refused,omitempty"`
	// Cleaned is when all that the server had put into a cluster that leaves was removed there; zero before.
	Cleaned time.Time `json:"cleaned,omitzero"`
}

// Ready says that an agent has come and was let in.
func (a ClusterAgent) Ready() bool { return a.Address != "" && a.Token != "" }

// ServerName is what the API server's certificate has to be for: Name, or the host of the address in a record without one.
func (a ClusterAgent) ServerName() string {
	if a.Name != "" || a.Address == "" {
		return a.Name
	}
	host, _, err := net.SplitHostPort(a.Address)
	if err != nil {
		return a.Address // no certificate is for it, so that nothing is reached
	}
	return host
}

// Spent is when the registration tokens of an imported cluster were spent: when its agent was let in for the first time. From then
// on a token alone lets no agent in. Zero before.
func (a ClusterAgent) Spent() time.Time {
	if !a.Ready() {
		return time.Time{}
	}
	if a.Admitted.IsZero() {
		return a.Seen
	}
	return a.Admitted
}
