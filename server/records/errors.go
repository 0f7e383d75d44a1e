// What is refused of what people ask for, by all who take it in; package route answers for each.

package records

import (
	"errors"
	"fmt"
	"strings"
)

// RefusedError is that something cannot be done on a cluster as it is.
type RefusedError struct {
	Cluster string
	// Why is a sentence.
	Why error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("cluster %s: %v", e.Cluster, e.Why) }

// RemovingError says that a cluster is on its way out and cannot be changed any more.
type RemovingError struct{ Cluster string }

func (e *RemovingError) Error() string {
	return fmt.Sprintf("apply cluster %s: it is being removed; wait until it is gone, then apply again", e.Cluster)
}

// ChangedError says that a cluster is not any more what a change of it was made of.
type ChangedError struct{ Cluster string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("apply cluster %s: it was changed in the meantime; look at what it is now, and apply again", e.Cluster)
}

// NamespaceError reports that a cluster was to be made in the namespace of fleets.
type NamespaceError struct{ Cluster ClusterKey }

func (e *NamespaceError) Error() string {
	return fmt.Sprintf("apply cluster %s: namespace %s is that of fleets; choose another one", e.Cluster, FleetNamespace)
}

// ErrNotUnique says that the name of a new cluster is taken.
var ErrNotUnique = errors.New("names of clusters are unique")

// LimitError says by how much an apply goes beyond its limits.
type LimitError struct {
	Cluster ClusterKey
	Excess  []string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("apply cluster %s: %s; nothing was changed", e.Cluster, strings.Join(e.Excess, "; "))
}

// LastMemberError says that a machine has the last member of its cluster's etcd.
type LastMemberError struct{ Machine, Cluster string }

func (e *LastMemberError) Error() string {
	return fmt.Sprintf("machine %s has the last member of the etcd of cluster %s, and with it all that the cluster knows; remove the cluster, register another etcd machine first, or use force to forget the machine with what runs on its host",
		e.Machine, e.Cluster)
}

// DeniedError says that a person may not write an object, or not into a namespace.
type DeniedError struct{ Reason string }

func (e *DeniedError) Error() string { return e.Reason }

// InUseError says that clusters use a Secret or ConfigMap, which cannot be removed then.
type InUseError struct {
	Object   string
	Clusters []string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("remove %s: cluster %s refers to it; take the reference out of the cluster first", e.Object, strings.Join(e.Clusters, ", "))
}

// UnkeepableError says that a Secret can not be kept here.
type UnkeepableError struct{ Field, Reason string }

func (e *UnkeepableError) Error() string { return e.Field + ": " + e.Reason }
