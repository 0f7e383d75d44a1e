// The maintenance window of a cluster, within which its containers are restarted.

package want

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/window"
)

// Outside is what an operation waits for that would restart containers of a running cluster outside of its maintenance window, and when
// that ends by itself; nil when it may go on. It does not wait when somebody asked that it does not.
func (s Snapshot) Outside(o operations.Operation) *operations.Wait {
	text := s.Cluster.Annotations[clusterspec.MaintenanceWindow]
	if text == "" || o.Kind != operations.KindProvision || o.Hurry != nil || ReadParams(o).Wish != nil || !s.disturbs() {
		return nil
	}
	wait := &operations.Wait{Object: "cluster " + s.Cluster.Name, NextStep: "drover operations hurry " + o.ID + " does it now"}
	all, err := window.Parse(text)
	if err != nil {
		wait.Cause = fmt.Sprintf("nothing restarts: the maintenance window %.80q of cluster %s cannot be read: %v", text, s.Cluster.Name, err)
		return wait
	}
	now := all.At(s.Now)
	if now.Open {
		return nil
	}
	wait.Cause, wait.Until = "nothing restarts now: "+window.Opens(all.String(), now), now.Change
	return wait
}

// disturbs says whether containers of a cluster that has been up restart with what is to be brought about: its document is another one, or
// the hosts that have its etcd and its control plane are, which the others are told by their settings. Workers come and go.
func (s Snapshot) disturbs() bool {
	if s.Record == nil || s.Record.Done == "" {
		return false
	}
	before, err := State(s.Record)
	if err != nil || before == nil || before.Current.Config == nil || !bytes.Equal(s.Record.Applied, s.Cluster.Spec.RKE1Text()) {
		return true
	}
	var had, has []string
	for _, n := range before.Current.Config.Nodes {
		if slices.Contains(n.Role, roles[0].name) || slices.Contains(n.Role, roles[1].name) {
			had = append(had, n.Address+" "+fmt.Sprint(n.Role))
		}
	}
	for _, m := range s.Machines {
		if m.Deleting.IsZero() && (m.Roles.Etcd || m.Roles.ControlPlane) {
			has = append(has, Address(m)+" "+fmt.Sprint(Node(m).Role))
		}
	}
	slices.Sort(had)
	slices.Sort(has)
	return !slices.Equal(had, has)
}

// held is a decision to wait for the window; false when there is nothing to wait for.
func (s Snapshot) held(in Input, o operations.Operation) (Decision, bool) {
	wait := s.Outside(o)
	switch {
	case wait == nil:
		return Decision{}, false
	case o.Wait == nil || o.Wait.Cause != wait.Cause:
		return Decision{Do: Hold, Operation: o, Wait: wait}, true
	}
	again := time.Duration(0)
	if !wait.Until.IsZero() {
		again = max(wait.Until.Sub(s.Now), time.Second)
	}
	return s.scheduled(in, Decision{Again: again}), true
}
