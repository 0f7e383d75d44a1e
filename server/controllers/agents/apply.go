// What is known of a cluster whose agents may be updated, and the begin of it.

package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
)

// look gathers what is known of a cluster, or of a fleet as records.Fleet.AsCluster.
func (c *Controller) look(cluster records.Cluster) (situation, error) {
	s := situation{To: c.Asker.Agents.Release, Servers: c.Servers()}
	behind := c.Asker.Behind(cluster)
	if len(behind) == 0 || cluster.Annotations[clusterspec.PinAgents] == "true" {
		return s, nil
	}
	var all []operations.Operation
	for _, d := range c.Asker.State.Operations.List() {
		if d.Value.Kind != operations.KindUpdateAgents {
			continue
		}
		if r, err := steps.ReadRequest(d.Value); err == nil && r.Agent != nil && r.Agent.Release == s.To {
			all = append(all, d.Value)
			if d.Value.Subject == cluster.Key() { // those that are behind with what they were given have it of a directory of other agents than this release's
				behind = slices.DeleteFunc(behind, func(machine string) bool {
					return slices.ContainsFunc(d.Value.Tasks, func(t operations.Task) bool { return t.Machine == machine && t.State == operations.TaskSucceeded })
				})
			}
		}
	}
	s.Behind = len(behind) > 0
	s.Updates = latest(all)
	text, window, err := pass.Window(cluster, c.Now())
	switch {
	case err != nil:
		return s, err
	case !window.Open:
		s.Held = fmt.Sprintf("the maintenance window %s is not open", text)
	case cluster.Paused != nil:
		s.Held = "the cluster is paused"
	}
	return s, nil
}

// begin begins the update; why is what it waits for.
func (c *Controller) begin(ctx context.Context, key records.ClusterKey) (why string, err error) {
	o, err := c.Asker.Begin(ctx, key, etcdops.Request{Kind: operations.KindUpdateAgents})
	_, refused := errors.AsType[*admission.InvalidError](err)
	if _, busy := errors.AsType[*operations.BusyError](err); busy || refused {
		return err.Error(), nil
	}
	if err == nil {
		c.Logger.Info("agents are updated", "of", key.Home(), "operation", o.ID)
	}
	return "", err
}
