// Hosts that repair themselves: a node agent on a host without etcd and control plane gets what should be there as its node
// config, and brings it back after any change, whether the server is there or not. While a run changes such a host its agent
// has a config without processes, so that the two do not undo each other's work.

package rke1

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/rke1/engine"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/store"
)

const (
	// idleInterval and busyInterval are how long agents wait before they ask again, in seconds, as Rancher has it.
	idleInterval, busyInterval = 120, 15
	// heldWithin is how long an agent may take to hear that it is to hold still: its interval, and a little.
	heldWithin = 150 * time.Second
)

// selfRepair is the node configs of one run.
type selfRepair struct {
	*Controller
	cluster  records.Cluster
	machines []records.Machine
	report   engine.Report
	// wanted are the configs after the run, without version, by the keys of machines.
	wanted map[string]nodeconfig.NodeConfig
}

// hold has the agents hold still on whose hosts something will change, and waits until they do. Of hosts that are not planned,
// as they leave, everything changes.
func (a *selfRepair) hold(ctx context.Context, planned []engine.Planned) error {
	a.wanted = map[string]nodeconfig.NodeConfig{}
	asked := map[string]int{}
	for _, m := range a.machines {
		i := slices.IndexFunc(planned, func(p engine.Planned) bool { return p.Node.Address == desired.Address(m) })
		if i >= 0 {
			a.wanted[m.Key()] = ownConfig(a.cluster.ID, planned[i])
		} else if m.Deleting.IsZero() && a.cluster.Deleting.IsZero() {
			continue // it could not be reached, and stays
		}
		is, version, err := a.stored(m.Key())
		if err != nil {
			return err
		}
		if is == nil {
			continue
		}
		if len(is.Processes) > 0 && !same(*is, a.wanted[m.Key()]) {
			version++
			if err := a.still(ctx, m.Key(), version); err != nil {
				return err
			}
		} else if is.AgentCheckInterval != busyInterval {
			continue
		}
		asked[m.Key()] = version // or an earlier try has asked already
	}
	if len(asked) > 0 {
		a.report.Line(fmt.Sprintf("waiting until %d node agents, which repair their hosts, hold still for the change", len(asked)))
	}
	return a.await(ctx, asked)
}

// still gives an agent a config without processes.
func (a *selfRepair) still(ctx context.Context, key string, version int) error {
	return a.write(ctx, key, nodeconfig.NodeConfig{ClusterName: a.cluster.ID, NodeVersion: version, AgentCheckInterval: busyInterval})
}

// leaveAlone has the agents of a cluster that is in other hands hold still, or they would undo what is done there. The first run
// after that gives them their configs again.
func (c *Controller) leaveAlone(ctx context.Context, s desired.Snapshot) error {
	a := &selfRepair{Controller: c, cluster: s.Cluster}
	for _, m := range s.Machines {
		is, version, err := a.stored(m.Key())
		if err != nil {
			return err
		}
		if is == nil || len(is.Processes) == 0 {
			continue
		}
		if err := a.still(ctx, m.Key(), version+1); err != nil {
			return err
		}
	}
	return nil
}

// await waits until the agents have acknowledged, are not connected, or have had their time.
func (a *selfRepair) await(ctx context.Context, asked map[string]int) error {
	changed := make(chan struct{}, 1)
	defer a.State.Machines.Observe(func(store.Event[records.Machine]) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	limit := time.NewTimer(heldWithin)
	defer limit.Stop()
	for {
		for key, version := range asked {
			d, ok := a.State.Machines.Get(key)
			if !ok || d.Value.Docker.AppliedNodeConfig == version || !a.Tunnel(d.Value.Subject()).Connected {
				delete(asked, key)
			}
		}
		if len(asked) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-limit.C:
			a.report.Warn(fmt.Sprintf("%d node agents have not said that they hold still; they may undo a change of their hosts until they do", len(asked)))
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// release gives the agents what their hosts should be from now on.
func (a *selfRepair) release(ctx context.Context) error {
	for key, next := range a.wanted {
		is, version, err := a.stored(key)
		if err != nil {
			return err
		}
		if is != nil && same(*is, next) {
			continue
		}
		next.NodeVersion, next.AgentCheckInterval = version+1, idleInterval
		if err := a.write(ctx, key, next); err != nil {
			return err
		}
	}
	return nil
}

// stored is the config that a machine's agent gets now, and its version; nil for none.
func (a *selfRepair) stored(key string) (*nodeconfig.NodeConfig, int, error) {
	d, ok := a.State.NodeConfigs.Get(key)
	if !ok {
		return nil, 0, nil
	}
	is, err := nodeconfig.Decode(d.Value.Config)
	if err != nil {
		return nil, 0, fmt.Errorf("read the stored node config of machine %s: %w", key, err)
	}
	return is, is.NodeVersion, nil
}

func (a *selfRepair) write(ctx context.Context, key string, c nodeconfig.NodeConfig) error {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("write the node config of machine %s: %w", key, err)
	}
	d, ok := a.State.NodeConfigs.Get(key)
	d.Value.Config = text
	op := a.State.NodeConfigs.Creating(key, d.Value)
	if ok {
		op = a.State.NodeConfigs.Updating(d)
	}
	if _, err := a.State.Store.Commit(ctx, op); err != nil {
		return fmt.Errorf("write the node config of machine %s: %w", key, err)
	}
	return nil
}
