// Fleets: machines without a cluster.

package records

import (
	"encoding/json"
	"time"
)

// FleetNamespace is the namespace of all fleets and of their machines. No cluster is in it, so that no key of
// a fleet is that of a cluster.
const FleetNamespace = "drover-fleets"

// Fleet is a number of machines to which people give plans; nothing is provisioned on them. Key: Object.Key, its
// namespace being FleetNamespace. Its registration token is kept as that of a cluster.
type Fleet struct {
	Object
	// ID is f-xxxxxxxx; it stands where a cluster's management name does.
	ID        string `json:"id"`
	CreatorID string `json:"creatorID,omitempty"`
}

// NoPlan stands for the checksum of a plan that no person gave.
const NoPlan = "none"

// AsCluster is the fleet in the form of a cluster without a specification, for what is done alike to both.
func (f Fleet) AsCluster() Cluster { return Cluster{Object: f.Object, ID: f.ID} }

// GivenPlan is a plan that a user gave to machines of a fleet. Sensitive. It is never changed. Key: that of the
// operation that carries it out, "<fleet's key>/<operation's id>".
type GivenPlan struct {
	// Plan is the plan as it goes on the wire.
	Plan json.RawMessage `json:"plan"`
	// After takes the place of Plan once that has ended on a machine, well or not; nil leaves Plan there.
	After json.RawMessage `json:"after,omitempty"`
	// Concurrency is how many machines may be on their way at a time: a number, or a part of all in per cent, rounded
	// up; 0 is no limit.
	Concurrency string    `json:"concurrency"`
	By          string    `json:"by,omitempty"`
	At          time.Time `json:"at"`
}

// FleetKey is the key of the fleet of that name, as operations and machines name it.
func FleetKey(name string) ClusterKey { return NewClusterKey(FleetNamespace, name) }

// Fleet says that the key is that of a fleet.
func (k ClusterKey) Fleet() bool { return k.Namespace() == FleetNamespace }

// InFleet says that the machine belongs to a fleet, and to no cluster.
func (m Machine) InFleet() bool { return m.Namespace == FleetNamespace }

// Home is what the machine belongs to, for people: "cluster NAME" or "fleet NAME".
func (m Machine) Home() string { return m.Cluster().Home() }

// Home is the cluster or fleet of the key, for people: "cluster NAME" or "fleet NAME".
func (k ClusterKey) Home() string {
	if k.Fleet() {
		return "fleet " + k.Name()
	}
	return "cluster " + k.Name()
}

// Home is what hosts join by the token, for people: "cluster NAME" or "fleet NAME".
func (t RegistrationToken) Home() string {
	return NewClusterKey(t.ClusterNamespace, t.ClusterName).Home()
}
