// What is decided beside server/rke/desired: the steps of an operation, and what hosts that repair themselves keep to.

package rke1

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/rke/desired"
)

// stepsOf are the parts of what is carried out, as far as they are known before.
func stepsOf(d desired.Decision) []engine.Step {
	switch d.Operation.Kind {
	case operations.KindProvision:
		return engine.UpSteps()
	case operations.KindUninstall:
		return engine.RemoveSteps()
	}
	return nil // they come as they are done
}

// attempt is what an operation keeps of a try that begins: nothing of the one before, but for how many there were of the same, and the
// name of the snapshot that an upgrade begins with, which has the random text where it is new.
func attempt(s desired.Snapshot, d desired.Decision, now time.Time, random string) desired.Params {
	p := desired.ReadParams(d.Operation)
	if p.Stamp != d.Stamp && p.Request == nil {
		p.Tries = 0
	}
	p.Stamp, p.Retry, p.Next, p.Away = d.Stamp, d.Operation.Retry, time.Time{}, nil
	if p.Guard == "" && s.Guarded(d) {
		in := desired.Input{Cluster: s.Cluster, Machines: s.Machines, Before: d.Before, Versions: s.Versions}
		_, p.Guard = desired.NameSnapshot(in, false, now, random)
	}
	return p
}

// same says whether two configs ask for the same, apart from their versions.
func same(x, y nodeconfig.NodeConfig) bool {
	x.NodeVersion, x.AgentCheckInterval = 0, 0
	y.NodeVersion, y.AgentCheckInterval = 0, 0
	a, errA := json.Marshal(x)
	b, errB := json.Marshal(y)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// ownConfig is what a host's agent keeps to. On hosts with etcd or a control plane, on which the order of changes matters, and
// on those whose paths have a prefix, which a node config cannot say, it is nothing.
func ownConfig(cluster string, p engine.Planned) nodeconfig.NodeConfig {
	c := nodeconfig.NodeConfig{ClusterName: cluster}
	if p.Node.Has(config.RoleEtcd) || p.Node.Has(config.RoleControlPlane) || p.Prefix != "/" {
		return c
	}
	c.Processes = map[string]nodeconfig.Process{}
	for _, process := range p.Containers {
		c.Processes[process.Name] = process.Process
	}
	for _, f := range p.Files {
		// An agent writes all files for root alone; what others may read is left to the engine.
		if f.Content != "" && f.Mode == 0o600 {
			c.Files = append(c.Files, nodeconfig.File{Name: f.Path, Contents: base64.StdEncoding.EncodeToString([]byte(f.Content))})
		}
	}
	certificates := map[string]nodeconfig.Certificate{}
	for name, entry := range p.Certificates {
		certificates[name] = nodeconfig.Certificate(entry)
	}
	if text, err := json.Marshal(certificates); err == nil { // texts can be written
		c.Certs = string(text)
	}
	return c
}
