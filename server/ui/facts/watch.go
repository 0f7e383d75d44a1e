// What changes, in the topics of pages.

package facts

import (
	"strings"
	"time"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/ui"
	"github.com/drover-project/drover/server/ui/live"
)

// Watch tells pages of all that changes from now on. stop ends that.
func (s *Source) Watch(hub *live.Hub) (stop func()) {
	st := s.State
	rights := func() { hub.Changed(ui.TopicRights, ui.TopicUsers) }
	stops := []func(){
		st.Clusters.Observe(func(e store.Event[records.Cluster]) { hub.Changed(ui.TopicClusters, ui.TopicCluster(e.Key)) }),
		st.Fleets.Observe(func(e store.Event[records.Fleet]) { hub.Changed(ui.TopicFleets, ui.TopicCluster(e.Key)) }),
		st.Machines.Observe(func(e store.Event[records.Machine]) {
			// Machines wait for each other, so a change of one is one of its cluster.
			hub.Changed(ui.TopicMachines, ui.TopicMachine(e.Key), ui.TopicCluster(string(e.Value.Cluster())))
		}),
		st.PlanSecrets.Observe(func(e store.Event[records.PlanSecret]) {
			hub.Changed(ui.TopicMachine(string(records.MachineOfPlanSecret(e.Key))))
		}),
		st.Operations.Observe(func(e store.Event[operations.Operation]) {
			hub.Changed(ui.TopicOperation(e.Value.ID), ui.TopicCluster(e.Value.Subject), ui.TopicClusters, ui.TopicFleets)
		}),
		st.RegistrationTokens.Observe(func(e store.Event[records.RegistrationToken]) {
			hub.Changed(ui.TopicCluster(string(records.NewClusterKey(e.Value.ClusterNamespace, e.Value.ClusterName))))
		}),
		st.Snapshots.Observe(func(e store.Event[records.Snapshot]) {
			hub.Changed(ui.TopicClusters, ui.TopicCluster(string(e.Value.Cluster)))
		}),
		st.Rehearsals.Observe(func(e store.Event[records.Rehearsals]) { hub.Changed(ui.TopicClusters, ui.TopicCluster(e.Key)) }),
		st.RKEStates.Observe(func(e store.Event[records.RKEState]) { hub.Changed(ui.TopicClusters, ui.TopicCluster(e.Key)) }),
		st.Events.Observe(func(e store.Event[records.EventPage]) { s.event(hub, e.Key) }),
		st.Connections.Observe(func(e store.Event[records.Connection]) {
			hub.Changed(ui.TopicMachine(string(records.Subject(e.Value.Subject).Machine())), ui.TopicServers)
		}),
		st.Replicas.Observe(func(store.Event[records.Replica]) { hub.Changed(ui.TopicServers) }),
		st.Watches.Observe(func(e store.Event[records.Connection]) {
			hub.Changed(ui.TopicMachine(string(records.MachineOfPlanSecret(e.Value.Subject))))
		}),
		st.Tokens.Observe(func(store.Event[records.Token]) { hub.Changed(ui.TopicTokens) }),
		st.Settings.Observe(func(store.Event[records.Setting]) { hub.Changed(ui.TopicSettings) }),
		st.Users.Observe(func(store.Event[records.User]) { rights() }),
		st.Bindings.Observe(func(store.Event[roles.Binding]) { rights() }),
		st.GlobalRoles.Observe(func(store.Event[roles.Role]) { rights() }),
		st.RoleTemplates.Observe(func(store.Event[roles.Role]) { rights() }),
	}
	if s.Presence != nil { // a server without others writes nothing of who is connected
		s.Presence.Tunnels.OnChange(func(subject string, _ bool) {
			hub.Changed(ui.TopicMachine(string(records.Subject(subject).Machine())), ui.TopicServers)
		})
		s.Presence.Watches.OnChange(func(secret string, _ bool) {
			hub.Changed(ui.TopicMachine(string(records.MachineOfPlanSecret(secret))))
		})
	}
	st.Store.OnLeader(func() { hub.Changed(ui.TopicServers) })
	if s.OnVersions != nil {
		s.OnVersions(func() { hub.Changed(ui.TopicVersions) })
	}
	if s.Audit != nil {
		stops = append(stops, s.watchAudit(hub))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// auditGap is between two looks at the audit log, which is read from its files.
const auditGap = 2 * time.Second

// watchAudit tells the pages of new entries of the audit log, not more often than it can be read.
func (s *Source) watchAudit(hub *live.Hub) (stop func()) {
	ended := make(chan struct{})
	go func() {
		for {
			more := s.Audit.More()
			hub.Changed(ui.TopicAudit)
			if !after(time.After(auditGap), ended) || !after(more, ended) {
				return
			}
		}
	}()
	return func() { close(ended) }
}

// after waits for something, and says whether it came before the end.
func after[T any](something <-chan T, end <-chan struct{}) bool {
	select {
	case <-something:
		return true
	case <-end:
		return false
	}
}

// event tells the page of the cluster that events were written of, by the key of their page.
func (s *Source) event(hub *live.Hub, key string) {
	id, _, _ := strings.Cut(key, "/")
	if d, ok := s.State.ClustersByID.First(id); ok {
		hub.Changed(ui.TopicCluster(d.Key))
	}
}
