// Which agents an update concerns, and by which program they are replaced.

package etcdops

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
)

// Agents are the agents that a server has for hosts.
type Agents struct {
	// Release is theirs, and that of the server.
	Release string
	// Checksum is that of one of the files below /assets/ of the server, in hex.
	Checksum func(name string) (string, error)
	// Server is the server's URL and PEM of its authorities.
	Server func() (url, ca string)
	// Of is the release of the agent at the other end of a machine's tunnel; empty where that is not known.
	Of func(subject string) string
}

// agents fills in the agent that the server has, and the machines where none is named: as many of those with another one as one operation takes.
func (a *Service) agents(c records.Cluster, r *steps.Request) error {
	if a.Agents == nil {
		return admission.Invalid("this server has no agents to give")
	}
	const name = "rancher-system-agent"
	url, ca := a.Agents.Server()
	r.Agent = &steps.Agent{Release: a.Agents.Release, From: url + "/assets/" + name, SHA256: map[string]string{}, CA: ca}
	for _, arch := range []string{"amd64", "arm64"} {
		sum, err := a.Agents.Checksum(name + "-" + arch)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read the agents of this server: %w", err)
		}
		r.Agent.SHA256[arch] = sum
	}
	if len(r.Machines) > 0 {
		return a.has(c, r.Machines)
	}
	home := records.ClusterKey(c.Key()).Home()
	if c.Annotations[clusterspec.PinAgents] == "true" {
		return admission.Invalid("the agents of %s are pinned: drover agents unpin %s ends that, and --machine updates one nevertheless", home, c.Name)
	}
	behind := a.Behind(c)
	if len(behind) == 0 {
		return admission.Invalid("no machine of %s has an agent of another release than %s, as far as the server knows (drover agents ls): it does not know the release of an agent without a tunnel, and install.sh replaces an agent of Rancher", home, a.Agents.Release)
	}
	r.Machines = behind[:min(len(behind), steps.MaxMachines)]
	return nil
}

// has says which machine that is named a cluster does not have.
func (a *Service) has(c records.Cluster, names []string) error {
	for _, name := range names {
		if d, ok := a.State.Machines.Get(c.Namespace + "/" + name); !ok || d.Value.Cluster() != records.ClusterKey(c.Key()) {
			return admission.Invalid("%s has no machine %.80q", records.ClusterKey(c.Key()).Home(), name)
		}
	}
	return nil
}

// Behind are the names of the machines of a cluster or fleet whose agents are of another release than the server, as far as that is known, without
// those of a fleet that have not carried out what they were given.
func (a *Service) Behind(c records.Cluster) (names []string) {
	for _, d := range a.State.MachinesByCluster.Find(records.ClusterKey(c.Key())) {
		if state := d.Value.Status.State; d.Value.InFleet() && (state == records.ApplyingPlan || state == records.Failed) {
			continue
		}
		if is := a.Agents.Of(string(d.Value.Subject())); is != "" && is != a.Agents.Release && d.Value.Deleting.IsZero() {
			names = append(names, d.Value.Name)
		}
	}
	slices.Sort(names)
	return names
}
