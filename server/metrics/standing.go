// How clusters and machines stand, counted when somebody asks.

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-project/drover/server/api/conditions"
	"github.com/drover-project/drover/server/planner"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
)

var (
	machineStates = prometheus.NewDesc("drover_machines", "Machines of all clusters and fleets by their state.", []string{"state"}, nil)
	clusterStates = prometheus.NewDesc("drover_clusters", "Clusters by their state.", []string{"state"}, nil)
)

// standing counts what is in the store. Every server of a store counts the same.
type standing struct{ state *state.State }

// Describe implements prometheus.Collector.
func (*standing) Describe(out chan<- *prometheus.Desc) {
	out <- machineStates
	out <- clusterStates
}

// Collect implements prometheus.Collector. A state in which nothing is has the value 0: a series that
// came and went would have alerts miss its end.
func (s *standing) Collect(out chan<- prometheus.Metric) {
	machines, clusters := map[string]int{}, map[string]int{}
	for _, state := range []records.MachineState{
		records.Registering, records.WaitingForPlan, records.ApplyingPlan, records.WaitingForProbes, records.WaitingForNode, records.Active,
		records.Unavailable, records.Draining, records.Uncordoning, records.Failed, records.Removing, records.Connected, records.Disconnected,
	} {
		machines[string(state)] = 0
	}
	for _, state := range []string{
		planner.ClusterPending, planner.ClusterProvisioning, planner.ClusterUpdating, planner.ClusterActive, planner.ClusterUnavailable,
		planner.ClusterError, planner.ClusterPaused, planner.ClusterRemoving, planner.ClusterExported, planner.ClusterImported,
	} {
		clusters[state] = 0
	}
	for _, d := range s.state.Machines.List() {
		machines[string(conditions.MachineState(d.Value))]++
	}
	for _, d := range s.state.Clusters.List() {
		clusters[conditions.Cluster(d.Value).State]++
	}
	for desc, counts := range map[*prometheus.Desc]map[string]int{machineStates: machines, clusterStates: clusters} {
		for state, n := range counts {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), state)
		}
	}
}
