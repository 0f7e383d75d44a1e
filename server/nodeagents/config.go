// The node config: what a host should run, for agents that ask.

package nodeagents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel/connect"
)

// usualInterval is how long an agent waits before it asks again, in seconds, unless its config says otherwise.
const usualInterval = 120

// config is GET /v3/connect/config.
func (a *Agents) config(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	wanted, err := a.wanted(ctx, r)
	if said, ok := errors.AsType[*refusal](err); ok && said.config != 0 {
		said.status = said.config
	}
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	body, err := json.Marshal(wanted)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body) // no client is left to answer when this fails
}

// wanted is the stored config of the host that asks; a version that it acknowledges is noted.
func (a *Agents) wanted(ctx context.Context, r *http.Request) (*nodeconfig.NodeConfig, error) {
	cluster, err := a.cluster(r)
	if err != nil {
		return nil, err
	}
	params, err := connect.Decode(r.Header.Get(connect.ParamsHeader))
	if err != nil {
		return nil, no(http.StatusBadRequest, "%v", err)
	}
	name := connect.MachineName(params.Node.RequestedHostname)
	d, ok := a.State.Machines.Get(cluster.ID + "/" + name)
	if !ok {
		return nil, no(http.StatusNotFound, "node.management.cattle.io %q not found", name)
	}
	m := d.Value
	asked := newHost(cluster, *params.Node)
	if asked.Docker.CredentialHash, err = credential(r); err != nil {
		return nil, err
	}
	if why := another(m, asked); why != "" {
		return nil, no(http.StatusConflict, "another host of cluster %s is called %s already, and this one is not it: %s", m.ClusterName, m.NodeName, why)
	}
	if !m.Deleting.IsZero() && !a.cleaned(m) {
		return nil, no(http.StatusServiceUnavailable, "machine %s is being removed", m.Name)
	}
	if err := a.acknowledge(ctx, m, params.NodeVersion); err != nil {
		return nil, err
	}
	stored, ok := a.State.NodeConfigs.Get(d.Key)
	if !ok {
		return nil, no(http.StatusServiceUnavailable, "nothing is provisioned on the hosts of cluster %s yet", m.ClusterName)
	}
	wanted, err := nodeconfig.Decode(stored.Value.Config)
	if err != nil {
		return nil, fmt.Errorf("read the stored node config of machine %s: %w", d.Key, err)
	}
	wanted.AgentCheckInterval = cmp.Or(wanted.AgentCheckInterval, usualInterval)
	return wanted, nil
}

// acknowledge notes the version of the node config that a host has applied.
func (a *Agents) acknowledge(ctx context.Context, m records.Machine, version int) error {
	if version == 0 || version == m.Docker.AppliedNodeConfig {
		return nil
	}
	_, err := a.State.Machines.Modify(ctx, m.Key(), func(m records.Machine) (records.Machine, error) {
		if m.Docker.AppliedNodeConfig == version {
			return m, store.ErrUnchanged
		}
		m.Docker.AppliedNodeConfig = version
		return m, nil
	})
	if err != nil {
		return fmt.Errorf("note that machine %s has applied version %d of its node config: %w", m.Key(), version, err)
	}
	return nil
}
