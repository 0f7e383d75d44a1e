// The names by which things refer to each other. Each is text in one form and a type of
// its own, so that one is not taken for another and no code cuts and joins them by hand.

package records

import "strings"

// ClusterKey is the key of a cluster's document: "<namespace>/<name>".
type ClusterKey string

// NewClusterKey is the key of the cluster of that name.
func NewClusterKey(namespace, name string) ClusterKey { return ClusterKey(namespace + "/" + name) }

// Namespace is the cluster's namespace.
func (k ClusterKey) Namespace() string { return before(string(k), '/') }

// Name is the cluster's name.
func (k ClusterKey) Name() string { return after(string(k), '/') }

// MachineKey is the key of a machine's document: "<namespace>/<name>", for a Docker host
// "<cluster id>/<name>".
type MachineKey string

// NewMachineKey is the key of the machine of that name.
func NewMachineKey(namespace, name string) MachineKey { return MachineKey(namespace + "/" + name) }

// Namespace is the machine's namespace; for a Docker host the ID of its cluster.
func (k MachineKey) Namespace() string { return before(string(k), '/') }

// Name is the machine's name.
func (k MachineKey) Name() string { return after(string(k), '/') }

// PlanSecretEnd ends the names of plan Secrets. Source: rancher/rancher pkg/capr, PlanSecretFromBootstrapName.
const PlanSecretEnd = "-machine-plan"

// PlanSecret is the key of the machine's plan Secret: "<namespace>/<name>-machine-plan".
func (k MachineKey) PlanSecret() string { return string(k) + PlanSecretEnd }

// IsPlanSecret says whether a Secret of that name is a plan Secret, or would be taken for one.
func IsPlanSecret(name string) bool { return strings.HasSuffix(name, PlanSecretEnd) }

// MachineOfPlanSecret is the key of the machine whose plan Secret has that key.
func MachineOfPlanSecret(key string) MachineKey {
	return MachineKey(strings.TrimSuffix(key, PlanSecretEnd))
}

// Subject is a machine as tunnels call it: its key, with a colon instead of the slash for a
// Docker host, as Rancher's node agents have it. The tunnels of a cluster agent are those of a cluster's ID.
type Subject string

// ClusterSubject is what the tunnels of a cluster's agent are called: the cluster's ID.
func ClusterSubject(clusterID string) Subject { return Subject(clusterID) }

// ClusterID is the ID of the cluster whose agent the subject stands for; not ok for a machine's.
func (s Subject) ClusterID() (id string, ok bool) {
	return string(s), s != "" && !strings.ContainsAny(string(s), "/:")
}

// Machine is the key of the machine that the subject stands for.
func (s Subject) Machine() MachineKey { return MachineKey(strings.Replace(string(s), ":", "/", 1)) }

func before(text string, mark byte) string {
	if before0, _, ok := strings.Cut(text, string(mark)); ok {
		return before0
	}
	return text
}

func after(text string, mark byte) string {
	if i := strings.IndexByte(text, mark); i >= 0 {
		return text[i+1:]
	}
	return ""
}
