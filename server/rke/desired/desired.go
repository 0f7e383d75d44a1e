// Package desired says what an RKE1 cluster of the server should be: its config, made of its document and of the hosts that
// registered, what it still waits for, and whether something is to be done. It is a function of records, without clock,
// store or network; server/rke does what it says.
//
// Source of what a node becomes: rancher/rancher pkg/controllers/management/clusterprovisioner, contract of the engine 7.6.
package desired

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/config/check"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

// Known is what version data say of versions, in the words of a config.
func Known(v *versions.Data) config.Versions { return v.ForConfig() }

// Input is what a config is made of.
type Input struct {
	Cluster records.Cluster
	// Machines are those of the cluster in any order; those that are being removed are left out.
	Machines []records.Machine
	// Before is the cluster's state; nil when nothing was deployed.
	Before   *state.State
	Versions *versions.Data
}

// Config is the cluster's config with its registered hosts as nodes, after defaults and validation. The warnings are what is
// taken and likely a mistake. The error is a strictyaml.Errors, or says that the stored document cannot be read.
func Config(in Input) (*config.Cluster, strictyaml.Errors, error) {
	c, err := in.written()
	if err != nil {
		return nil, nil, err
	}
	c.Nodes = in.nodes()
	filled := config.WithDefaults(c, Known(in.Versions))
	errs, warnings := check.Cluster(filled, Known(in.Versions), nil)
	if len(errs) > 0 {
		return nil, warnings, errs
	}
	return &filled, warnings, nil
}

// written is the config without nodes. A version that it leaves open is the one that the cluster has: newer version data upgrade nothing.
func (in Input) written() (config.Cluster, error) {
	c, err := in.Cluster.Spec.RKE1Config()
	if err != nil {
		return c, err
	}
	if c.KubernetesVersion == "" && in.Before != nil && in.Before.Desired.Config != nil {
		c.KubernetesVersion = in.Before.Desired.Config.KubernetesVersion
	}
	c.ClusterName = cmp.Or(c.ClusterName, in.Cluster.Name)
	var deployed *config.Cluster
	if in.Before != nil {
		deployed = in.Before.Current.Config
	}
	backups(&c, deployed)
	return withoutRequests(c), nil
}

// Check says what is wrong with the config of a cluster, with any hosts: its errors are those of Config but for those
// about nodes.
func Check(in Input) (warnings []string, err error) {
	c, err := in.written()
	if err != nil {
		return nil, err
	}
	// A host of the documentation's network, since most rules want some host.
	c.Nodes = []config.Node{{Address: "192.0.2.1", HostnameOverride: "host", Role: []string{config.RoleEtcd, config.RoleControlPlane, config.RoleWorker}, User: "root"}}
	filled := config.WithDefaults(c, Known(in.Versions))
	errs, found := check.Cluster(filled, Known(in.Versions), nil)
	for i := range errs {
		errs[i].Path = clusterspec.RKE1Path + "." + errs[i].Path
	}
	for _, w := range found {
		warnings = append(warnings, w.Path+": "+w.Reason)
	}
	if len(errs) > 0 {
		return warnings, errs
	}
	if _, err := addons.Of(&filled, in.Versions); err != nil { // else a run would end with it, after its containers
		return warnings, fmt.Errorf("%s: %w", clusterspec.RKE1Path, err)
	}
	return warnings, nil
}

// nodes are the hosts as nodes. Nodes that the cluster has keep their order, by which certificates and flags were made; new ones
// follow in the order of their names.
func (in Input) nodes() []config.Node {
	place := map[string]int{}
	if in.Before != nil && in.Before.Desired.Config != nil {
		for i, n := range in.Before.Desired.Config.Nodes {
			place[n.Address] = i + 1
		}
	}
	var nodes []config.Node
	for _, m := range in.Machines {
		if m.Deleting.IsZero() && Address(m) != "" {
			nodes = append(nodes, Node(m))
		}
	}
	slices.SortFunc(nodes, func(a, b config.Node) int {
		x, y := place[a.Address], place[b.Address]
		switch {
		case (x == 0) != (y == 0):
			return cmp.Compare(y, x) // one that has a place comes first
		case x != y:
			return cmp.Compare(x, y)
		}
		return strings.Compare(a.NodeName, b.NodeName)
	})
	return nodes
}

// Address is what a host is known by in configs and states; empty while its agent has named none.
func Address(m records.Machine) string {
	if len(m.Address) == 0 {
		return ""
	}
	return m.Address[0]
}

// Node is a registered host as a node.
func Node(m records.Machine) config.Node {
	n := config.Node{NodeName: m.Namespace + ":" + m.Name, Address: Address(m), HostnameOverride: m.NodeName, User: "root", Port: "22", Labels: m.NodeLabels}
	if len(m.InternalAddress) > 0 {
		n.InternalAddress = m.InternalAddress[0]
	}
	for _, role := range roles {
		if role.of(m.Roles) {
			n.Role = append(n.Role, role.name)
		}
	}
	for _, t := range m.NodeTaints {
		n.Taints = append(n.Taints, config.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	return n
}

// roles in the order in which they are named.
var roles = []struct {
	name, flag string
	of         func(records.Roles) bool
}{
	{config.RoleEtcd, "--etcd", func(r records.Roles) bool { return r.Etcd }},
	{config.RoleControlPlane, "--controlplane", func(r records.Roles) bool { return r.ControlPlane }},
	{config.RoleWorker, "--worker", func(r records.Roles) bool { return r.Worker }},
}

// Need is what a cluster waits for before something is done on its hosts.
type Need struct {
	// Role is a role that no host has which can be reached; Host is a registered one with that role, empty when there is none.
	Role, Host string
	// Cause is a sentence, NextStep what a person can do.
	Cause, NextStep string
}

// Needs are what a cluster waits for: of each role one host has to be there whose node agent has its tunnel open.
func Needs(cluster string, machines []records.Machine, connected func(records.Machine) bool) []Need {
	var needs []Need
	for _, role := range roles {
		var away *records.Machine
		met := false
		for i := range machines {
			m := &machines[i]
			if !m.Deleting.IsZero() || !role.of(m.Roles) {
				continue
			}
			if met = connected(*m); met {
				break
			}
			if away == nil {
				away = m
			}
		}
		switch {
		case met:
		case away == nil:
			needs = append(needs, Need{
				Role: role.name, Cause: "no host with the role " + role.name + " has registered",
				NextStep: fmt.Sprintf("run on a host what `drover clusters join-command %s --docker %s` prints", cluster, role.flag),
			})
		default:
			needs = append(needs, Need{
				Role: role.name, Host: away.NodeName, Cause: fmt.Sprintf("the node agent on %s, which has the role %s, is not connected", away.NodeName, role.name),
				NextStep: "on " + away.NodeName + ": docker ps shows whether the container of the agent runs, docker logs what it waits for",
			})
		}
	}
	return needs
}

// Missing are the roles that no registered host has.
func Missing(machines []records.Machine) []Need {
	return Needs("", machines, func(records.Machine) bool { return true })
}

// Sentence is all needs in one.
func Sentence(needs []Need) string {
	causes := make([]string, len(needs))
	for i, n := range needs {
		causes[i] = n.Cause
	}
	return strings.Join(causes, "; ")
}

// Stamp is a text that differs whenever something else is wanted of a cluster: another document, other hosts, or another state than the one that runs
// wrote. It does not depend on version data, so that newer ones change nothing by themselves. The error says that the stored config cannot be read.
func Stamp(in Input) (string, error) {
	c, err := in.Cluster.Spec.RKE1Config()
	if err != nil {
		return "", err
	}
	c = withoutRequests(c)
	c.Nodes = in.nodes()
	// Their order is that of the state, which the first run makes.
	slices.SortFunc(c.Nodes, func(a, b config.Node) int { return strings.Compare(a.NodeName, b.NodeName) })
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("make the stamp of cluster %s: %w", in.Cluster.Name, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
