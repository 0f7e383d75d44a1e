// What is known of the etcd of clusters.

package facts

import (
	"slices"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/ui"
	"github.com/drover-project/drover/server/views"
)

// etcd are the machines of a cluster with etcd, by name.
func (s *Source) etcd(cl store.Document[records.Cluster], machines []*store.Document[records.Machine]) []ui.Member {
	if cl.Value.Spec.Docker() && !cl.Value.Spec.RKE1() {
		return nil // nothing is provisioned there
	}
	api := observed.API{Reachable: cl.Value.Status.Connected}
	if s.API != nil {
		api = s.API(records.ClusterKey(cl.Key))
	}
	var all []ui.Member
	for _, m := range machines {
		if !m.Value.Roles.Etcd {
			continue
		}
		state := k8sobjects.MachineState(&m.Value)
		found := ui.Evidence{Joined: m.Value.Status.Member, Machine: state, Probed: s.probed(m.Value)}
		if cl.Value.Spec.RKE1() {
			found.Joined = s.deployed(cl.Key, m.Value)
		}
		if api.Reachable {
			found.Voter, found.Node = api.Details[m.Value.UID].Voter, m.Value.Status.Node
		}
		if code := catalogue.Code(m.Value.Status.Code); state != records.Active && (code == catalogue.NoAPI || code == catalogue.OutOfSight) {
			found.Machine = "" // how its node is cannot be known
		}
		all = append(all, ui.Member{ID: m.Key, Name: ui.Host(views.OfMachine(*m)), State: string(state), Standing: found.Standing()})
	}
	slices.SortFunc(all, ui.CompareMembers)
	return all
}

// probed is what the agent of a machine found last of its etcd; nil when it found nothing, or is not there. An API server answers
// for the etcd beside it: it is ready only while that serves.
func (s *Source) probed(m records.Machine) *bool {
	key := records.MachineKey(m.Key()).PlanSecret()
	if s.Presence == nil || len(s.Presence.Watches.Links(key)) == 0 {
		return nil
	}
	d, ok := s.State.PlanSecrets.Get(key)
	if !ok {
		return nil
	}
	outcome, _ := plans.ReadOutcome(d.Value.Data) // what cannot be read is not known
	if found, ok := outcome.ProbeStatuses["etcd"]; ok && (found.Healthy || found.FailureCount > 0) {
		return &found.Healthy
	}
	if found := outcome.ProbeStatuses["kube-apiserver"]; found.Healthy {
		return &found.Healthy
	}
	return nil
}

// deployed says of a machine of RKE1 that etcd runs there as a part of its cluster: it has a node, or had one and is still
// among the hosts of the cluster.
func (s *Source) deployed(cluster string, m records.Machine) bool {
	if m.Status.Node != nil || m.Status.State == records.Active {
		return true
	}
	remembered, ok := s.State.RKEStates.Get(cluster)
	return ok && slices.Contains(remembered.Value.Hosts, desired.Address(m)) &&
		slices.ContainsFunc(m.Status.History, func(t records.Transition) bool { return t.State == records.Active })
}
